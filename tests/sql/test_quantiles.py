"""Quantiles are drawn with exactly the stated probabilities, near the true rank."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest
from scipy import stats

from deniable.loss import BoundedRange
from deniable.randomness import SeededRandom
from deniable.sql.quantiles import Rank

HALF = Fraction(1, 2)


def test_cells_are_drawn_in_proportion_to_their_weight() -> None:
    rank, weights = Rank(HALF, Fraction(1), 1, 4), {0: 3, 1: 1, 3: 2}
    misses = [abs(below - above) for below, above in ((0, 3), (3, 2), (4, 2), (4, 0))]
    odds = [math.exp(-miss / 2) for miss in misses]
    assert rank.misses(weights) == misses
    drawn = Counter(rank(weights, rng=rng) for rng in [SeededRandom(9)] for _ in range(4000))
    expected = [4000 * o / sum(odds) for o in odds]
    assert stats.chisquare([drawn[i] for i in range(4)], expected).pvalue > 1e-9


@pytest.mark.parametrize("level", [Fraction(0), Fraction(1, 10), HALF, Fraction(9, 10), Fraction(1)])
def test_the_rank_is_off_by_no_more_than_stated(level: Fraction) -> None:
    rank = Rank(level, Fraction(1), 1, 100)
    weights = dict.fromkeys(range(100), 50)
    bound, rng = rank.rank_error(0.01), SeededRandom(4)
    misses = 0
    for _ in range(200):
        cell = rank(weights, rng=rng)
        low, high = 50 * cell, 50 * (cell + 1)
        wanted = float(level) * 5000
        misses += not (low - bound <= wanted <= high + bound)
    assert misses <= 20


def test_extremes_lie_near_the_ends_of_the_data_and_not_of_the_bounds() -> None:
    weights, rng = dict.fromkeys(range(300, 600), 100), SeededRandom(2)
    least, largest = Rank(Fraction(0), Fraction(1), 1, 1025), Rank(Fraction(1), Fraction(1), 1, 1025)
    assert all(298 <= least(weights, rng=rng) <= 305 for _ in range(20))
    assert all(594 <= largest(weights, rng=rng) <= 602 for _ in range(20))


def test_an_empty_group_gives_some_cell() -> None:
    drawn = {Rank(HALF, Fraction(1), 1, 8)({}, rng=rng) for rng in [SeededRandom(1)] for _ in range(200)}
    assert drawn == set(range(8))


def test_large_weights_do_not_overflow() -> None:
    weights = {0: 2**80, 5: 2**80 + 2**70, 9: 2**80}
    assert Rank(HALF, Fraction(1), 2**20, 10)(weights, rng=SeededRandom(1)) == 5


def test_the_loss_is_a_range() -> None:
    assert Rank(HALF, Fraction(1, 4), 8, 10).loss == BoundedRange(Fraction(1, 4))
    assert Rank(HALF, Fraction(1, 4), 8, 10, replace=True).rate * 2 == Rank(HALF, Fraction(1, 4), 8, 10).rate
