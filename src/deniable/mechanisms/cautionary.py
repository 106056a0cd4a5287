"""Mechanisms that should not be used, with the losses they truly have: for teaching, and
for auditors to find.

Each states what it gives and not what it claims, so an account that runs one is charged the truth.
`Approximate(0, 1)` is the loss of what protects nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from deniable import checks
from deniable.loss import Approximate, DiscreteGaussianNoise, Number, exact
from deniable.mechanism import Error, Random
from deniable.mechanisms import grid
from deniable.mechanisms.gaussian import Gaussian
from deniable.mechanisms.integer_noise import laplace
from deniable.numbers import plain
from deniable.units import Unit

NOTHING = Approximate(0, 1)
"""The loss of a release that no neighbour could have made."""


@dataclass(frozen=True)
class ReleaseEverything:
    """Publish all the data with probability δ, else nothing.

    Guarantee: (0, δ)-DP, attained, and that is what is wrong with δ: with probability δ everybody is exposed
               at once. A δ must be far below one in the number of people, and what happens within it matters.
    Assumes:   nothing.
    Error:     not known.
    Reference: Dwork, Roth 2014, §2.3.

    >>> ReleaseEverything(delta=1e-6).loss
    Approximate(epsilon=0, delta=1e-06)
    """

    delta: Number
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", checks.number("delta", self.delta, above=0, below=1))
        checks.unit(self.unit)

    @property
    def loss(self) -> Approximate:
        return Approximate(0, self.delta)

    def error(self, confidence: float = 0.95) -> None:
        return None

    def __call__(self, data: Any, *, rng: Random) -> Any:
        if rng.bernoulli(self.delta):
            return data
        return None


@dataclass(frozen=True)
class NameAndShame:
    """Publish each row, by its own coin, with probability δ.

    Guarantee: (0, δ)-DP for a row, attained. Yet among n rows one is published with probability 1 − (1 − δ)ⁿ:
               at δ = 1/n nearly two times out of three.
    Assumes:   one row per unit.
    Error:     not known.
    Reference: folklore; Dwork, Roth 2014, §2.3.

    >>> NameAndShame(delta=0.001).somebody(1000)
    0.6323...
    """

    delta: Number
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", checks.number("delta", self.delta, above=0, below=1))
        checks.rows_of(checks.unit(self.unit))

    @property
    def loss(self) -> Approximate:
        """The coins of all of a unit's rows: the chance that one of them falls is at most their sum."""
        rows = checks.rows_of(self.unit)
        return Approximate(0, self.delta if rows == 1 else plain(min(Fraction(1), exact(self.delta) * rows)))

    def error(self, confidence: float = 0.95) -> None:
        return None

    def somebody(self, rows: int) -> float:
        """The probability that at least one of `rows` is published."""
        return -math.expm1(rows * math.log1p(-float(self.delta)))

    def __call__(self, data: Any, *, rng: Random) -> list[Any]:
        rows = []
        if isinstance(data, Iterable):
            rows = list(data)
        return [rows[i] for i in rng.poisson_sample(len(rows), self.delta)]


@dataclass(frozen=True)
class LaplaceAfterArgmax:
    """Find the best candidate exactly, then add noise to its score.

    Guarantee: none. The noise protects the score, and nothing protects the choice: where one row decides it,
               the name alone tells the two data sets apart. Loss (0, 1). `NoisyMax` adds the noise first.
    Assumes:   nothing.
    Error:     that of the noise.
    Reference: Dwork, Roth 2014, §3.3 on why only the argmax of noisy scores is private.

    >>> LaplaceAfterArgmax(("flu", "cold"), scale=100).loss
    Approximate(epsilon=0, delta=1)
    """

    candidates: tuple[Any, ...]
    scale: Number
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", checks.choices("candidates", self.candidates))
        object.__setattr__(self, "scale", checks.number("scale", self.scale, above=0))
        checks.unit(self.unit)

    @property
    def loss(self) -> Approximate:
        return NOTHING

    def error(self, confidence: float = 0.95) -> None:
        return None

    def __call__(self, data: Any, *, rng: Random) -> tuple[Any, int]:
        scores = grid.read(data, len(self.candidates), grid.ONE)
        best = int(np.argmax(scores))
        return self.candidates[best], int(scores[best]) + laplace(self.scale).draw(rng)


