"""Quantiles, least and largest values: a point of a public grid by the exponential mechanism on exact integer
ranks, and two cells that bracket the true one, from noisy weights around the point."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from deniable.loss import BoundedRange, Loss
from deniable.mechanism import Random
from deniable.mechanisms.choice import Exponentials, draw
from deniable.numbers import plain
from deniable.sql.plan.noise import Family, IntegerSensitivity, Noise, gaussian, laplace
from deniable.sql.plan.noise_sums import one_sided

CELL_BITS = 13
"""A grid of at most 2^12 steps."""
CELLS = (1 << (CELL_BITS - 1)) + 1
POINT = Fraction(3, 4)
"""The part of a quantile's ε (or ρ) that its point takes; what brackets it takes the rest."""
_FINEST = 1 << 20
_SELDOM = math.exp(-6)
"""A least or largest value passes the true one with at most this probability, whatever the confidence asked
for."""


@dataclass(frozen=True)
class Rank:
    """Choose a cell near the `level` quantile of weighted rows, or `shift` beyond it.

    With level a/b, let F(x) = b·(weight up to x) − a·(all weight), which passes 0 at the quantile. Cell x has
    as miss the distance of `shift` from [F(x − 1), F(x)], the first and last cell reaching to ∓∞, and is
    drawn with probability ∝ exp(−ε·miss/2Δ).

    Guarantee: a choice of range ε for all groups together. The weight of a unit moves misses by at most Δ =
               max(a, b − a)·total in the sum over groups, and log-likelihood ratios of independent choices
               add.
    Assumes:   the rows of one unit weigh at most `total` in all groups together.
    Error:     the rank is off by at most (|shift| + 2Δ/ε·ln((cells − 1)(1 − β)/β))/b, in weight.
    Reference: McSherry, Talwar 2007; Smith 2011; range: Durfee, Rogers 2019.
    """

    level: Fraction
    epsilon: Fraction
    total: int
    cells: int
    replace: bool = False
    shift: int = 0

    @property
    def loss(self) -> BoundedRange:
        return BoundedRange(plain(self.epsilon))

    @property
    def rate(self) -> Fraction:
        """The exponent of one unit of miss: ε/2Δ."""
        a, b = _ratio(self.level)
        return self.epsilon / (2 * max(a, b - a) * self.total * (2 if self.replace else 1))

    def miss(self, beta: float) -> float:
        """The miss of the chosen cell is at most this with probability 1 − β: a cell of miss 0 there always
        is."""
        odds = (self.cells - 1) * (1 - beta) / beta
        return math.log(max(odds, 1.0)) * (1 + 1e-12) / float(self.rate)

    def rank_error(self, beta: float) -> float:
        """In units of weight."""
        return (self.miss(beta) + abs(self.shift)) / _ratio(self.level)[1]

    def below(self, beta: float) -> Rank:
        """The same, shifted so that the cell is at most the quantile's with probability 1 − β."""
        return replace(self, shift=-math.floor(self.miss(beta)) - 1)

    def above(self, beta: float) -> Rank:
        return replace(self, shift=math.floor(self.miss(beta)) + 1)

    def __call__(self, weights: Mapping[int, int], *, rng: Random) -> int:
        """Cells without rows between two that have some miss alike: a run of them is drawn, then one of its
        cells."""
        starts, lengths, misses = zip(*self.runs(weights), strict=True)
        run = draw(Exponentials(self.rate, _whole(misses), np.array(lengths, np.int64)), rng)
        return int(starts[run] + (rng.uniform_integers(lengths[run]) if lengths[run] > 1 else 0))

    def misses(self, cells: Mapping[int, int]) -> list[int]:
        """How far each cell is from the wanted rank, given the weights in the cells."""
        return [miss for _, length, miss in self.runs(cells) for _ in range(length)]

    def runs(self, weights: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
        """Cells of one miss each: where they start, how many, and how far they are from the wanted rank."""
        a, b = _ratio(self.level)
        last = self.cells - 1
        inside = (cell for cell in weights if 0 < cell < last)
        position, start = -a * sum(weights.values()), 0
        for cell in sorted({0, last, *inside}):
            if cell > start:
                yield start, cell - start, abs(position - self.shift)
            before, position, start = position, position + b * weights.get(cell, 0), cell + 1
            # The outermost cells hold all that is clamped to them, so beyond the grid they miss nothing.
            over = before - self.shift if cell else 0
            under = self.shift - position if cell < last else 0
            yield cell, 1, max(over, under, 0)


def _whole(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """64 bits where they suffice, else Python's own integers in an array."""
    return np.array(values, np.int64 if max(values) < 2**62 else object)


@dataclass(frozen=True)
class Bracket:
    """Two cells around a chosen one that hold the quantile, but with probability `beta`: by the noisy weights
    of the rows between steps that double away from the chosen cell.

    With level a/b, F(x) = b·(weight up to x) − a·(all weight) is a sum over these weights. From the farthest
    step inwards, a cell is taken for a bound as long as the noisy F is on its side by more than noise reaches
    in β/2.

    Guarantee: that of `noise`: a row lies between two steps, so it is a histogram with the sensitivity of a
               count.
    Assumes:   the rows of one unit weigh at most its sensitivity in all groups together; `at` is public.
    Error:     F at the last bounds but one is within twice the reach of the noise, each in 1 − beta/2.
    Reference: docs/theory/curator.md, Theorem 6.
    """

    level: Fraction
    cells: int
    noise: Noise
    beta: float

    @property
    def loss(self) -> Loss:
        return self.noise.loss

    def __call__(self, weights: Mapping[int, int], at: int, *, rng: Random) -> tuple[int, int]:
        lows, highs = self.steps(at)
        cuts = [*(low - 1 for low in reversed(lows)), *highs]
        sums = [0] * (len(cuts) + 1)
        for cell, weight in weights.items():
            sums[bisect_left(cuts, cell)] += weight
        noisy = [a + b for a, b in zip(sums, self.noise.draw(len(sums), rng), strict=True)]
        return self._ends(dict(zip(cuts, self._margins(noisy), strict=True)), at)

    def steps(self, at: int) -> tuple[list[int], list[int]]:
        """The bounds below and above that are tried, the nearest first; those of the grid need no trial."""
        offsets = [(1 << k) - 1 for k in range(self.cells.bit_length() + 1)]
        below, above = [at - offset for offset in offsets], [at + offset for offset in offsets]
        return [x for x in below if x > 0], [x for x in above if x < self.cells - 1]

    def _margins(self, noisy: Sequence[int]) -> list[tuple[int, float]]:
        """At each cut the noisy F, and how far noise reaches there in β/2."""
        a, b = _ratio(self.level)
        position, margins = -a * sum(noisy), []
        for i, weight in enumerate(noisy[:-1], 1):
            position += b * weight
            margins.append((position, self._reach(i, len(noisy) - i)))
        return margins

    def _reach(self, upto: int, beyond: int) -> float:
        """Of the noise in F, one-sided: b − a of each weight up to a cell counts, and −a of each beyond."""
        a, b = _ratio(self.level)
        scale, beta = float(Fraction(self.noise.scale)), self.beta / 2
        if self.noise.family is Family.LAPLACE:
            return one_sided(((b - a, upto), (a, beyond)), scale, beta)
        z = -NormalDist().inv_cdf(beta)
        # Integer noise lies within 1 of continuous noise for σ ≥ 1 (Theorem 7); a smaller σ is not wider
        # than 1.
        sizes = (b - a) * upto + a * beyond
        return z * math.hypot(*[b - a] * upto, *[a] * beyond) * max(scale, 1.0) * (1 + 1e-9) + sizes

    def _ends(self, margins: Mapping[int, tuple[int, float]], at: int) -> tuple[int, int]:
        lows, highs = self.steps(at)
        low, high = 0, self.cells - 1
        # Bounds are right until the first wrong one, which the data decide: only that one must be noticed, so
        # one
        # tail of β/2 serves all steps (Theorem 6).
        for end in reversed(lows):
            position, reach = margins[end - 1]
            if position >= -reach:
                break
            low = end
        for end in reversed(highs):
            position, reach = margins[end]
            if position <= reach:
                break
            high = end
        return low, high


def extreme(rank: Rank, beta: float) -> Rank:
    """The least (level 0) or largest value (level 1): a cell that the true one passes with probability at
    most `beta`."""
    at = min(beta, _SELDOM)
    if rank.level == 0:
        return rank.above(at)
    return rank.below(at)


def divided(
    rank: Rank, beta: float, sensitivity: IntegerSensitivity, family: Family
) -> tuple[Rank, Bracket | None]:
    """A quantile's point and what brackets it, for what `rank` costs: in ε, or beside Gaussian noise in ε²/8.
    A least or largest value needs no bracket: it is itself a bound, and the other one is that of the
    values."""
    if rank.level in (0, 1):
        return extreme(rank, beta), None
    if family is Family.LAPLACE:
        point, noise = rank.epsilon * POINT, laplace(sensitivity, rank.epsilon * (1 - POINT))
    else:
        # A choice of range ε costs ε²/8 in ρ, so a part p of ρ is √p of ε.
        point, noise = rank.epsilon * _root(POINT), gaussian(sensitivity, rank.epsilon**2 / 8 * (1 - POINT))
    return replace(rank, epsilon=point), Bracket(rank.level, rank.cells, noise, beta)


def _ratio(level: Fraction) -> tuple[int, int]:
    """a and b, of which b is at most 2^20."""
    return level.limit_denominator(_FINEST).as_integer_ratio()


def _root(x: Fraction) -> Fraction:
    """√x, rounded down."""
    return Fraction(math.isqrt(math.floor(x * 10**24)), 10**12)
