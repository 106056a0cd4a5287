"""The data-dependent bound holds against exact divergences, in both directions, and
matches what the papers' code gives."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from numpy.typing import NDArray

from deniable.accounting.renyi import curve
from deniable.errors import InvalidParameter
from deniable.learn.pate import GNMax, analysis
from deniable.loss import DiscreteGaussianNoise

ORDERS = (1.5, 3.0, 8.0, 20.0)


def law(sigma: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    n = np.arange(-math.ceil(14 * sigma), math.ceil(14 * sigma) + 1)
    p = np.exp(-((n / sigma) ** 2) / 2)
    return n, p / p.sum()


def winner(votes: Any, sigma: float) -> NDArray[np.float64]:
    """The exact law of GNMax's answer, ties shared equally: Σ over values of the top, by
    generating functions in the ties."""
    n, p = law(sigma)
    top = np.arange(n[0] + min(votes), n[-1] + max(votes) + 1)
    at = np.array([np.interp(top - v, n, p, left=0, right=0) for v in votes])
    below = np.array([np.concatenate([[0], np.cumsum(row)[:-1]]) for row in at])
    out = np.zeros(len(votes))
    for i in range(len(votes)):
        others = [j for j in range(len(votes)) if j != i]
        for tied in itertools.chain.from_iterable(
            itertools.combinations(others, r) for r in range(len(others) + 1)
        ):
            chance = at[i].copy()
            for j in others:
                chance = chance * (at[j] if j in tied else below[j])
            out[i] += chance.sum() / (1 + len(tied))
    return out / out.sum()


def divergence(p: NDArray[np.float64], q: NDArray[np.float64], order: float) -> float:
    """Outcomes rarer than 1e-60 are left out: the sums above do not resolve them, and
    they add less than 1e-15."""
    seen = p > 1e-60
    logs = order * np.log(p[seen]) + (1 - order) * np.log(q[seen])
    return float(np.logaddexp.reduce(logs) / (order - 1))


def neighbours(votes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """One vote moved, withdrawn or cast anew."""
    unit = np.eye(len(votes), dtype=np.int64)
    moved = [votes - unit[i] + unit[j] for i, j in itertools.permutations(range(len(votes)), 2) if votes[i]]
    return moved + [votes - unit[i] for i in range(len(votes)) if votes[i]] + [votes + u for u in unit]


def cases() -> list[tuple[NDArray[np.int64], float]]:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(60):
        classes, sigma = int(rng.integers(2, 5)), float(rng.choice([3, 5, 10]))
        top = int(rng.integers(30, 80))
        found.append(
            (np.array([top, *rng.multinomial(80 - top, [1 / (classes - 1)] * (classes - 1))]), sigma)
        )
    return found


def test_both_directions_are_bounded_for_every_neighbour() -> None:
    small, exceeded = 0, []
    for votes, sigma in cases():
        here = winner(votes, sigma)
        for other in neighbours(votes):
            there = winner(other, sigma)
            for order in ORDERS:
                both = float(analysis.gnmax_rdp(votes[None], sigma, order)[0])
                one = float(analysis.gnmax_rdp(votes[None], sigma, order, sides=1)[0])
                forth, back = divergence(here, there, order), divergence(there, here, order)
                assert max(forth, back) <= both + 1e-10
                assert forth <= one + 1e-10
                small += both < 0.9 * order / sigma**2
                exceeded += [back / one] * (back > one + 1e-9)
    assert small > 200  # the bound is not the data-independent one
    assert max(exceeded) > 2  # and what the papers print, taken for both directions, is exceeded


def test_the_check_is_bounded_in_both_directions() -> None:
    n, p = law(4.0)
    for top, order in itertools.product(range(0, 61, 3), ORDERS):
        bound = float(analysis.check_rdp([top], 30, 4.0, order)[0])
        for other in (top - 1, top + 1):
            laws = [np.array([p[n + t >= 30].sum(), p[n + t < 30].sum()]) + 1e-18 for t in (top, other)]
            assert divergence(*laws, order) <= bound + 1e-9
            assert divergence(*laws[::-1], order) <= bound + 1e-9
    assert analysis.check_rdp([60], 30, 4.0, 3.0)[0] < 0.01 * 3 / 32


def test_tails_are_those_of_the_integer_noise_and_never_below() -> None:
    for sigma in (0.4, 1.0, 3.7):
        n, p = law(sigma)
        both = np.convolve(p, p)
        d = np.arange(2 * n[0], 2 * n[-1] + 1)
        for g in range(int(6 * sigma) + 2):
            exact, single = both[d >= g].sum(), p[n >= g].sum()
            assert exact <= analysis.difference_tail(sigma, 30)[g] <= exact * (1 + 1e-8) + 1e-15
            assert single <= analysis.tail(sigma, 30)[g] <= single * (1 + 1e-8) + 1e-15


def test_far_tails_stay_positive() -> None:
    assert analysis.difference_tail(1, 5000)[-1] > 0
    assert analysis.tail(1, 5000)[-1] > 0


def test_the_failure_bound_holds() -> None:
    for votes, sigma in cases():
        q = 1 - winner(votes, sigma)[0] if votes[0] > votes[1:].max() else 0.0
        assert q <= math.exp(float(analysis.log_failure(votes[None], sigma)[0]))


def test_a_bound_is_never_above_that_of_the_noise() -> None:
    noise = DiscreteGaussianNoise(40, 1, 1) * 2
    for order in ORDERS:
        plain = float(curve(noise, np.array([order]))[0])
        assert float(analysis.gnmax_rdp([[130, 120]], 40, order)[0]) <= plain * (1 + 1e-6)
        assert float(analysis.gnmax_rdp([[130, 120]], 40, order)[0]) == pytest.approx(order / 1600)


@pytest.mark.parametrize(
    ("sigma", "order", "log_q0"),
    [
        (1.5, 1.1, 2.8),
        (1.5, 2.5, 2.6),
        (15, 1.1, 4.8),
        (15, 2.5, 4.0),
        (15, 32, 4.7),
        (1500, 1.1, 9.6),
        (1500, 250, 4.0),
    ],
)
def test_the_bound_takes_over_where_the_papers_code_says(sigma: float, order: float, log_q0: float) -> None:
    """−ln q₀ of TF-Privacy's test table (research/pate_2018/core_test.py), given to two digits."""
    rho = 1 / sigma**2
    below = [float(analysis.rdp(-log_q0 - math.log(c), rho, order)) for c in (1.3, 2, 4, 8)]
    assert all(a > b for a, b in itertools.pairwise(below))
    assert below[0] < rho * order
    assert float(analysis.rdp(math.log(math.exp(-log_q0) + 0.1), rho, order)) == pytest.approx(rho * order)


