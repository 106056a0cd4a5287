"""Means of numbers in [low, high]: Duchi's two answers, the piecewise mechanism on a grid, and their mixture.

A value is first rounded at random, without bias, to the few inputs that a finite randomizer has, and only
then randomized with exact rational probabilities: ε rests on the second step alone, so nothing that floats do
in the first can spend more. A value outside is clamped; one that is no number reports as the middle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from deniable.errors import InvalidParameter
from deniable.local.arrays import Booleans, Bytes, Floats, Integers
from deniable.local.estimate import Mean
from deniable.local.law import source
from deniable.local.odds import check_epsilon, share, truth
from deniable.local.protocol import Client, pack, unpack
from deniable.loss import Number, exact
from deniable.mechanism import Random

GRID = 4096
"""Places of a piecewise report. The rounding adds less than GRID⁻² to a variance of at least 1/GRID."""


def uniforms(rng: Random, n: int) -> Floats:
    """Uniforms in [0, 1) of 53 bits: for rounding, which no guarantee rests on."""
    return (source(rng).bits(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53


class _Number(Client[Mean]):
    low: Number
    high: Number

    def check(self) -> None:
        check_epsilon(self.epsilon)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InvalidParameter(
                f"Expected low={self.low!r} < high={self.high!r}, both finite. Nothing was drawn."
            )

    def inputs(self, values: Any) -> Floats:
        """Values as numbers in [−1, 1]."""
        array = np.asarray(values)
        if array.ndim != 1 or array.dtype.kind not in "fiub":
            raise InvalidParameter(f"Expected a sequence of numbers, got {array.dtype}. Nothing was drawn.")
        low, high = float(self.low), float(self.high)
        numbers = (np.clip(array.astype(np.float64), low, high) - low) / (high - low) * 2 - 1
        return np.where(np.isnan(numbers), 0.0, numbers)

    def mean(self, value: float, variance: float, users: int) -> Mean:
        """A mean in [−1, 1], with the variance of one report around it, in the units of the user."""
        half = (float(self.high) - float(self.low)) / 2
        error = math.sqrt(max(variance, 0.0) / users) if users else math.inf
        return Mean(float(self.low) + half * (value + 1), half * error, users)


@dataclass(frozen=True)
class Duchi(_Number):
    """Round to −1 or 1 at random, without bias, then randomized response between the two.

    Guarantee: ε. Wire: 1 byte. Error: variance (c² − x²)/n with c = (e^ε + 1)/(e^ε − 1),
               on the scale [−1, 1].
    Reference: Duchi, Jordan, Wainwright 2018; the same law in one step.
    """

    epsilon: Number
    low: Number = -1
    high: Number = 1
    code: ClassVar[int] = 13

    payload = 1
    cells = 1

    def __post_init__(self) -> None:
        self.check()

    @property
    def p(self) -> Fraction:
        return truth(self.epsilon)

    def encode(self, inputs: Floats, rng: Random) -> Bytes:
        up = uniforms(rng, len(inputs)) < (1 + inputs) / 2
        return np.asarray(up == rng.bernoulli(self.p, len(inputs)), np.uint8)[:, None]

    def valid(self, payloads: Bytes) -> Booleans:
        return payloads[:, 0] < 2

    def tally(self, payloads: Bytes) -> Integers:
        return np.asarray(payloads[:, :1].sum(axis=0, dtype=np.int64))

    def estimate(self, counts: Integers, users: int, *question: Any) -> Mean:
        c = 1 / (2 * float(self.p) - 1)
        value = c * (2 * int(counts[0]) / max(users, 1) - 1)
        return self.mean(value, c * c - value * value, users)

    def variance(self, x: float = 0.0) -> float:
        """Variance of one report about x, on the scale [−1, 1]."""
        return (2 * float(self.p) - 1) ** -2 - x * x


@dataclass(frozen=True)
class Piecewise(_Number):
    """Report a place on a grid of 4096: likely in the window that stands for the value,
    else anywhere outside it.

    Guarantee: ε: a place has probability p/w in a window of w places or (1 − p)/(4096 −
               w) outside, in ratio e^ε at most.
    Wire:      2 bytes.
    Error:     variance x²/(e^(ε/2) − 1) + (e^(ε/2) + 3)/(3(e^(ε/2) − 1)²) of one report,
               on the scale [−1, 1].
    Reference: Wang et al. 2019, Algorithm 2, on a grid, where exact integers can follow it.
    """

    epsilon: Number
    low: Number = -1
    high: Number = 1
    code: ClassVar[int] = 14

    payload = 2
    cells = 2

    def __post_init__(self) -> None:
        self.check()

    @property
    def window(self) -> int:
        """w places, about 4096/(e^(ε/2) + 1)."""
        return max(1, round(GRID / (math.exp(float(exact(self.epsilon)) / 2) + 1)))

    @property
    def p(self) -> Fraction:
        return share(self.epsilon, self.window, GRID - self.window)

    def encode(self, inputs: Floats, rng: Random) -> Bytes:
        return pack(self.places(inputs, rng), 2)

    def places(self, inputs: Floats, rng: Random) -> Integers:
        n, w = len(inputs), self.window
        exact_start = (inputs + 1) / 2 * (GRID - w)
        start = np.minimum(np.floor(exact_start + uniforms(rng, n)).astype(np.int64), GRID - w)
        outside = rng.uniform_integers(GRID - w, n)
        outside += np.where(outside >= start, w, 0)
        return np.where(rng.bernoulli(self.p, n), start + rng.uniform_integers(w, n), outside)

    def valid(self, payloads: Bytes) -> Booleans:
        return unpack(payloads) < GRID

    def tally(self, payloads: Bytes) -> Integers:
        place = unpack(payloads)
        return np.array([place.sum(), (place * place).sum()], np.int64)

    @property
    def line(self) -> tuple[float, float]:
        """(a, b) with E[a·place + b] = x: the mean place is linear in where the window starts."""
        p, w = float(self.p), self.window
        slope = p - (1 - p) * w / (GRID - w)
        base = p * (w - 1) / 2 + (1 - p) * (GRID * (GRID - 1) - w * (w - 1)) / (2 * (GRID - w))
        a = 2 / (slope * (GRID - w))
        return a, -1 - a * base

    def estimate(self, counts: Integers, users: int, *question: Any) -> Mean:
        a, b = self.line
        n = max(users, 1)
        place, square = int(counts[0]) / n, int(counts[1]) / n
        return self.mean(a * place + b, a * a * (square - place * place), users)

    def variance(self, x: float = 0.0) -> float:
        """Variance of one report about x, on the scale [−1, 1], of the mechanism without a grid."""
        e = math.exp(float(exact(self.epsilon)) / 2)
        return x * x / (e - 1) + (e + 3) / (3 * (e - 1) ** 2)


@dataclass(frozen=True)
class Hybrid(_Number):
    """Piecewise with probability 1 − e^(−ε/2) where ε > 0.61, else Duchi: in the worst
    case over values never worse than either.

    Guarantee: ε: which of the two is drawn without looking at the value, and each has ε.
    Wire:      2 bytes: a place on the grid, or one of two more numbers.
    Reference: Wang et al. 2019, §3.3.
    """

    epsilon: Number
    low: Number = -1
    high: Number = 1
    code: ClassVar[int] = 15

    payload = 2
    cells = 4

    def __post_init__(self) -> None:
        self.check()

    @property
    def alpha(self) -> Fraction:
        """How often piecewise is used."""
        epsilon = float(exact(self.epsilon))
        return Fraction(round((1 - math.exp(-epsilon / 2)) * 2**32) if epsilon > 0.61 else 0, 2**32)

    @property
    def parts(self) -> tuple[Piecewise, Duchi]:
        return Piecewise(self.epsilon), Duchi(self.epsilon)

    def encode(self, inputs: Floats, rng: Random) -> Bytes:
        piecewise, duchi = self.parts
        smooth = rng.bernoulli(self.alpha, len(inputs))
        places = np.empty(len(inputs), np.int64)
        places[smooth] = piecewise.places(inputs[smooth], rng)
        places[~smooth] = GRID + duchi.encode(inputs[~smooth], rng)[:, 0].astype(np.int64)
        return pack(places, 2)

    def valid(self, payloads: Bytes) -> Booleans:
        return unpack(payloads) < GRID + 2

    def tally(self, payloads: Bytes) -> Integers:
        place = unpack(payloads)
        smooth = place < GRID
        coarse = place[~smooth] - GRID
        return np.array(
            [*Piecewise(self.epsilon).tally(payloads[smooth]), len(coarse), coarse.sum()], np.int64
        )

    def estimate(self, counts: Integers, users: int, *question: Any) -> Mean:
        (a, b), c = self.parts[0].line, 1 / (2 * float(self.parts[1].p) - 1)
        place, square, coarse, ups = map(int, counts)
        smooth, n = users - coarse, max(users, 1)
        value = (a * place + b * smooth + c * (2 * ups - coarse)) / n
        second = (a * a * square + 2 * a * b * place + b * b * smooth + c * c * coarse) / n
        return self.mean(value, second - value * value, users)

    def variance(self, x: float = 0.0) -> float:
        """Variance of one report about x, on the scale [−1, 1]."""
        alpha, (piecewise, duchi) = float(self.alpha), self.parts
        return alpha * piecewise.variance(x) + (1 - alpha) * duchi.variance(x)
