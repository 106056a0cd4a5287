"""Sums that give a Rényi divergence without cancellation.

With L = dP/dQ, order α = 1 + β and λ = ln L, the moment E_Q[L^α] differs from 1 by
E_Q[g(λ)], because E_Q[1] = E_Q[L] = 1, where

    g(λ) = e^{αλ} − 1 − α(e^λ − 1) = e^λ·[β·h(−λ) + h(βλ)],     h(y) = e^y − 1 − y ≥ 0.

Every term is non-negative, so a sum of them has the relative error of its terms, however close the moment is
to 1. All is done in logarithms. The error of a term's logarithm is a few ulp of the logarithms it is made of
(IEEE binary64, libm within 8 ulp): `_SLACK` times their sizes is added to it.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from deniable.accounting.rounding import ULP

Array = NDArray[np.float64]

_SLACK = 16 * ULP
_SERIES = [1 / math.factorial(m) for m in range(16, 1, -1)]
_NODES = 1 << 15
"""Most nodes of one quadrature; beyond it the integer orders and the line between them are used."""


def log_h(y: Array) -> Array:
    """ln(e^y − 1 − y): by its series where that cancels."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # Both branches see every y: the one that is not taken gets an argument that cannot overflow.
        near = np.where(np.abs(y) < 0.5, y, 0.0)
        small = 2 * np.log(np.abs(near)) + np.log(np.polyval(_SERIES, near))
        large = np.where(
            y > 0, y + np.log1p(-(1 + y) * np.exp(-y)), np.log(np.maximum(np.expm1(y) - y, 1e-300))
        )
    return np.where(np.abs(y) < 0.5, small, large)


def logsumexp(terms: Array) -> Array:
    """ln Σ e^term along the last axis (scipy's does the same with many checks, and takes
    longer than the sum)."""
    top = np.max(terms, axis=-1, keepdims=True)
    # A row of −∞ alone has no finite top, and −∞ − (−∞) would be nan.
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total: Array = np.log(np.sum(np.exp(terms - top), axis=-1)) + top[..., 0]
    return total


