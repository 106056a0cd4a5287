"""Quantiles over a public grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.loss import BoundedRange, Number, exact
from deniable.mechanism import Error, Random
from deniable.mechanisms import grid
from deniable.mechanisms.choice import Exponentials, draw
from deniable.numbers import plain
from deniable.units import Unit


@dataclass(frozen=True)
class Quantile:
    """A point of the public grid lower, lower + granularity, …, upper near the `level` quantile of the rows.

    With `level` = a/b, a grid point x has the score −|(b − a)·#(rows below x) − a·#(rows above x)|, in b-ths
    of a rank, and is drawn with probability ∝ exp(ε·score/(2Δ)). Points between two neighbouring rows share a
    score: they are drawn as one interval, of weight its number of points, and then one of them uniformly.

    Guarantee: ε-DP, as a choice of range ε, for `unit`. Δ = max(a, b − a) per row added or removed (the row
               is below, above, or at x), b per row replaced; times `max_rows` for a column.
    Assumes:   the data are the rows. Each is clamped to [lower, upper] and read to the
               nearest grid point; a NaN is left out.
    Error:     the rank of the answer is off from the best grid point's by at most
               2Δ/(ε·b)·ln((m − 1)(1 − β)/β), m grid points.
    Reference: Smith 2011; McSherry, Talwar 2007.

    >>> from deniable.randomness import SeededRandom
    >>> median = Quantile(level=0.5, lower=0, upper=100, epsilon=1)
    >>> 40 < median(range(100), rng=SeededRandom(1)) < 60
    True
    """

    level: Number
    lower: Number
    upper: Number
    epsilon: Number
    granularity: Number = 1
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", checks.number("level", self.level, above=0, below=1))
        object.__setattr__(self, "lower", checks.number("lower", self.lower))
        object.__setattr__(self, "upper", checks.number("upper", self.upper, above=float(self.lower)))
        object.__setattr__(self, "epsilon", checks.number("epsilon", self.epsilon, above=0))
        object.__setattr__(self, "granularity", plain(grid.granularity(self.granularity)))
        low, high, g = exact(self.lower), exact(self.upper), exact(self.granularity)
        if low % g or high % g or max(-low, high) > 2**52 * g:
            raise InvalidParameter(
                f"Expected lower={self.lower} and upper={self.upper} to be multiples of the granularity "
                f"{self.granularity}, within 2^52 of them."
            )
        if exact(self.level).denominator > 2**20:
            raise InvalidParameter(
                f"Expected level={self.level} to be a fraction of denominator up to 2^20, like 0.999."
            )
        checks.rows_of(checks.unit(self.unit))

    @property
    def loss(self) -> BoundedRange:
        return BoundedRange(self.epsilon)

    def error(self, confidence: float = 0.95) -> Error:
        beta = checks.failure(confidence)
        odds = (self._points - 1) * float((1 - beta) / beta)
        ranks = math.log(max(odds, 1.0)) * (1 + 1e-12) / float(self._rate * exact(self.level).denominator)
        return Error(ranks, float(confidence), measure="rank")

    def __call__(self, data: Any, *, rng: Random) -> int | float:
        firsts, lengths, below, above = _cells(self._positions(data), self._points)
        a, b = exact(self.level).as_integer_ratio()
        # b times how far a point's rank is from the quantile: whole numbers, so the weights are exact.
        misses = np.abs((b - a) * below - a * above)
        cell = draw(Exponentials(self._rate, misses - misses.min(), lengths), rng)
        # All points of a cell have one score: the cell by its weight, then any of its points.
        point = int(firsts[cell]) + rng.uniform_integers(int(lengths[cell]))
        value = exact(self.lower) + point * exact(self.granularity)
        if exact(self.granularity) >= 1:
            return int(value)
        return float(value)

    def _positions(self, data: Any) -> grid.Whole:
        """The rows as sorted positions on the grid, NaN left out."""
        low, g = int(exact(self.lower) / exact(self.granularity)), exact(self.granularity)
        units = grid.read_rows(data, g)
        return np.sort(np.clip(units - low, 0, self._points - 1))

    @property
    def _points(self) -> int:
        return int((exact(self.upper) - exact(self.lower)) / exact(self.granularity)) + 1

    @property
    def _rate(self) -> Fraction:
        """The exponent of one b-th of a rank: ε/(2Δ)."""
        a, b = exact(self.level).as_integer_ratio()
        # One row that is replaced moves the score by up to b, from one side of a point to the other.
        change = b
        if not self.unit.replace:
            change = max(a, b - a)
        return exact(self.epsilon) / (2 * change * checks.rows_of(self.unit))


def _cells(positions: grid.Whole, points: int) -> tuple[NDArray[np.int64], ...]:
    """The grid cut at the rows: first point, number of points, rows below and rows above
    of each cell that has points.

    Every distinct position is a cell of one point; the points between two of them are one cell.
    """
    at, counts = np.unique(positions, return_counts=True)
    through = np.cumsum(counts)
    firsts = np.concatenate([[0], np.stack([at, at + 1], 1).ravel()])
    lengths = np.diff(np.append(firsts, points))
    below = np.concatenate([[0], np.stack([through - counts, through], 1).ravel()])
    above = len(positions) - np.concatenate([[0], np.stack([through, through], 1).ravel()])
    mask = lengths > 0
    return firsts[mask], lengths[mask], below[mask], above[mask]
