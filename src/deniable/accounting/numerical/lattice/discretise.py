"""From a pair to two laws on a lattice offset + dt·Z: one whose curve lies above the
pair's, one below (T1 and T2).

A law lists the P masses at its losses; Q follows from them (Q = e^−loss · P), so a law
is a curve H and nothing else.
Proofs: docs/theory/numerical.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import optimize

from deniable.accounting.numerical.pairs.continuous import FEW_ATOMS, Pair, Swapped
from deniable.accounting.numerical.rounding import Array, Indices, U, relative
from deniable.accounting.refusals import check_time, collect_lowers

Bools: TypeAlias = npt.NDArray[np.bool_]
Thin: TypeAlias = Callable[[int, int], Indices]
LEAN = 1.8
"""T2: beyond this ratio of the masses of its halves a cell's tangent moves from the middle to an end."""


@dataclass(frozen=True)
class LossLaw:
    """P masses at the losses offset + dt·index."""

    offset: float
    dt: float
    index: Indices
    mass: Array

    @property
    def losses(self) -> Array:
        return np.asarray(self.offset + self.dt * self.index, dtype=np.float64)


def silent(law: LossLaw) -> LossLaw:
    """On the nodes of a law, one of which is at loss 0, the law of what reveals nothing: below every
    other."""
    return replace(law, mass=(law.losses == 0.0).astype(np.float64))


def infinite_mass(pair: Pair) -> float:
    """P mass at loss +∞: what shows itself outright."""
    losses, p, _ = pair.atoms
    return float(p[np.isposinf(losses)].sum())


def anchor(pair: Pair, dt: float) -> tuple[float, float]:
    """A node and a cut such that the outcomes with loss below the cut average to the
    node exactly (NaN: no cut).

    With tiny rates nearly all mass sits near `edge`, within far less than dt; merged at another node it would
    cost first order in dt on the lower side.
    """
    if isinstance(pair, Swapped):
        node, cut = anchor(pair.of, dt)
        return -node, -cut
    if pair.lattice is not None:
        return pair.lattice[0], math.nan
    if pair.edge is None:
        return 0.0, math.nan
    node = cut = pair.edge
    for _ in range(8):
        cut = node + dt / 2
        p, q = _between(pair, -math.inf, cut)
        if q < 1e-6:
            return pair.edge, math.nan
        node, old = math.log1p((p - q) / q), node
        if abs(node - old) < 0.05 * dt:
            break
    return node, cut


def _between(pair: Pair, low: float, high: float) -> tuple[float, float]:
    """P and Q mass of low < loss ≤ high, atoms included."""
    p, q = (float(m[0]) for m in pair.cells(np.array([low, high])))
    losses, atom_p, atom_q = pair.atoms
    inside = (losses > low) & (losses <= high) & np.isfinite(losses)
    return p + float(atom_p[inside].sum()), q + float(atom_q[inside].sum())


