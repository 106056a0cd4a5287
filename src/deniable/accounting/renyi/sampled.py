"""Rényi divergences of a mechanism on a secret sample.

Poisson, add/remove: P′ = (1 − q)Q + qP against Q, where (P, Q) dominates the mechanism (Zhu, Dong, Wang 2022,
Theorem 11; Rényi divergences grow with the hockey-stick curve). Two directions:

- D(P′‖Q): E_Q[(1 − q + qL)^α], at whole orders a binomial sum of the moments E_Q[L^k] = e^{(k−1)D_k(P‖Q)}
  (Abadi et al. 2016; Mironov, Talwar, Zhang 2019), at 1 < α < 2 at most 1 + ((1−q)^α − 1 + αq)·(e^{D₂} − 1),
  since ((1+y)^α − 1 − αy)/y² falls in y ≥ −q.
- D(Q‖P′): if a reflection swaps P and Q it is the smaller one (Mironov, Talwar, Zhang 2019, Theorem 5, whose
  proof is pointwise). In general E_Q[(1 − q + qL)^{1−α}] ≤ 1 + ((1−q)^{1−α} − 1 − (α−1)q)·(e^{D₂} − 1), by
  the same argument with 1 − α for α.

Between whole orders: the line, see `kernel.interpolate`. Without replacement under add/remove: the sample of
D + x holds x with probability q and is then a sample of D with one record replaced, so the same holds with
`of` stated for replacing. Without replacement, one record replaced: Wang, Balle, Kasiviswanathan 2019,
Theorem 9. Poisson, one record replaced: two neighbours under add/remove (`tree.chain_curve`). Always, no
sample reveals more than the mechanism on all of it (quasi-convexity).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from deniable.accounting.renyi import kernel
from deniable.accounting.renyi.kernel import Array, binomial_excess, from_log_excess, interpolate
from deniable.accounting.renyi.leaves import atoms
from deniable.accounting.rounding import ULP
from deniable.loss import (
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Pure,
    Repeated,
    ResponseNoise,
    exact,
)

Curve = Callable[[Array], Array]

LONGEST = 1 << 15
"""Highest whole order of the binomial sum for Gaussian noise; above it a sample is not credited."""
LONGEST_GENERAL = 512


def added_curve(rate: float, inner: Loss, of_curve: Curve, orders: Array) -> Array:
    """Add/remove: the larger direction, for a loss `inner` whose own curve is `of_curve`."""
    if rate == 1:
        return of_curve(orders)
    sigma, pair = merge_gaussians(inner), atoms(inner)
    if sigma is not None:
        return gaussian(rate, sigma, orders)
    if pair is not None:
        return kernel.of_atoms(kernel.mix_ratios(rate, pair[0]), pair[1], orders)
    return _general(rate, of_curve, orders, both_directions=not symmetric(inner))


def merge_gaussians(loss: Loss) -> float | None:
    """The one multiplier (Σσᵢ⁻²)^−½ of Gaussian releases that share a sample; None if there is other
    noise."""
    precision = _precision(loss)
    if not precision:
        return None
    return 1 / math.sqrt(precision)


def _precision(loss: Loss) -> float | None:
    match loss:
        case GaussianNoise(multiplier):
            return float(1 / exact(multiplier) ** 2)
        case Repeated(times, of):
            inner = _precision(of)
            if inner is None:
                return None
            return times * inner
        case Composed(parts):
            inners = [_precision(part) for part in parts]
            if None in inners:
                return None
            return math.fsum(i for i in inners if i is not None)
        case _:
            return None


def symmetric(loss: Loss) -> bool:
    """Whether a dominating pair is known whose sides a reflection swaps.

    Every pair of one integer Gaussian release is reflected at its middle; a composition of such releases may
    move by amounts that depend on earlier answers, so there it is not claimed.
    """
    return isinstance(loss, DiscreteGaussianNoise) or _product(loss)


def _product(loss: Loss) -> bool:
    match loss:
        case GaussianNoise() | LaplaceNoise() | DiscreteLaplaceNoise() | Pure() | ResponseNoise():
            return True
        case Repeated(_, of):
            return _product(of)
        case Composed(parts):
            return all(_product(part) for part in parts)
        case _:
            return False


def gaussian(rate: float, sigma: float, orders: Array) -> Array:
    """Gaussian noise on a Poisson sample: exact at whole orders by the sum, at others by quadrature."""
    slope = (1 + 4 * ULP) / (2 * sigma * sigma)
    result = slope * orders  # valid without credit for the sample
    mask = (orders == np.round(orders)) & (orders <= LONGEST)
    for i in np.flatnonzero(mask):
        k = np.arange(int(orders[i]) + 1)
        excess = binomial_excess(rate, k * (k - 1.0) * slope, int(orders[i]))
        result[i] = min(result[i], from_log_excess(np.array([excess]), orders[i : i + 1])[0])
    rest = np.flatnonzero(~mask)
    if len(rest):
        result[rest] = np.minimum(result[rest], _fractional(rate, sigma, orders[rest]))
    return result


def _fractional(rate: float, sigma: float, orders: Array) -> Array:
    result = kernel.sampled_gaussian(rate, sigma, orders)
    long = np.isinf(result) & (orders < LONGEST)
    if np.any(long):
        result[long] = _interpolate_orders(rate, sigma, orders[long])
    return result


def _general(rate: float, of_curve: Curve, orders: Array, *, both_directions: bool) -> Array:
    integers, log_moments = _moments(of_curve, orders)
    second = log_moments[2]
    excess = np.array([binomial_excess(rate, log_moments, int(n)) for n in integers])
    if both_directions:
        excess = np.maximum(excess, _reverse(rate, second, integers))
    divergences = interpolate(orders, integers, from_log_excess(excess, integers))
    low = orders < 2
    start = _curvature(rate, orders[low]) + _log_chi(second)
    if both_directions:
        start = np.maximum(start, _reverse(rate, second, orders[low]))
    divergences[low] = np.minimum(divergences[low], from_log_excess(start, orders[low]))
    return np.minimum(divergences, of_curve(orders))


def replaced_curve(rate: float, of_curve: Curve, orders: Array) -> Array:
    """The curve without replacement, one record replaced, in terms of `of` under the same relation."""
    integers, log_moments = _moments(of_curve, orders)
    second = log_moments[2]
    log_moments = log_moments + math.log(2)
    log_moments[2] = min(math.log(4) + _log_chi(second), math.log(2) + second)
    excess = np.array([binomial_excess(rate, log_moments, int(n), is_without=True) for n in integers])
    return np.minimum(interpolate(orders, integers, from_log_excess(excess, integers)), of_curve(orders))


def _moments(of_curve: Curve, orders: Array) -> tuple[Array, Array]:
    """The whole orders next to `orders`, as far as they are summed, and ln E_Q[L^k] for
    k = 0, 1, 2, … up to the last."""
    near = np.concatenate([np.floor(orders), np.ceil(orders)])
    integers = np.unique(np.clip(near, 2, LONGEST_GENERAL))
    # A power of two of moments, so that a cache of the inner curve is hit whatever the orders are.
    k = np.arange(2.0, 2 ** math.ceil(math.log2(integers[-1] + 1)) + 1)
    return integers, np.concatenate([[0.0, 0.0], (k - 1) * of_curve(k)])


def _curvature(rate: float, orders: Array) -> Array:
    """ln((1 − q)^α − 1 + αq), by the kernel's g at λ = ln(1 − q)."""
    return kernel.log_excess(np.array(math.log1p(-rate)), orders)


