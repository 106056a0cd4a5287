"""Noise added to numbers: Laplace, histograms, running sums, and two classic slips."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.audit.bench.case import COUNTS, Array, Case, Generator, laplace, on_grid
from deniable.audit.runs.pairs import Pair, patterns
from deniable.loss import Loss, Pure
from deniable.units import Unit


@dataclass(frozen=True)
class Laplace(Case):
    """One number of sensitivity 1 with Laplace noise of scale 1/ε.

    True ε: the density ratio is exp((|x − 1| − |x|)·ε) ≤ e^ε, attained for every x ≤ 0.
    """

    true_epsilon: float = 0.1

    def pairs(self) -> list[Pair]:
        return patterns(1, everywhere=False)

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return on_grid(float(data[0]) + laplace(rng, 1 / self.true_epsilon, (n, 1)))


@dataclass(frozen=True)
class TruncatedGeometric(Case):
    """A count in 0 … 5 with two-sided geometric noise of ratio r = 2³/(2³ + 1), cut to
    the range (Balcer, Vadhan 2018).

    True ε: inside, P(z) ∝ r^|z − c|; at the ends, the geometric tails sum to r^distance/(1 + r). Moving c by
    1 multiplies each by at most 1/r = 9/8, and by exactly that at the ends: ε = ln 9/8 = .1178.
    """

    true_epsilon: float = math.log(9 / 8)

    @property
    def loss(self) -> Loss:
        return Pure(self.true_epsilon)

    def pairs(self) -> list[Pair]:
        return patterns(1, everywhere=False)

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        r = math.exp(-self.true_epsilon)
        mass = np.abs(np.arange(6.0) - float(data[0]))
        mass = r**mass * np.array([1, 1 - r, 1 - r, 1 - r, 1 - r, 1]) / (1 + r)
        places = np.searchsorted(np.cumsum(mass)[:-1], rng.random(n), side="right")
        return places.astype(np.float64)[:, None]


@dataclass(frozen=True)
class NoisyHist1(Case):
    """Five counts with Laplace noise of scale 1/ε (Ding et al. 2018, Alg. 9).

    True ε: one person changes one count by 1, so it is Laplace's: .1.
    """

    true_epsilon: float = 0.1
    scale: float = 10.0

    @property
    def unit(self) -> Unit:
        return COUNTS

    def pairs(self) -> list[Pair]:
        return patterns(5, everywhere=False)

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return on_grid(laplace(rng, self.scale, (n, len(data))) + np.asarray(data, np.float64))


@dataclass(frozen=True)
class NoisyHist2(NoisyHist1):
    """The same with scale ε instead of 1/ε (Ding et al. 2018, Alg. 10).

    True ε: sensitivity/scale = 1/.1 = 10.
    """

    true_epsilon: float = 10.0
    scale: float = 0.1


@dataclass(frozen=True)
class LaplaceParallel(Case):
    """Twenty answers to one question, each with ε = .005.

    True ε: all density ratios e^.005 are attained together where all twenty outputs lie at or below 0: ε =
    20·.005 = .1. Their probability is 2⁻²⁰, so what can be certified from N samples lies well below.
    """

    true_epsilon: float = 0.1
    copies: int = 20

    def pairs(self) -> list[Pair]:
        return patterns(1, everywhere=False)[:1]

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return on_grid(laplace(rng, self.copies / self.true_epsilon, (n, self.copies)) + float(data[0]))


@dataclass(frozen=True)
class PrefixSum(Case):
    """The running sums of ten answers that each have Laplace noise of scale 10 (Wang et al. 2019).

    True ε: the ten noisy answers can be computed back, so it is theirs: one person moves
    each by 1, 10·(1/10) = 1.
    """

    true_epsilon: float = 1.0

    @property
    def loss(self) -> Loss:
        return Pure(1)

    def pairs(self) -> list[Pair]:
        return patterns(10, everywhere=True)

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return on_grid(np.cumsum(laplace(rng, 10.0, (n, len(data))) + np.asarray(data, np.float64), axis=1))


@dataclass(frozen=True)
class HalvedNoise(Laplace):
    """Laplace noise of scale 1/2ε where 1/ε was meant. True ε: 1/scale = .2."""

    true_epsilon: float = 0.2


@dataclass(frozen=True)
class WrongSensitivity(Case):
    """A histogram whose scale is 1/ε although one person is *replaced*: she leaves one
    bar and enters another.

    True ε: the L1 sensitivity is 2, so 2·ε = .2.
    """

    true_epsilon: float = 0.2

    @property
    def unit(self) -> Unit:
        return Unit.ball(1, 2)

    def pairs(self) -> list[Pair]:
        return [Pair(np.array([5.0, 4.0, 0.0]), np.array([4.0, 5.0, 0.0]), "one person moves")]

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return on_grid(laplace(rng, 10.0, (n, len(data))) + np.asarray(data, np.float64))
