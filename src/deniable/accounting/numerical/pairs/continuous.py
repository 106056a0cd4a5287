"""Dominating pairs (P, Q) with continuous noise: the mass of P and of Q between losses, loss = log dP/dQ.

Each pair is a frozen value with

    cells(losses)       masses of P and Q strictly between successive losses (atoms not counted)
    atoms               (loss, P mass, Q mass) of single outcomes, ±∞ included
    lattice             offset and step on which all atoms lie, or None
    edge                where the losses gather when the sampling rate is tiny, or None
    span(tail, weight)  losses such that P puts ≤ tail/2/weight and Q ≤ tail/2 above the upper one, and
                        Q ≤ tail below the lower
    grid(tail)          losses at which a sketch of the law is taken (steering only, never a bound)
    tails(loss, above)  log P and log Q of {loss > l} or {loss < l}, for one step
    smooth              whether it has mass outside its atoms
    slack               mass of P or Q left out; an upper bound charges it as revealed
    short               mass that P is known to lack, in a pair that stands for a lower bound
    sided               whether (P, Q) and (Q, P) differ
    one_way             whether it stands for a lower bound in this order alone

The proofs that they dominate are in docs/theory/numerical.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from deniable.accounting.numerical.rounding import Array, Masses

Atoms: TypeAlias = tuple[Array, Array, Array]
Lattice: TypeAlias = tuple[float, float | None]
FEW_ATOMS = 64
"""Up to so many atoms are put on a lattice one by one; more are read as masses of cells."""
NO_ATOMS: Atoms = (np.empty(0), np.empty(0), np.empty(0))


class Pair(Protocol):
    """What the accountant needs to know of a dominating pair."""

    @property
    def sided(self) -> bool: ...
    @property
    def one_way(self) -> bool: ...
    @property
    def smooth(self) -> bool: ...
    @property
    def slack(self) -> float: ...
    @property
    def short(self) -> float: ...
    @property
    def edge(self) -> float | None: ...
    @property
    def lattice(self) -> Lattice | None: ...
    @property
    def atoms(self) -> Atoms: ...
    def cells(self, losses: Array) -> Masses: ...
    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]: ...
    def grid(self, tail: float) -> Array: ...
    def tails(self, loss: float, above: bool) -> tuple[float, float]: ...


class Shape(ABC):
    """Defaults: symmetric, no atoms, no lattice, nothing gathers."""

    @property
    def sided(self) -> bool:
        return False

    @property
    def one_way(self) -> bool:
        return False

    @property
    def smooth(self) -> bool:
        return True

    @property
    def slack(self) -> float:
        return 0.0

    @property
    def short(self) -> float:
        return 0.0

    @property
    def edge(self) -> float | None:
        return None

    @property
    def lattice(self) -> Lattice | None:
        return None

    @property
    def atoms(self) -> Atoms:
        return NO_ATOMS

    @abstractmethod
    def cells(self, losses: Array) -> Masses: ...

    @abstractmethod
    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]: ...

    def grid(self, tail: float) -> Array:
        low, high = self.span(tail)
        return np.linspace(low, high, 400)

    def tails(self, loss: float, above: bool) -> tuple[float, float]:
        ends = np.array([loss, np.inf] if above else [-np.inf, loss])
        p, q = (float(m[0]) for m in self.cells(ends))
        at, pm, qm = self.atoms
        inside = at > loss if above else at < loss
        p, q = p + float(pm[inside].sum()), q + float(qm[inside].sum())
        return math.log(p) if p > 0 else -math.inf, math.log(q) if q > 0 else -math.inf


def normal_cells(t: Array) -> Array:
    """Standard normal mass between successive t, relative error below 30 ulp (+ t² ulp):
    no cancellation in thin cells."""
    a, b = t[:-1], t[1:]
    with np.errstate(invalid="ignore", over="ignore"):
        width, middle = b - a, 0.5 * (a + b)
        # Where a series of five terms is as good as doubles are: there a difference of ndtr would cancel.
        thin = width * (np.abs(middle) + 3) < 0.3
    below, above = ndtr(t), ndtr(-t)
    # Differences of the smaller tails: right of 0 ndtr itself is near 1 and has no digits left.
    out: Array = np.where(a > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    if thin.any():
        out[thin] = _thin(width[thin], middle[thin])
    return out


def _thin(width: Array, middle: Array) -> Array:
    """h·φ(m)·Σ He₂ₖ(m)(h/2)²ᵏ/(2k+1)!; for h(|m|+3) < .3 the remainder is below 2e-16 of it."""
    s, g = middle * middle, width * width
    series = 1 + g / 24 * (
        (s - 1)
        + g
        / 80
        * (
            (s * s - 6 * s + 3)
            + g
            / 168
            * ((s**3 - 15 * s * s + 45 * s - 15) + g / 288 * (s**4 - 28 * s**3 + 210 * s * s - 420 * s + 105))
        )
    )
    return np.asarray(width * np.exp(-0.5 * s) * (series / math.sqrt(2 * math.pi)))


def _log_normal(t: float, above: bool) -> float:
    return float(log_ndtr(-t if above else t))


@dataclass(frozen=True)
class Gaussian(Shape):
    """P = N(1, σ²), Q = N(0, σ²): loss (x − 1/2)/σ². Rotation makes every L2 shift of
    norm ≤ 1 a post-processing of it.

    `left` is the slack of a pair that stands for noise that is not quite continuous (`smooth`).
    """

    sigma: float
    left: float = 0.0

    @property
    def slack(self) -> float:
        return self.left

    def cells(self, losses: Array) -> Masses:
        x = 0.5 + self.sigma**2 * losses
        return normal_cells((x - 1) / self.sigma), normal_cells(x / self.sigma)

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        # Q's quantiles on both sides; above, P has one of its own, for its own weight.
        z = -self.sigma * float(ndtri(min(0.5, tail / 2)))
        z1 = -self.sigma * float(ndtri(min(0.5, tail / (2 * weight))))
        return (-z - 0.5) / self.sigma**2, (max(z, 1 + z1) - 0.5) / self.sigma**2

    def grid(self, tail: float) -> Array:
        z = -self.sigma * float(ndtri(min(0.5, tail / 2)))
        return np.asarray((np.linspace(-z, 1 + z, 701) - 0.5) / self.sigma**2)

    def tails(self, loss: float, above: bool) -> tuple[float, float]:
        u, v = self.sigma * loss, 0.5 / self.sigma
        return _log_normal(u - v, above), _log_normal(u + v, above)


@dataclass(frozen=True)
class Laplace(Shape):
    """P = Lap(1, b), Q = Lap(0, b): atoms at ±1/b (x ≤ 0, x ≥ 1), density between.
    Dominates every L1 shift ≤ 1."""

    b: float

    @property
    def lattice(self) -> Lattice:
        return -1 / self.b, 2 / self.b

    @property
    def atoms(self) -> Atoms:
        small = 0.5 * math.exp(-1 / self.b)
        return np.array([-1 / self.b, 1 / self.b]), np.array([small, 0.5]), np.array([0.5, small])

    def cells(self, losses: Array) -> Masses:
        x = np.clip(0.5 + 0.5 * self.b * losses, 0, 1)
        # By expm1 of the width: thin cells of a density e^(±x/b) do not cancel.
        w = np.diff(x) / self.b
        return (
            0.5 * np.exp((x[:-1] - 1) / self.b) * np.expm1(w),
            -0.5 * np.exp(-x[:-1] / self.b) * np.expm1(-w),
        )

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        return -1 / self.b, 1 / self.b


@dataclass(frozen=True)
class Range(Shape):
    """The pointwise supremum of all curves of bounded range ε (Dong, Durfee, Rogers
    2020): density on [−ε, ε], no atoms.

    P(L > y) = (1 − e^((y−ε)/2))/(1 − e^−ε) and Q(L > y) = (e^(−(y+ε)/2) − e^−ε)/(1 − e^−ε).
    """

    epsilon: float

    def cells(self, losses: Array) -> Masses:
        y = np.clip(losses, -self.epsilon, self.epsilon)
        # By expm1 of the width, as for Laplace noise: thin cells do not cancel.
        half, total = np.diff(y) / 2, -math.expm1(-self.epsilon)
        return (
            np.exp((y[:-1] - self.epsilon) / 2) * np.expm1(half) / total,
            -np.exp(-(y[:-1] + self.epsilon) / 2) * np.expm1(-half) / total,
        )

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        return -self.epsilon, self.epsilon


@dataclass(frozen=True)
class SampledShape(Shape):
    """P' = (1 − rate)·Q + rate·P against Q: `of` seen through a sample that holds the
    record with probability `rate`.

    The loss l' = log(1 − rate + rate·e^l) grows with l, so cells map to cells; domination of `of` carries
    over since H'(x) = rate·H((x − 1 + rate)/rate). This is "remove"; `Swapped` of it is "add".
    """

    of: Pair
    rate: float

    @property
    def one_way(self) -> bool:
        return self.of.one_way

    @property
    def smooth(self) -> bool:
        return self.of.smooth

    @property
    def short(self) -> float:
        return self.of.short

    @property
    def slack(self) -> float:
        return self.of.slack

    @property
    def sided(self) -> bool:
        return True

    @property
    def edge(self) -> float | None:
        if self.lattice is None:
            return math.log1p(-self.rate)
        return None

    @cached_property
    def atoms(self) -> Atoms:
        losses, p, q = self.of.atoms
        return self.outer(losses), (1 - self.rate) * q + self.rate * p, q

    @cached_property
    def lattice(self) -> Lattice | None:
        """The two heaviest of a few atoms; the others may lie off it."""
        keep = np.isfinite(self.atoms[0])
        losses, p, q = (a[keep] for a in self.atoms)
        if not 2 <= len(losses) <= FEW_ATOMS:
            return None
        # Atoms on nodes lose nothing to rounding, so the lattice goes through those that weigh most.
        low, high = np.sort(losses[np.argsort(p + q)[-2:]])
        return float(low), float(high - low)

    def outer(self, losses: Array) -> Array:
        """The loss after sampling."""
        # Small losses by expm1, which keeps their digits; large ones by logarithms, which do not overflow.
        low = np.log1p(self.rate * np.expm1(np.minimum(losses, 1)))
        return np.where(losses < 1, low, np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + losses))

    def inner(self, losses: Array) -> Array:
        """The loss before sampling, −∞ at and below log(1 − rate)."""
        # As in `outer`, the other way round: each formula where it keeps its digits.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            high = losses - math.log(self.rate) + np.log1p(-(1 - self.rate) * np.exp(-np.maximum(losses, 1)))
            low = np.log1p(np.expm1(np.minimum(losses, 1)) / self.rate)
        return np.where(losses <= math.log1p(-self.rate), -np.inf, np.where(losses > 1, high, low))

    def cells(self, losses: Array) -> Masses:
        p, q = self.of.cells(self.inner(losses))
        return (1 - self.rate) * q + self.rate * p, q

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        # P is in P' only with the weight `rate`: its tail may be as much heavier.
        low, high = self.of.span(tail, weight * self.rate)
        if np.isneginf(self.of.atoms[0]).any():
            low = -math.inf
        ends = self.outer(np.array([low, high]))
        return float(ends[0]), float(ends[1])

    def grid(self, tail: float) -> Array:
        return self.outer(self.of.grid(tail))

    def tails(self, loss: float, above: bool) -> tuple[float, float]:
        # No outcome loses less than log(1 − rate): with that chance the record was not in the sample.
        if loss < math.log1p(-self.rate):
            if above:
                return (0.0, 0.0)
            return (-math.inf, -math.inf)
        p, q = self.of.tails(float(self.inner(np.array([loss]))[0]), above)
        return float(np.logaddexp(math.log1p(-self.rate) + q, math.log(self.rate) + p)), q


@dataclass(frozen=True)
class Symmetrised(Shape):
    """Sampling without replacement, one record replaced: the curve of `one` where e^ε ≥
    1 and its mirror image below.

    Zhu, Dong, Wang 2022, Theorem 11; the proof is repeated in docs/theory/numerical.md. `one` is
    `SampledShape` of a symmetric pair, so that the mass left at loss 0 is not negative.
    """

    one: Pair

    @property
    def smooth(self) -> bool:
        return self.one.smooth

    @property
    def slack(self) -> float:
        return self.one.slack

    @property
    def lattice(self) -> Lattice | None:
        losses, p, q = self.one.atoms
        ahead = np.isfinite(losses) & (losses > 0)
        upper = losses[ahead]
        if len(upper) > FEW_ATOMS // 2:
            return None
        # Through the heaviest of them: the outermost may be too rare to matter, and far away.
        return (0.0, float(upper[np.argmax((p + q)[ahead])]) if len(upper) else None)

    @property
    def atoms(self) -> Atoms:
        inside = self.one.atoms[0] > 0
        losses, p, q = (a[inside] for a in self.one.atoms)
        above = self.one.tails(0.0, True)
        # What neither curve nor mirror image holds lies where both orders are alike, at loss 0.
        left = np.array([max(0.0, 1 - math.exp(above[0]) - math.exp(above[1]))])
        return (
            np.concatenate([-losses[::-1], [0.0], losses]),
            np.concatenate([q[::-1], left, p]),
            np.concatenate([p[::-1], left, q]),
        )

    def cells(self, losses: Array) -> Masses:
        p, q = self.one.cells(np.maximum(losses, 0))
        mirror_p, mirror_q = self.one.cells(np.maximum(-losses[::-1], 0))
        return p + mirror_q[::-1], q + mirror_p[::-1]

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        high = self.one.span(tail, weight)[1]
        return -high, high

    def grid(self, tail: float) -> Array:
        nodes = self.one.grid(tail)
        return np.concatenate([-nodes[nodes > 0][::-1], nodes[nodes > 0]])


@dataclass(frozen=True)
class Swapped(Shape):
    """(Q, P): the other direction. Never assumed to be the smaller one (Lebeda et al., arXiv 2405.20769)."""

    of: Pair

    @property
    def one_way(self) -> bool:
        return self.of.one_way

    @property
    def smooth(self) -> bool:
        return self.of.smooth

    @property
    def short(self) -> float:
        return self.of.short

    @property
    def slack(self) -> float:
        return self.of.slack

    @property
    def edge(self) -> float | None:
        if self.of.edge is None:
            return None
        return -self.of.edge

    @property
    def lattice(self) -> Lattice | None:
        if self.of.lattice is None:
            return None
        return (-self.of.lattice[0], self.of.lattice[1])

    @property
    def atoms(self) -> Atoms:
        losses, p, q = self.of.atoms
        return -losses[::-1], q[::-1], p[::-1]

    def cells(self, losses: Array) -> Masses:
        p, q = self.of.cells(-losses[::-1])
        return q[::-1], p[::-1]

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        low, high = self.of.span(tail, weight)
        return -high, -low

    def grid(self, tail: float) -> Array:
        return np.asarray(-self.of.grid(tail)[::-1])

    def tails(self, loss: float, above: bool) -> tuple[float, float]:
        p, q = self.of.tails(-loss, not above)
        return q, p


def swap(pair: Pair) -> Pair:
    """The other direction of `pair`; one that knows its masses up to a factor only says
    itself how it is turned."""
    if hasattr(pair, "turned"):
        return pair.turned()  # type: ignore[no-any-return]
    if not pair.sided and not isinstance(pair, Swapped):
        return pair
    if isinstance(pair, Swapped):
        return pair.of
    return Swapped(pair)