def _reverse(rate: float, second: float, orders: Array) -> Array:
    """ln of the excess of D(Q‖P′): ((1 − q)^{1−α} − 1 − (α − 1)q)·(e^{D₂} − 1).

    With λ = ln(1 − q) and β = α − 1: (1 − q)^{−β} − 1 − βq = h(−βλ) + β·(−λ − q), and −λ
    − q = h(λ) + … = e^λ − 1 − λ = h(λ).
    """
    bent = math.log1p(-rate)
    beta = orders - 1
    terms = np.logaddexp(kernel.log_h(-beta * bent), np.log(beta) + kernel.log_h(np.full_like(beta, bent)))
    return terms + _log_chi(second) + 32 * ULP * (4 + beta * abs(bent))


def _log_chi(second: float) -> float:
    """ln(e^{D₂} − 1), the χ² divergence."""
    return float(kernel.log_expm1(np.array(second))) + 8 * ULP * (4 + abs(second))


def _interpolate_orders(rate: float, sigma: float, orders: Array) -> Array:
    """The line between the whole orders next to each one: for orders whose quadrature would be too long."""
    low = np.maximum(np.floor(orders), 1.0)
    ends = [np.where(n > 1, gaussian(rate, sigma, np.maximum(n, 2.0)) * (n - 1), 0.0) for n in (low, low + 1)]
    part = orders - low
    return ((1 - part) * ends[0] + part * ends[1]) / (orders - 1) * (1 + 8 * ULP)
