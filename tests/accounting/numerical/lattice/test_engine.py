"""The engine: laws above and below the curve, both composition paths, and the errors they claim."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from deniable.accounting.numerical.lattice import compose as composing
from deniable.accounting.numerical.lattice.bracket import Piece, Steering, curves, plan
from deniable.accounting.numerical.lattice.compose import compose
from deniable.accounting.numerical.lattice.discretise import LossLaw, discretise, infinite_mass
from deniable.accounting.numerical.lattice.search import TermCase, epsilon_bounds
from deniable.accounting.numerical.pairs.continuous import (
    Gaussian,
    Laplace,
    Pair,
    Range,
    SampledShape,
    Swapped,
    Symmetrised,
)
from deniable.accounting.numerical.pairs.finite import answers, approximate, integer_gaussian, integer_laplace
from deniable.accounting.numerical.pairs.shifted import GaussianMixture, GaussianReplace, LaplaceReplace

PAIRS: list[Pair] = [
    Gaussian(0.7),
    Laplace(1.5),
    Range(0.8),
    SampledShape(Gaussian(0.6), 0.05),
    SampledShape(Gaussian(1.0), 1e-5),
    SampledShape(Laplace(0.5), 0.2),
    SampledShape(Range(1.0), 0.1),
    GaussianReplace(0.9, 0.1),
    LaplaceReplace(0.8, 0.3),
    GaussianMixture(1.2, (0.0, 1.0, 2.0), (0.81, 0.18, 0.01)),
    Symmetrised(SampledShape(Gaussian(0.9), 0.1)),
    Symmetrised(SampledShape(Laplace(0.9), 0.1)),
    integer_laplace(2.5, 3),
    SampledShape(integer_laplace(2.5, 3), 0.1),
    SampledShape(integer_laplace(100.0, 200), 0.1),
    integer_gaussian(1.3, 2),
    integer_gaussian(40.0, 30),
    SampledShape(integer_gaussian(40.0, 30), 0.02),
    approximate(0.5, 0.01),
    SampledShape(approximate(0.5, 0.01), 0.1),
    answers(0.5, 4),
]


def heights(pair: Pair, losses: np.ndarray) -> np.ndarray:
    """H of the finite part of the pair at e^loss."""
    at, p, q = (a[np.isfinite(pair.atoms[0])] for a in pair.atoms)
    out = []
    for y in losses:
        cell_p, cell_q = (float(m[0]) for m in pair.cells(np.array([y, np.inf])))
        out.append(cell_p - math.exp(y) * cell_q + np.maximum(p - math.exp(y) * q, 0)[at > y].sum())
    return np.array(out)


def law_heights(law: LossLaw, losses: np.ndarray) -> np.ndarray:
    return np.array([(law.mass * np.maximum(-np.expm1(y - law.losses), 0)).sum() for y in losses])


@pytest.mark.parametrize("pair", [*PAIRS, *map(Swapped, PAIRS)], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("cells", [7, 60, 700])
def test_laws_enclose_the_curve(pair: Pair, cells: int) -> None:
    tail = 1e-13
    low, high = pair.span(tail)
    dt = (high - low) / cells * 1.01
    upper, lower = discretise(pair, dt, low, high)
    points = np.linspace(low - dt, high + dt, 211)
    true = heights(pair, points)
    assert (law_heights(upper, points) >= true - tail - 1e-14).all()
    if lower is None:  # allowed where cells are too coarse for the tangents
        assert cells < 700
        return
    assert (lower.mass >= 0).all()
    below = law_heights(lower, points)
    assert (below <= true + 1e-14).all()
    if cells == 700:
        assert (law_heights(upper, points) - below).max() < 0.05


@pytest.mark.parametrize(
    "pair", [SampledShape(Gaussian(0.8), 0.1), Swapped(SampledShape(Gaussian(0.8), 0.1)), Gaussian(1.0)]
)
def test_enclosure_tightens_to_second_order(pair: Pair) -> None:
    low, high = pair.span(1e-13)
    gaps = []
    for cells in (200, 400, 800):
        upper, lower = discretise(pair, (high - low) / cells, low, high)
        assert lower is not None
        points = np.linspace(-0.2, 2, 50)
        gaps.append((law_heights(upper, points) - law_heights(lower, points)).max())
    assert gaps[1] < gaps[0] / 2.5
    assert gaps[2] < gaps[1] / 2.5


def test_mass_that_reveals_itself_is_seen() -> None:
    assert infinite_mass(approximate(0.5, 0.01)) == 0.01
    assert infinite_mass(SampledShape(approximate(0.5, 0.01), 0.1)) == pytest.approx(0.001)
    assert infinite_mass(Swapped(SampledShape(approximate(0.5, 0.01), 0.1))) == 0


def binomial_delta(epsilon: float, each: float, times: int) -> mp.mpf:
    p = 1 / (1 + mp.exp(-mp.mpf(each)))
    return mp.fsum(
        mp.binomial(times, k)
        * p**k
        * (1 - p) ** (times - k)
        * (1 - mp.exp(epsilon - (2 * k - times) * mp.mpf(each)))
        for k in range(times + 1)
        if (2 * k - times) * each > epsilon
    )


@pytest.mark.parametrize("times", [8, 64, 65, 300])
@pytest.mark.parametrize("theta", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("wide", [False, True])
def test_claimed_error_covers_the_true_error(times: int, theta: float, wide: bool) -> None:
    """Randomized response has a binomial sum: both paths must have it inside their error bars."""
    each = 0.1
    p = 1 / (1 + math.exp(-each))
    law = LossLaw(-each, 2 * each, np.array([0, 1]), np.array([1 - p, p]))
    got = compose([(law, times)], theta, 1e-12, wide=wide)
    for j in range(max(0, times // 2), times, max(1, times // 12)):
        true = binomial_delta((2 * j - times) * each, each, times)
        allowance = 1 + 1e-11
        assert got.delta(j, -1) <= float(true) * allowance
        assert got.delta(j, 1) >= float(true) / allowance
        assert got.delta(j, 1) <= got.total * 1.5


def test_both_paths_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for rate, sigma, steps, delta in ((0.01, 1.0, 100, 1e-6), (0.1, 2.0, 1000, 1e-9)):
        case = [TermCase(((SampledShape(Gaussian(sigma), rate), steps),))]
        direct = epsilon_bounds(case, delta)
        with monkeypatch.context() as patch:
            patch.setattr(composing, "_direct", lambda *_: None)
            transformed = epsilon_bounds(case, delta)
        assert direct != transformed
        assert direct == pytest.approx(transformed, rel=1e-6)


def test_brute_force_convolution_lies_inside() -> None:
    for pair, times in ((integer_gaussian(3.0, 1), 20), (integer_laplace(4.0, 3), 30)):
        offset, step = pair.losses[0], pair.losses[1] - pair.losses[0]
        y = np.ones(1)
        for _ in range(times):
            y = np.convolve(y, pair.p)
        losses = times * offset + step * np.arange(len(y))
        low, high = epsilon_bounds([TermCase(((pair, times),))], 1e-6)

        def delta(epsilon: float, y: np.ndarray = y, losses: np.ndarray = losses) -> float:
            return float((y * np.maximum(-np.expm1(epsilon - losses), 0)).sum())

        assert delta(low) >= 1e-6 * (1 - 1e-9)
        assert delta(high) <= 1e-6 * (1 + 1e-9)
        assert high - low < 1e-5


def test_jumps_apart_agree_with_all_at_once() -> None:
    """The same composition with and without the split, where both are exact enough."""
    terms = ((SampledShape(Gaussian(1.0), 1e-3), 200), (SampledShape(Gaussian(1.5), 1e-3), 100))
    found = []
    for split in (False, True):
        state = Steering(delta=1e-8, epsilon=0.3, passes=3, split=split)
        chosen = plan(terms, state, 1e-5, 0.0)
        assert math.isfinite(chosen.cut) == split
        upper, lower = curves(terms, chosen)
        assert lower is not None
        found.append((lower.delta(0.3), upper.delta(0.3), len(upper.parts)))
    (low, high, one), (split_low, split_high, more) = found
    assert one == 1 < more
    assert low <= split_high
    assert split_low <= high
    assert split_high / split_low - 1 < 0.02


def test_two_jumps_are_charged() -> None:
    """With the cut so low that many steps jump, only the remainder keeps the upper side above the truth."""
    terms = ((SampledShape(Gaussian(1.0), 0.05), 50),)
    chosen = plan(terms, Steering(delta=1e-4, epsilon=1.0, passes=3), 1e-3, 0.0)
    _, whole = curves(terms, chosen)
    pieces = (Piece(3.0, False, True), Piece(3.0, True, True))
    upper, lower = curves(terms, replace(chosen, cut=0.2, pieces=pieces, reach=(0.0, 2.0)))
    assert whole is not None
    assert lower is not None
    for epsilon in (0.5, 1.0, 1.5):
        assert lower.delta(epsilon) < 0.9 * whole.delta(epsilon) < upper.delta(epsilon)


def test_a_law_that_lost_mass_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Gaussian.cells
    monkeypatch.setattr(Gaussian, "cells", lambda self, losses: tuple(0.99 * m for m in whole(self, losses)))
    with pytest.raises(ArithmeticError, match="instead of 1"):
        epsilon_bounds([TermCase(((SampledShape(Gaussian(1.0), 0.1), 100),))], 1e-6)
