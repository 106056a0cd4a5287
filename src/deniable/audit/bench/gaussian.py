"""Gaussian noise by formulas that do not hold: two misprints, and the classical one beyond its range.

The truth is the closed form for noise of σ on sensitivity 1 (Balle, Wang 2018, Theorem 5), with μ = 1/σ:

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq
from scipy.stats import norm

from deniable.audit.bench.case import Array, Case, Generator, on_grid
from deniable.audit.runs.pairs import Pair, patterns
from deniable.loss import Approximate, Loss


def gaussian_delta(epsilon: float, mu: float) -> float:
    """δ(ε) of μ-Gaussian privacy."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def gaussian_epsilon(delta: float, mu: float) -> float:
    """The least ε at δ of μ-Gaussian privacy.

    >>> round(gaussian_epsilon(gaussian_delta(2.5, 1.0), 1.0), 6)
    2.5
    """
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    return float(brentq(lambda e: gaussian_delta(e, mu) - delta, 0.0, 100 + mu * mu))


@dataclass(frozen=True)
class ClassicalGaussian(Case):
    """σ = √(2 ln(1.25/δ))/ε at ε = 10, δ = .05, although its proof needs ε ≤ 1 (Dwork,
    Roth 2014, Theorem A.1).

    True δ(10) at σ = .254: .213, four times what is claimed; true ε at δ = .05: 13.42. (At smaller δ the
    formula is as wrong, but e¹⁰·Q(S) below δ needs more samples than an audit has.)
    """

    epsilon: float = 10.0
    delta: float = 0.05

    @property
    def sigma(self) -> float:
        return math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon

    @property
    def true_epsilon(self) -> float:  # type: ignore[override]
        return gaussian_epsilon(self.delta, 1 / self.sigma)

    @property
    def loss(self) -> Loss:
        return Approximate(self.epsilon, self.delta)

    def pairs(self) -> list[Pair]:
        return patterns(1, everywhere=False)[:1]

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return on_grid(float(data[0]) + self.sigma * rng.standard_normal((n, 1)))


@dataclass(frozen=True)
class MisprintedLog(ClassicalGaussian):
    """σ = ln(1.25/δ)/ε: the root and the 2 are missing, as some lecture notes print it;
    here at ε = 4, δ = .3.

    Below δ = .169 the logarithm exceeds 2 and the misprint only wastes noise; above, it lacks noise. Here σ =
    .357 and the true δ(4) is .362 (the right formula, σ = .422, gives .196).
    """

    epsilon: float = 4.0
    delta: float = 0.3

    @property
    def sigma(self) -> float:
        return math.log(1.25 / self.delta) / self.epsilon


@dataclass(frozen=True)
class MisprintedRoot(MisprintedLog):
    """σ = √(2 ln(1.25)/δ)/ε: the bracket closes too early; here at ε = 4, δ = .3.

    For small δ it wastes noise beyond measure (σ = 211/ε at δ = 1e-5). Here σ = .305 and
    the true δ(4) is .547.
    """

    @property
    def sigma(self) -> float:
        return math.sqrt(2 * math.log(1.25) / self.delta) / self.epsilon
