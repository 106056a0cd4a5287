"""A running bound: what has been lost by now, valid at every moment and for an analyst
who stops when she likes.

A filter fixes the limit in advance; an odometer reads any state, at a higher price
(Rogers, Roth, Ullman, Vadhan 2016).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from deniable.accounting.filters.charges import UNIT, UNKNOWN, Charge
from deniable.accounting.filters.filter import Filter, above
from deniable.accounting.refusals import guard
from deniable.accounting.rounding import ceil_float


@dataclass(frozen=True)
class Reading:
    """With probability at least 1 − `delta` the privacy loss has never been above what
    the odometer showed at that moment."""

    epsilon: float
    delta: float
    method: str


@guard
def odometer(limit: Filter, spending: Charge) -> Reading:
    """The least of Σε and, for each of the J tracked orders, D_α + ln(J/δ)/(α − 1).

    Guarantee: for neighbours P, Q and each order α, exp((α − 1)(L_t − D_t)) is a nonnegative
               supermartingale under P that starts at 1, D_t the sum of the divergences
               charged and L_t the privacy loss; by Ville's inequality P(∃t: L_t > D_t +
               ln(J/δ)/(α − 1)) ≤ δ/J, and the orders add up to δ. L_t ≤ Σε holds surely.
    Assumes:   Approximate losses are within the filter's reserve, whose whole δ is added.
    Reference: Feldman, Zrnic 2021; Whitehouse et al. 2023 (time-uniform bounds);
               docs/theory/filters.md, Theorem 4.
    """
    basic = math.inf
    if not spending.impure:
        basic = above(spending.epsilon)
    value, order = min(
        (
            (_uniform(r, a, len(limit.orders), limit.rules_delta), a)
            for r, a in zip(spending.renyi, limit.orders, strict=True)
        ),
        default=(math.inf, 0.0),
    )
    if basic <= value:
        value, method = basic, "basic"
    else:
        method = f"Rényi order {order:g} of {len(limit.orders)}"
    return Reading(value, float(limit.limit.delta), method)


def _uniform(divergence: int, order: float, count: int, delta: Fraction) -> float:
    if divergence >= UNKNOWN:
        return math.inf
    price = (math.log(count) + math.log(delta.denominator) - math.log(delta.numerator)) / (order - 1)
    size = (math.log(delta.denominator) + abs(math.log(delta.numerator)) + 1) / (order - 1)
    return ceil_float(Fraction(divergence, UNIT) + Fraction(price + 1e-13 * size))
