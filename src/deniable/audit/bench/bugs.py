"""Bugs of real systems: a seed used twice, group keys without noise, shuffled batches
called Poisson, clipping per batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from deniable.audit.bench.case import COUNTS, Array, Case, Generator, laplace, on_grid
from deniable.audit.bench.gaussian import gaussian_epsilon
from deniable.audit.runs.pairs import Pair
from deniable.loss import Approximate, Loss
from deniable.units import Unit


@dataclass(frozen=True)
class ReusedSeed(Case):
    """Two counts, each with Laplace noise of scale 10, but from a generator that was seeded again in between.

    True ε: ∞. Both counts carry the same noise, so their difference is exact.
    """

    true_epsilon: float = math.inf

    @property
    def unit(self) -> Unit:
        return COUNTS

    def pairs(self) -> list[Pair]:
        return [Pair(np.array([7.0, 4.0]), np.array([7.0, 5.0]), "one person more in the second count")]

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return on_grid(laplace(rng, 10.0, (n, 1)) + np.asarray(data, np.float64))


@dataclass(frozen=True)
class UnnoisedKeys(Case):
    """Noisy counts of the groups that occur; a group that does not occur has no row (here: NaN).

    True ε: ∞. Whoever is alone in her group adds a row.
    """

    true_epsilon: float = math.inf

    @property
    def unit(self) -> Unit:
        return COUNTS

    def pairs(self) -> list[Pair]:
        return [Pair(np.array([12.0, 1.0, 9.0]), np.array([12.0, 0.0, 9.0]), "the only one of her group")]

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        counts = np.asarray(data, np.float64)
        return np.where(counts > 0, on_grid(laplace(rng, 10.0, (n, len(counts))) + counts), np.nan)


@dataclass(frozen=True)
class ShuffledAsPoisson(Case):
    """Ten noisy batch sums (σ = ¼) of one shuffled pass, accounted as Poisson samples of rate 1/10.

    Claimed: with Poisson sampling a record is in no batch at all with probability .9¹⁰ =
             .349, so P ≥ .349·Q and δ(ε) ≤ .652
    for every ε ≥ 1.06, whatever the noise; (1.06, .652) is claimed. In a shuffled pass it is in exactly one
    batch. True ε at δ = .652: at least 3.10, by the sets "some batch exceeds τ": P ≥ Φ((1 − τ)/σ), Q = 1 −
    Φ(τ/σ)¹⁰ (Chua et al. 2024).
    """

    batches: int = 10
    sigma: float = 0.25
    coupled = False  # a record draws its batch, so the two neighbours need different numbers of draws

    @property
    def loss(self) -> Loss:
        return Approximate(1.06, 0.652)

    @property
    def unit(self) -> Unit:
        return Unit.row()

    @property
    def true_epsilon(self) -> float:  # type: ignore[override]
        def negative(tau: float) -> float:
            sure = norm.cdf((1 - tau) / self.sigma) - 0.652
            other = -np.expm1(self.batches * norm.logcdf(tau / self.sigma))
            return float(np.log(other / sure)) if sure > 0 else 10.0

        return -float(minimize_scalar(negative, bounds=(0.5, 0.9), method="bounded").fun)

    def pairs(self) -> list[Pair]:
        return [Pair([1.0], [], "one record or none")]

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        sums = self.sigma * rng.standard_normal((n, self.batches))
        for record in data:
            sums[np.arange(n), rng.integers(0, self.batches, n)] += record
        return on_grid(sums)


@dataclass(frozen=True)
class ClippedBatch(Case):
    """The *sum* of gradients is clipped to 1 and gets noise of σ = 1, instead of each gradient being clipped.

    True ε: one record can turn the clipped sum from +1 to −1, a change of 2, so the noise multiplier is ½ and
    not 1: at δ = .1 that is ε = 3.81, where μ = 1 has 1.16.
    """

    delta: float = 0.1

    @property
    def true_epsilon(self) -> float:  # type: ignore[override]
        return gaussian_epsilon(self.delta, 2.0)

    @property
    def loss(self) -> Loss:
        return Approximate(gaussian_epsilon(self.delta, 1.0), self.delta)

    @property
    def unit(self) -> Unit:
        return Unit.row()

    def pairs(self) -> list[Pair]:
        return [Pair([3.0], [3.0, -10.0], "one large gradient against the others")]

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return on_grid(float(np.clip(np.sum(data), -1, 1)) + rng.standard_normal((n, 1)))