def discretise(
    pair: Pair,
    dt: float,
    low: float,
    high: float,
    thin: Thin | None = None,
    anchored: tuple[float, float] | None = None,
) -> tuple[LossLaw, LossLaw | None]:
    """The upper law and the lower law (None if it cannot be had at this dt).

    Continuous mass above `high` is in neither; atoms are all kept. `anchored`: the
    pair's anchor, if known already.
    """
    check_time()
    offset, cut = anchored or anchor(pair, dt)
    atoms, index, on = _atoms(pair, offset, dt, max(abs(low), abs(high)))
    if not pair.smooth and on.all():
        nodes, place = np.unique(index, return_inverse=True)
        law = LossLaw(offset, dt, nodes, _pile(place, atoms[1], len(nodes)))
        return law, law
    if sparse(pair):
        return _few(atoms, offset, dt, index, on)
    high = max(high, float(atoms[0].max(initial=-math.inf)))
    # A node too many at either end, rather than one too few by the rounding of a quotient.
    first, last = math.floor((low - offset) / dt - 1e-9), math.ceil((high - offset) / dt + 1e-9) + 1
    nodes = thin(first, last) if thin is not None else np.arange(first, last + 1)
    nodes = _with(nodes, index[on])
    lone = ~on & pair.smooth
    few = None
    if lone.any():
        few = _few((atoms[0][lone], atoms[1][lone], atoms[2][lone]), offset, dt, index[lone], on[lone])
    if few is not None:
        nodes = _with(nodes, few[0].index)
    off = (atoms[0][~on & ~lone], atoms[1][~on & ~lone], atoms[2][~on & ~lone])
    cells = Cells.of(
        pair, np.asarray(offset + dt * nodes, dtype=np.float64), cut if (nodes == 0).any() else math.nan, off
    ).above(offset + dt * first)
    # Atoms on a node are in both laws alike.
    common = _pile(np.searchsorted(nodes, index[on]), atoms[1][on], len(nodes))
    above = cells.upper() + common
    if few is not None:
        np.add.at(above, np.searchsorted(nodes, few[0].index), few[0].mass)
    # Losses below the first node are moved up to it; the lower law leaves them out.
    above[0] += (
        float(pair.cells(np.array([-np.inf, cells.losses[0]]))[0][0])
        + off[1][off[0] <= cells.losses[0]].sum()
    )
    bulk = (pair, offset) if not math.isnan(cells.cut) else None
    lower = collect_lowers(lambda: _lower_masses(cells, nodes, common, few[1] if few else None, bulk))
    return LossLaw(offset, dt, nodes, above), LossLaw(offset, dt, nodes, lower[0]) if lower else None


def _lower_masses(
    cells: Cells, nodes: Indices, common: Array, few: LossLaw | None, bulk: tuple[Pair, float] | None
) -> Iterator[Array]:
    """The masses of the lower law, if it can be had; a failure here is its own, and never the upper law's."""
    below = cells.lower()
    if few is not None:
        np.add.at(below, np.searchsorted(nodes, few.index), few.mass)
    if bulk is not None:
        below[int(np.searchsorted(nodes, 0))] += _bulk(*bulk, cells.cut)
    below += common
    # A law needs masses ≥ 0: where the gaps of T2 broke convexity the curve is lowered, never raised.
    lower = _convex(below, cells.x) if (below < 0).any() else below
    if lower is not None:
        yield lower


def _with(nodes: Indices, more: Indices) -> Indices:
    """Increasing `nodes` with those of `more` that are not among them."""
    at = np.minimum(np.searchsorted(nodes, more), len(nodes) - 1)
    new = np.unique(more[nodes[at] != more])
    if len(new):
        return np.insert(nodes, np.searchsorted(nodes, new), new)
    return nodes


def _pile(place: Indices, mass: Array, size: int) -> Array:
    return np.bincount(place, mass, size).astype(np.float64, copy=False)


def sparse(pair: Pair) -> bool:
    """Whether a pair is a handful of atoms, each of which is then put on the lattice by itself."""
    return not pair.smooth and len(pair.atoms[0]) <= FEW_ATOMS


def _few(
    atoms: tuple[Array, Array, Array], offset: float, dt: float, index: Indices, on: Bools
) -> tuple[LossLaw, LossLaw]:
    """Each atom split between the nodes around it (T1), or floored: P lowered to what
    the node below it allows."""
    losses, p, q = atoms
    floor = np.where(on, index, np.floor((losses - offset) / dt).astype(np.int64))
    floor_mass = np.where(on, p, np.minimum(p, np.exp(offset + dt * floor) * q))
    rise = np.where(on, 0.0, np.clip((p - floor_mass) / -math.expm1(-dt), 0, p))
    nodes = np.union1d(floor, floor + 1)
    at = np.searchsorted(nodes, floor)
    above = _pile(at, p - rise, len(nodes)) + _pile(at + 1, rise, len(nodes))
    return LossLaw(offset, dt, nodes, above), LossLaw(offset, dt, nodes, _pile(at, floor_mass, len(nodes)))


