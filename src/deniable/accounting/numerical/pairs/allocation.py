"""One pass of T steps, each unit in one of them by its own draw: Λ = (Y₁ + … + Y_T)/T,
the Yₜ independent ratios of one step.

The curve of a pair is E_Q(Λ − x)₊, so a larger Λ in convex order is a pair that dominates
(docs/theory/batches.md). The law of a sum is built by doubling, on grids that are fine in the bulk and
geometric beyond it: `above` splits every value between the two nodes around it (its mean is kept, it
spreads), `below` merges all values of a cell at their mean (it contracts). Both keep that order under sums,
and both add up positive numbers only, so that far tails keep their relative precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deniable.accounting.numerical.pairs.continuous import Pair
from deniable.accounting.numerical.pairs.finite import Sided
from deniable.accounting.numerical.rounding import Array, Indices, U, relative
from deniable.accounting.refusals import check_time

TAIL = 1e-30
"""Mass at the top of each sum that is counted as revealed, and at its bottom that is spread to 0."""
NODES = 1000
"""Nodes of the first grid, about; later ones have no more."""
FINEST, COARSEST = 0.012, 0.1
SMALLEST = math.exp(-20.0)
"""Ratios below are spread to 0: an ε above 20 in the direction of adding a unit is not resolved."""
BULK = 0.5
"""The bulk of a sum of m is never taken as wider than this part of m."""


@dataclass(frozen=True, eq=False)
class RatioSum:
    """The law under Q of a sum of `count` ratios: `values` and their masses.

    `lost` and `carried` are the Q mass and the first moment of what was counted as revealed; `error` bounds
    the relative rounding of each mass.
    """

    count: int
    values: Array
    mass: Array
    lost: float
    carried: float
    error: float


@dataclass(frozen=True, eq=False)
class MassCells:
    """Q mass and first moment between successive edges, the first of which is 0."""

    edges: Array
    mass: Array
    moment: Array

    def above(self) -> tuple[Array, Array]:
        """Every value split between the ends of its cell, its mean kept: linear in the
        value, so moments suffice."""
        rise = (self.moment - self.edges[:-1] * self.mass) / np.diff(self.edges)
        rise = np.clip(rise, 0, self.mass)
        mass = np.append(self.mass - rise, 0.0)
        mass[1:] += rise
        return self.edges, mass

    def below(self) -> tuple[Array, Array]:
        """Every cell seen as one outcome: its ratio is the mean."""
        mask = self.mass > 0
        return self.moment[mask] / self.mass[mask], self.mass[mask]


@dataclass(frozen=True)
class SumGrid:
    """Nodes for a sum of `count`: steps of `step`·√(width² + (s − count)²) around its
    mean, of `step`·s below half of it."""

    count: int
    width: float
    step: float

    @property
    def bend(self) -> float:
        return (self.count**2 + self.width**2) / (2 * self.count)

    def place(self, values: Array) -> Array:
        """The position of a value, in units of `step`."""
        low = np.log(np.maximum(values, 1e-300) / self.bend) + math.asinh(
            (self.bend - self.count) / self.width
        )
        high = np.arcsinh((np.maximum(values, self.bend) - self.count) / self.width)
        return np.where(values < self.bend, low, high) / self.step

    def nodes(self, first: float, last: float) -> Array:
        """0, then nodes from `first` to `last`, both among them."""
        ends = self.place(np.array([first, last]))
        u = self.step * np.linspace(ends[0], ends[1], max(2, math.ceil(ends[1] - ends[0]) + 1))
        turn = math.asinh((self.bend - self.count) / self.width)
        low = self.bend * np.exp(np.minimum(u - turn, 0.0))
        high = self.count + self.width * np.sinh(np.maximum(u, turn))
        inner = np.where(u < turn, low, high)
        inner[0], inner[-1] = first, last
        return np.concatenate([[0.0], inner])


Side = Callable[[MassCells], tuple[Array, Array]]


def allocated(pair: Pair, steps: int, *, upper: bool) -> Pair:
    """A pair that dominates (`upper`), or is dominated by, a pass of `steps` steps whose
    single step has this pair."""
    if steps == 1:
        return pair
    side: Side = MassCells.above if upper else MassCells.below
    law, variance, step = _single(pair, side)
    total = _power(law, steps, lambda a, b: _added(a, b, variance, step, side))
    return _pair(total, upper)


def _single(pair: Pair, side: Side) -> tuple[RatioSum, float, float]:
    """The law of one ratio, its variance (the bulk's, as far as it matters) and the step of all grids."""
    low, high = pair.span(TAIL)
    first, last = max(math.exp(low), SMALLEST), math.exp(high) * (1 + 1e-9)
    # A first look at the spread of the ratio, on a plain geometric grid.
    p, q = _masses(pair, np.concatenate([[0.0], np.geomspace(first, last, 2000)]))
    variance = max(float((np.divide(p * p, q, out=np.zeros_like(p), where=q > 0)).sum()) - 1, 1e-12)
    rough = SumGrid(1, _width(1, variance), 1.0)
    step = min(max(float(np.diff(rough.place(np.array([first, last])))[0]) / NODES, FINEST), COARSEST)
    edges = SumGrid(1, rough.width, step).nodes(first, last)
    p, q = _masses(pair, edges)
    values, mass = side(MassCells(edges, q, p))
    beyond_p, beyond_q = (float(m[0]) for m in pair.cells(np.array([math.log(last), np.inf])))
    exposure = float(pair.atoms[1][np.isposinf(pair.atoms[0])].sum())
    error = relative(max(abs(low), abs(high)))
    # Slack may be mass of either measure, so both carry it.
    tail_mass, tail_moment = beyond_q + pair.slack, beyond_p + exposure + pair.slack
    return RatioSum(1, values, mass, tail_mass, tail_moment, error), variance, step


def _width(count: int, variance: float) -> float:
    return min(math.sqrt(count * variance), BULK * count)


def _masses(pair: Pair, edges: Array) -> tuple[Array, Array]:
    """P and Q between the ratios `edges`, atoms in the cell that ends at or above them."""
    with np.errstate(divide="ignore"):
        p, q = pair.cells(np.log(edges))
    losses, atom_p, atom_q = pair.atoms
    ratios = np.exp(np.where(np.isfinite(losses), losses, -np.inf))
    cell = np.clip(np.searchsorted(edges, ratios) - 1, 0, len(edges) - 2)
    mask = ~np.isposinf(losses)
    return (
        p + np.bincount(cell[mask], atom_p[mask], len(p)),
        q + np.bincount(cell[mask], atom_q[mask], len(q)),
    )


def _power(one: RatioSum, count: int, add: Callable[[RatioSum, RatioSum], RatioSum]) -> RatioSum:
    total, square = None, one
    while True:
        if count & 1:
            total = square if total is None else add(total, square)
        count >>= 1
        if not count:
            assert total is not None
            return total
        square = add(square, square)


def _added(a: RatioSum, b: RatioSum, variance: float, step: float, side: Side) -> RatioSum:
    check_time()
    count = a.count + b.count
    values = np.add.outer(a.values, b.values).ravel()
    mass = np.multiply.outer(a.mass, b.mass).ravel()
    positive = values[values > 0]
    first = min(max(float(positive.min()), SMALLEST * count), 0.5 * count)
    last = float(values.max()) * (1 + 1e-9)
    grid = SumGrid(count, _width(count, variance), step)
    edges = grid.nodes(first, last)
    cell = _cell(grid, edges, values)
    cells = MassCells(edges, _piled(cell, mass, len(edges) - 1), _piled(cell, mass * values, len(edges) - 1))
    values, mass, tail_mass, tail_moment = _trimmed(*side(cells), count, side is MassCells.above)
    longest = int(np.bincount(cell).max())
    return RatioSum(
        count,
        values,
        mass,
        a.lost + b.lost + tail_mass,
        # The mean of an untouched sum is its count; nothing revealed is forgotten.
        a.carried + b.carried + a.lost * b.count + b.lost * a.count + tail_moment,
        a.error + b.error + (longest + 16) * U,
    )


def _piled(cell: Indices, mass: Array, size: int) -> Array:
    return np.bincount(cell, mass, size).astype(np.float64, copy=False)


def _cell(grid: SumGrid, edges: Array, values: Array) -> Indices:
    """The cell of each value: by the grid's formula, then moved by one where rounding misplaced it."""
    start = float(grid.place(edges[1:2])[0])
    stretch = (len(edges) - 2) / max(float(grid.place(edges[-1:])[0]) - start, 1e-300)
    at = np.clip(((grid.place(values) - start) * stretch).astype(np.int64) + 1, 0, len(edges) - 2)
    at[values < edges[1]] = 0
    at += (values > edges[at + 1]) & (at < len(edges) - 2)
    at -= (values < edges[at]) & (at > 0)
    return np.asarray(at, dtype=np.int64)


def _trimmed(values: Array, mass: Array, count: int, spread: bool) -> tuple[Array, Array, float, float]:
    """Less than TAIL at the top is revealed (what that is worth: `lost`, `carried`); as
    little at the bottom is merged."""
    # The mass under Q and, with the ratio, under P: what is cut off is light for both.
    heavy = mass * (1 + values / count)
    top = np.cumsum(heavy[::-1])[::-1] > TAIL
    tail_mass, tail_moment = float(mass[~top].sum()), float((mass * values)[~top].sum())
    values, mass, heavy = values[top], mass[top], heavy[top]
    few = int((np.cumsum(heavy) < TAIL).sum())
    if few > 1:
        low_mass, moment = float(mass[:few].sum()), float((mass * values)[:few].sum())
        if spread:
            up = moment / values[few]
            values, mass = np.append(0.0, values[few:]), np.append(max(low_mass - up, 0.0), mass[few:])
            mass[1] += up
        else:
            mean = 0.0
            if low_mass:
                mean = moment / low_mass
            values, mass = np.append(mean, values[few:]), np.append(low_mass, mass[few:])
    return values, mass, tail_mass, tail_moment


def _pair(total: RatioSum, upper: bool) -> Pair:
    ratio = total.values / total.count
    # Both measures may be off by `error`, relatively: `Sided` moves each by twice that to the safe side.
    off = 2 * total.error
    with np.errstate(divide="ignore"):
        losses = np.log(ratio)
    if not upper:
        return Sided.of(losses, ratio * total.mass, total.mass, 0.0, -off)
    return Sided.of(losses, ratio * total.mass, total.mass, total.carried / total.count * (1 + 1e-6), off)
