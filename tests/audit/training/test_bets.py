"""Bets on rare scores certify what guesses about every coin cannot, and seldom more than is true."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from deniable.audit.one_run import independent_mu
from deniable.audit.training.bets import LARGEST, hockey_stick, mu_from_bets
from tests.audit.repeats import repeats


def scores(n: int, mu: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    inside = rng.random(n) < 0.5
    return rng.normal(mu * inside), inside


@pytest.mark.parametrize(("mu", "odds"), [(0.3, 1.0), (0.3, 2.0), (1.0, 7.0), (4.0, 100.0)])
def test_the_hockey_stick_is_that_of_two_gaussians(mu: float, odds: float) -> None:
    def above(x: float) -> mpmath.mpf:
        return max(mpmath.mpf(0), mpmath.npdf(x, mu) - odds * mpmath.npdf(x))

    cut = mu / 2 + math.log(odds) / mu
    assert hockey_stick(mu, odds) == pytest.approx(float(mpmath.quad(above, [cut, cut + 3, 40])), abs=1e-12)


def test_a_true_mu_is_seldom_contradicted() -> None:
    """Gaussian scores of exactly the claimed μ, which every set meets with equality: at α = .2 in 300 audits."""
    runs = repeats(300)
    passed = sum(mu_from_bets(*scores(2000, 0.7, seed), 0.2, 0.7) > 0.7 for seed in range(runs))
    assert passed <= binom.ppf(1 - 1e-9, runs, 0.2)


def test_the_error_holds_where_canaries_depend_on_one_another() -> None:
    """The scores of a quarter of the canaries are those of the one before, which tells no more about their own coin."""
    passed = 0
    for seed in range(200):
        values, inside = scores(2000, 0.7, seed)
        again = np.random.default_rng(seed + 1000).random(len(values)) < 0.25
        again[0] = False
        values[again] = values[np.flatnonzero(again) - 1]
        passed += mu_from_bets(values, inside, 0.2, 0.7) > 0.7
    assert passed <= binom.ppf(1 - 1e-9, 200, 0.2)


def test_one_score_in_fifty_that_tells_all_is_found() -> None:
    values, inside = scores(20_000, 0.5, 1)
    telling = np.random.default_rng(2).random(len(values)) < 0.02
    values[telling & inside] = 50.0
    assert independent_mu(values, inside, 1e-3)[0] < 0.62 < 0.65 < mu_from_bets(values, inside, 1e-4, 0.5)


def test_a_value_in_the_middle_that_comes_on_one_side_alone_is_found() -> None:
    values, inside = scores(20_000, 0.5, 3)
    telling = np.random.default_rng(4).random(len(values)) < 0.03
    values[telling & ~inside], values[telling & inside] = 0.0, 0.5
    assert mu_from_bets(values, inside, 1e-4, 0.5) > 0.6


def test_nothing_is_certified_from_nothing() -> None:
    assert mu_from_bets(np.zeros(0), np.zeros(0, np.bool_), 0.1, 1.0) == 0
    assert mu_from_bets(np.zeros(500), np.arange(500) % 2 == 0, 0.1, 1.0) == 0
    sure = np.arange(40_000) % 2 == 0
    assert 2 < mu_from_bets(sure.astype(float), sure, 0.1, 1.0) <= LARGEST
