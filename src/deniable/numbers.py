"""Numbers: what one means exactly, how it is stored, and how it is written without
         claiming less than what was computed.

**A float means the decimal that it prints**: 0.1 is one tenth, in every sum and every rounding.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import TypeAlias

Number: TypeAlias = int | float | Fraction


# ---------------------------------------------------------------------------------------------- what it means


def exact(x: Number) -> Fraction:
    """The rational number that `x` means: a float is the decimal that it prints.

    >>> exact(0.1), exact(1e-6), exact(Fraction(10, 3))
    (Fraction(1, 10), Fraction(1, 1000000), Fraction(10, 3))
    """
    if isinstance(x, float):
        return Fraction(repr(float(x)))
    return Fraction(x)


def plain(x: Real | Number) -> Number:
    """As an int where it is one of its kind, else as a Fraction or a float: numpy's numbers become Python's.

    >>> plain(Fraction(4, 2)), plain(Fraction(10, 3)), plain(0.5)
    (2, Fraction(10, 3), 0.5)
    """
    if isinstance(x, Integral):
        return int(x)
    if isinstance(x, Rational):
        ratio = Fraction(int(x.numerator), int(x.denominator))
        if ratio.denominator == 1:
            return ratio.numerator
        return ratio
    return float(x)


def integral(x: float) -> int | float:
    """A float that is a whole number as an integer: 3.0 was written 3, and is written so again.

    >>> integral(3.0), integral(0.5), integral(math.inf)
    (3, 0.5, inf)
    """
    if math.isfinite(x) and x.is_integer():
        return int(x)
    return x


# ------------------------------------------------------------------------------------------ how it is written


def show(x: Number) -> str:
    """A number as people write it.

    >>> show(10_000), show(0.01), show(Fraction(10, 3)), show(1e-6)
    ('10,000', '0.01', '10/3', '1e-06')
    """
    if isinstance(x, int):
        return f"{x:,}"
    if isinstance(x, Fraction):
        return str(x)
    return f"{x:g}"


def up(x: float, digits: int = 4) -> str:
    """`x` to so many digits, rounded up.

    >>> up(0.946901), up(1e-5), up(26.39), up(12345.6), up(float("inf"))
    ('0.9470', '1e-05', '26.39', '12350', '∞')
    """
    return _rounded(x, digits, ROUND_CEILING)


def down(x: float, digits: int = 4) -> str:
    """`x` to so many digits, rounded down.

    >>> down(0.946999), down(0.0)
    ('0.9469', '0')
    """
    return _rounded(x, digits, ROUND_FLOOR)


def short_up(x: float, digits: int = 4) -> str:
    """Like `up`, in as few digits as it takes.

    >>> short_up(0.5), short_up(0.333333), up(0.94690001, 3), short_up(0.94990001, 3)
    ('0.5', '0.3334', '0.947', '0.95')
    """
    return _short(ceiling(x, digits), digits)


def short_down(x: float, digits: int = 4) -> str:
    """Like `down`, in as few digits as it takes."""
    return _short(floor(x, digits), digits)


def percent_up(x: float, digits: int = 4) -> str:
    """A probability as a percentage, rounded up.

    >>> percent_up(0.6444041), percent_up(1.0)
    ('64.45 %', '100 %')
    """
    return f"{_rounded(_percent(x), digits, ROUND_CEILING)} %"


def percent_down(x: float, digits: int = 4) -> str:
    return f"{_rounded(_percent(x), digits, ROUND_FLOOR)} %"


def ceiling(x: float, digits: int) -> float:
    """`x` to so many digits, rounded up, as a number.

    >>> ceiling(1.68012345, 6), floor(0.0123456789, 6)
    (1.68013, 0.0123456)
    """
    return float(_decimal(x, digits, ROUND_CEILING))


def floor(x: float, digits: int) -> float:
    return float(_decimal(x, digits, ROUND_FLOOR))


def decimal_floor(x: float, digits: int) -> str:
    """`x` to so many digits, rounded down, without an exponent: what is told to fit does
    fit, as it is typed in.

    >>> decimal_floor(0.00000123456789, 6)
    '0.00000123456'
    """
    return f"{_decimal(x, digits, ROUND_FLOOR).normalize():f}"


def _percent(x: float) -> Decimal:
    return Decimal(repr(float(x))).scaleb(2)


def _decimal(x: float | Decimal, digits: int, mode: str) -> Decimal:
    # The shortest decimal that means this float: 1e-5 is not 1.0000000000000000818e-05, and rounds to itself.
    return Context(prec=digits, rounding=mode).create_decimal(x if isinstance(x, Decimal) else repr(float(x)))


def _short(x: float, digits: int) -> str:
    if math.isfinite(x):
        return f"{x:.{max(digits, 6)}g}"
    return "∞"


def _rounded(x: float | Decimal, digits: int, mode: str) -> str:
    if math.isinf(x):
        return "∞"
    number = _decimal(x, digits, mode)
    if number and -4 <= number.adjusted() < 7:
        return f"{number:f}".removesuffix(".0")
    return f"{float(number):.{digits}g}"
