"""One integer noise: what it costs, how far it reaches, and how it is drawn, in one value.

Every mechanism that adds noise adds this one. The scale that a loss states is the scale that is drawn: both
are read from here, in grid units, so no mechanism can charge for one noise and draw another.

>>> laplace(scale=2, sensitivity=1).loss
DiscreteLaplaceNoise(scale=2, sensitivity=1)
>>> gaussian(sigma=4).within(0.05)
8
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple, cast, overload

from deniable.loss import DiscreteGaussianNoise, DiscreteLaplaceNoise, Number, exact
from deniable.mechanism import Random
from deniable.mechanisms import tails
from deniable.mechanisms.grid import Whole


class Family(StrEnum):
    """Which noise: P(x) ∝ exp(−|x|/scale), or P(x) ∝ exp(−x²/2·scale²)."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class NoiseSizes(NamedTuple):
    """How large a family's noise is, as functions of its scale: exact, or a bound, as `tails` says."""

    tail: Callable[[Fraction, int], float]
    norm_tail: Callable[[Fraction, int, int], float]
    mean: Callable[[Fraction], float]
    at_zero: Callable[[Fraction], float]


SIZES = {
    Family.LAPLACE: NoiseSizes(
        tails.laplace_tail, tails.laplace_norm_tail, tails.laplace_mean, tails.laplace_at_zero
    ),
    Family.GAUSSIAN: NoiseSizes(
        tails.gaussian_tail, tails.gaussian_norm_tail, tails.gaussian_mean, tails.gaussian_at_zero
    ),
}


@dataclass(frozen=True)
class IntegerNoise:
    """Noise on a vector of integers, drawn for each coordinate by itself; all numbers are in grid units.

    Guarantee: that of `loss`: (sensitivity/scale)-DP for Laplace noise,
               (sensitivity²/2·scale²)-zCDP for Gaussian noise.
    Assumes:   one unit moves the vector by at most `sensitivity`, in L1 for Laplace and
               in L2 for Gaussian noise.
    Error:     the exact tail of one coordinate, see `tails`.
    Reference: Ghosh, Roughgarden, Sundararajan 2009; Canonne, Kamath, Steinke 2020.

    `dimension` is how many coordinates a loss states, None if it does not say; one
    coordinate is bounded more tightly.
    """

    family: Family
    scale: Number
    sensitivity: Number = 1
    dimension: int | None = None

    @cached_property
    def loss(self) -> DiscreteLaplaceNoise | DiscreteGaussianNoise:
        if self.family is Family.LAPLACE:
            return DiscreteLaplaceNoise(self.scale, cast(int, self.sensitivity))  # the node refuses any other
        return DiscreteGaussianNoise(self.scale, self.sensitivity, self.dimension)

    # ---------------------------------------------------------------------------------------- how large it is

    def tail(self, n: int) -> float:
        """P(|noise| ≥ n) of one coordinate, never below the truth."""
        return tail(self.family, self._exact, n)

    def within(self, beta: float) -> int:
        """The least t with P(|noise| > t) ≤ beta for one coordinate."""
        return _quantile(self.family, self._exact, beta)

    def norm_within(self, beta: float, dimension: int) -> int:
        """The least t found with P(|noise₁| + … + |noise_k| > t) ≤ beta for k = `dimension` coordinates."""
        norm_tail = SIZES[self.family].norm_tail
        guess = dimension * float(self._exact)
        return tails.quantile(lambda n: norm_tail(self._exact, dimension, n), beta, guess)

    @property
    def mean(self) -> float:
        """E|noise| of one coordinate."""
        return SIZES[self.family].mean(self._exact)

    @property
    def at_zero(self) -> float:
        """P(noise = 0) of one coordinate."""
        return SIZES[self.family].at_zero(self._exact)

    @cached_property
    def _exact(self) -> Fraction:
        return exact(self.scale)

    # -------------------------------------------------------------------------------------------- drawing it

    @overload
    def draw(self, rng: Random, size: None = None) -> int: ...
    @overload
    def draw(self, rng: Random, size: int) -> Whole: ...
    def draw(self, rng: Random, size: int | None = None) -> int | Whole:
        """One draw, or an array of `size` independent ones."""
        # The scale that the loss states is the one that is drawn, exactly.
        sampler = rng.discrete_laplace if self.family is Family.LAPLACE else rng.discrete_gaussian
        if size is None:
            return sampler(self.scale)
        return sampler(self.scale, size)


def laplace(scale: Number, sensitivity: Number = 1) -> IntegerNoise:
    return IntegerNoise(Family.LAPLACE, scale, sensitivity)


def gaussian(sigma: Number, sensitivity: Number = 1, dimension: int | None = None) -> IntegerNoise:
    return IntegerNoise(Family.GAUSSIAN, sigma, sensitivity, dimension)


def tail(family: Family, scale: Fraction, n: int) -> float:
    """P(|noise| ≥ n) of one coordinate."""
    return SIZES[family].tail(scale, n)


@lru_cache(maxsize=1024)
def _quantile(family: Family, scale: Fraction, beta: float) -> int:
    """Remembered: a table asks for the same ± in every cell."""
    return tails.quantile(lambda n: tail(family, scale, n), beta, float(scale))
