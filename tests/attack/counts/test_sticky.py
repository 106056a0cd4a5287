"""Noise per condition withstands named sets and is tricked by one arithmetic condition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from deniable.attack import asking, sticky
from deniable.attack.counts.reconstruct import ceiling, secret
from deniable.errors import BudgetExceeded
from deniable.mechanisms import Gaussian
from deniable.randomness import SeededRandom

BITS = secret(40, 2)
CURATOR = sticky.Layered.from_bits(BITS)


def test_the_same_conditions_get_the_same_noise_and_more_conditions_get_more() -> None:
    assert CURATOR.count(["id < 20"]) == CURATOR.count(["id < 20"])
    assert CURATOR.count(["id < 20"]) != CURATOR.count(["id <= 19"])
    other = sticky.Layered.from_bits(1 - BITS)
    noise = [c.count(["sick = 1"]) - sick for c, sick in ((CURATOR, BITS.sum()), (other, 40 - BITS.sum()))]
    assert noise[0] != pytest.approx(noise[1], abs=1e-6)  # by whom it counts, not by the text alone
    few = [CURATOR.count([f"id > -{i}"]) - 40 for i in range(1, 120)]
    many = [
        CURATOR.count([f"id > -{i}", *(f"id <> {-j * i}" for j in range(1, 9))]) - 40 for i in range(1, 120)
    ]
    # Standard deviations √2 and √18: 120 draws tell them apart.
    assert np.std(few) < 2.5 < np.std(many)


def test_the_attacker_knows_whom_a_trick_picks() -> None:
    exact = sticky.Layered.from_bits(np.ones(200, np.int8), deviation=0)
    ids = np.arange(1, 201, dtype=np.float64)
    for trick in sticky.tricks(40, seed=1):
        assert exact.count([trick.condition]) == trick.members(ids).sum()


def test_a_trick_picks_about_half() -> None:
    members = np.array([trick.members(np.arange(1.0, 201.0)) for trick in sticky.tricks(200)])
    low, high = binom.interval(1 - 1e-9, members.size, 0.5)
    # Not coins, but near: neighbouring ids fall on either side independently of one another.
    assert 0.9 * low < members.sum() < 1.1 * high


def test_named_sets_fail_and_arithmetic_succeeds_on_the_same_noise() -> None:
    named = sticky.by_name(CURATOR.count, BITS, 160, release="x")
    tricked = sticky.attack(CURATOR.count, BITS, 160, release="x")
    assert named.share < 0.85
    assert tricked.share >= 0.9
    assert binom.sf(tricked.right - 1, 40, 0.5) < 1e-6


def test_an_account_looks_at_the_answer_and_not_at_the_text() -> None:
    plain = sticky.Layered.from_bits(BITS, deviation=0)
    with asking.account(1.0, 1e-6) as paid:
        sigma = math.sqrt(160 / (2 * paid.remaining().rho)) * (1 + 1e-9)

        def count(conditions: sticky.Conditions) -> float:
            return sticky.account_count(
                paid, plain, Gaussian(sigma, unit=asking.PERSON), conditions, SeededRandom(len(said))
            )

        said: list[int] = []
        found = sticky.attack(count, BITS, 160, release="x")
        assert found.facts["answered"] == 160
        with pytest.raises(BudgetExceeded):
            count(["id > 0"])
    assert binom.sf(found.right - 1, 40, 0.7311) > 1e-9


def test_everything_is_compared() -> None:
    exact, tricked, suppressed, named, protected = sticky.compare(30, 120, rng=SeededRandom(3))
    assert exact.share == suppressed.share == 1
    assert tricked.share > max(named.share, protected.share)
    assert "arithmetic" in tricked.reading
    assert protected.ceiling == ceiling(1.0, 1e-6)
    assert "No attack on that account can expect more than 73.11 %" in protected.reading


def test_small_counts_are_left_out() -> None:
    count = sticky.suppress_small(sticky.Layered.from_bits(np.ones(20, np.int8), deviation=0).count)
    assert [count([f"id <= {n}"]) for n in (3, 4, 5, 20)] == [0, 0, 5, 20]