@pytest.mark.parametrize("log_q", [-8.0, -20.0, -60.0, -300.0])
@pytest.mark.parametrize(("sigma", "order"), [(40, 5), (40, 14), (10, 3), (3, 2)])
def test_the_bound_is_the_theorems_formula_and_never_below(log_q: float, sigma: int, order: int) -> None:
    """Theorem 6 written out in fifty digits."""
    with mp.workdps(50):
        q, rho = mp.e ** mp.mpf(log_q), mp.mpf(1) / sigma**2
        second = mp.sqrt(-mp.mpf(log_q) / rho)
        first = second + 1
        a = (1 - q) / (1 - (q * mp.e ** (rho * second)) ** ((second - 1) / second))
        b = mp.e ** (rho * first) / q ** (1 / (first - 1))
        exact = float(mp.log((1 - q) * a ** (order - 1) + q * b ** (order - 1)) / (order - 1))
    found = float(analysis.rdp(log_q, float(rho), order))
    assert first >= order
    assert min(exact, order / sigma**2) <= found <= min(exact, order / sigma**2) * (1 + 1e-6) + 2e-12


def test_agreement_is_cheap_and_the_owner_sees_by_how_much() -> None:
    votes = np.array([[245, 5, *[0] * 8]] * 100)
    plain = GNMax(classes=10, sigma=28, answers=100)
    both, one = (analysis.cost(votes, plain.sigma, 1e-5, sides=sides) for sides in (2, 1))
    assert one.epsilon < both.epsilon < 1.2
    split = analysis.cost(np.array([[125, 125, *[0] * 8]] * 100), 28, 1e-5)
    assert split.epsilon > 1.9


def test_checks_are_added_for_confident_labels() -> None:
    votes = np.array([[245, 5]] * 50)
    alone = analysis.cost(votes, 28, 1e-5)
    with_checks = analysis.cost(votes, 28, 1e-5, checked=(np.full(80, 200), 200, 100))
    assert with_checks.epsilon > alone.epsilon


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="Expected order=1"):
        analysis.rdp(-3.0, 0.1, 1)
    with pytest.raises(InvalidParameter, match="Expected sides=3"):
        analysis.gnmax_rdp([[3, 2]], 1, 2, sides=3)
    with pytest.raises(InvalidParameter, match="Expected delta=0"):
        analysis.cost([[3, 2]], 1, 0)