def _atoms(
    pair: Pair, offset: float, dt: float, reach: float
) -> tuple[tuple[Array, Array, Array], Indices, Bools]:
    """The finite atoms, their nodes, and which of them lie on their node within what T5 allows for."""
    losses, p, q = (a[np.isfinite(pair.atoms[0])] for a in pair.atoms)
    index = np.rint((losses - offset) / dt).astype(np.int64)
    near = np.abs(offset + dt * index - losses) <= 0.5 * relative(reach)
    return (losses, p, q), index, near & (pair.lattice is not None)


def _bulk(pair: Pair, offset: float, cut: float) -> float:
    """The lower law's atom at the anchor: all outcomes on the bulk's side of the cut,
    seen as one (post-processing)."""
    p, q = _between(pair, cut, math.inf) if isinstance(pair, Swapped) else _between(pair, -math.inf, cut)
    # The anchor is their common loss, log(p/q), up to rounding (T5); were it above that, the atom would not
    # be a lower bound.
    if p >= math.exp(offset) * q * (1 - relative(0)):
        return min(p, math.exp(offset) * q)
    return 0.0


@dataclass(frozen=True)
class Cells:
    """Masses of P and Q in the two halves of each cell between nodes; `away` marks the
    halves that the bulk took."""

    losses: Array
    p: Array
    q: Array
    away: Bools
    cut: float

    @classmethod
    def of(cls, pair: Pair, losses: Array, cut: float, off: tuple[Array, Array, Array]) -> Cells:
        half = np.empty(2 * len(losses) - 1)
        half[0::2], half[1::2] = losses, 0.5 * (losses[:-1] + losses[1:])
        cut = cut if losses[0] < cut < losses[-1] else math.nan
        away = np.zeros(len(half) - 1, bool)
        if not math.isnan(cut):
            half[2 * int(np.searchsorted(losses, cut)) - 1] = cut
            away = half[:-1] >= cut if isinstance(pair, Swapped) else half[1:] <= cut
        p, q = pair.cells(half)
        if len(off[0]):
            k = np.searchsorted(half, off[0], "left") - 1
            inside = (k >= 0) & (k < len(p))
            p = p + np.bincount(k[inside], off[1][inside], len(p))
            q = q + np.bincount(k[inside], off[2][inside], len(q))
        return cls(losses, p, q, away, cut)

    def above(self, low: float) -> Cells:
        """Without, on the lower side, what lies below `low`: a lone atom far down would
        make a cell too wide for a tangent."""
        if self.losses[0] >= low:
            return self
        ends = np.repeat(self.losses[1:], 2)
        return replace(self, away=self.away | (ends <= low))

    @property
    def x(self) -> Array:
        return np.exp(self.losses)

    def upper(self) -> Array:
        """T1: of a cell's P mass, (p − x·q)/(1 − e^−w) goes to the upper end, the rest to the lower."""
        p, q = self.p[0::2] + self.p[1::2], self.q[0::2] + self.q[1::2]
        # e^low·q ≤ p ≤ e^high·q in a cell, so the share lies in [0, p] already: the clip is for rounding
        # alone.
        rise = np.clip((p - self.x[:-1] * q) / -np.expm1(-np.diff(self.losses)), 0, p)
        return _spread(p, rise)

    def lower(self) -> Array:
        """T2: at node i the curve is lowered by a gap gᵢ, at least what the tangents of both adjacent cells
        need there; the masses are those of T1 minus the second divided difference of g."""
        halves = _Halves.of(np.where(self.away, 0, self.p), np.where(self.away, 0, self.q), self.x)
        p, q, end = halves.pa + halves.pb, halves.qa + halves.qb, halves.end
        width = np.diff(self.losses)
        slope, rise = np.diff(halves.gaps()), (p - self.x[:-1] * q) / -np.expm1(-width)
        # The last cell is floored outright: as a difference its upper node would be 0 only up to rounding.
        last_mass = self.x[end] * q[end] * (1 - 8 * U)
        p[end:] = rise[end:] = slope[end:] = 0
        low = _spread(p, rise)
        low[:-1] -= slope / np.expm1(width)
        low[1:] -= slope / np.expm1(-width)
        low[end] += last_mass
        return low


def _spread(p: Array, rise: Array) -> Array:
    """Masses at the nodes when `rise` of each cell's mass goes up and the rest down."""
    masses = np.append(p - rise, 0)
    masses[1:] += rise
    return masses


