"""Quantiles are drawn with exactly the stated probabilities, near the true rank."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from deniable.loss import BoundedRange, DiscreteLaplaceNoise
from deniable.randomness import SeededRandom
from deniable.sql.plan.noise import Family, IntegerSensitivity, gaussian, laplace
from deniable.sql.plan.noise_sums import one_sided
from deniable.sql.plan.quantiles import Bracket, Rank, divided, extreme

HALF = Fraction(1, 2)
ONCE = IntegerSensitivity(1, 1)
FAMILIES = {"laplace": laplace, "gaussian": gaussian}


def test_cells_are_drawn_in_proportion_to_their_weight() -> None:
    rank, weights = Rank(HALF, Fraction(1), 1, 4), {0: 3, 1: 1, 3: 2}
    misses = [
        0,
        0,
        2,
        2,
    ]  # of six rows three lie below 1: both 0 and 1 are medians, and one row more lies below 2 and 3
    odds = [math.exp(-miss / 2) for miss in misses]
    assert rank.misses(weights) == misses
    drawn = Counter(rank(weights, rng=rng) for rng in [SeededRandom(9)] for _ in range(4000))
    expected = [4000 * o / sum(odds) for o in odds]
    assert stats.chisquare([drawn[i] for i in range(4)], expected).pvalue > 1e-9


@pytest.mark.parametrize("level", [Fraction(0), Fraction(1, 10), HALF, Fraction(9, 10), Fraction(1)])
def test_the_rank_is_off_by_no_more_than_stated(level: Fraction) -> None:
    rank = Rank(level, Fraction(1), 1, 100)
    rank = extreme(rank, 0.05) if level in (0, 1) else rank
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
    least, largest = (extreme(Rank(Fraction(level), Fraction(1), 1, 1025), 0.05) for level in (0, 1))
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


def test_a_value_that_many_have_is_its_own_median() -> None:
    """Of a hundred rows 45 are 0, 50 are 5, 5 are 9: the empty cells below 5 are no
    better because few rows pass them."""
    weights, rng = {0: 45, 5: 50, 9: 5}, SeededRandom(6)
    rank = Rank(HALF, Fraction(2), 1, 10)
    assert rank.misses(weights).index(0) == 5
    assert rank.misses(weights).count(0) == 1
    assert sum(rank(weights, rng=rng) == 5 for _ in range(50)) >= 45


def around(weights: dict[int, int], level: Fraction) -> tuple[int, int]:
    """The least and largest cell that is a quantile, by a plain loop."""
    total, upto, found = sum(weights.values()), 0, []
    for cell in sorted(weights):
        last, upto = upto, upto + weights[cell]
        if Fraction(last) <= level * total <= upto:
            found.append(cell)
    return min(found), max(found)


CASES = {
    "spread": dict.fromkeys(range(0, 60, 2), 3),
    "one value": {30: 50},
    "two values": {0: 40, 59: 40},
    "few": {7: 1, 9: 1},
    "at the edge": {0: 300, 1: 1},
}


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("level", [Fraction(1, 20), HALF, Fraction(4, 5)])
@pytest.mark.parametrize("case", CASES)
def test_brackets_hold_the_quantile_as_often_as_they_say(case: str, level: Fraction, family: str) -> None:
    beta, draws, rng = 0.3, 300, SeededRandom(len(case))
    rank = Rank(level, Fraction(1), 1, 60)
    bracket = Bracket(level, 60, FAMILIES[family](ONCE, Fraction(1)), beta)
    least, largest = around(CASES[case], level)
    ends = [bracket(CASES[case], rank(CASES[case], rng=rng), rng=rng) for _ in range(draws)]
    missed = sum(not (low <= least and largest <= high) for low, high in ends)
    assert stats.binomtest(missed, draws, beta, alternative="greater").pvalue > 1e-9


@pytest.mark.parametrize("at", [0, 3, 28, 30, 59])
def test_brackets_hold_it_wherever_the_point_fell(at: int) -> None:
    bracket, rng = Bracket(HALF, 60, laplace(ONCE, Fraction(1)), 0.3), SeededRandom(at)
    ends = [bracket(CASES["spread"], at, rng=rng) for _ in range(300)]
    missed = sum(not (low <= 28 and high >= 30) for low, high in ends)
    assert stats.binomtest(missed, 300, 0.3, alternative="greater").pvalue > 1e-9


class Unmeasured(Bracket):
    """As if there were no noise in the weights around the point."""

    def _reach(self, upto: int, beyond: int) -> float:
        return 0.0


def test_without_the_reach_of_the_noise_brackets_would_miss_too_often() -> None:
    bare, rng = Unmeasured(HALF, 60, laplace(ONCE, Fraction(1, 4)), 0.3), SeededRandom(5)
    ends = [bare(CASES["spread"], 29, rng=rng) for _ in range(300)]
    missed = sum(not (low <= 28 and high >= 30) for low, high in ends)
    assert stats.binomtest(missed, 300, 0.3, alternative="greater").pvalue < 1e-9


@pytest.mark.parametrize("level", [HALF, Fraction(19, 20)])
def test_brackets_are_no_wider_than_the_noise_makes_them(level: Fraction) -> None:
    """A hundred rows in each cell: 20 weights with noise of scale 4 have a deviation of about 25 rows, which is a
    fourth of a cell; a bracket is at most what the steps make of one cell more."""
    bracket, rng = Bracket(level, 1025, laplace(ONCE, Fraction(1, 4)), 0.05), SeededRandom(8)
    weights, quantile = dict.fromkeys(range(1025), 100), int(level * 1025)
    widths = [high - low for low, high in (bracket(weights, quantile, rng=rng) for _ in range(40))]
    assert sorted(widths)[20] <= 2
    assert max(widths) <= 6


def test_a_bracket_costs_what_a_count_costs() -> None:
    noise = laplace(ONCE, Fraction(1, 4))
    assert Bracket(HALF, 60, noise, 0.05).loss == noise.loss == DiscreteLaplaceNoise(4, 1)


def test_a_point_has_three_quarters_and_its_bracket_the_rest() -> None:
    rank = Rank(HALF, Fraction(1), 8, 60)
    point, bracket = divided(rank, 0.05, IntegerSensitivity(8, 64), Family.LAPLACE)
    assert bracket is not None
    assert (point.epsilon, bracket.noise.epsilon) == (Fraction(3, 4), Fraction(1, 4))
    point, bracket = divided(rank, 0.05, IntegerSensitivity(8, 64), Family.GAUSSIAN)
    assert bracket is not None
    assert 0.1249 < point.epsilon**2 / 8 + bracket.noise.rho <= Fraction(1, 8)


@pytest.mark.parametrize(
    ("terms", "scale"), [(((1, 11), (19, 11)), 1.0), (((1, 20),), 0.3), (((2, 5), (3, 1)), 40.0)]
)
def test_a_sum_of_many_noises_reaches_as_far_as_it_says_and_no_farther(
    terms: tuple[tuple[int, int], ...], scale: float
) -> None:
    rng, n = np.random.default_rng(7), 100_000
    q = 1 - math.exp(-1 / scale)
    drawn = sum(size * (rng.geometric(q, (n, k)) - rng.geometric(q, (n, k))).sum(1) for size, k in terms)
    t = one_sided(terms, scale, 0.05)
    assert stats.binomtest(int((drawn > t).sum()), n, 0.05, alternative="greater").pvalue > 1e-9
    nearer = t * 0.95 - 1
    assert stats.binomtest(int((drawn > nearer).sum()), n, 0.05, alternative="less").pvalue > 1e-9


def test_runs_of_cells_miss_as_their_cells_do() -> None:
    """Against a plain loop over all cells."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        cells, shift = int(rng.integers(1, 12)), int(rng.integers(-9, 9))
        weights = {int(c): int(rng.integers(0, 5)) for c in rng.integers(0, cells, 4)}
        rank, position, expected = (
            Rank(Fraction(1, 3), Fraction(1), 1, cells, shift=shift),
            -sum(weights.values()),
            [],
        )
        for cell in range(cells):
            before, position = position, position + 3 * weights.get(cell, 0)
            over, under = (before - shift if cell else 0), (shift - position if cell < cells - 1 else 0)
            expected.append(max(over, under, 0))
        assert rank.misses(weights) == expected


