"""The published bound: its noise hides one teacher, it lies above the truth, it is
charged, and nothing is refunded."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.learn.pate import DependentBound, GNMax, analysis
from deniable.learn.pate.publish import GRID
from deniable.ledger import Ledger
from deniable.loss import Approximate
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.learn.pate.worlds import given

BOUND = DependentBound(classes=3, sigma=10, teachers=100, answers=20, order=6, epsilon=1, delta=1e-3)


def votes(seed: int, rows: int = 20) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    top = rng.integers(40, 101, rows)
    second = rng.integers(0, 101 - top)
    return np.column_stack([top, second, 100 - top - second])


def gaps(of: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    ordered = np.sort(of, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])


def changed(of: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """One teacher votes otherwise, for each question as it likes."""
    rng, out = np.random.default_rng(seed), of.copy()
    for row in out:
        row[rng.choice(np.flatnonzero(row))] -= 1
        row[rng.integers(3)] += 1
    return out


def chances(scale: Fraction, centre: int, at: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    s = float(scale)
    return np.asarray(np.tanh(1 / (2 * s)) * np.exp(-np.abs(at - centre) / s))


@pytest.mark.parametrize("seed", range(12))
def test_neighbours_are_within_epsilon_and_delta(seed: int) -> None:
    """The privacy loss of two exact laws, δ summed over a grid wide enough to hold all but 1e-12 of both."""
    here = votes(seed)
    (h, s), (h2, s2) = BOUND.law(here), BOUND.law(changed(here, seed + 100))
    span, step = int(30 * float(max(s, s2))), max(1, int(float(min(s, s2)) / 200))
    at = np.arange(min(h, h2) - span, max(h, h2) + span, step)
    p, q = chances(s, h, at), chances(s2, h2, at)
    for a, b in ((p, q), (q, p)):
        assert step * np.maximum(a - math.exp(1) * b, 0).sum() <= 1e-3


@pytest.mark.parametrize("seed", range(6))
def test_smooth_sensitivity_is_smooth_and_bounds_the_change(seed: int) -> None:
    here = votes(seed)
    there = changed(here, seed + 7)
    first, second = (BOUND.smooth_sensitivity(gaps(each)) for each in (here, there))
    grow = 1 + BOUND._decay
    assert first <= grow * second
    assert second <= grow * first
    assert abs(int(BOUND.costs[gaps(here)].sum()) - int(BOUND.costs[gaps(there)].sum())) < min(first, second)


def test_smooth_sensitivity_is_the_brute_force_maximum() -> None:
    """For one question: over all gaps g′ and all g″ within 2 of it, r^d·|F(g″) − F(g′)|,
    d the moves from g to g′."""
    costs, r = BOUND.costs.tolist(), 1 / (1 + BOUND._decay)
    for g in (0, 31, 66, 100):
        found = max(
            r ** (-(-abs(near - g) // 2)) * abs(costs[far] - costs[near])
            for near in range(101)
            for far in range(max(0, near - 2), min(100, near + 2) + 1)
        )
        assert BOUND.smooth_sensitivity(np.array([g])) == 1 + found


def test_costs_cover_both_directions_of_the_owners_bound() -> None:
    """F looks at the top gap alone, so it is never below the bound that looks at all gaps."""
    every = votes(3, 200)
    owner = analysis.gnmax_rdp(every, 10, 6)
    assert (BOUND.costs[gaps(every)] * GRID >= owner - 1e-12).all()
    assert BOUND.costs[-1] < 0.2 * BOUND.costs[0]
    assert BOUND.costs[0] * GRID == pytest.approx(6 / 100, rel=1e-4)


def test_the_release_is_above_the_truth_as_often_as_it_says() -> None:
    bound, here, rng = replace(BOUND, failure=0.05, epsilon=8), votes(1), SeededRandom(2)
    truth = int(bound.costs[gaps(here)].sum()) * GRID
    below = sum(bound(here, rng=rng).rdp < truth for _ in range(200))
    assert stats.binomtest(below, 200, 0.05, alternative="greater").pvalue > 1e-9
    assert below > 0


def test_the_noise_drawn_is_that_of_the_proof() -> None:
    """Which quarter of the noise's law a release falls in; agreeing teachers keep it clear of both clamps."""
    bound = DependentBound(
        classes=3, sigma=10, teachers=100, answers=50, order=6, epsilon=10, delta=1e-3, failure=1e-4
    )
    agree, rng = np.tile([100, 0, 0], (50, 1)), SeededRandom(6)
    centre, scale = bound.law(agree)
    off = np.array([bound(agree, rng=rng).rdp / GRID - centre for _ in range(250)]) / float(scale)
    for factor, agrees in ((1, True), (0.5, False), (2, False)):
        edges = factor * np.array([-math.log(2), 0, math.log(2)])
        assert (stats.chisquare(np.bincount(np.digitize(off, edges), minlength=4)).pvalue > 1e-9) == agrees


def test_half_of_epsilon_is_for_the_shift_and_half_for_the_scale() -> None:
    """1/λ + (c + t + 1)·b = ε, with the numbers that are used."""
    gaps_, t = np.array([66] * 20), math.log(2 / 1e-3)
    shift = float(BOUND.smooth_sensitivity(gaps_) / BOUND.law(np.tile([76, 10, 10], (20, 1)))[1])
    assert shift + float(BOUND._margin + 1 + Fraction(t)) * float(BOUND._decay) == pytest.approx(1, abs=1e-9)


def test_the_release_is_never_above_what_the_noise_alone_gives() -> None:
    rng = SeededRandom(3)
    most = int(BOUND.costs.max()) * 20 * GRID
    assert all(bound.rdp <= most for bound in (BOUND(votes(1), rng=rng) for _ in range(50)))


def test_with_agreement_and_a_budget_it_says_less_than_the_noise() -> None:
    agree = np.tile([250, 0, 0], (100, 1))
    bound = DependentBound(classes=3, sigma=28, teachers=250, answers=100, order=14, epsilon=2, delta=1e-6)
    assert bound(agree, rng=SeededRandom(4)).epsilon(1e-5) < 1.5


def test_publishing_is_charged_and_labels_are_not_refunded() -> None:
    account = Ledger.open("sqlite://", analyst="owner").create("pate", Unit.row(), limit=Budget(50, 1e-2))
    ensemble = given([[90, 5, 5]] * 20)
    with account.open(GNMax(classes=3, sigma=10, answers=20), ensemble) as session:
        session.ask(np.arange(20))
    before = account.spent().epsilon
    release = account.run(BOUND, ensemble.votes(np.arange(20)))
    assert release.loss == Approximate(1, 1e-3)
    assert account.spent().epsilon > before


@pytest.mark.parametrize(
    "data",
    [None, "text", [[1]], [[math.nan, 1, 2]], [[1e300, -1e300, 5]], [[10**400, 0, 0]], [], [[1, 2, 3]] * 50],
)
def test_whatever_the_data_are_it_answers(data: Any) -> None:
    found = BOUND(data, rng=SeededRandom(5))
    assert 0 <= found.rdp < math.inf
    assert found.epsilon(1e-5) >= 0


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"order": 1}, "Expected order=1"),
        ({"delta": 0}, "Expected delta=0"),
        ({"failure": 1}, "Expected failure=1"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidParameter, match=text):
        replace(BOUND, **wrong)
