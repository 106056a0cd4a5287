"""The best of a random number of runs (Papernot, Steinke 2022).

Only the best run's output, its score included, is shown. The number of runs must be random as stated; a fixed
number costs far more. Rényi curves: Theorem 2 for truncated negative binomial, Theorem 6 for Poisson numbers
of runs; what a pure ε becomes is exact (`pure_epsilon`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable.accounting.methods.sampling import LARGE
from deniable.accounting.rounding import (
    ULP,
    ceil_float,
    exp_wide,
    least_above,
    log_ratio_up,
    round_up,
    shorten_up,
)
from deniable.loss import NegativeBinomialRuns, PoissonRuns, exact

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]

_ORDERS = 1 + np.exp2(np.arange(-6, 14, 0.25))
"""Second orders λ̂ tried in Theorem 2 (and 6); each gives a valid bound."""


def mean_runs(runs: PoissonRuns | NegativeBinomialRuns) -> float:
    """How many runs to expect, rounded up.

    >>> mean_runs(NegativeBinomialRuns(eta=1, gamma=0.25))
    4.0
    """
    match runs:
        case PoissonRuns(mean):
            return ceil_float(exact(mean))
        case NegativeBinomialRuns(eta, gamma) if eta == 1:
            return ceil_float(1 / exact(gamma))
        case NegativeBinomialRuns(eta, gamma):
            # η(1/γ − 1)/(1 − γ^η), and its limit (1/γ − 1)/ln(1/γ) at η = 0, in one form that does not
            # cancel.
            log = math.log(float(gamma))
            x = float(eta) * log
            shrink = 1.0
            if x:
                shrink = -math.expm1(x) / -x
            return round_up((1 / float(gamma) - 1) / (-log * shrink))


def select_curve(
    inner: Curve, pure: Fraction | None, runs: PoissonRuns | NegativeBinomialRuns, orders: Array
) -> Array:
    """The Rényi curve of the selection, from the curve of one run and its pure ε where it has one."""

    def bound(order: Array) -> Array:
        if isinstance(runs, PoissonRuns):
            return _poisson(inner, ceil_float(exact(runs.mean)), order)
        return _negative_binomial(inner, pure, runs, order)

    result = least_above(bound, orders, _ORDERS)
    if pure is None:
        return result
    return np.minimum(result, ceil_float(pure_epsilon(pure, runs)))


def pure_epsilon(epsilon: Fraction, runs: PoissonRuns | NegativeBinomialRuns) -> Fraction:
    """The pure ε of the best of many ε-DP runs: ε + (1+η)·ln((e^ε + γ)/(1 + γe^ε)), or ε
    + μ·tanh(ε/2) for Poisson runs.

    Exact: no smaller number holds for all ε-DP runs. It is at most ε + (1+η)·min(ε, ln
           1/γ), so never above the (2 + η)ε of
    Papernot, Steinke 2022, Corollary 3. Proof: docs/theory/methods.md, "The best of many runs".
    """
    if isinstance(runs, PoissonRuns):
        return epsilon + exact(runs.mean) * _variation(epsilon)
    return epsilon + (1 + exact(runs.eta)) * _rise(epsilon, exact(runs.gamma))


def _variation(epsilon: Fraction) -> Fraction:
    """tanh(ε/2), rounded up: the most by which the chance of an event differs between neighbours."""
    if epsilon > LARGE:
        return Fraction(1)
    grown = exp_wide(epsilon)
    return shorten_up((grown - 1) / (grown + 1))


def _rise(epsilon: Fraction, gamma: Fraction) -> Fraction:
    """ln((e^ε + γ)/(1 + γe^ε)), rounded up; it rises to ln(1/γ)."""
    if epsilon > LARGE:
        return log_ratio_up(1 / gamma)
    grown = exp_wide(epsilon)
    return log_ratio_up((grown + gamma) / (1 + gamma * grown))


def _negative_binomial(
    inner: Curve, pure: Fraction | None, runs: NegativeBinomialRuns, orders: Array
) -> Array:
    """ε′(λ) = ε(λ) + (1+η)(1 − 1/λ̂)ε(λ̂) + (1+η)·ln(1/γ)/λ̂ + ln E[K]/(λ − 1), for every λ̂ > 1.

    Where a run is ε-DP, (1+η)·ln((e^ε + γ)/(1 + γe^ε)) may stand for the two middle terms: it bounds ln
    f′(U)/f′(V), and f′ ≤ E[K] (docs/theory/methods.md).
    """
    weight, depth = 1 + float(runs.eta), -math.log(float(runs.gamma))
    second = (1 - 1 / _ORDERS) * inner(_ORDERS) + depth / _ORDERS
    least = float(np.min(second))
    if pure is not None:
        least = min(least, ceil_float(_rise(pure, exact(runs.gamma))))
    result = inner(orders) + weight * least + math.log(mean_runs(runs)) / (orders - 1)
    return result * (1 + 64 * ULP)


def _poisson(inner: Curve, mean: float, orders: Array) -> Array:
    """E[…] ≤ e^−μ + μ·e^{(λ−1)(ε(λ) + μδ̂)} where one run is (ε̂, δ̂)-DP with e^ε̂ ≤ 1 + 1/(λ − 1).

    Theorem 6 states the second term alone, ε′(λ) = ε(λ) + μδ̂ + ln μ/(λ − 1), which is
    below 0 for small μ; e^−μ is the chance of no run at all, an outcome of its own with
    the same chance on both sides, and is kept here.
    """
    at, divergences = np.concatenate([_ORDERS, orders]), np.concatenate([inner(_ORDERS), inner(orders)])
    limit = np.log1p(1 / (orders - 1))
    # δ̂ at ε̂ from the Rényi curve (Canonne, Kamath, Steinke 2020, Proposition 12), at the best order.
    exponent = (at - 1) * (divergences - limit[:, None] * (1 - 4 * ULP) + np.log1p(-1 / at)) - np.log(at)
    delta = np.exp(np.minimum(np.min(exponent, axis=1) + 1e-9, 0.0))
    moment = math.log(mean) + (orders - 1) * (inner(orders) + mean * delta)
    result: Array = np.logaddexp(-mean, moment + 64 * ULP * np.abs(moment)) / (orders - 1)
    return np.maximum(result, 0.0) * (1 + 64 * ULP)
