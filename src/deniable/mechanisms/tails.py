"""How large integer noise is: tails, means and quantiles in grid units, never below the truth.

Each function is a formula evaluated in floats and then enlarged by `_UP`, far more than its rounding: the
arguments are exact rationals rounded once, exp, erfc and the sums used here are good to 1e-12, and exponents
below 745 lose 745·2^-52 at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

_UP = 1 + 1e-10
_SMALLEST = 1e-300
_SUMMED = 4096
"""Up to this σ the integer Gaussian is summed term by term, beyond it bounded by integrals."""
_MIXED = 4096
"""Up to this many coordinates the L1 norm of Laplace noise has its exact tail, beyond it Chernoff's bound."""

Tail = Callable[[int], float]


# ------------------------------------------------------------------------------------------------ Laplace


def laplace_tail(scale: Fraction, n: int) -> float:
    """P(|X| ≥ n) = 2·aⁿ/(1 + a) with a = e^(−1/scale), for n ≥ 1."""
    if n <= 0:
        return 1.0
    a = math.exp(-float(1 / scale))
    return min(1.0, 2 * _exp(-float(n / scale)) / (1 + a) * _UP)


def laplace_mean(scale: Fraction) -> float:
    """E|X| = 2a/(1 − a²) = 1/sinh(1/scale)."""
    x = float(1 / scale)
    # Beyond, sinh overflows, and the mean is below 1e-303.
    if x < 700:
        return 1 / math.sinh(x)
    return 0.0


def laplace_at_zero(scale: Fraction) -> float:
    """P(X = 0) = (1 − a)/(1 + a) = tanh(1/(2·scale))."""
    return math.tanh(float(1 / (2 * scale)))


def laplace_norm_tail(scale: Fraction, dimension: int, n: int) -> float:
    """P(|X₁| + … + |X_k| ≥ n), exactly up to k = 4096 and by Chernoff beyond.

    |X| is 0 or, with probability 2a/(1 + a), one more than a geometric number of failures. So the norm is
    m + NB(m, 1 − a) with m binomial, and the tail of a negative binomial is an incomplete beta function:
    P(NB ≥ j) = I_a(j, m).
    """
    if n <= 0:
        return 1.0
    if dimension > _MIXED:
        return _laplace_chernoff(scale, dimension, n)
    x = float(1 / scale)
    nonzeros = np.arange(1, dimension + 1, dtype=float)
    share = 2 * math.exp(-x) / (1 + math.exp(-x))
    # e^(−x) is below every double: noise other than 0 is rarer than any number that is told here.
    if not share:
        return _SMALLEST
    weight = np.exp(
        _log_choose(dimension, nonzeros)
        + nonzeros * math.log(share)
        + (dimension - nonzeros) * math.log1p(-share)
    )
    # Where the nonzeros alone reach n the tail is 1; elsewhere j ≥ 1, as the beta function asks.
    rest = np.maximum(n - nonzeros, 1.0)
    tails = np.where(nonzeros >= n, 1.0, special.betaincc(nonzeros, rest, -math.expm1(-x)))
    # The gamma and beta functions err by far less than 1e-9 of themselves; all terms are positive.
    return min(1.0, float(np.sum(weight * tails)) * (1 + 1e-9) + _SMALLEST)


def _laplace_chernoff(scale: Fraction, dimension: int, n: int) -> float:
    """min over λ < 1/scale of M(λ)^k·e^(−λn) with the exact M(λ) = E e^(λ|X|) =
    tanh(b/2)/tanh((b − λ)/2), b = 1/scale."""
    b = float(1 / scale)

    def exponent(share: float) -> float:
        # λ = share·b: the moment exists below b only.
        log_mgf = math.log(math.tanh(b / 2)) - math.log(math.tanh(b * (1 - share) / 2))
        return _minus(dimension * log_mgf, share * b * n)

    return _least(exponent, 1e-9, 1 - 1e-9)


