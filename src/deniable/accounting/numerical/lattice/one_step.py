"""A single release needs no composition: its curve H is known, so its root is found and certified
directly."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy import optimize

from deniable.accounting.numerical.pairs.continuous import Pair
from deniable.accounting.numerical.rounding import relative
from deniable.accounting.refusals import check_time

MOST_TRIES = 400
FAR = 1e9
"""No ε is searched beyond."""


def height(pair: Pair, epsilon: float, sign: int) -> float:
    """H at e^ε: P(L > ε) − e^ε·Q(L > ε), plus or minus what rounding can do.

    e^ε·Q ≤ P on that set, so both terms err by at most `relative` of P; a misplaced end
    of the set costs second order.
    """
    check_time()
    log_p, log_q = pair.tails(epsilon, True)
    p = math.exp(log_p)
    value = p - math.exp(min(0.0, epsilon + log_q))
    return value + sign * 8 * relative(abs(epsilon) + (0.0 if math.isinf(log_p) else abs(log_p))) * p


def delta_of_one(pair: Pair, epsilon: float) -> tuple[float, float]:
    """Bounds on δ at ε for one release."""
    lower, upper = height(pair, epsilon, -1), height(pair, epsilon, 1) + pair.slack
    return max(0.0, lower), min(1.0, upper)


def epsilon_of_one(pair: Pair, delta: float) -> tuple[float, float]:
    """Bounds on ε at δ for one release: the root of the computed curve, then both sides
    moved until they are certain."""
    # Above, slack counts as revealed and uses up δ; below it proves nothing, so δ itself is met there.
    room = delta - pair.slack
    if room <= 0:
        return 0.0, math.inf
    if height(pair, 0.0, 1) <= room:
        return 0.0, 0.0
    low, high = 0.0, 1e-6
    while height(pair, high, 0) > delta:
        low, high = high, 4 * high
        if high > FAR:
            return 0.0, math.inf
    root = 0.0
    if height(pair, low, 0) > delta:
        root = _root(lambda e: height(pair, e, 0) - delta, low, high)
    # The root is a proposal; from here on only heights with their rounding count.
    lower, step = root, 1e-11 * root + 1e-300
    while lower > 0 and height(pair, lower, -1) <= delta:
        lower, step = max(0.0, lower - step), 4 * step
    upper, step = root, 1e-11 * root + 1e-300
    while height(pair, upper, 1) > room:
        upper, step = upper + step, 4 * step
        if upper > FAR:
            return max(0.0, lower - 4 * relative(root)), math.inf
    # Where a loss lies is known to `relative` only (T5): both ends move outward by a multiple of it.
    shift = 4 * relative(root)
    return max(0.0, lower - shift), upper + shift


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Where `excess` meets 0, or close to it: a root next to 0 is halved towards for long, and one inside of
    the rounding of heights is never met."""
    root: float = optimize.brentq(excess, low, high, xtol=1e-300, rtol=1e-12, maxiter=MOST_TRIES, disp=False)
    return root
