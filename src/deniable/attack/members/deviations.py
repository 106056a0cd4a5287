"""How models answer on one row, with it and without it: means and deviations per row, shrunk towards what
rows have in common.

A few models say little about one row. Its deviation taken as it is, a small one by chance accuses the row;
one deviation for all rows forgets that some are steady and others are not. Between them, empirical Bayes:

- The variances of rows that are alike in what else is known of them (the mean of the models, and mean and
  variance of the models on the other side) are taken as draws from one scaled inverse χ² law around a trend,
  whose parameters are read from all rows; each row's variance is its posterior, and what the next model will
  say is Student's t with the degrees of freedom of both (Smyth 2004, section 4; the moments of section 6.2; a
  trend for the prior as in Law et al. 2014).
- How much a row's own training moves it, the gap between the two means, is a draw from a normal law around a
  trend; each row's gap is its posterior mean (Morris 1983), and the two means move together by their
  uncertainty.

How strongly to shrink is itself read from the shadow models: nothing is tuned by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma
from scipy.stats import t as student

from deniable.attack.members.evidence import Booleans, Floats

LEAST = 1e-18
ROWS_PER_TERM = 20
"""Rows for each term of a trend; with fewer, rows have only their mean in common."""
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
    def from_signals(cls, signals: Floats, mask: Booleans) -> Side:
        """`signals` and `mask` are (models, rows). A row that no model kept has the mean of all rows."""
        models = mask.sum(axis=0).astype(np.float64)
        totals = np.where(mask, signals, 0).sum(axis=0)
        overall = float(totals.sum() / max(models.sum(), 1))
        mean = np.where(models > 0, totals / np.maximum(models, 1), overall)
        return cls(models, mean, (np.where(mask, signals - mean, 0) ** 2).sum(axis=0))

    @property
    def freedom(self) -> Floats:
        return np.maximum(self.models - 1, 0)

    @property
    def usual_freedom(self) -> float:
        return float(self.freedom.mean())

    def variance(self, otherwise: float | Floats) -> Floats:
        """The variance of each row; `otherwise`, where fewer than two models say it."""
        return np.where(self.freedom > 0, self.squares / np.maximum(self.freedom, 1), otherwise)


@dataclass(frozen=True)
class Predicted:
    """What the next model will say of each row: Student's t with this centre, scale and freedom."""

    centre: Floats
    scale: Floats
    freedom: float

    def log_density(self, values: Floats) -> Floats:
        return np.asarray(
            student.logpdf((values - self.centre) / self.scale, self.freedom) - np.log(self.scale)
        )

    def cdf(self, values: Floats) -> Floats:
        """The probability that the next model says less."""
        return np.asarray(student.cdf((values - self.centre) / self.scale, self.freedom))


def predict_side(side: Side, opposite: Side | None = None) -> Predicted:
    """From one side, and where there is one from what the other tells of it.

    All rows count as known from equally many models. Where shadows and target share a design (every row in
    half of all models), how many shadows hold a row tells whether the target does: a score must not depend on
    it."""
    freedom, variance = _posterior(side, opposite)
    return _next(side, side.mean, variance, freedom)


def predict_sides(members: Side, nonmembers: Side) -> tuple[Predicted, Predicted]:
    """What the next model says, with the row and without it; the gap between them is shrunk too."""
    (freedom_in, variance_in), (freedom_out, variance_out) = (
        _posterior(members, nonmembers),
        _posterior(nonmembers, members),
    )
    error_in = variance_in / (members.usual_freedom + 1)
    error_out = variance_out / (nonmembers.usual_freedom + 1)
    error = error_in + error_out
    gap = members.mean - nonmembers.mean
    shift = _shrunk_gap(gap, error, nonmembers.mean, np.log(variance_out)) - gap
    return (
        _next(members, members.mean + shift * error_in / error, variance_in, freedom_in),
        _next(nonmembers, nonmembers.mean - shift * error_out / error, variance_out, freedom_out),
    )


def _next(side: Side, centre: Floats, variance: Floats, freedom: float) -> Predicted:
    # The mean is itself known from so many models only.
    wider = 1 + 1 / (side.usual_freedom + 1)
    return Predicted(centre, np.sqrt(variance * wider), freedom)