@pytest.mark.parametrize("level", [Fraction(0), Fraction(1)])
def test_the_least_and_largest_value_are_seldom_passed(level: Fraction) -> None:
    rank, weights, rng = (
        extreme(Rank(level, Fraction(1), 1, 200), 0.3),
        {90: 2, 100: 200, 110: 2},
        SeededRandom(3),
    )
    drawn = [rank(weights, rng=rng) for _ in range(400)]
    passed = sum(cell < 90 if level == 0 else cell > 110 for cell in drawn)
    assert stats.binomtest(passed, 400, math.exp(-6), alternative="greater").pvalue > 1e-9


@pytest.mark.parametrize("shift", [-40, -3, 0, 3, 40])
@pytest.mark.parametrize("level", [Fraction(0), Fraction(1, 3), HALF, Fraction(1)])
def test_a_unit_moves_misses_by_no_more_than_the_sensitivity(level: Fraction, shift: int) -> None:
    rank = Rank(level, Fraction(1), 5, 6, shift=shift)
    delta = 1 / (2 * rank.rate)
    for weights in ({}, {0: 3, 2: 9}, {1: 30, 4: 1}, {5: 100}):
        before = rank.misses(weights)
        for cells in itertools.combinations_with_replacement(range(6), 5):
            after = rank.misses({i: weights.get(i, 0) + cells.count(i) for i in range(6)})
            assert max(abs(a - b) for a, b in zip(after, before, strict=True)) <= delta
