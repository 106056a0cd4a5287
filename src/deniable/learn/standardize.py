"""Means and deviations of bounded columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.learn.bounded import readable
from deniable.learn.recipes import exact
from deniable.loss import Number
from deniable.loss import exact as fraction
from deniable.mechanism import Random

NORM = 1 << 20
"""Grid units in half the width of a column's bounds."""
LEAST = 1e-3
"""The least deviation that is divided by, as a share of half the width of the bounds."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Standardizer:
    """Columns clamped to their bounds, less their mean, over their deviation. A private
    release, and so is `count`, of rows."""

    lower: Floats
    upper: Floats
    mean: Floats
    deviation: Floats
    count: float

    def transform(self, rows: Any) -> Floats:
        """What is no number becomes its column's mean, that is 0."""
        x = readable(rows, len(self.mean)).astype(np.float64)
        values = np.clip(np.where(np.isnan(x), self.mean, x), self.lower, self.upper)
        return np.asarray((values - self.mean) / self.deviation)


@dataclass(frozen=True)
class PrivateStandardizer(exact.NoisySums):
    """Mean and deviation of each column, from noisy sums over rows clamped to public
    bounds and a noisy count of the rows.

    With u = x clamped and scaled to [−1, 1], a row contributes (u, u² − ½) for each of d columns, and c for
    itself: u² + (u² − ½)² = u⁴ + ¼ ≤ 5/4 and |u| + |u² − ½| ≤ 3/2, so its norms are at most √(5d/4 + c²) and
    3d/2 + c. Sums are divided by the noisy count, never by a stated n: a variance is the small difference of
    two large means, and an n that is 8 % off moves it by more than itself. Of a variance near a bound (u =
    ±1) the derivatives in the sums of u, of u² − ½ and in the count are 2, 1 and 3/2, over n. Its error is
    least where (5d/4 + c²)·(5 + 9/(4c²)) is, at c² = ¾·√d, and for Laplace noise (3d/2 + c)²·(5 + 9/(4c²)),
    at c³ = 27d/40; that is the c taken.

    Guarantee: `GaussianNoise(noise_multiplier)` for one row added or removed, or ε-DP
               with `epsilon` in its place.
    Assumes:   `lower` and `upper` (one pair for each column) are public, and so is `n`, about how many rows
               there are, which may be left out: it only keeps a count that is mostly noise within a tenth and
               ten times of it. A NaN, or what is no number, counts as the middle of its bounds. Sums are
               exact and noise is integer noise (`recipes.exact`).
    Error:     not known before data is seen.
    Reference: Gaussian mechanism on bounded sums; shifting u² by ½ shortens a row's
               contribution from √2 to √(5/4) per column.

    >>> PrivateStandardizer((0, 0), (100, 1), n=1000, noise_multiplier=2).loss
    GaussianNoise(multiplier=2)
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    n: int | None = None
    noise_multiplier: float | None = None
    epsilon: Number | None = None

    def __post_init__(self) -> None:
        for side in ("lower", "upper"):
            each = tuple(
                float(checks.number(side, value)) for value in checks.listed(side, getattr(self, side))
            )
            object.__setattr__(self, side, each)
        if len(self.lower) != len(self.upper) or any(
            a >= b for a, b in zip(self.lower, self.upper, strict=True)
        ):
            raise InvalidParameter("Expected lower and upper bounds for each column, with lower < upper.")
        if self.n is not None:
            checks.whole("n", self.n, at_least=2)
        exact.one_noise(self.noise_multiplier, self.epsilon)

    @classmethod
    def for_budget(
        cls,
        epsilon: float,
        delta: float,
        *,
        lower: tuple[float, ...],
        upper: tuple[float, ...],
        n: int | None = None,
    ) -> PrivateStandardizer:
        """The least noise for (ε, δ): Gaussian, or Laplace where δ = 0."""
        if delta == 0:
            return cls(lower, upper, n, epsilon=epsilon)
        return cls(lower, upper, n, exact.multiplier_for(epsilon, delta))

    def __call__(self, data: Any, *, rng: Random) -> Standardizer:
        sums = self.sums(data)
        if self.noise_multiplier is not None:
            noisy = exact.noisy(sums, self.noise_multiplier, self._l2, rng)
        else:
            noisy = exact.laplace(sums, Fraction(self._l1) / fraction(self.epsilon or 1), rng)
        return self._standardizer(noisy.numpy())

    def sums(self, data: Any) -> torch.Tensor:
        """[2·columns + 1] sums of u, of u² − ½ and of c in grid units: integers, exact
        below 2^33/columns rows."""
        lower, upper = np.array(self.lower), np.array(self.upper)
        x = readable(data, len(lower)).astype(np.float64)
        x = np.clip(np.where(np.isnan(x), (lower + upper) / 2, x), lower, upper)
        u = np.clip((x - (lower + upper) / 2) / ((upper - lower) / 2), -1, 1)
        own = np.full((len(u), 1), float(self._count_units))
        each = np.hstack([np.rint(u * NORM), np.rint((u * u - 0.5) * NORM), own])
        return torch.from_numpy(each.sum(0))

    def _standardizer(self, noisy: Floats) -> Standardizer:
        """Post-processing."""
        lower, upper = np.array(self.lower), np.array(self.upper)
        count = self._count(float(noisy[-1]) / self._count_units)
        first, second = (noisy[:-1] / (count * NORM)).clip(-1, 1).reshape(2, -1)
        half = (upper - lower) / 2
        deviation = np.sqrt(np.maximum(second + 0.5 - first**2, LEAST**2))
        return Standardizer(lower, upper, (lower + upper) / 2 + half * first, half * deviation, count)

    def _count(self, noisy: float) -> float:
        """What sums are divided by: the noisy count, if it is not mostly noise."""
        if self.n is None:
            return max(noisy, 1.0)
        return min(max(noisy, self.n / 10, 1.0), 10.0 * self.n)

    @property
    def _count_units(self) -> int:
        """c in grid units: what a row adds to the count."""
        columns = len(self.lower)
        share = (
            math.sqrt(0.75 * math.sqrt(columns))
            if self.noise_multiplier is not None
            else (0.675 * columns) ** (1 / 3)
        )
        return round(NORM * share)

    @property
    def _l2(self) -> float:
        """√(5d/4 + c²), rounded up. Rounding to the grid keeps it: within half a unit of
        a bound, u rounds to the bound and u² − ½ to at most ½; farther away u⁴ + ¼ has
        fallen by more than the rounding can add."""
        return math.sqrt(1.25 * len(self.lower) * NORM**2 + self._count_units**2) * (1 + 2.0**-50)

    @property
    def _l1(self) -> int:
        return 3 * NORM // 2 * len(self.lower) + self._count_units
