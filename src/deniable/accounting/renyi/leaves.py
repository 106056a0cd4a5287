"""Rényi divergences of single mechanisms, at real orders above 1."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from deniable.accounting.methods.pure import exact_epsilon
from deniable.accounting.renyi.kernel import Array, from_log_excess, log_h, of_atoms
from deniable.accounting.rounding import ULP, ceil_float, round_up
from deniable.loss import (
    BoundedRange,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    IntegerGaussianSum,
    LaplaceNoise,
    Loss,
    Pure,
    ResponseNoise,
    Zcdp,
    exact,
)

Atoms = tuple[Array, Array]
"""Log ratios ln dP/dQ, and the logarithms of the Q masses."""

CELLS = 1000
"""Cells by which a long lattice, or continuous Laplace noise on a sample, is bounded from above."""
LONG = 10_000
"""Scale × sensitivity of integer noise above which its smooth bound is within a relative 1e-4 · ¼ of it."""
HUGE = 1e6
"""Above this ε every order costs ε, and no sample is credited."""
TINY = 1e-4
"""Below this ε Laplace noise on a sample is charged as randomized response, a relative ε dearer."""


def leaf(loss: Loss, orders: Array) -> Array | None:
    """D_α of a leaf; None for what is no leaf with a Rényi curve."""
    slope = linear(loss)
    if slope is not None:
        return ceil_float(slope) * orders
    if isinstance(loss, Pure) and loss.epsilon > HUGE:
        return np.full(len(orders), ceil_float(exact(loss.epsilon)))
    match loss:
        case IntegerGaussianSum():
            return sum_curve(loss, orders)
        case LaplaceNoise():
            return laplace(ceil_float(exact_epsilon(loss)), orders)
        case DiscreteLaplaceNoise(scale, sensitivity) if (
            sensitivity > CELLS or exact(scale) * sensitivity > LONG
        ):
            return np.minimum(
                laplace(smooth_epsilon(exact(scale), sensitivity), orders), ceil_float(exact_epsilon(loss))
            )
        case BoundedRange():
            return bounded_range(ceil_float(exact_epsilon(loss)), orders)
        case _:
            pair = atoms(loss)
            if pair is None:
                return None
            return of_atoms(*pair, orders)


def linear(loss: Loss) -> Fraction | None:
    """ρ where D_α ≤ ρ·α at all orders is how the loss is known.

    Gaussian: Mironov 2017, Proposition 7. Integer Gaussian, in any dimension: Canonne,
              Kamath, Steinke 2020, Theorem 4.
    """
    match loss:
        case Zcdp(rho):
            return exact(rho)
        case GaussianNoise(multiplier):
            return 1 / (2 * exact(multiplier) ** 2)
        case DiscreteGaussianNoise(sigma, sensitivity):
            return exact(sensitivity) ** 2 / (2 * exact(sigma) ** 2)
        case _:
            return None


def sum_curve(loss: IntegerGaussianSum, orders: Array) -> Array:
    """The integer Gaussian of the sum's variance; laws within e^±t of it change
    ∫P^α·Q^(1−α) by at most e^((2α−1)t)."""
    slope = exact(loss.sensitivity) ** 2 / (2 * loss.parties * exact(loss.sigma) ** 2)
    return ceil_float(slope) * orders + loss.distance * (2 * orders - 1) / (orders - 1) * (1 + 4 * ULP)


def laplace(epsilon: float, orders: Array) -> Array:
    """Mironov 2017, Proposition 6, as a sum without cancellation: (α·h((α−1)ε) +
    (α−1)·h(−αε))/(2α − 1), h(y) = e^y − 1 − y."""
    beta = orders - 1
    terms = np.logaddexp(np.log(orders) + log_h(beta * epsilon), np.log(beta) + log_h(-orders * epsilon))
    slack = 16 * ULP * (4 + np.abs(np.log(beta)) + orders * epsilon)
    return np.minimum(from_log_excess(terms - np.log(2 * orders - 1) + slack, orders), epsilon)


def smooth_epsilon(scale: Fraction, sensitivity: int) -> float:
    """The ε of continuous Laplace noise that dominates integer noise: n/s + 2·ln cosh(1/2s).

    The curve of integer noise joins points of 1 − e^{(y−ε)/2} a width w = 2/s apart by chords in e^y, which
    exceed it by at most (1 − 1/cosh(w/4))·e^{(y−ε)/2}; a continuous curve with ε larger by 2·ln cosh(w/4)
    exceeds it by that everywhere.
    """
    half = float(1 / (2 * scale))
    return round_up(
        ceil_float(sensitivity / scale) + (2 * math.log(math.cosh(half)) if half < 300 else 2 * half)
    )


def bounded_range(epsilon: float, orders: Array) -> Array:
    """The most that a range of ε allows: two outcomes with log ratios t and t − ε, at
    the worst t for each order.

    With E = e^ε, c = E^{1−α} and u = e^t the moment is u^{α−1}·((E − c) − u(1 − c))/(E − 1), largest at u =
    (α−1)(E−c)/(α(1−c)) (Dong, Durfee, Rogers 2020). Never above αε²/8 (Cesar, Rogers 2021), which is used
    alone where the closed form would cancel.
    """
    line = orders * epsilon * epsilon / 8
    if epsilon < 1e-3 or epsilon > 600:
        return np.minimum(line, epsilon)
    beta = orders - 1
    fall = -np.expm1(-beta * epsilon)  # 1 − c
    span = math.expm1(epsilon) + fall  # E − c
    log_u = np.log(beta) + np.log(span) - np.log(orders) - np.log(fall)
    moment = beta * log_u + np.log(span) - np.log(orders) - math.log(math.expm1(epsilon))
    slack = 16 * ULP * (8 + beta * (np.abs(log_u) + epsilon + 2) + np.abs(np.log(beta)))
    sharp: Array = (np.maximum(moment, 0.0) + slack) / beta
    return np.minimum(np.minimum(line, epsilon), sharp)


# ------------------------------------------------------------------------------------------------ atoms


def atoms(loss: Loss) -> Atoms | None:
    """The outcomes of a dominating pair that swaps its sides under a reflection; for
    Laplace noise an upper bound of it."""
    match loss:
        case Pure():
            return response(ceil_float(exact_epsilon(loss)))
        case ResponseNoise(truth, options):
            epsilon, lie = ceil_float(exact_epsilon(loss)), (1 - exact(truth)) / (options - 1)
            masses = np.array([float(lie), float(exact(truth))])
            return np.array([epsilon, -epsilon]), np.log(masses)  # ratio 1 adds nothing to the divergence
        case DiscreteLaplaceNoise(scale, sensitivity):
            return lattice(exact(scale), sensitivity)
        case LaplaceNoise(multiplier):
            return lattice(CELLS * exact(multiplier), CELLS)
        case _:
            return None


def response(epsilon: float) -> Atoms:
    """Randomized response: what every ε-DP mechanism is dominated by (Kairouz, Oh,
    Viswanath 2015, Theorem 3.3)."""
    tail = -1e-300
    if epsilon < 700:
        tail = -math.log1p(math.exp(-epsilon))
    return np.array([epsilon, -epsilon]), np.array([tail - epsilon, tail])


def lattice(scale: Fraction, sensitivity: int) -> Atoms:
    """Integer Laplace noise moved by n = `sensitivity` in one coordinate, which
    dominates every integer move of L1 norm n.

    Outcome x in 0..n has log ratio (2x − n)/s; all x ≤ 0 and all x ≥ n are one outcome each. Where n is
    large, the outcomes between two kept ones are shared out to these so that both masses stay as they are:
    the moment, convex in the ratio, can only grow. Continuous noise lies below integer noise of the same
    ratio on any lattice, for the same reason.
    """
    epsilon = ceil_float(sensitivity / scale)
    if epsilon < TINY or epsilon > 600:
        return response(epsilon)
    inverse = float(1 / scale)
    outcomes = np.unique(np.round(np.linspace(0, sensitivity, min(sensitivity, CELLS) + 1)))
    ratio = (2 * outcomes - sensitivity) * inverse
    log_mass = -outcomes * inverse + math.log(math.tanh(inverse / 2))  # Q(x) = tanh(1/2s)·e^{−x/s}
    log_mass[[0, -1]] = np.array([0.0, -sensitivity * inverse]) - math.log1p(math.exp(-inverse))
    return ratio, np.logaddexp(log_mass, _share_masses(outcomes, inverse))


def _share_masses(outcomes: Array, inverse: float) -> Array:
    """ln of the Q mass that each kept outcome receives from the outcomes dropped on either side of it.

    Between x and x + m the dropped outcome x + j has Q mass c·e^{−(x+j)y} and, relative to x,
    the ratio e^{2jy}, where y = 1/s and c = tanh(y/2). A share (e^{2jy} − 1)/(e^{2my} − 1) of
    it goes up. The sum over j is e^{−xy}·2·sinh(my/2)·sinh((m−1)y/2)/(cosh(y/2)·(e^{2my} −
    1)), and e^{my} times as much goes down: nothing cancels.
    """
    low, m = outcomes[:-1], np.diff(outcomes)
    with np.errstate(divide="ignore"):
        sums = np.log(2 * np.sinh(m * inverse / 2) * np.sinh((m - 1) * inverse / 2))
    rises = sums - math.log(math.cosh(inverse / 2)) - np.log(np.expm1(2 * m * inverse)) - low * inverse
    result = np.full(len(outcomes), -np.inf)
    result[1:] = rises
    result[:-1] = np.logaddexp(result[:-1], rises + m * inverse)
    return result
