"""Zero-concentrated differential privacy: one number ρ, with D_α ≤ ρ·α at every order,
that adds (Bun, Steinke 2016).

>>> from deniable.loss import GaussianNoise, Pure
>>> rho(GaussianNoise(2))
0.125...
>>> round(rho(Pure(1)), 4)  # ε·tanh(ε/2), not ε²/2
0.4621

For noise whose moment, as a function of (α − ½)², has real negative zeros only, ln of it is concave there, so
D_α/α is largest as α → 1: ρ is the Kullback–Leibler divergence, and tight. That holds for randomized
response, cosh(ε√v)/cosh(ε/2); for Laplace noise, e^{−ε/2}(cosh ε√v + sinh(ε√v)/(2√v)), whose zeros are
eigenvalues of y″ = vy, y′(0) = y(0)/2, y(ε) = 0; and for integer Laplace noise, a polynomial in cosh(√v/s)
with real zeros in (−1, 1) (docs/theory/methods.md).
"""

from __future__ import annotations

import math

import numpy as np

from deniable.accounting.methods.grouping import spread
from deniable.accounting.methods.pure import exact_epsilon, share
from deniable.accounting.methods.sampling import refuse_shuffled
from deniable.accounting.refusals import guard
from deniable.accounting.renyi.convert import best, to_epsilon, to_log_delta
from deniable.accounting.renyi.leaves import linear
from deniable.accounting.renyi.tree import condition, curve
from deniable.accounting.rounding import ceil_float, floor_float, round_up
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import (
    POISSON,
    BoundedRange,
    Composed,
    DiscreteLaplaceNoise,
    Grouped,
    LaplaceNoise,
    Loss,
    Number,
    Parallel,
    Pure,
    Repeated,
    ResponseNoise,
    Sampled,
    Shuffled,
    exact,
)


@guard
def rho(loss: Loss) -> float:
    """The least ρ known for `loss`, rounded up. Raises `Unaccountable` for losses that are not
    concentrated."""
    slope = linear(loss)
    if slope is not None:
        return ceil_float(slope)
    match loss:
        case Pure():
            return response(ceil_float(exact_epsilon(loss)))
        case BoundedRange(epsilon):  # Cesar, Rogers 2021, Theorem 1
            return ceil_float(exact(epsilon) ** 2 / 8)
        case ResponseNoise():
            return _options(loss)
        case LaplaceNoise():
            return _laplace(ceil_float(exact_epsilon(loss)), 0.0)
        case DiscreteLaplaceNoise(scale):
            return _laplace(ceil_float(exact_epsilon(loss)), ceil_float(1 / exact(scale)))
        case _:
            return _combine(loss)


@guard
def epsilon(loss: Loss, delta: Number) -> float:
    """ε of ρ-zCDP at `delta`, at the best order (Canonne, Kamath, Steinke 2020), below ρ + 2√(ρ·ln 1/δ)."""
    core, failure = condition(loss)
    total = rho(core)
    left = 0.0
    if failure < 1:
        # δ = failure + (1 − failure)·left: what the concentrated core may use, rounded down.
        left = floor_float((share(delta) - failure) / (1 - failure))
    if left <= 0 or math.isinf(total):
        if total == 0 and share(delta) >= failure:
            return 0.0
        return math.inf
    bound = best(lambda order: total * order, lambda order, d: to_epsilon(order, d, left))
    return max(0.0, round_up(bound))


@guard
def delta(loss: Loss, epsilon: float) -> float:
    """δ of ρ-zCDP at `epsilon`, at the best order."""
    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise InvalidParameter(f"Expected epsilon={epsilon} in [0, ∞).")
    core, failure = condition(loss)
    total = rho(core)
    log_delta = -math.inf
    if total:
        log_delta = best(lambda order: total * order, lambda order, d: to_log_delta(order, d, epsilon))
    return min(1.0, round_up(ceil_float(failure) + math.exp(min(log_delta, 0.0))))


def response(epsilon: float) -> float:
    """ε·tanh(ε/2): every ε-DP mechanism, attained by randomized response as α → 1."""
    return round_up(epsilon * math.tanh(epsilon / 2))


def _options(loss: ResponseNoise) -> float:
    """Among k answers, r = (1 − p)/(k − 1): (p − r)·ε where c·cosh(ε√v) + (k − 2)r, c =
    2r·e^{ε/2}, has real zeros only.

    Else the largest D_α/α lies at some α > 1: between two orders of the grid D is at most its value at the
    upper one, and beyond the last D_α ≤ ε.
    """
    epsilon, truth = ceil_float(exact_epsilon(loss)), float(loss.truth)
    # The zeros are real where (k − 2)r ≤ c; a little inside, so that rounding cannot claim it.
    if loss.options - 2 <= 2 * math.exp(epsilon / 2) * (1 - 1e-9):
        lie = (1 - truth) / (loss.options - 1)
        return min(round_up((truth - lie) * epsilon + 1e-16 * epsilon), response(epsilon))
    orders = np.exp(0.002 * np.arange(1, 4000))
    # D at the upper order over the lower one of each step: one ratio of the grid.
    steepest = np.max(curve(loss, orders) / orders) * math.exp(0.002)
    return min(round_up(max(float(steepest), epsilon / orders[-1])), response(epsilon))


def _laplace(epsilon: float, y: float) -> float:
    """ε − (1 − e^{−ε})·y/sinh y with y = 1/s; ε − 1 + e^{−ε} for continuous noise, y =
    0. No term cancels the other below."""
    if epsilon < 1e-4:
        # The terms would cancel to ε²/2; the bound for every ε-DP mechanism is as good there.
        return response(epsilon)
    # 1 − y/sinh y is at most y²/6 and at most 1: for where sinh cancels or overflows.
    lattice = (math.sinh(y) - y) / math.sinh(y) if 1e-2 < y < 500 else min(y * y / 6, 1.0)
    return min(
        round_up(epsilon + math.expm1(-epsilon) - math.expm1(-epsilon) * lattice, 1e-10), response(epsilon)
    )


def _combine(loss: Loss) -> float:
    match loss:
        case Repeated(times, of):
            return _round_up(times * rho(of))
        case Composed(parts):
            return _round_up(math.fsum(rho(part) for part in parts))
        case Parallel(parts, replace):
            # A replaced unit touches two parts, or the largest twice: (√ρ₁ + √ρ₂)² at most, and 4ρ bounds
            # both.
            largest = max(rho(part) for part in parts)
            if replace:
                return 4 * largest
            return largest
        case Shuffled(_, of):
            return rho(of)
        case Sampled(_, of, scheme, replace):
            # At large orders a sample gives no credit, so ρ is that of the mechanism on all the data.
            refuse_shuffled(loss)
            if replace and scheme is POISSON:
                return rho(Grouped(2, of))
            return rho(of)
        case Grouped(size, of):
            inner = spread(size, of)
            if inner is None:
                return _round_up(size * size * rho(of))
            return rho(inner)
        case _:
            raise Unaccountable(f"No ρ of zero-concentrated privacy is known for {loss}.")


def _round_up(total: float) -> float:
    """`total` rounded up; nothing stays nothing."""
    if total:
        return round_up(total)
    return 0.0
