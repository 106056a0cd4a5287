"""Dominating pairs with finitely many outcomes: a few losses, each with its mass under P and under Q."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deniable.accounting.numerical.pairs.continuous import Atoms, Lattice, SampledShape, Shape
from deniable.accounting.numerical.rounding import Array, Masses

MOST_ATOMS = 2000
"""Integer Laplace noise keeps its own atoms up to this sensitivity; beyond, every m-th
node (an upper bound)."""
LARGEST_SIGMA = 20_000.0
"""Integer Gaussian noise is accounted numerically up to this deviation."""
DROPPED = 1e-40
"""Mass of an integer Gaussian beyond the atoms kept; upper bounds charge it as revealed."""


@dataclass(frozen=True, eq=False)
class Finite(Shape):
    """Outcomes with losses (increasing, ±∞ allowed) and their masses; `at` is the
    lattice they lie on, if they do."""

    losses: Array
    p: Array
    q: Array
    at: Lattice | None = None
    dropped: float = 0.0

    @property
    def smooth(self) -> bool:
        return False

    @property
    def slack(self) -> float:
        return self.dropped

    @property
    def lattice(self) -> Lattice | None:
        return self.at

    @property
    def atoms(self) -> Atoms:
        return self.losses, self.p, self.q

    def cells(self, losses: Array) -> Masses:
        return np.zeros(len(losses) - 1), np.zeros(len(losses) - 1)

    def span(self, tail: float, weight: float = 1.0) -> tuple[float, float]:
        finite = self.losses[np.isfinite(self.losses)]
        if len(finite):
            return (float(finite[0]), float(finite[-1]))
        return (0.0, 0.0)

    def grid(self, tail: float) -> Array:
        return np.empty(0)


@dataclass(frozen=True, eq=False)
class Sided(Finite):
    """A finite pair whose two orders differ, with masses known to a relative `off`.

    For an upper bound (`off` > 0) P is raised and Q lowered by it, for a lower one the reverse; which of the
    two measures is P depends on the direction, so the other direction is made from the masses themselves.
    """

    off: float = 0.0
    is_one_way: bool = False

    @classmethod
    def of(
        cls,
        losses: Array,
        p: Array,
        q: Array,
        dropped: float,
        off: float,
        *,
        at: Lattice | None = None,
        is_one_way: bool = False,
    ) -> Sided:
        lattice = None
        if at is not None:
            lattice = (at[0] + 2 * off, at[1])
        return cls(losses + 2 * off, p * (1 + off), q * (1 - off), lattice, dropped, off, is_one_way)

    @property
    def one_way(self) -> bool:
        return self.is_one_way

    @property
    def short(self) -> float:
        """A pair below the truth may lack some of its mass."""
        if self.off < 0:
            return max(0.0, 1 - min(float(self.p.sum()), float(self.q.sum())))
        return 0.0

    @property
    def sided(self) -> bool:
        return True

    def turned(self) -> Sided:
        """The other direction."""
        losses, p, q = self._masses
        lattice = None
        if self.at is not None:
            lattice = (2 * self.off - self.at[0], self.at[1])
        return Sided.of(
            -losses[::-1],
            q[::-1],
            p[::-1],
            self.dropped,
            self.off,
            at=lattice,
            is_one_way=self.is_one_way,
        )

    def sampled(self, rate: float) -> Sided:
        """Behind a sample: the masses themselves are mixed, which keeps their relative error, and each
        direction is moved to the safe side afterwards. Mixing what was moved would leave the other direction
        on the wrong one."""
        sample = SampledShape(Finite(*self._masses), rate)
        return Sided.of(*sample.atoms, self.dropped, self.off, at=sample.lattice, is_one_way=self.is_one_way)

    @property
    def _masses(self) -> Atoms:
        """Losses and masses before they were moved to the safe side."""
        return self.losses - 2 * self.off, self.p / (1 + self.off), self.q / (1 - self.off)


def response(epsilon: float) -> Finite:
    """Randomized response: the worst case of ε-DP, attained (Kairouz, Oh, Viswanath 2015)."""
    return approximate(epsilon, 0.0)


def approximate(epsilon: float, delta: float) -> Finite:
    """The worst case of (ε, δ)-DP: δ of each side shows itself, the rest is randomized
    response (same reference)."""
    keep = 1 - delta
    high, low = keep / (1 + math.exp(-epsilon)), keep * math.exp(-epsilon) / (1 + math.exp(-epsilon))
    losses, p, q = np.array([-epsilon, epsilon]), np.array([low, high]), np.array([high, low])
    # At ε = 0 the two outcomes are one.
    if epsilon == 0:
        losses, p, q = np.array([0.0]), np.array([keep]), np.array([keep])
    if delta > 0:
        losses, p, q = (
            np.append(np.append(-np.inf, losses), np.inf),
            np.append([0, *p], delta),
            np.append([delta, *q], 0),
        )
    return Finite(losses, p, q, (-epsilon, 2 * epsilon if epsilon else None))


def answers(truth: float, options: int) -> Finite:
    """Randomized response among k answers: the two values in question at ±ε, the other k − 2 at loss 0."""
    lie = (1 - truth) / (options - 1)
    # By the quotient where it is near 1, by logarithms where it could overflow.
    epsilon = math.log(truth / lie) if truth < 0.5 else math.log(truth) - math.log(lie)
    if epsilon <= 0:
        return approximate(0.0, 0.0)
    if options == 2:
        return Finite(
            np.array([-epsilon, epsilon]),
            np.array([lie, truth]),
            np.array([truth, lie]),
            (-epsilon, 2 * epsilon),
        )
    rest = (options - 2) * lie
    return Finite(
        np.array([-epsilon, 0.0, epsilon]),
        np.array([lie, rest, truth]),
        np.array([truth, rest, lie]),
        (-epsilon, epsilon),
    )


def choice(epsilon: float, share: float) -> Finite:
    """A mechanism of bounded range ε that attains it: losses share·ε and (share − 1)·ε
    (Dong, Durfee, Rogers 2020)."""
    high, low = share * epsilon, (share - 1) * epsilon
    p = math.expm1(high - epsilon) / math.expm1(-epsilon)
    p_low = math.exp(-epsilon) * math.expm1(high) / -math.expm1(-epsilon)
    return Finite(
        np.array([low, high]),
        np.array([p_low, p]),
        np.array([p_low * math.exp(-low), p * math.exp(-high)]),
        (low, epsilon),
    )


def integer_laplace(scale: float, sensitivity: int) -> Finite:
    """Shift n of integer Laplace noise: losses (n − 2j)/s, j = 0..n; the end atoms hold the tails. Exact."""
    n, j = sensitivity, np.arange(sensitivity + 1)
    a = math.exp(-1 / scale)
    p = -math.expm1(-1 / scale) / (1 + a) * np.exp(-j / scale)
    p[0], p[n] = 1 / (1 + a), math.exp(-n / scale) / (1 + a)
    # j counts from the highest loss down; a Finite lists its losses upwards.
    return Finite(((2 * j - n) / scale), p[::-1].copy(), p, (-n / scale, 2 / scale))


def coarse_laplace(scale: float, sensitivity: int) -> Finite:
    """An upper bound for large sensitivities: shift m·⌈n/m⌉ seen only at every m-th node.

    The nodes' values are those of integer Laplace noise of scale s/m (the curve's chords lie above it), and a
    larger shift dominates a smaller one. m is chosen so that m·⌈n/m⌉ exceeds n by as little as possible.
    """
    counts = range(MOST_ATOMS // 2, MOST_ATOMS + 1)
    count = min(counts, key=lambda k: (-(-sensitivity // k) * k, -k))
    return integer_laplace(scale / -(-sensitivity // count), count)


def integer_gaussian(sigma: float, shift: int) -> Finite:
    """Integer Gaussian noise in one coordinate, shifted by `shift`: losses on a lattice of step shift/σ².

    Beyond the atoms kept lies less than DROPPED of either mass: `slack`, which an upper
    bound charges as revealed.
    """
    reach = math.ceil(sigma * math.sqrt(2 * math.log(4 / DROPPED))) + 1
    x = np.arange(-reach, reach + shift + 1, dtype=np.float64)
    total = float(np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2).sum())
    q = np.exp(-0.5 * (x / sigma) ** 2) / total
    p = np.exp(-0.5 * ((x - shift) / sigma) ** 2) / total
    losses = shift * (2 * x - shift) / (2 * sigma * sigma)
    step = shift / sigma**2
    return Finite(losses, p, q, (float(losses[0]), step), DROPPED)


def product(first: Finite, second: Finite) -> Finite:
    """Both outcomes seen together."""
    with np.errstate(invalid="ignore"):
        losses = np.add.outer(first.losses, second.losses).ravel()
    p, q = np.multiply.outer(first.p, second.p).ravel(), np.multiply.outer(first.q, second.q).ravel()
    # ∞ − ∞: an outcome that only P can have meets one that only Q can have, so neither has both.
    losses[np.isnan(losses)] = np.inf
    order = np.argsort(losses, kind="stable")
    order = order[(p + q)[order] > 0]
    losses, p, q, slack = losses[order], p[order], q[order], first.dropped + second.dropped
    if not (first.sided or second.sided):
        return Finite(losses, p, q, None, slack)
    # Two orders that differ still do so together; what both masses were raised by multiplies.
    offs = [pair.off if isinstance(pair, Sided) else 0.0 for pair in (first, second)]
    return Sided(losses, p, q, None, slack, offs[0] + offs[1] + offs[0] * offs[1])
