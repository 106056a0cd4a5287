"""Means and deviations of bounded columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.learn.bounded import readable
from deniable.learn.recipes import exact
from deniable.loss import DiscreteLaplaceNoise, GaussianNoise, Number
from deniable.loss import exact as fraction
from deniable.mechanism import Random
from deniable.mechanisms import checks
from deniable.units import Unit

NORM = 1 << 20
"""Grid units in half the width of a column's bounds."""
LEAST = 1e-3
"""The least deviation that is divided by, as a share of half the width of the bounds."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Standardizer:
    """Columns clamped to their bounds, less their mean, over their deviation. A private release."""

    lower: Floats
    upper: Floats
    mean: Floats
    deviation: Floats

    def transform(self, rows: Any) -> Floats:
        """What is no number becomes its column's mean, that is 0."""
        x = readable(rows, len(self.mean)).astype(np.float64)
        clamped = np.clip(np.where(np.isnan(x), self.mean, x), self.lower, self.upper)
        return np.asarray((clamped - self.mean) / self.deviation)


@dataclass(frozen=True)
class PrivateStandardizer:
    """Mean and deviation of each column, from noisy sums over rows clamped to public bounds.

    With u = x clamped and scaled to [−1, 1], a row contributes (u, u² − ½) for each column: u² + (u² − ½)² = u⁴ + ¼ ≤ 5/4, and
    |u| + |u² − ½| ≤ 3/2.

    Guarantee: `GaussianNoise(noise_multiplier)` for one row added or removed, or ε-DP with `epsilon` in its place.
    Assumes:   `lower` and `upper` (one pair for each column) and the number of rows `n` are public. A NaN, or what is no
               number, counts as the middle of its bounds. Sums are exact and noise is integer noise (`recipes.exact`).
    Error:     not known before data is seen.
    Reference: Gaussian mechanism on bounded sums; shifting u² by ½ shortens a row's contribution from √2 to √(5/4) per column.

    >>> PrivateStandardizer((0, 0), (100, 1), n=1000, noise_multiplier=2).loss
    GaussianNoise(multiplier=2)
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    n: int
    noise_multiplier: float | None = None
    epsilon: Number | None = None

    def __post_init__(self) -> None:
        for side in ("lower", "upper"):
            each = tuple(float(checks.number(side, value)) for value in checks.listed(side, getattr(self, side)))
            object.__setattr__(self, side, each)
        if len(self.lower) != len(self.upper) or any(a >= b for a, b in zip(self.lower, self.upper, strict=True)):
            raise InvalidParameter("Expected lower and upper bounds for each column, with lower < upper.")
        checks.whole("n", self.n, at_least=2)
        exact.one_noise(self.noise_multiplier, self.epsilon)

    @classmethod
    def for_budget(
        cls, epsilon: float, delta: float, *, lower: tuple[float, ...], upper: tuple[float, ...], n: int
    ) -> PrivateStandardizer:
        """The least noise for (ε, δ): Gaussian, or Laplace where δ = 0."""
        if delta == 0:
            return cls(lower, upper, n, epsilon=epsilon)
        return cls(lower, upper, n, exact.multiplier_for(epsilon, delta))

    @property
    def loss(self) -> GaussianNoise | DiscreteLaplaceNoise:
        if self.noise_multiplier is not None:
            return GaussianNoise(self.noise_multiplier)
        return exact.laplace_loss(self._l1, self.epsilon or 1)

    @property
    def unit(self) -> Unit:
        return Unit.row()

    def error(self, confidence: float = 0.95) -> None:
        return None

    def __call__(self, data: Any, *, rng: Random) -> Standardizer:
        sums = self.sums(data)
        if self.noise_multiplier is not None:
            noisy = exact.noisy(sums, self.noise_multiplier, self._l2, rng)
        else:
            noisy = exact.laplace(sums, Fraction(self._l1) / fraction(self.epsilon or 1), rng)
        first, second = (noisy.numpy() / (self.n * NORM)).clip(-1, 1)
        return self._standardizer(first, second + 0.5)

    def sums(self, data: Any) -> torch.Tensor:
        """[2, columns] sums of (u, u² − ½) in grid units: integers, exact below 2^33 rows."""
        lower, upper = np.array(self.lower), np.array(self.upper)
        x = readable(data, len(lower)).astype(np.float64)
        x = np.clip(np.where(np.isnan(x), (lower + upper) / 2, x), lower, upper)
        u = np.clip((x - (lower + upper) / 2) / ((upper - lower) / 2), -1, 1)
        both = np.stack([np.rint(u * NORM), np.rint((u * u - 0.5) * NORM)])
        return torch.from_numpy(both.sum(1))

    def _standardizer(self, first: Floats, second: Floats) -> Standardizer:
        lower, upper = np.array(self.lower), np.array(self.upper)
        half = (upper - lower) / 2
        deviation = np.sqrt(np.maximum(second - first**2, LEAST**2))
        return Standardizer(lower, upper, (lower + upper) / 2 + half * first, half * deviation)

    @property
    def _l2(self) -> float:
        return NORM * math.sqrt(1.25 * len(self.lower)) * (1 + 2.0**-50)

    @property
    def _l1(self) -> int:
        return 3 * NORM // 2 * len(self.lower)