def log_expm1(y: Array) -> Array:
    """ln(e^y − 1) for y ≥ 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(y > 1, y + np.log1p(-np.exp(-y)), np.log(np.expm1(np.minimum(y, 2.0))))


def log_excess(logratio: Array, order: Array) -> Array:
    """ln g(λ), an upper bound, for all pairs of order (rows) and λ (columns)."""
    beta = order - 1
    bent = beta * logratio
    value = logratio + np.logaddexp(np.log(beta) + log_h(-logratio), log_h(bent))
    # In a logarithm a rounding is absolute: an ulp of each term's size.
    return value + _SLACK * (4 + np.abs(logratio) + np.abs(bent) + np.abs(np.log(beta)))


def from_log_excess(excess: Array, orders: Array) -> Array:
    """D = ln(1 + e^excess)/(α − 1); the sum of up to 2^15 terms behind `excess` errs by less than 1e-12 of
    itself: it is added pairwise."""
    return np.logaddexp(0.0, excess + 1e-12) / (orders - 1) * (1 + 8 * ULP)


def of_atoms(logratio: Array, log_weight: Array, orders: Array) -> Array:
    """D_α(P‖Q) of finitely many outcomes with λ = ln dP/dQ and the logarithms of their Q masses.

    The masses may be upper bounds: all terms are non-negative.
    """
    terms = (
        log_excess(logratio[None, :], orders[:, None])
        + log_weight[None, :]
        + _SLACK * (2 + np.abs(log_weight))
    )
    return from_log_excess(logsumexp(terms), orders)


def mix_ratios(rate: float, logratio: Array) -> Array:
    """ln(1 − q + q·e^λ): the log ratio of (1 − q)Q + qP to Q."""
    if rate == 1:
        return logratio
    with np.errstate(over="ignore"):
        bulk = np.log1p(rate * np.expm1(np.minimum(logratio, 700.0)))
    far = logratio > 700
    return np.where(far, logratio + math.log(rate) + 1e-290, bulk)


# ------------------------------------------------------------------------------------------------ Gaussian


def sampled_gaussian(rate: float, sigma: float, orders: Array) -> Array:
    """D_α((1 − q)N(0,1) + qN(1/σ,1) ‖ N(0,1)) at real orders by the trapezoidal rule,
    its error added; ∞ where too long.

    With t standard normal and λ(t) = ln(1 − q + q·e^{t/σ − 1/2σ²}), the integrand φ(t)·g(λ(t))
    is analytic for |Im t| < πσ, and along every line there ∫|·| ≤ e^{a²/2}·(E[e^{αλ}] + 1 +
    2αq). Hence a step η errs by at most 2·e^{a²/2}·(…)/(e^{2πa/η} − 1) for any a < πσ
    (Trefethen, Weideman 2014, Theorem 5.1). Outside the nodes: for t ≥ α/σ + w the logarithm
    of φ·e^{αλ} falls at least w per unit; for t ≤ −w, g is at most its value at λ = ln(1 − q).
    """
    step, exponent = _step(rate, sigma)
    result = np.full(len(orders), math.inf)
    # One grid for all orders of an octave, so that none pays for the longest.
    octave = np.floor(np.log2(orders / sigma + 24))
    for block in np.unique(octave):
        rows = np.flatnonzero(octave == block)
        count = math.ceil((orders[rows].max() / sigma + 24) / step)
        # Memory for sixteen of the longest grids, however many orders are asked for.
        chunk = max(1, (16 * _NODES) // max(count, 1))
        if count <= _NODES:
            for some in np.split(rows, range(chunk, len(rows), chunk)):
                result[some] = _trapezoid(rate, sigma, orders[some], step, exponent, count)
    return result


def _step(rate: float, sigma: float) -> tuple[float, float]:
    """A step η and the logarithm of the rule's relative error, aimed well below the
    excess, which is of order q²·(1/σ²)."""
    # e^−46 ≈ 1e-20 of an excess of order q²/σ².
    aim = 46 + 2 * math.log(1 / rate) + 2 * abs(math.log(sigma))
    strip = min(0.98 * math.pi * sigma, math.sqrt(2 * aim))
    step = 2 * math.pi * strip / (aim + strip * strip / 2)
    return step, strip * strip / 2 - math.log(math.expm1(min(2 * math.pi * strip / step, 700.0)))


def _trapezoid(rate: float, sigma: float, orders: Array, step: float, exponent: float, count: int) -> Array:
    # The nodes begin at −12, where φ is 1e-32; what lies before them is `left`, below.
    t: Array = -12 + step * np.arange(count + 1, dtype=np.float64)
    logratio = mix_ratios(rate, t / sigma - 1 / (2 * sigma * sigma))
    constant = math.log(step) - 0.5 * math.log(2 * math.pi)
    log_weight = constant - t * t / 2
    column = orders[:, None]
    slack = _SLACK * (
        4 + t * t / 2 + column * np.abs(t / sigma)
    )  # an ulp of t moves λ by |t|/σ ulp, and t²/2 by t²
    excess = logsumexp(log_excess(logratio[None, :], column) + log_weight + slack)
    # Outside the nodes terms fall by e^(−12·step) each: the sum of a geometric series.
    decay = math.log(math.expm1(12 * step))
    right = orders * logratio[-1] + log_weight[-1] - decay
    left = log_excess(np.array([[math.log1p(-rate)]]), column)[:, 0] + log_weight[0] - decay
    moment = np.logaddexp(np.logaddexp(excess, 0.0), np.log(2 + 2 * orders))
    error = math.log(3) + moment + exponent
    return from_log_excess(logsumexp(np.stack([excess, right, left, error], axis=-1)), orders)


# --------------------------------------------------------------------------------------------- integer orders


def binomial_excess(rate: float, log_moments: Array, order: int, *, is_without: bool = False) -> float:
    """ln Σ_{k≥2} C(n,k)·q^k·(1−q)^{n−k}·(M_k − 1), where M_k = E_Q[L^k] (M_0 = M_1 = 1):
    the excess of E_Q[(1−q+qL)^n].

    `log_moments[k]` bounds ln M_k. With `is_without=True` the terms are C(n,k)·q^k·M_k
    instead, as in sampling without replacement (Wang, Balle, Kasiviswanathan 2019,
    Theorem 9; the caller passes its coefficients inside M_k).
    """
    k = np.arange(2, order + 1)
    lgamma = _log_factorials(1 << order.bit_length())
    choose = lgamma[order] - lgamma[k] - lgamma[order - k]
    others = np.zeros(len(k)) if is_without or rate == 1 else (order - k) * math.log1p(-rate)
    if rate == 1 and not is_without:
        others = np.where(k == order, 0.0, -np.inf)
    moments = log_moments[2 : order + 1]
    gain = moments
    if not is_without:
        gain = log_expm1(moments)
    size = (
        3 * lgamma[order]
        + k * abs(math.log(rate))
        + np.abs(np.where(np.isfinite(others), others, 0))
        + moments
    )
    return float(logsumexp(choose + k * math.log(rate) + others + gain + _SLACK * (8 + np.abs(size))))


@lru_cache(maxsize=32)
def _log_factorials(count: int) -> Array:
    """ln n! for n = 0 … count."""
    table: Array = gammaln(np.arange(1.0, count + 2))
    return table


def interpolate(orders: Array, grid: Array, divergences: Array) -> Array:
    """(α − 1)·D_α is convex in α and 0 at α = 1, so the line between two orders lies
    above it; ∞ beyond the last."""
    nodes, moments = np.concatenate([[1.0], grid]), np.concatenate([[0.0], divergences * (grid - 1)])
    line: Array = np.interp(orders, nodes, moments, right=math.inf)
    return line / (orders - 1) * (1 + 8 * ULP)
