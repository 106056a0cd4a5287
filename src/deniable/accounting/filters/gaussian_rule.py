"""A rule that prices Gaussian noise as Gaussian noise: Σμ² ≤ μ², for losses chosen adaptively.

Reference: Smith, Thakurta 2022; docs/theory/filters.md, Theorems 5 and 6. Integer noise enters by T8 of
docs/theory/numerical.md, an ε-DP answer as the Gaussian release that it is a post-processing of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scipy.special import ndtr, ndtri

from deniable.accounting.methods import gaussian, pure
from deniable.accounting.methods.grouping import spread
from deniable.accounting.numerical.pairs import integer_gaussian
from deniable.accounting.numerical.pairs.continuous import Gaussian
from deniable.accounting.rounding import ceil_float, floor_float, round_up
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import (
    Composed,
    DiscreteGaussianNoise,
    GaussianNoise,
    Grouped,
    IntegerGaussianSum,
    Loss,
    Number,
    Parallel,
    Repeated,
    exact,
)
from deniable.strict_json import rational

UNIT = 1 << 60
"""A μ² of 1."""


@dataclass(frozen=True)
class Shift:
    """μ² of a Gaussian release that a loss is a post-processing of, but for a probability `left`."""

    square: Fraction
    left: Fraction = Fraction(0)

    def __add__(self, shift: Shift) -> Shift:
        return Shift(self.square + shift.square, self.left + shift.left)

    def __mul__(self, times: int) -> Shift:
        return Shift(times * self.square, times * self.left)


@dataclass(frozen=True)
class GaussianRule:
    """Σμ² stays under `level` (in 1/UNIT), which costs `delta` of the limit's δ."""

    delta: Fraction
    level: int

    @classmethod
    def fit(cls, epsilon: Number, delta: Fraction) -> GaussianRule:
        """The largest μ whose Gaussian release is (ε, δ)-DP (Balle, Wang 2018, Theorem 8), rounded down."""
        sigma = gaussian.analytic_sigma(floor_float(exact(epsilon)), floor_float(delta))
        return cls(delta, math.floor(UNIT / exact_float(sigma) ** 2))

    def to_dict(self) -> dict[str, Any]:
        return {"delta": str(self.delta), "level": self.level}

    @classmethod
    def from_dict(cls, value: object) -> GaussianRule:
        """Read what `to_dict` wrote; anything else is refused."""
        if (
            not isinstance(value, Mapping)
            or set(value) != {"delta", "level"}
            or type(value["level"]) is not int
        ):
            raise InvalidParameter("Expected the JSON of a Gaussian rule with a delta and a whole level.")
        return cls(rational(value["delta"], InvalidParameter, "delta"), value["level"])

    def admits(self, total: int) -> bool:
        return total <= self.level

    def reading(self, total: int) -> float:
        """ε at this rule's δ of everything together."""
        mu = round_up(math.sqrt(ceil_float(Fraction(total, UNIT))))
        if total:
            return gaussian.epsilon_of(mu, floor_float(self.delta))
        return 0.0

    def left(self, total: int) -> float:
        """The largest μ of one more release, rounded down; one part in 2³⁰ covers the
        rounding up of its charge."""
        free = Fraction(max(self.level - total, 0), UNIT)
        return math.sqrt(floor_float(free * (1 - Fraction(1, 1 << 30)))) * (1 - 1e-12)


def exact_float(x: float) -> Fraction:
    """The binary number itself, not the decimal it prints."""
    return Fraction(x)


def shift(loss: Loss) -> Shift | None:
    """What Gaussian release `loss` is a post-processing of; None where none is known, samples among them."""
    match loss:
        case GaussianNoise(multiplier):
            return Shift(1 / exact(multiplier) ** 2)
        case DiscreteGaussianNoise(sigma, sensitivity):
            return _integer(integer_gaussian.narrower(exact(sigma), max(exact(sensitivity), Fraction(1))))
        case IntegerGaussianSum(parties, sigma, sensitivity):
            return _integer(
                integer_gaussian.summed(parties * exact(sigma) ** 2, exact(sensitivity), loss.distance)
            )
        case Repeated(times, of):
            inner = shift(of)
            if inner is None:
                return None
            return inner * times
        case Composed(parts):
            return _sum([shift(part) for part in parts])
        case Parallel(parts, replace):
            return _largest([shift(part) for part in parts], 4 if replace else 1)
        case Grouped(size, of) if (group_loss := spread(size, of)) is not None:
            return shift(group_loss)
        case _:
            return _response(loss)


def _integer(pair: Gaussian | None) -> Shift | None:
    if pair is None:
        return None
    return Shift(1 / Fraction(pair.sigma) ** 2, Fraction(pair.left))


def _sum(parts: list[Shift | None]) -> Shift | None:
    total = Shift(Fraction(0))
    for part in parts:
        if part is None:
            return None
        total = total + part
    return total


def _largest(parts: list[Shift | None], factor: int) -> Shift | None:
    """Less is a post-processing of more. A replaced unit touches two parts, or one twice
    as far: 4·μ² covers both."""
    shifts = [part for part in parts if part is not None]
    if len(shifts) < len(parts):
        return None
    return Shift(factor * max(part.square for part in shifts), 2 * max(part.left for part in shifts))


def response_of(mu: float) -> float:
    """The largest ε whose randomized response is a post-processing of a Gaussian release of μ, rounded
    down."""
    below = float(ndtr(-mu / 2))
    if below > 0:
        return max(0.0, (math.log1p(-below) - math.log(below)) * (1 - 1e-9))
    return 0.0


def _response(loss: Loss) -> Shift | None:
    """ε-DP is a post-processing of μ = 2Φ⁻¹(e^ε/(1 + e^ε)): its trade-off's corner lies
    on that of the Gaussian."""
    try:
        epsilon, delta = pure.exact_pair(loss)
    except Unaccountable:
        return None
    if delta:
        return None
    if not epsilon:
        return Shift(Fraction(0))
    corner = 1 / (1 + math.exp(min(ceil_float(epsilon), 600.0)))
    if epsilon > 600:
        return None
    return Shift(Fraction(round_up(-2 * float(ndtri(corner * (1 - 1e-12))))) ** 2)
