"""Intervals of exact numbers; None is "no bound on this side".

Reference: Moore, Kearfott, Cloud 2009, Introduction to Interval Analysis, ch. 2.

>>> str(Interval.of(0, 10)), str(hull([Interval.of(0, 1), Interval.of(5, None)]))
('[0, 10]', '[0, ∞]')
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from operator import neg
from typing import Any

from deniable.sql.tree import Kind, Type
from deniable.sql.types import HIGHEST, LOWEST

Number = int | float | Decimal | Fraction
LARGEST_FLOAT = Fraction(2**1024 - 2**970)


@dataclass(frozen=True)
class Interval:
    lower: Fraction | None = None
    upper: Fraction | None = None

    @classmethod
    def of(cls, lower: Number | None, upper: Number | None) -> Interval:
        return cls(map_end(Fraction, lower), map_end(Fraction, upper))

    @property
    def bounds(self) -> tuple[Fraction, Fraction] | None:
        if self.lower is None or self.upper is None:
            return None
        return (self.lower, self.upper)

    def within(self, lower: Number, upper: Number) -> bool:
        return self.bounds is not None and self.bounds[0] >= lower and self.bounds[1] <= upper

    def without_zero(self) -> bool:
        return (self.lower is not None and self.lower > 0) or (self.upper is not None and self.upper < 0)

    def __str__(self) -> str:
        lower = "−∞" if self.lower is None else self.lower
        upper = "∞" if self.upper is None else self.upper
        return f"[{lower}, {upper}]"


def map_end(of: Callable[[Any], Number], end: Number | None) -> Fraction | None:
    """What becomes of one end of an interval; an end that is not there stays so."""
    if end is None:
        return None
    value = of(end)
    # To make a fraction of a fraction takes as long as the arithmetic.
    return value if isinstance(value, Fraction) else Fraction(value)


EVERYTHING = Interval()


def physical(of: Type) -> Interval:
    """What the type alone enforces, as `canonical` values: 64-bit integers, scaled integers, finite
    doubles."""
    match of.kind:
        case Kind.INTEGER | Kind.DECIMAL:
            unit = Fraction(1, 10**of.scale)
            return Interval(LOWEST * unit, HIGHEST * unit)
        case Kind.FLOAT:
            return Interval(-LARGEST_FLOAT, LARGEST_FLOAT)
        case _:
            return EVERYTHING


def hull(parts: Sequence[Interval]) -> Interval:
    """The least interval that holds them all; everything, if there are none."""
    if not parts:
        return EVERYTHING
    lowers, uppers = [p.lower for p in parts], [p.upper for p in parts]
    return Interval(if_all(min, lowers), if_all(max, uppers))


def if_all(pick: Callable[[list[Fraction]], Fraction], ends: Sequence[Fraction | None]) -> Fraction | None:
    """One of the ends, where there are all of them."""
    finite_ends = [end for end in ends if end is not None]
    if len(finite_ends) < len(ends):
        return None
    return pick(finite_ends)


def if_any(pick: Callable[[list[Fraction]], Fraction], ends: Sequence[Fraction | None]) -> Fraction | None:
    """One of the ends that there are."""
    finite_ends = [end for end in ends if end is not None]
    if finite_ends:
        return pick(finite_ends)
    return None


def add_ends(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    if a is None or b is None:
        return None
    return a + b


def opposite(x: Interval) -> Interval:
    return Interval(map_end(neg, x.upper), map_end(neg, x.lower))


def symmetric(size: Fraction | None) -> Interval:
    return Interval(map_end(neg, size), size)


def sizes(x: Interval) -> Interval:
    """Of the absolute values."""
    if x.lower is not None and x.lower >= 0:
        return x
    if x.upper is not None and x.upper <= 0:
        return opposite(x)
    return Interval(Fraction(0), if_all(max, [map_end(neg, x.lower), x.upper]))


def cells(x: Interval, cell: Fraction) -> Interval:
    """The multiples of `cell` that numbers of `x` may be rounded to, whichever way halves go."""
    half = Fraction(1, 2)
    lower = map_end(lambda end: math.ceil(end / cell - half) * cell, x.lower)
    return Interval(lower, map_end(lambda end: math.floor(end / cell + half) * cell, x.upper))