@dataclass(frozen=True)
class PlainMedian:
    """The exact median. Of an odd number of rows it *is* a row.

    Guarantee: none: the answer is somebody's value, and one row more or less changes it for sure. Loss (0,
               1). `Quantile` is the private one.
    Assumes:   nothing.
    Error:     none.
    Reference: Nissim, Raskhodnikova, Smith 2007, on why its global sensitivity is the whole range.

    >>> from deniable.randomness import SeededRandom
    >>> PlainMedian()([31_000, 35_000, 1_250_000], rng=SeededRandom(0))
    35000.0
    """

    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        checks.unit(self.unit)

    @property
    def loss(self) -> Approximate:
        return NOTHING

    def error(self, confidence: float = 0.95) -> Error:
        return Error(0.0, confidence, 0.0)

    def __call__(self, data: Any, *, rng: Random) -> float:
        rows = grid.read_rows(data, grid.ONE / 2**10)
        if len(rows):
            return float(np.median(rows)) / 2**10
        return 0.0


@dataclass(frozen=True)
class _MisprintedGaussian(ABC):
    """`Gaussian` noise whose σ is read from a formula that somebody printed wrongly. The loss states that σ,
    not what the formula is said to give."""

    epsilon: Number
    delta: Number
    sensitivity: Number = 1
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.number("epsilon", self.epsilon, above=0))
        object.__setattr__(self, "delta", checks.number("delta", self.delta, above=0, below=1))
        object.__setattr__(self, "sensitivity", checks.number("sensitivity", self.sensitivity, above=0))
        checks.unit(self.unit)

    @property
    @abstractmethod
    def sigma(self) -> float: ...

    @property
    def loss(self) -> DiscreteGaussianNoise:
        return self._noise.loss

    def error(self, confidence: float = 0.95) -> Error:
        return self._noise.error(confidence)

    def __call__(self, data: Any, *, rng: Random) -> int:
        return int(self._noise(data, rng=rng))

    @property
    def _noise(self) -> Gaussian:
        return Gaussian(self.sigma, self.sensitivity, unit=self.unit)


@dataclass(frozen=True)
class RootlessGaussian(_MisprintedGaussian):
    """σ = ln(1.25/δ)·Δ/ε, as printed in some lecture notes: the root and the 2 of √(2·ln(1.25/δ)) are lost.

    Guarantee: that of its σ, which the loss states. At δ = 1e-5 it is 2.4 times the noise of the classical
               formula, for nothing; above δ = 0.17 it is less, and at ε = 5, δ = 0.3 the truth is δ = 0.68.
    Assumes:   as `Gaussian`.
    Error:     as `Gaussian`.
    Reference: compare Dwork, Roth 2014, Theorem A.1 (valid for ε < 1 only).

    >>> round(float(RootlessGaussian(epsilon=1, delta=1e-5).sigma), 2)
    11.74
    """

    @property
    def sigma(self) -> float:
        return math.log(1.25 / self.delta) * float(self.sensitivity) / float(self.epsilon)


@dataclass(frozen=True)
class MisplacedGaussian(_MisprintedGaussian):
    """σ = √(2·ln(1.25)/δ)·Δ/ε, as printed in some lecture notes: δ has slipped out of the logarithm.

    Guarantee: that of its σ, which the loss states. At δ = 1e-5 it is 44 times the noise of the classical
               formula, for nothing; above δ = 0.1 it is less, and at ε = 5, δ = 0.3 the truth is δ = 0.97.
    Assumes:   as `Gaussian`.
    Error:     as `Gaussian`.
    Reference: compare Dwork, Roth 2014, Theorem A.1 (valid for ε < 1 only).

    >>> round(float(MisplacedGaussian(epsilon=1, delta=1e-5).sigma), 2)
    211.26
    """

    @property
    def sigma(self) -> float:
        return math.sqrt(2 * math.log(1.25) / self.delta) * float(self.sensitivity) / float(self.epsilon)
