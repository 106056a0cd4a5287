"""Choices that decide how tight and how fast a pass is, never whether it is right: tilt,
nodes, lattice step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import optimize

from deniable.accounting.numerical.lattice.compose import LogMoments
from deniable.accounting.numerical.lattice.discretise import Bools, Thin, sparse
from deniable.accounting.numerical.pairs.continuous import Pair
from deniable.accounting.numerical.rounding import Array, Indices

SHORTEST = 1 / 64
"""A common lattice finer than this part of the step that precision asks for is not worth its nodes."""


@dataclass(frozen=True)
class Sketch:
    """About a thousand atoms that imitate a pair's loss under P."""

    losses: Array
    mass: Array
    times: int

    @property
    def triple(self) -> tuple[Array, Array, int]:
        return self.mass, self.losses, self.times

    def below(self, cut: float) -> Sketch:
        keep = self.losses <= cut
        return Sketch(self.losses[keep], self.mass[keep], self.times)

    def above(self, cut: float) -> Sketch:
        keep = self.losses > cut
        return Sketch(self.losses[keep], self.mass[keep], 1)

    def fewer(self) -> Sketch:
        return Sketch(self.losses, self.mass, self.times - 1)


def sketch(pair: Pair, times: int, tail: float) -> Sketch:
    """Masses on the pair's own grid, at the mean loss of each cell, and its atoms."""
    losses, mass = np.empty(0), np.empty(0)
    grid = pair.grid(tail)
    if len(grid):
        p, q = pair.cells(grid)
        # Cells too light for a ratio are left out: a sketch steers, and proves nothing.
        ok = (p > 1e-300) & (q > 1e-300)
        losses, mass = np.log(p[ok] / q[ok]), p[ok]
    at, p, _ = pair.atoms
    ok = np.isfinite(at) & (p > 0)
    losses, mass = np.append(losses, at[ok]), np.append(mass, p[ok])
    order = np.argsort(losses, kind="stable")
    return _fewer(losses[order], mass[order], times)


def _fewer(losses: Array, mass: Array, times: int) -> Sketch:
    """At most some two thousand atoms, blocks of more being merged at their mean."""
    block = len(losses) // 1000
    if block < 2:
        return Sketch(losses, mass, times)
    cut = np.arange(0, len(losses), block)
    masses = np.maximum(np.add.reduceat(mass, cut), 1e-300)
    return Sketch(np.add.reduceat(mass * losses, cut) / masses, masses, times)


def tilt(
    sketches: Sequence[Sketch], *, delta: float = 0.0, epsilon: float | None = None
) -> tuple[float, float]:
    """θ of the least Chernoff bound, and that bound: of ε at this δ, or of log δ at this
    ε (the saddle point)."""
    moment = LogMoments([s.triple for s in sketches])

    def bound(v: float) -> float:
        t = math.exp(v)
        # (1 − e^−x)₊ ≤ c·e^(tx) with c = t^t/(1 + t)^(1+t), where both touch: better than Chernoff's c = 1.
        k = moment(t) - t * math.log1p(1 / t) - math.log1p(t)
        if epsilon is None:
            return (k - math.log(delta)) / t
        return k - t * epsilon

    # θ to 3 %: the bound is flat around its minimum, so a finer θ would not steer better.
    minimum = optimize.minimize_scalar(bound, bounds=(-7, 18), method="bounded", options={"xatol": 0.03})
    return math.exp(float(minimum.x)), float(minimum.fun)


def spread(sketches: Sequence[Sketch]) -> float:
    """Standard deviation of the composed loss, roughly."""
    total = 0.0
    for s in sketches:
        mean = float(s.mass @ s.losses)
        total += s.times * float(s.mass @ (s.losses - mean) ** 2)
    return math.sqrt(total)


def tilted(one: Sketch, theta: float, keep: Bools | None = None) -> Array:
    """The sketch's masses after tilting, summing to 1; `keep` restricts it first."""
    z = np.where(keep, theta * one.losses, -np.inf) if keep is not None else theta * one.losses
    if keep is not None and not keep.any():
        return np.zeros(len(z))
    e = one.mass * np.exp(z - z.max())
    return np.asarray(e / e.sum())


def thinner(one: Sketch, density: Array, offset: float, dt: float, *, valley: bool, block: int = 64) -> Thin:
    """Wider cells where `density` has little mass: a width of about mass^(−1/3)
    minimises the error per node."""
    cdf = np.cumsum(density)

    def thin(first: int, last: int) -> Indices:
        count = (last - first) // block + 1
        if count < 12:
            return np.arange(first, last + 1)
        edges = first + block * np.arange(count + 1)
        mass = np.diff(np.interp(offset + dt * edges, one.losses, cdf, left=0, right=cdf[-1]))
        if valley:  # between two modes of one composition may lie ε
            mass = np.minimum(np.maximum.accumulate(mass), np.maximum.accumulate(mass[::-1])[::-1])
        mass = np.maximum(np.maximum(mass, np.append(mass[1:], 0)), np.append(0, mass[:-1]))
        level = np.clip(np.floor(np.log2(0.05 / count / np.maximum(mass, 1e-30)) / 3), 0, 6).astype(np.int64)
        level[0] = 0
        # Widths are powers of two that divide a block, so the nodes of all widths lie on one lattice.
        steps = np.repeat(2**level, block // 2**level)
        index = first + np.append(0, np.cumsum(steps))
        return np.append(index[index < last], last)

    return thin


def light(one: Sketch, density: Array, share: float) -> float:
    """A loss below which `density` has at most `share` of its mass: too low to matter."""
    cdf = np.cumsum(density)
    return float(one.losses[min(int(np.searchsorted(cdf, share * cdf[-1])), len(cdf) - 1)])


def lattice_step(pairs: Sequence[Pair], wanted: float, again: bool) -> float:
    """A dt near `wanted` on which the atoms of all pairs lie, as far as their steps are commensurable.

    Finite pairs on a common lattice need no finer one than it; if that was not enough (`again`), it is cut up
    all the same. Steps far below `wanted` count for nothing beside longer ones: within one cell their atoms
    lie near the node at their offset.
    """
    steps = [pair.lattice[1] for pair in pairs if pair.lattice is not None and pair.lattice[1] is not None]
    dense = not any(pair.smooth or sparse(pair) for pair in pairs)
    if not dense:
        steps = [step for step in steps if step >= SHORTEST * wanted]
    if not steps:
        return wanted
    parts = common_parts([s / steps[0] for s in steps])
    unit = steps[0] / max(parts, 1)
    if unit > wanted and (again or not parts or not all(pair.lattice and not pair.smooth for pair in pairs)):
        # A ratio that is whole but for rounding is not cut once more.
        return unit / math.ceil(unit / wanted - 1e-9)
    if not dense and unit < SHORTEST * wanted:
        return wanted
    if dense:
        return unit * max(1, math.floor(wanted / unit))
    return unit


def common_parts(ratios: Sequence[float]) -> int:
    """Into how many parts the first step must be cut so that all others are whole
    multiples; 0 if that is too many.

    >>> common_parts([1.0, 2.5, 0.75])
    4
    >>> common_parts([1.0, 2**0.5])
    0
    """
    parts = 1
    for ratio in ratios:
        # Steps that belong together are ratios of small numbers; 1e-13 allows for some hundred roundings.
        near = Fraction(ratio).limit_denominator(1000)
        if not near or abs(float(near) / ratio - 1) > 1e-13:
            return 0
        parts = math.lcm(parts, near.denominator)
    if parts <= 10_000:
        return parts
    return 0
