"""Exact integer noise of a measured statistic: how much, what it costs, how far it reaches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from deniable.accounting import calibrate
from deniable.errors import InvalidQuery
from deniable.guarantee import Budget
from deniable.loss import Loss, Number, Zcdp, exact
from deniable.mechanism import Random
from deniable.mechanisms.grid import root_up
from deniable.mechanisms.integer_noise import Family as Family
from deniable.mechanisms.integer_noise import IntegerNoise
from deniable.numbers import plain

LARGEST_BITS = 58
"""Noise scales stay below 2^58 grid units: the samplers are exact to 2^60."""


@dataclass(frozen=True)
class IntegerSensitivity:
    """How far one unit moves a vector of integers: in L1, and the square of how far in L2 (a whole number, so
    exact)."""

    l1: int
    l2_squared: int


@dataclass(frozen=True)
class Noise:
    """Integer noise on a vector of integers, one coordinate per group.

    Guarantee: (l1/scale)-DP for Laplace noise, (l2²/2·scale²)-zCDP for Gaussian noise (Canonne, Kamath,
    Steinke 2020).
    Assumes:   one unit moves the vector by at most `sensitivity`.
    Error:     the exact tail of one coordinate, see `mechanisms.tails`.
    """

    family: Family
    scale: Number
    sensitivity: IntegerSensitivity

    @property
    def loss(self) -> Loss:
        return self._noise.loss

    @cached_property
    def _noise(self) -> IntegerNoise:
        if self.family is Family.LAPLACE:
            return IntegerNoise(self.family, self.scale, self.sensitivity.l1)
        # Rounded up: what is stated is never less than what the noise costs.
        return IntegerNoise(self.family, self.scale, root_up(Fraction(self.sensitivity.l2_squared)))

    @property
    def epsilon(self) -> Fraction:
        """The pure ε of Laplace noise."""
        return self.sensitivity.l1 / exact(self.scale)

    @property
    def rho(self) -> Fraction:
        """The ρ of Gaussian noise."""
        return self.sensitivity.l2_squared / (2 * exact(self.scale) ** 2)

    @property
    def mean(self) -> float:
        """Of the size of one coordinate's noise, about."""
        scale = float(Fraction(self.scale))
        if self.family is Family.LAPLACE:
            return scale
        return scale * math.sqrt(2 / math.pi)

    def within(self, beta: float) -> int:
        """The least t with P(|noise| > t) ≤ beta, in grid units. Every group asks for the same few."""
        if beta not in self._radii:
            # A hair less than β, since tails are computed in floats: the radius may only grow by it.
            self._radii[beta] = self._noise.within(beta * (1 - 1e-12))
        return self._radii[beta]

    @cached_property
    def _radii(self) -> dict[float, int]:
        return {}

    def draw(self, count: int, rng: Random) -> list[int]:
        if count:
            return [int(x) for x in self._noise.draw(rng, count)]
        return []


def laplace(sensitivity: IntegerSensitivity, epsilon: Fraction) -> Noise:
    """The least Laplace noise that is `epsilon`-DP; beyond 2^20 grid units a whole scale, rounded up."""
    # Rounding a scale beyond 2^20 up to a whole one costs less than a millionth, and keeps its fraction
    # short.
    scale = Fraction(sensitivity.l1) / epsilon
    return Noise(
        Family.LAPLACE, _stated(plain(scale if scale < 2**20 else Fraction(math.ceil(scale)))), sensitivity
    )


def gaussian(sensitivity: IntegerSensitivity, rho: Fraction) -> Noise:
    """The least Gaussian noise that is `rho`-zCDP, σ = √(l2²/2ρ), rounded up."""
    square = Fraction(sensitivity.l2_squared) / (2 * rho)
    scale = root_up(square) if square <= 2**40 else math.isqrt(math.ceil(square)) + 1
    return Noise(Family.GAUSSIAN, _stated(scale), sensitivity)


def _stated(scale: Number) -> Number:
    if scale > 2**LARGEST_BITS:
        raise InvalidQuery(
            "The noise that this query needs has more than 58 binary digits. Nothing was run and nothing was "
            "charged. Ask with a larger epsilon, or bound the unit to fewer rows with max_rows=."
        )
    return scale


def concentrated(epsilon: Fraction, delta: Number) -> Fraction:
    """The largest ρ such that ρ-zCDP is (ε, δ)-DP, as the ledger will charge it: δ a float step below, ε a
    step above."""
    top = math.nextafter(math.nextafter(float(epsilon), 0.0), 0.0)
    budget = Budget(top, math.nextafter(float(delta), 0.0))
    start = _classical(float(epsilon), float(delta))
    # Of ρ-zCDP alone every other method knows less, or the same with a margin more.
    return exact(calibrate(Zcdp, budget, increasing=True, start=start, method="zcdp"))


def optimistic(epsilon: Fraction, delta: Number) -> float:
    """More than `concentrated` gives, without solving: enough to see that Laplace noise is better."""
    if delta:
        return 4 * _classical(float(epsilon), float(delta)) * (1 + 100 * float(delta / epsilon))
    return 0.0


def _classical(epsilon: float, delta: float) -> float:
    """ρ with ρ + 2√(ρ·ln 1/δ) = ε (Bun, Steinke 2016)."""
    log = math.log(1 / delta)
    return (epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2