def _posterior(side: Side, opposite: Side | None) -> tuple[float, Floats]:
    """Degrees of freedom, and the variance of each row after its own models were seen."""
    prior_freedom, prior_variance = prior(side, opposite)
    freedom = prior_freedom + side.usual_freedom
    own = side.variance(prior_variance)
    variance = (prior_freedom * prior_variance + side.usual_freedom * own) / freedom
    return freedom, np.maximum(variance, LEAST)


def prior(side: Side, opposite: Side | None = None) -> tuple[float, Floats]:
    """Degrees of freedom and variance that rows have in common, by the moments of ln s² (Smyth 2004, section
    6.2).

    ln s² is ln σ² + ln χ²_d/d, whose mean is ψ(d/2) − ln(d/2) and whose variance ψ′(d/2); what scatters
    around the trend beyond that is the prior's."""
    usable = (side.freedom > 0) & (side.squares > LEAST)
    if usable.sum() < 2:
        return MOST, np.full(len(usable), LEAST)
    logs = _log_variance(side, usable)
    trend, terms = _trend(_covariates(side, opposite, usable), logs, usable)
    beyond = float((logs - trend)[usable].var(ddof=terms) - polygamma(1, side.freedom[usable] / 2).mean())
    freedom = MOST
    if beyond > 0:
        freedom = min(2 * _trigamma_inverse(beyond), MOST)
    return freedom, np.exp(trend + float(digamma(freedom / 2)) - math.log(freedom / 2))


def _log_variance(side: Side, mask: Booleans) -> Floats:
    """ln s² without the bias of its logarithm; where it cannot be said, the mean of the others."""
    half = np.where(mask, side.freedom, 1) / 2
    squares = np.where(mask, side.squares, 1)
    logs = np.log(squares / (2 * half)) - digamma(half) + np.log(half)
    return np.asarray(np.where(mask, logs, logs[mask].mean()))


def _covariates(side: Side, opposite: Side | None, mask: Booleans) -> list[Floats]:
    """What is known of each row beside its own variance."""
    terms = [side.mean, side.mean**2]
    if opposite is None:
        return terms
    also = mask & (opposite.freedom > 0) & (opposite.squares > LEAST)
    if also.any():
        terms.append(_log_variance(opposite, also))
    return [*terms, opposite.mean, opposite.mean**2]


def _trend(
    terms: list[Floats], values: Floats, mask: Booleans, weight: Floats | None = None
) -> tuple[Floats, int]:
    """The least-squares fit of the values on the terms, within the range of the values, and how many terms it
    has; the mean alone, where rows are too few."""
    rows = int(mask.sum())
    weights = np.ones(len(values)) if weight is None else weight
    if rows < ROWS_PER_TERM * (len(terms) + 1):
        terms = []
    table = np.column_stack([np.ones(len(values)), *(_standard(term, mask) for term in terms)])
    weighted_table = table * weights[:, None]
    solution = np.linalg.lstsq(weighted_table[mask], (values * weights)[mask], rcond=None)[0]
    inside = np.clip(table @ solution, values[mask].min(), values[mask].max())
    return inside, table.shape[1]


def _standard(term: Floats, mask: Booleans) -> Floats:
    return np.asarray((term - term[mask].mean()) / max(float(term[mask].std()), LEAST))


def _shrunk_gap(gap: Floats, error: Floats, mean: Floats, logs: Floats) -> Floats:
    """The posterior mean of each row's gap, whose own variance is `error`, around a trend of all rows. The
    gaps of unsteady rows scatter more: their prior's variance is a multiple of the row's own."""
    weight = 1 / np.sqrt(error + np.median(error))
    trend, _ = _trend([mean, mean**2, logs, mean * logs], gap, np.ones(len(gap), np.bool_), weight)
    variance = np.exp(logs)
    spread = max(float((((gap - trend) ** 2 - error) / variance).mean()), 0.0) * variance
    return (spread * gap + error * trend) / (spread + error)


def _trigamma_inverse(value: float) -> float:
    """The x with ψ′(x) = value; ψ′ falls from ∞ to 0."""
    low, high = 1e-8, MOST
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if polygamma(1, middle) > value else (low, middle)
    return high
