"""The Gaussian mechanism exactly: its hockey-stick divergence, and the noise it needs (Balle, Wang 2018).

With μ = sensitivity/σ and a = ε/μ − μ/2, b = ε/μ + μ/2,

    δ(ε) = Φ(−a) − e^ε·Φ(−b) = φ(a)·(R(a) − R(b)),       R(x) = Φ(−x)/φ(x), the Mills ratio.

Gaussian releases compose to one with μ² = Σμᵢ² (Dong, Roth, Su 2019), so a tree of
Gaussian noise has a closed form.

>>> round(analytic_sigma(1, 1e-5), 4), round(classical_sigma(1, 1e-5), 4)
(3.7306, 4.8448)
"""

from __future__ import annotations

import math
from fractions import Fraction

from scipy.special import erfcx, log_ndtr, ndtr

from deniable.accounting.methods.grouping import spread
from deniable.accounting.methods.pure import share
from deniable.accounting.refusals import guard
from deniable.accounting.rounding import ULP, ceil_float, floor_float, round_up
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import Composed, GaussianNoise, Grouped, Loss, Number, Repeated, exact

_SQRT2 = math.sqrt(2)


@guard
def hockey_stick(mu: float, epsilon: float) -> float:
    """δ at `epsilon` of Gaussian noise 1/μ times the sensitivity, rounded up.

    Where the two terms cancel (small μ) the rounding grows: it is 64 ulp of the first
    term, (1 + a²) times in the tail.
    """
    if not (mu > 0 and epsilon >= 0 and math.isfinite(mu)):
        raise InvalidParameter(f"Expected mu={mu} in (0, ∞) and epsilon={epsilon} in [0, ∞).")
    if math.isinf(epsilon):
        return 0.0
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if a < 0:
        value = float(ndtr(-a)) - math.exp(epsilon + float(log_ndtr(-b)))
        return min(1.0, max(value, 0.0) + 64 * ULP * (1 + epsilon) + 5e-324)
    density = math.exp(-a * a / 2) / 2  # φ(a)·R(x) = e^{−a²/2}·erfcx(x/√2)/2
    first, second = density * float(erfcx(a / _SQRT2)), density * float(erfcx(b / _SQRT2))
    # a is off by a few ulp of ε/μ + μ, which moves e^{−a²/2} by a·(b + 1) times as much.
    difference = max(first - second, 0.0)
    return min(
        1.0, difference * (1 + 16 * ULP * (1 + a * (b + 1))) + 16 * ULP * first * (1 + (b - a) * b) + 5e-324
    )


def epsilon_of(mu: float, delta: float) -> float:
    """The least ε with hockey_stick(mu, ε) ≤ delta, to a relative 1e-13, rounded up."""
    if mu == 0 or hockey_stick(mu, 0.0) <= delta:
        return 0.0
    # The loss has mean μ²/2 and deviation μ: one deviation above it is a good first guess.
    low, high = 0.0, mu * mu / 2 + mu
    while hockey_stick(mu, high) > delta:
        low, high = high, 2 * high
        if high > 1e300:
            return math.inf
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if hockey_stick(mu, middle) > delta:
            low = middle
        else:
            high = middle
    # `high` is the side on which δ holds.
    return round_up(high)


@guard
def epsilon(loss: Loss, delta: Number) -> float:
    """ε of a composition of Gaussian noise, exactly; raises `Unaccountable` for any other loss."""
    square = squared_mu(loss)
    if square is None:
        raise Unaccountable(f"The closed form is for Gaussian noise alone, and this loss is {loss}.")
    left = floor_float(share(delta))
    if left == 0 or square == 0:
        if square:
            return math.inf
        return 0.0
    # μ is rounded up and δ down: both make ε larger.
    return epsilon_of(round_up(math.sqrt(ceil_float(square)), 4 * ULP), left)


@guard
def textbook_epsilon(loss: Loss, delta: Number) -> float:
    """√(2·ln(1.25/δ))·μ, the classical formula read backwards, and the exact ε where that is larger.

    Read so it gives ε above 1, where the classical theorem says nothing; the comparison
    with the exact ε makes it valid.
    """
    exactly, square = epsilon(loss, delta), squared_mu(loss)
    if not square or math.isinf(exactly):
        return exactly
    return max(exactly, round_up(math.sqrt(2 * math.log(1.25 / float(delta)) * ceil_float(square))))


def squared_mu(loss: Loss) -> Fraction | None:
    """μ² = Σσᵢ⁻² of a composition of Gaussian noise; None for any other loss."""
    match loss:
        case GaussianNoise(multiplier):
            return 1 / exact(multiplier) ** 2
        case Repeated(times, of):
            inner = squared_mu(of)
            if inner is None:
                return None
            return times * inner
        case Composed(parts):
            inners = [squared_mu(part) for part in parts]
            if None in inners:
                return None
            return sum((i for i in inners if i is not None), Fraction(0))
        case Grouped(size, of):
            group_loss = spread(size, of)
            if group_loss is None:
                return None
            return squared_mu(group_loss)
        case _:
            return None


@guard
def analytic_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The least σ that makes Gaussian noise (ε, δ)-DP, rounded up (Balle, Wang 2018, Theorem 8)."""
    _check(epsilon, delta, sensitivity)
    low, high = 0.0, 1.0
    while hockey_stick(high, epsilon) <= delta and high < 1e150:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if hockey_stick(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    # `low` is a μ that holds; σ = Δ/μ is rounded up.
    return round_up(sensitivity / low)


@guard
def classical_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """√(2·ln(1.25/δ))·Δ/ε, for ε ≤ 1 only (Dwork, Roth 2014, Theorem A.1)."""
    _check(epsilon, delta, sensitivity)
    if epsilon > 1:
        raise InvalidParameter(
            f"Expected epsilon={epsilon:g} in (0, 1]: the classical formula is proved there only, and above "
            "it falls short (its δ is exceeded for large ε: Balle, Wang 2018, Section 2.3). Use "
            "analytic_sigma, which holds for every ε."
        )
    return round_up(math.sqrt(2 * math.log(1.25 / delta)) * sensitivity / epsilon)


def _check(epsilon: float, delta: float, sensitivity: float) -> None:
    if not (0 < epsilon < math.inf and 0 < delta < 1 and 0 < sensitivity < math.inf):
        raise InvalidParameter(
            f"Expected epsilon={epsilon:g} in (0, ∞), delta={delta:g} in (0, 1) and "
            f"sensitivity={sensitivity:g} in (0, ∞)."
        )
