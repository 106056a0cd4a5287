"""Quantiles, least and largest values: a point of a public grid by the exponential mechanism on exact integer ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from deniable.loss import BoundedRange, Number
from deniable.mechanism import Random
from deniable.mechanisms import checks
from deniable.mechanisms.choice import Exponentials, draw

CELL_BITS = 11
"""A grid of at most 2^10 steps."""
CELLS = (1 << (CELL_BITS - 1)) + 1
_FINEST = 1 << 20


@dataclass(frozen=True)
class Rank:
    """Choose a cell near the `level` quantile of weighted rows; level 0 and 1 are the least and largest.

    With level a/b, cell x has the miss |(b − a)·(weight below x) − a·(weight above x)| and is drawn with probability ∝
    exp(−ε·miss/2Δ). For the least value the miss is how far t lies from [weight below x, weight up to x], where t is a
    public number of rows, enough that the empty cells below it do not win; the largest value is its mirror image.

    Guarantee: a choice of range ε for all groups together. The weight of a unit moves misses by at most Δ =
               max(a, b − a)·total in the sum over groups, and log-likelihood ratios of independent choices add.
    Assumes:   the rows of one unit weigh at most `total` in all groups together.
    Error:     the rank is off by at most 2Δ/(ε·b)·ln((cells − 1)(1 − β)/β), in weight.
    Reference: McSherry, Talwar 2007; Smith 2011; range: Durfee, Rogers 2019.
    """

    level: Fraction
    epsilon: Fraction
    total: int
    cells: int
    replace: bool = False

    @property
    def loss(self) -> BoundedRange:
        return BoundedRange(checks.plain(self.epsilon))

    @property
    def _ratio(self) -> tuple[int, int]:
        """a and b, of which b is at most 2^20."""
        return self.level.limit_denominator(_FINEST).as_integer_ratio()

    @property
    def rate(self) -> Fraction:
        """The exponent of one unit of miss: ε/2Δ."""
        a, b = self._ratio
        return self.epsilon / (2 * max(a, b - a) * self.total * (2 if self.replace else 1))

    def rank_error(self, beta: float) -> float:
        """In units of weight."""
        odds = (self.cells - 1) * (1 - beta) / beta
        return math.log(max(odds, 1.0)) * (1 + 1e-12) / float(self.rate * self._ratio[1]) + float(self._target)

    @property
    def _target(self) -> int:
        """t: the rank that is taken for the extreme one, where all empty cells together are e^−6 as likely as it."""
        if self.level not in (0, 1):
            return 0
        return math.ceil((math.log(self.cells) + 6) / float(self.rate))

    def __call__(self, weights: Mapping[int, int], *, rng: Random) -> int:
        misses = self.misses(weights)
        least = min(misses)
        return draw(Exponentials(self.rate, _whole([miss - least for miss in misses])), rng)

    def misses(self, cells: Mapping[int, int]) -> list[int]:
        """How far each cell is from the wanted rank, given the weights in the cells."""
        weights = [cells.get(i, 0) for i in range(self.cells)]
        if self.level == 1:
            return self._from_least(weights[::-1])[::-1]
        if self.level == 0:
            return self._from_least(weights)
        a, b = self._ratio
        whole, below, misses = sum(weights), 0, []
        for weight in weights:
            misses.append(abs((b - a) * below - a * (whole - below - weight)))
            below += weight
        return misses

    def _from_least(self, weights: list[int]) -> list[int]:
        target, below, misses = self._target, 0, []
        for weight in weights:
            misses.append(max(below - target, target - below - weight, 0))
            below += weight
        return misses


def _whole(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """64 bits where they suffice, else Python's own integers in an array."""
    return np.array(values, np.int64 if max(values) < 2**62 else object)


def choose_level(histogram: list[int], level: Fraction, epsilon: Number, *, replace: bool, rng: Random) -> int:
    """The cell at `level` of a histogram in which each unit counts once."""
    rank = Rank(level, Fraction(epsilon), 1, len(histogram), replace)
    return rank(dict(enumerate(histogram)), rng=rng)
