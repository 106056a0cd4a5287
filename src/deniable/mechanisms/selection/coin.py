"""A coin's bias by the exponential mechanism: one draw from a tempered posterior, truncated to an
interval."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.loss import BoundedRange, Number, exact
from deniable.mechanism import Random
from deniable.mechanisms import grid
from deniable.mechanisms.choice import draw
from deniable.randomness.certified import exp_bounds
from deniable.units import Unit


@dataclass(frozen=True)
class CoinBias:
    """A bias θ in [lower, upper], drawn with density ∝ (θ^heads·(1 − θ)^tails)^power:
    the score is the log-likelihood.

    At power 1 it is one draw of the Bayesian posterior, a truncated beta distribution.

    Guarantee: ε-DP, as a choice of range ε, for `unit`. One toss adds ln θ or ln(1 − θ) to the score, which
               over the interval spans at most R = max(ln(upper/lower), ln((1 − lower)/(1 − upper))); a
               replaced toss turns one into the other, which spans ln(upper/lower) + ln((1 − lower)/(1 −
               upper)). The power is ε/R per toss of a unit, rounded down: the score does not fall without
               bound as at θ = 0, which is why the interval must stay away from 0 and 1.
    Assumes:   the data are tosses, 1 or True for heads and 0 or False for tails (to six
               digits); whatever else is left out.
    Error:     not known before data; the draw has a variance of θ(1 − θ)/(power·n), on
               top of the estimate's own.
    Reference: McSherry, Talwar 2007; posterior sampling: Dimitrakakis et al. 2017, Wang,
               Fienberg, Smola 2015.

    The draw is exact on a grid of `points` cells, each represented by its middle: integer brackets around
    every weight, one uniform number for the inversion.

    >>> from deniable.randomness import SeededRandom
    >>> coin = CoinBias(epsilon=1)
    >>> coin.loss, 0.5 < coin([1] * 700 + [0] * 300, rng=SeededRandom(1)) < 0.9
    (BoundedRange(epsilon=1), True)
    """

    epsilon: Number
    lower: Number = Fraction(1, 10)
    upper: Number = Fraction(9, 10)
    points: int = 4096
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.number("epsilon", self.epsilon, above=0))
        object.__setattr__(self, "lower", checks.number("lower", self.lower, above=0, below=1))
        object.__setattr__(
            self, "upper", checks.number("upper", self.upper, above=float(self.lower), below=1)
        )
        object.__setattr__(self, "points", checks.whole("points", self.points, at_least=2))
        if self.points > 2**20:
            raise InvalidParameter(f"Expected points={self.points} to be at most 2^20.")
        checks.rows_of(checks.unit(self.unit))

    @property
    def power(self) -> Fraction:
        """The exponent of the likelihood: ε over the span of one unit's score, rounded down."""
        return _power(self)

    @property
    def loss(self) -> BoundedRange:
        return BoundedRange(self.epsilon)

    def error(self, confidence: float = 0.95) -> None:
        """Not known before data is seen."""
        checks.failure(confidence)

    def __call__(self, data: Any, *, rng: Random) -> float:
        tosses = grid.read_rows(data, Fraction(1, 2**20))
        heads, tails = int(np.count_nonzero(tosses == 2**20)), int(np.count_nonzero(tosses == 0))
        return float(self.bias(draw(Likelihood(self, self.power * heads, self.power * tails), rng)))

    def bias(self, index: int) -> Fraction:
        """The middle of a cell of the grid."""
        width = exact(self.upper) - exact(self.lower)
        return exact(self.lower) + width * (2 * index + 1) / (2 * self.points)

    def density(self, heads: int, tails: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The grid, and the probability of each of its points after these tosses, as
        floats: for pictures and moments."""
        weights = Likelihood(self, self.power * heads, self.power * tails).floats()[0]
        return np.array([float(self.bias(i)) for i in range(self.points)]), weights / weights.sum()


@dataclass(frozen=True)
class Likelihood:
    """Weights θ^a·(1 − θ)^b over the largest of them, θ on the grid of a `CoinBias`."""

    coin: CoinBias
    a: Fraction
    b: Fraction

    def floats(self) -> tuple[NDArray[np.float64], float]:
        """Each exponent is off by a few roundings of its two terms, and so is their largest."""
        heads, tails = _grid_float_logs(self.coin)
        a, b = float(self.a), float(self.b)
        logs = a * heads + b * tails
        off = 2.0**-48 * (a * (1 + np.abs(heads).max()) + b * (1 + np.abs(tails).max())) + 1e-12
        # e^−700 is below what a float may be off (1e-280); an error of 1 sends `draw` on to the brackets.
        return np.exp(np.maximum(logs - logs.max(), -700.0)), float(off) if off < 1e-3 else 1.0

    def brackets(self, bits: int) -> tuple[Sequence[int], int]:
        """From logarithms good to 2·2^-precision, so each exponent is to `slack`. All
        weights share the factor e^best."""
        # Logarithms are multiplied by a and b, so they need as many more bits as these have.
        precision = bits + math.ceil(self.a + self.b + 2).bit_length() + 4
        logs = _grid_logs(self.coin, precision)
        scores = [(self.a * x + self.b * y) / 2**precision for x, y in logs]
        slack = 2 * (self.a + self.b + 1) / 2**precision
        best = min(scores)
        # Two bits more than asked for, so that shifting them away costs less than one unit.
        high = [exp_bounds(score - best, bits + 2)[1] for score in scores]
        low = [exp_bounds(score - best + slack, bits + 2)[0] for score in scores]
        return [x >> 2 for x in low], max((h >> 2) + 1 - (x >> 2) for x, h in zip(low, high, strict=True))


@lru_cache(maxsize=64)
def _power(coin: CoinBias) -> Fraction:
    low, high = exact(coin.lower), exact(coin.upper)
    heads, tails = _log_bounds(high / low, 128)[1], _log_bounds((1 - low) / (1 - high), 128)[1]
    # A toss that is replaced moves both counts; one that is added moves one of them.
    span = heads + tails if coin.unit.replace else max(heads, tails)
    # The span is rounded up and the quotient down, so the power is never above ε/span.
    return Fraction(math.floor(exact(coin.epsilon) * 2**192) // (span * checks.rows_of(coin.unit)), 2**64)


@lru_cache(maxsize=16)
def _grid_float_logs(coin: CoinBias) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """ln θ and ln(1 − θ), of arguments that were rounded once."""
    thetas = [coin.bias(i) for i in range(coin.points)]
    return np.log([float(t) for t in thetas]), np.log([float(1 - t) for t in thetas])


@lru_cache(maxsize=4)
def _grid_logs(coin: CoinBias, bits: int) -> list[tuple[int, int]]:
    """Lower brackets of −2^bits·ln θ and −2^bits·ln(1 − θ), each less than 2 below the truth."""
    thetas = [coin.bias(i) for i in range(coin.points)]
    return [(_log_bounds(1 / t, bits)[0], _log_bounds(1 / (1 - t), bits)[0]) for t in thetas]


def _log_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers low ≤ 2^bits·ln x ≤ high, at most 2 apart, for x ≥ 1.

    `Decimal.ln` is correctly rounded (General Decimal Arithmetic 1.70). The quotient x is rounded down to a
    relative 10^-p and so its logarithm to an absolute one; p digits leave both below a quarter of a unit.
    """
    digits = bits * 302 // 1000 + 12
    with decimal.localcontext(decimal.Context(prec=digits, rounding=decimal.ROUND_DOWN)):
        quotient = Decimal(x.numerator) / Decimal(x.denominator)
        near = Fraction(quotient.ln()) * 2**bits
    return math.floor(near - Fraction(1, 4)), math.ceil(near + Fraction(1, 4))