def _log_choose(k: int, m: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(special.gammaln(k + 1.0) - special.gammaln(m + 1) - special.gammaln(k - m + 1))


# ------------------------------------------------------------------------------------------------ Gaussian


def gaussian_tail(sigma: Fraction, n: int) -> float:
    """P(|X| ≥ n) for P(x) = e^(−x²/2σ²)/Z: the exact sum up to σ = 4096, beyond it an integral.

    For large σ: Z ≥ σ√2π by Poisson summation. Where x ≥ σ + ½ the weight is convex, so
    it is at most its integral over [x − ½, x + ½], and P(|X| ≥ n) ≤ 2·Φ(−(n − ½)/σ);
    elsewhere it falls, and P(|X| ≥ n) ≤ 2·Φ(−(n − 1)/σ).
    """
    if n <= 0:
        return 1.0
    if sigma <= _SUMMED:
        # The table ends at 39σ, beyond which the tail is below the smallest double.
        tails = _gaussian_table(sigma)[0]
        if n < len(tails):
            return min(1.0, float(tails[n]) * _UP + _SMALLEST)
        return _SMALLEST
    # Convex from σ on: there a term is at most its integral around it, else at most the one before it.
    from_ = n - Fraction(1, 2) if n - Fraction(1, 2) >= sigma else Fraction(n - 1)
    return min(1.0, 2 * float(special.ndtr(-float(from_ / sigma))) * _UP + _SMALLEST)


def gaussian_mean(sigma: Fraction) -> float:
    """E|X|; beyond σ = 4096 its limit σ√(2/π), from which it differs by less than 1e-8 of itself."""
    if sigma <= _SUMMED:
        return _gaussian_table(sigma)[1]
    return float(sigma) * math.sqrt(2 / math.pi)


def gaussian_at_zero(sigma: Fraction) -> float:
    """P(X = 0) = 1/Z."""
    if sigma <= _SUMMED:
        return 1 - float(_gaussian_table(sigma)[0][1])
    return 1 / (float(sigma) * math.sqrt(2 * math.pi))


def gaussian_norm_tail(sigma: Fraction, dimension: int, n: int) -> float:
    """P(|X₁| + … + |X_k| ≥ n) ≤ min over λ of (E e^(λ|X|))^k·e^(−λn) (Chernoff), with `_gaussian_log_mgf`."""
    if n <= 0:
        return 1.0
    if dimension == 1:
        return gaussian_tail(sigma, n)
    s = float(sigma)
    # The best tilt is about the mean deviation n/k in units of σ; any other is valid, only less tight.
    top = max(1.0, n / (dimension * s)) * 2

    def exponent(tilt: float) -> float:
        return _minus(dimension * _gaussian_log_mgf(sigma, tilt / s), tilt / s * n)

    return _least(exponent, 0.0, top)


def _gaussian_log_mgf(sigma: Fraction, rate: float) -> float:
    """ln E e^(λ|X|): summed up to σ = 4096, bounded beyond.

    For large σ, with h(x) = e^(λx − x²/2σ²) on x ≥ 0, the sum over all integers is twice the trapezoidal rule
    for ∫h, whose error is at most ∫|h''|/8 ≤ σ√2π·e^(λ²σ²/2)/(4σ²). And Z ≥ σ√2π. So E e^(λ|X|) ≤
    2e^(λ²σ²/2)·(Φ(λσ) + 1/(4σ²)).
    """
    s = float(sigma)
    if sigma > _SUMMED:
        t = rate * s
        return math.log(2 * (float(special.ndtr(t)) + 0.25 / (s * s))) + t * t / 2 + 1e-12
    x = np.arange(0, math.ceil(s * (39 + rate * s)) + 2, dtype=float)
    # x and −x together: all but 0 count twice.
    log_terms = rate * x - x * x / (2 * s * s) + np.where(x > 0, math.log(2), 0.0)
    # 1e-10 covers the rounding of the sum and of its logarithm.
    return float(special.logsumexp(log_terms)) - math.log(_gaussian_table(sigma)[2]) + 1e-10


@lru_cache(maxsize=64)
def _gaussian_table(sigma: Fraction) -> tuple[NDArray[np.float64], float, float]:
    """P(|X| ≥ n) for n = 0, 1, … up to 39σ (where e^(−x²/2σ²) < 1e-330), then E|X|, then
    Z. Summed from the small end."""
    s = float(sigma)
    x = np.arange(0, math.ceil(39 * s) + 2, dtype=float)
    weights = np.exp(-x * x / (2 * s * s)) * np.where(x > 0, 2.0, 1.0)
    sums = np.cumsum(weights[::-1])[::-1]
    return sums / sums[0], float(np.sum((x * weights)[::-1]) / sums[0]), float(sums[0])


# ------------------------------------------------------------------------------------------------ quantiles


def per_coordinate(beta: Fraction, dimension: int) -> float:
    """The β' with 1 − (1 − β')^k = β: all k independent coordinates stay within a bound of failure β'
    each."""
    if dimension == 1:
        return float(beta) * (1 - 1e-15)
    # Rounded down: a smaller failure for each coordinate only widens the bound.
    return -math.expm1(math.log1p(-float(beta)) / dimension) * (1 - 1e-12)


def quantile(tail: Tail, beta: float, guess: float = 1.0) -> int:
    """The least t ≥ 0 with tail(t + 1) ≤ beta, that is P(|noise| > t) ≤ beta. `tail` falls."""
    low, high = -1, max(1, math.ceil(guess))
    # Doubling first: a guess that is far too small costs a few tails, not many.
    while tail(high + 1) > beta:
        low, high = high, 2 * high
    # From here on `high` holds and `low` does not.
    while high - low > 1:
        middle = (low + high) // 2
        if tail(middle + 1) <= beta:
            high = middle
        else:
            low = middle
    return high


def largest_scale(tail: Callable[[Fraction], float], beta: float) -> float:
    """The largest scale (to 12 digits) whose `tail` is at most `beta`; `tail` grows with the scale."""
    low = high = 1.0
    while tail(Fraction(low)) > beta:
        low, high = low / 2, low
    while tail(Fraction(high)) <= beta:
        low, high = high, high * 2
    while high / low > 1 + 1e-12:
        # The geometric middle: scales range over hundreds of powers of ten.
        middle = math.sqrt(low * high)
        if tail(Fraction(middle)) <= beta:
            low = middle
        else:
            high = middle
    # `low` is the side on which the tail stays within β.
    return _round_down(low)


def _round_down(x: float) -> float:
    """A shorter decimal at most `x`: 12 significant digits."""
    digits = 11 - math.floor(math.log10(x))
    if abs(digits) < 280:
        return float(f"{math.floor(x * (1 - 1e-13) * 10**digits)}e{-digits}")
    return x


def _least(exponent: Callable[[float], float], low: float, high: float) -> float:
    """e to the least exponent found; every λ gives a valid bound, so a poor search costs tightness only."""
    minimum = optimize.minimize_scalar(
        exponent, bounds=(low, high), method="bounded", options={"xatol": 1e-10}
    )
    return min(1.0, _exp(min(0.0, float(minimum.fun))) * _UP + _SMALLEST)


def _minus(x: float, y: float) -> float:
    """x − y, rounded up by more than the rounding of the products that made them."""
    return x - y + 1e-14 * (abs(x) + abs(y))


def _exp(x: float) -> float:
    if x > -700:
        return math.exp(x)
    return _SMALLEST
