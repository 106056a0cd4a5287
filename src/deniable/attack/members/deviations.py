"""How far the outputs of models scatter on one row: a deviation per row, shrunk towards what rows have in
common.

A few models say little about one row's deviation: taken as it is, a small one by chance accuses the row. One
deviation for all rows forgets that some are steady and others are not. Between them, the variances of the
rows are taken as draws from one scaled inverse χ² law, whose two parameters are read from all of them; each
row's is then its posterior, and what the next model will say is Student's t with the degrees of freedom of
both (Smyth 2004, theorem of section 4 and the moments of section 6.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma
from scipy.stats import t as student

from deniable.attack.members.evidence import Booleans, Floats

LENT = 0.25
"""How much of the other side's scatter (models without the row, for those with it) counts as the row's
own."""
LEAST = 1e-18
MOST = 1e6
"""Degrees of freedom of a prior that says all rows are alike."""


@dataclass(frozen=True)
class Side:
    """What models with (or without) each row said: how many they were, their mean, and the sum of squares
    around it."""

    models: Floats
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, signals: Floats, kept: Booleans) -> Side:
        """`signals` and `kept` are (models, rows). A row that no model kept has the mean of all rows."""
        models = kept.sum(axis=0).astype(np.float64)
        totals = np.where(kept, signals, 0).sum(axis=0)
        overall = float(totals.sum() / max(models.sum(), 1))
        mean = np.where(models > 0, totals / np.maximum(models, 1), overall)
        return cls(models, mean, (np.where(kept, signals - mean, 0) ** 2).sum(axis=0))

    @property
    def freedom(self) -> Floats:
        return np.maximum(self.models - 1, 0)

    @property
    def usual_freedom(self) -> float:
        return float(self.freedom.mean())

    def variance(self, otherwise: float) -> Floats:
        """Of each row; `otherwise`, where fewer than two models say it."""
        return np.where(self.freedom > 0, self.squares / np.maximum(self.freedom, 1), otherwise)


@dataclass(frozen=True)
class Predicted:
    """What the next model will say of each row: Student's t with this centre, scale and freedom."""

    centre: Floats
    scale: Floats
    freedom: float

    def log_density(self, at: Floats) -> Floats:
        return np.asarray(student.logpdf((at - self.centre) / self.scale, self.freedom) - np.log(self.scale))

    def below(self, at: Floats) -> Floats:
        """The probability that the next model says less."""
        return np.asarray(student.cdf((at - self.centre) / self.scale, self.freedom))


def predicted(side: Side, other: Side | None = None) -> Predicted:
    """From one side, and `LENT` of the other's scatter.

    All rows count as known from equally many models. Where shadows and target share a design (every row in
    half of all models), how many shadows hold a row tells whether the target does: a score must not depend on
    it."""
    prior_freedom, prior_variance = prior(side)
    parts = [
        (prior_freedom, np.full(len(side.mean), prior_variance)),
        (side.usual_freedom, side.variance(prior_variance)),
    ]
    if other is not None:
        parts.append((LENT * other.usual_freedom, other.variance(prior_variance)))
    freedom = sum(weight for weight, _ in parts)
    variance = sum(weight * part for weight, part in parts) / freedom
    # The mean is itself known from so many models only.
    wider = 1 + 1 / (side.usual_freedom + 1)
    return Predicted(side.mean, np.sqrt(np.maximum(variance * wider, LEAST)), freedom)


def prior(side: Side) -> tuple[float, float]:
    """Degrees of freedom and variance that all rows have in common, by the moments of ln s² (Smyth 2004,
    section 6.2).

    ln s² is ln σ² + ln χ²_d/d, whose mean is ψ(d/2) − ln(d/2) and whose variance ψ′(d/2); what scatters
    beyond that is the prior's."""
    usable = (side.freedom > 0) & (side.squares > LEAST)
    if usable.sum() < 2:
        return MOST, LEAST
    half = side.freedom[usable] / 2
    logs = np.log(side.squares[usable] / side.freedom[usable]) - digamma(half) + np.log(half)
    beyond = float(logs.var(ddof=1) - polygamma(1, half).mean())
    freedom = 2 * _trigamma_inverse(beyond) if beyond > 0 else MOST
    freedom = min(freedom, MOST)
    return freedom, math.exp(float(logs.mean()) + float(digamma(freedom / 2)) - math.log(freedom / 2))


def _trigamma_inverse(value: float) -> float:
    """The x with ψ′(x) = value; ψ′ falls from ∞ to 0."""
    low, high = 1e-8, MOST
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if polygamma(1, middle) > value else (low, middle)
    return high
