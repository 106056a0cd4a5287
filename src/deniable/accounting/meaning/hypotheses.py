"""The best test between two neighbours, at given rates of false alarms: f(α), bracketed and tight.

f(α) is the least probability with which a test that raises a false alarm with probability
at most α misses (Wasserman, Zhou 2010; Dong, Roth, Su 2022). Said of events: one of
probability at least 1 − α has probability at least f(α) under every neighbour, and one of
probability at most α has at most 1 − f(α). `fdp.tradeoff` draws the whole curve; this is
one point of it, in closed form where the loss is one leaf (or a composition of Gaussians):

    Gaussian, μ = 1/multiplier     Φ(−Φ⁻¹(α) − μ)
    Laplace, c = 1/multiplier      1 − e^c·α            for α ≤ e^−c/2
                                   e^−c/(4α)            for e^−c/2 ≤ α ≤ 1/2
                                   e^−c·(1 − α)         for α ≥ 1/2
    finitely many outcomes         the polygon through the sums of the likeliest outcomes

and for any other tree from its profile δ(ε): f(α) = sup over ε ≥ 0 of max(1 − δ(ε) −
e^ε·α, e^−ε·(1 − δ(ε) − α)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from deniable.accounting.choose import delta as delta_of
from deniable.accounting.choose import epsilon as epsilon_of
from deniable.accounting.numerical import profile
from deniable.accounting.numerical.lattice.search import TermCase, merge
from deniable.accounting.numerical.pairs.continuous import Gaussian, Laplace, Pair
from deniable.accounting.numerical.pairs.finite import Finite
from deniable.accounting.numerical.terms import cases
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import Loss

Array = NDArray[np.float64]

ROUNDING = 1e-12
"""Absolute: what floating point may do to a probability of the closed forms."""
SUMMED = 1e-11
"""The same for sums over the outcomes of a finite pair."""
_POINTS = 161
_TAIL = 1e-9
"""δ at the end of the grid."""
_WIDE = 700.0


def misses(loss: Loss, alpha: ArrayLike) -> tuple[Array, Array]:
    """Certified lower and upper bounds on f(α) for every neighbour relation that `loss` is stated for.

    >>> from deniable.loss import GaussianNoise
    >>> low, high = misses(GaussianNoise(1), [0.05])
    >>> round(float(low[0]), 4), bool(0 <= high[0] - low[0] < 1e-11)
    (0.7405, True)
    """
    rates = np.atleast_1d(np.asarray(alpha, np.float64))
    if not ((rates >= 0) & (rates <= 1)).all():
        raise InvalidParameter("Expected every rate of false alarms alpha in [0, 1].")
    leaves = _leaves(loss)
    if leaves is None:
        return _from_profile(loss, rates)
    lows = [_of_pair(pair, rates)[0] - pair.slack for pair, upper, _ in leaves if upper]
    highs = [_of_pair(pair, rates)[1] for pair, _, lower in leaves if lower]
    return _clip_misses(np.minimum.reduce(lows), np.minimum.reduce([1 - rates, *highs]), rates)


def has_closed_form(loss: Loss) -> bool:
    """Whether `misses` has a closed form for this loss."""
    return _leaves(loss) is not None


# ------------------------------------------------------------------------------------------------ one pair


def _leaves(loss: Loss) -> list[tuple[Pair, bool, bool]] | None:
    """The pair of each case, and the sides it stands for, if every case is one symmetric
    pair of a known form."""
    try:
        every = cases(loss)
    except Unaccountable:
        return None
    leaves = [(_single_pair(case), case.upper, case.lower) for case in every]
    triples = [(pair, upper, lower) for pair, upper, lower in leaves if pair is not None]
    if len(triples) == len(leaves) and any(upper for _, upper, _ in triples):
        return triples
    return None


def _single_pair(case: TermCase) -> Pair | None:
    terms = merge(case.terms)
    if not terms:
        return Gaussian(math.inf)
    (pair, times), *others = terms
    if others or times != 1 or pair.sided or not isinstance(pair, Gaussian | Laplace | Finite):
        return None
    if not isinstance(pair, Finite) or _is_mirrored(pair):
        return pair
    return None


def _is_mirrored(pair: Finite) -> bool:
    """Whether P and Q are mirror images, so that one direction tells both."""
    same = np.allclose(pair.losses, -pair.losses[::-1], rtol=1e-12, atol=1e-300)
    return same and bool(np.allclose(pair.p, pair.q[::-1], rtol=1e-12, atol=1e-300))


def _of_pair(pair: Pair, alpha: Array) -> tuple[Array, Array]:
    match pair:
        case Gaussian(sigma):
            value = ndtr(-ndtri(alpha) - 1 / sigma)
            return value - ROUNDING, value + ROUNDING
        case Laplace(b):
            value = _laplace(1 / b, alpha)
            return value - ROUNDING, value + ROUNDING
        case Finite():
            value = _finite(pair, alpha)
            return value - SUMMED, value + SUMMED
        case _:
            raise TypeError(f"No closed form is known for {pair}.")


def _laplace(c: float, alpha: Array) -> Array:
    with np.errstate(divide="ignore", over="ignore"):
        middle = np.exp(-c) / (4 * alpha)
        first = 1 - np.exp(min(c, _WIDE)) * alpha
    last = np.exp(-c) * (1 - alpha)
    inner = np.where(alpha <= 0.5, middle, last)
    return np.asarray(np.where(alpha <= np.exp(-c) / 2, first, inner), np.float64)


def _finite(pair: Finite, alpha: Array) -> Array:
    """Reject from the likeliest outcome of the alternative down; between two outcomes by
    a coin (Neyman, Pearson 1933)."""
    alarms = np.append(0.0, np.cumsum(pair.q[::-1]))
    hits = np.append(0.0, np.cumsum(pair.p[::-1]))
    # Outcomes that only the alternative has raise no false alarm: take the last of equal alarms.
    last = np.append(np.diff(alarms) > 0, True)
    return np.asarray(1 - np.interp(alpha, alarms[last], hits[last]), np.float64)


# ------------------------------------------------------------------------------------------------ any tree


def _from_profile(loss: Loss, alpha: Array) -> tuple[Array, Array]:
    """A grid over all ε, then for each α a finer one where its supremum can lie.

    Lower side: a supremum over fewer ε is smaller. Upper side: δ falls, so on [εᵢ, εᵢ₊₁] the supremum is at
    most that with δ(εᵢ₊₁) and e^εᵢ, and beyond the last ε at most that with δ = 0; a cell that cannot hold
    the supremum is not made finer.
    """
    grid = np.linspace(0, 1, _POINTS) ** 1.5 * min(epsilon_of(loss, _TAIL).upper, _WIDE)
    below, above = _profile(loss, grid)
    cells = [_cell(grid, below, above, float(rate)) for rate in alpha]
    finer = [np.linspace(cell.start, cell.end, _POINTS) for cell in cells]
    points = np.unique(np.concatenate(finer))
    below, above = _profile(loss, points)
    lows, highs = np.empty(len(alpha)), np.empty(len(alpha))
    for i, (cell, own, rate) in enumerate(zip(cells, finer, alpha, strict=True)):
        at = np.searchsorted(points, own)
        lows[i] = max(cell.low, float(_value(own, above[at], rate).max()))
        highs[i] = max(lows[i], cell.rest, float(_value(own[:-1], below[at][1:], rate).max()))
    return _clip_misses(lows, highs, alpha)


@dataclass(frozen=True)
class _Cell:
    """Where the supremum lies, what it is at least, and what it is at most anywhere else."""

    start: float
    end: float
    low: float
    rest: float


def _cell(grid: Array, lower: Array, upper: Array, alpha: float) -> _Cell:
    low = float(_value(grid, upper, alpha).max())
    values = _value(grid[:-1], lower[1:], alpha)
    best = np.flatnonzero(values > low)
    first, last = (int(best[0]), int(best[-1]) + 1) if len(best) else (0, 1)
    beyond = float(_value(grid[-1:], np.zeros(1), alpha)[0])
    outside = float(np.delete(values, np.arange(first, last)).max(initial=beyond))
    return _Cell(float(grid[first]), float(grid[last]), low, outside)


def _value(epsilon: Array, delta: Array, alpha: float) -> Array:
    sure = 1 - delta
    growth = np.exp(epsilon)
    return np.maximum(sure - growth * alpha, (sure - alpha) / growth)


def _profile(loss: Loss, grid: Array) -> tuple[Array, Array]:
    try:
        return profile(loss, grid)
    except Unaccountable:
        bounds = [delta_of(loss, float(e)) for e in grid]
        return np.array([b.lower for b in bounds]), np.array([b.upper for b in bounds])


def _clip_misses(low: Array, high: Array, alpha: Array) -> tuple[Array, Array]:
    """No test does better than never to miss, and guessing misses 1 − α."""
    most = 1 - alpha
    low = np.clip(low, 0.0, most)
    return low, np.clip(np.maximum(high, low), 0.0, np.maximum(most, low))