@dataclass(frozen=True)
class _Halves:
    """The masses of both halves of each cell, and how T2 treats it: tangent in the middle, or at an end."""

    pa: Array
    pb: Array
    qa: Array
    qb: Array
    x: Array
    grow: Bools
    fall: Bools
    end: int

    @classmethod
    def of(cls, p: Array, q: Array, x: Array) -> _Halves:
        pa, pb, qa, qb = p[0::2].copy(), p[1::2].copy(), q[0::2].copy(), q[1::2].copy()
        grow, fall = pb > LEAN * pa, pa > LEAN * pb
        places = np.flatnonzero(pa + pb)
        end = 0
        if len(places):
            end = int(places[-1])
        # Nothing above the last mass: the curve is 0 there, so that cell is floored. If the tangent of the
        # cell before it falls below 0 at their common node, the two are floored together.
        while end > 0:
            gap = 0.0 if fall[end - 1] else x[end] * qb[end - 1] - pb[end - 1]
            gap += x[end] * qa[end - 1] - pa[end - 1] if grow[end - 1] else 0.0
            if gap <= pa[end] + pb[end] - x[end] * (qa[end] + qb[end]):
                break
            pb[end - 1] += pa[end] + pb[end]
            qb[end - 1] += qa[end] + qb[end]
            pa[end] = pb[end] = qa[end] = qb[end] = 0.0
            end -= 1
        fall[end:], grow[end:] = True, False
        return cls(pa, pb, qa, qb, x, grow, fall, end)

    def gaps(self) -> Array:
        """The gap that the tangents of its two cells need at each node, and a little for rounding."""
        below, above = self.x[:-1], self.x[1:]
        under = np.where(self.grow, 0, self.pa - below * self.qa + self.fall * (self.pb - below * self.qb))
        over = np.where(self.fall, 0, above * self.qb - self.pb + self.grow * (above * self.qa - self.pa))
        rounding = 8 * U * (self.pa + self.pb)
        rounding[self.end :] = 0
        gaps = np.zeros(len(self.x))
        gaps[:-1] = np.maximum(under, 0) + rounding * ~self.grow
        gaps[1:] = np.maximum(gaps[1:], np.maximum(over, 0) + rounding * ~self.fall)
        return gaps


def _convex(low: Array, x: Array) -> Array | None:
    """Negative masses: first the greatest convex minorant; what is left (ends, rounding)
    is pushed to the next node above, which lowers the curve everywhere. A remainder at
    the very top is rounding, a few ulp of the largest, else None."""
    low = _pool(low, x)
    top = low.max()
    for j in np.flatnonzero(low < 0):  # few and local: a cumulative sum would wipe out the far tail
        debt, low[j] = low[j], 0.0
        while debt < 0 and (j := j + 1) < len(low):
            debt, low[j] = min(low[j] + debt, 0.0), max(low[j] + debt, 0.0)
        if debt < -4 * U * top:
            return None
    return low


def _pool(low: Array, x: Array) -> Array:
    """Greatest convex minorant where the gaps broke convexity: pool-adjacent-violators
    on the slopes finds the chords; the masses inside a chord move to its two ends
    (local, so that masses elsewhere keep their last digit)."""
    slopes = -np.cumsum((low / x)[::-1])[::-1][1:]  # from the top: exact where Q is tiny
    ends = optimize.isotonic_regression(slopes, weights=np.diff(x)).blocks
    a, b = ends[:-1], ends[1:]
    wide = b - a > 1
    a, b = a[wide], b[wide]
    if not len(a):
        return low
    size = b - a - 1
    inner = np.repeat(a + 1 - np.append(0, np.cumsum(size)[:-1]), size) + np.arange(size.sum())
    left, right = np.repeat(a, size), np.repeat(b, size)
    mass = low[inner] / x[inner] / (x[right] - x[left])
    low[inner] = 0
    low += np.bincount(left, mass * x[left] * (x[right] - x[inner]), len(low))
    low += np.bincount(right, mass * x[right] * (x[inner] - x[left]), len(low))
    return low
