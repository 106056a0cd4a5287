"""Rounding outward: a computed upper bound stays one after its own floating-point error.

Two tools. Rational results go through `decimal`, whose exp and ln are correctly rounded, and are then rounded
up to 20 digits. Float results carry a relative margin: IEEE binary64 in round-to-nearest and a libm within 8
ulp are assumed, each formula states how much its terms may cancel, and `round_up` adds more than that.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ULP = 2.0**-53
"""The unit roundoff of binary64."""

_SHORT = Context(prec=20, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN)
_NUDGE = 1 + Decimal(10) ** -40


def round_up(x: float, relative: float = 1e-12) -> float:
    """A float above `x` by at least `relative`·|x|.

    >>> round_up(1.0) > 1.0, round_up(0.0) > 0.0, round_up(math.inf)
    (True, True, inf)
    """
    return math.nextafter(x + abs(x) * relative, math.inf)


def least_above(bound: Callable[[Array], Array], orders: Array, more_orders: Array) -> Array:
    """For a quantity that grows with the order: the least of `bound` at each order and
    at all higher ones of both lists."""
    at = np.unique(np.concatenate([orders, more_orders]))
    least = np.minimum.accumulate(bound(at)[::-1])[::-1]
    return least[np.searchsorted(at, orders)]


def ceil_float(x: Fraction) -> float:
    """The least float that is not below `x`.

    >>> ceil_float(Fraction(1, 10)) == 0.1, ceil_float(Fraction(1, 3)) >= Fraction(1, 3)
    (True, True)
    """
    try:
        near = float(x)
    except OverflowError:
        if x > 0:
            return math.inf
        return -sys.float_info.max
    if near >= x:
        return near
    return math.nextafter(near, math.inf)


def floor_float(x: Fraction) -> float:
    """The largest float that is not above `x` ≥ 0; 0 for a negative one.

    >>> floor_float(Fraction(1, 3)) <= Fraction(1, 3), floor_float(Fraction(10) ** 400)
    (True, 1.7976931348623157e+308)
    """
    return max(-ceil_float(-x), 0.0)


def log_ratio_up(x: Fraction) -> Fraction:
    """ln x for x ≥ 1, rounded up to 20 digits.

    >>> float(log_ratio_up(Fraction(3))) >= math.log(3), log_ratio_up(Fraction(1))
    (True, Fraction(0, 1))
    """
    if x == 1:
        return Fraction(0)
    wide = _wide_context(x - 1)
    return _shorten(wide.ln(_decimal(x, wide)))


def exp_wide(x: Fraction) -> Fraction:
    """e^x to a relative 1e-50 even after 1 is taken off; to be rounded by the caller."""
    wide = _wide_context(x)
    return Fraction(wide.exp(_decimal(x, wide)))


def shorten_up(x: Fraction) -> Fraction:
    """x ≥ 0, known to a relative 1e-50, as an upper bound of 20 digits."""
    return _shorten(_decimal(x, Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)))


def _wide_context(x: Fraction) -> Context:
    """60 digits, and as many more as x (or ln(1 + x)) has leading zeros, so that e^x − 1 keeps 60 too."""
    bits = x.denominator.bit_length() - abs(x.numerator).bit_length()
    zeros = max(0, math.ceil(bits * 0.30103)) if x else 0  # log₁₀ 2; Python writes no int of over 4300 digits
    return Context(prec=60 + 2 * zeros, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _decimal(x: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(x.numerator), Decimal(x.denominator))


def _shorten(value: Decimal) -> Fraction:
    # The value is right to 1e-50; the nudge of 1e-40 makes it an upper bound, the context keeps it short,
    # rounding up.
    return Fraction(_SHORT.multiply(value, _NUDGE))
