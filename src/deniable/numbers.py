"""Numbers as they are written: rounded outward, so that what is printed never claims less than what was computed."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal


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


def integral(x: float) -> int | float:
    """A float that is a whole number as an integer: 3.0 was written 3, and is written so again.

    >>> integral(3.0), integral(0.5), integral(math.inf)
    (3, 0.5, inf)
    """
    return int(x) if math.isfinite(x) and x.is_integer() else x


def _percent(x: float) -> Decimal:
    return Decimal(repr(float(x))).scaleb(2)


def _decimal(x: float | Decimal, digits: int, mode: str) -> Decimal:
    # The shortest decimal that means this float: 1e-5 is not 1.0000000000000000818e-05, and rounds to itself.
    return Context(prec=digits, rounding=mode).create_decimal(x if isinstance(x, Decimal) else repr(float(x)))


def _rounded(x: float | Decimal, digits: int, mode: str) -> str:
    if math.isinf(x):
        return "∞"
    number = _decimal(x, digits, mode)
    if number and -4 <= number.adjusted() < 7:
        return f"{number:f}".removesuffix(".0")
    return f"{float(number):.{digits}g}"
