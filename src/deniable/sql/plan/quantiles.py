"""Quantiles, least and largest values: a point of a public grid by the exponential mechanism on exact integer
ranks, and two more points that bracket the true one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from deniable.loss import BoundedRange
from deniable.mechanism import Random
from deniable.mechanisms.choice import Exponentials, draw
from deniable.numbers import plain

CELL_BITS = 11
"""A grid of at most 2^10 steps."""
CELLS = (1 << (CELL_BITS - 1)) + 1
POINT = Fraction(1, 2)
"""The part of a quantile's ε (or ρ) that its point takes; its two brackets share the rest."""
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
    def _ratio(self) -> tuple[int, int]:
        """a and b, of which b is at most 2^20."""
        return self.level.limit_denominator(_FINEST).as_integer_ratio()

    @property
    def rate(self) -> Fraction:
        """The exponent of one unit of miss: ε/2Δ."""
        a, b = self._ratio
        return self.epsilon / (2 * max(a, b - a) * self.total * (2 if self.replace else 1))

    def miss(self, beta: float) -> float:
        """The miss of the chosen cell is at most this with probability 1 − β: a cell of miss 0 there always
        is."""
        odds = (self.cells - 1) * (1 - beta) / beta
        return math.log(max(odds, 1.0)) * (1 + 1e-12) / float(self.rate)

    def rank_error(self, beta: float) -> float:
        """In units of weight."""
        return (self.miss(beta) + abs(self.shift)) / self._ratio[1]

    def below(self, beta: float) -> Rank:
        """The same, shifted so that the cell is at most the quantile's with probability 1 − β."""
        return replace(self, shift=-math.floor(self.miss(beta)) - 1)

    def above(self, beta: float) -> Rank:
        return replace(self, shift=math.floor(self.miss(beta)) + 1)

    def __call__(self, weights: Mapping[int, int], *, rng: Random) -> int:
        return draw(Exponentials(self.rate, _whole(self.misses(weights))), rng)

    def misses(self, cells: Mapping[int, int]) -> list[int]:
        """How far each cell is from the wanted rank, given the weights in the cells."""
        a, b = self._ratio
        weights = [cells.get(i, 0) for i in range(self.cells)]
        position, misses = -a * sum(weights), []
        for i, weight in enumerate(weights):
            last, position = position, position + b * weight
            over = last - self.shift if i else 0
            under = self.shift - position if i < self.cells - 1 else 0
            misses.append(max(over, under, 0))
        return misses


def _whole(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """64 bits where they suffice, else Python's own integers in an array."""
    return np.array(values, np.int64 if max(values) < 2**62 else object)


@dataclass(frozen=True)
class Bracket:
    """Two cells around a quantile: `low` is at most, `high` at least the true one, but with probability
    `beta` together.

    Guarantee: two choices, composed.
    Assumes:   what `Rank` assumes.
    Error:     their ranks lie within twice `low.miss(beta)/b` of the wanted one with probability 1 − 2·beta.
    Reference: docs/theory/curator.md, Theorem 6.
    """

    low: Rank
    high: Rank
    beta: float

    @classmethod
    def around(cls, rank: Rank, beta: float) -> Bracket:
        """Two choices like `rank`, each paid as it is."""
        return cls(rank.below(beta / 2), rank.above(beta / 2), beta)

    def __call__(self, weights: Mapping[int, int], *, rng: Random) -> tuple[int, int]:
        ends = self.low(weights, rng=rng), self.high(weights, rng=rng)
        return min(ends), max(ends)


def extreme(rank: Rank, beta: float) -> Rank:
    """The least (level 0) or largest value (level 1): a cell that the true one passes with probability at
    most `beta`."""
    at = min(beta, _SELDOM)
    return rank.above(at) if rank.level == 0 else rank.below(at)


def divided(rank: Rank, beta: float, *, squared: bool) -> tuple[Rank, Bracket | None]:
    """A quantile's point and what brackets it, for what `rank` costs: in ε, or `squared` in ε²/8. A least or
    largest value needs no bracket: it is itself a bound, and the other one is that of the values."""
    if rank.level in (0, 1):
        return extreme(rank, beta), None
    point, side = (rank.epsilon * (_root(share) if squared else share) for share in (POINT, (1 - POINT) / 2))
    return replace(rank, epsilon=point), Bracket.around(replace(rank, epsilon=side), beta)


def _root(x: Fraction) -> Fraction:
    """√x, rounded down."""
    return Fraction(math.isqrt(math.floor(x * 10**24)), 10**12)
