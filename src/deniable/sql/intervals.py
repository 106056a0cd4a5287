"""Where the values of an expression lie: exact interval arithmetic over Fractions; None
is "no bound on this side".

Two questions are asked of it. With the bounds that the owner declared for columns it gives the bounds that an
aggregate clamps to (a value outside is clamped, so nothing rests on the data keeping to them). With
`physical`, the ranges that the types themselves enforce, it proves that an operation cannot overflow, and
`sql.write.expressions` then leaves the guard out.

Assumes:   every expression is NULL or a number of its interval; NULLs are not counted.
Reference: Moore, Kearfott, Cloud 2009, Introduction to Interval Analysis, ch. 2.

>>> x = Column("x", Type(Kind.INTEGER))
>>> twice = Call("multiply", (x, Literal(-2, Type(Kind.INTEGER))), x.type)
>>> str(interval(twice, lambda column: Interval.of(0, 10)))
'[-20, 0]'
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from operator import neg
from typing import Any

from deniable.sql.tree import AggregateRef, Call, Column, Expr, KeyRef, Kind, Literal, Tied, Type, Value
from deniable.sql.types import HIGHEST, LOWEST

Number = int | float | Decimal | Fraction
LARGEST_FLOAT = Fraction(2**1024 - 2**970)
DAYS = 3_652_058  # from 0001-01-01 to 9999-12-31


@dataclass(frozen=True)
class Interval:
    lower: Fraction | None = None
    upper: Fraction | None = None

    @classmethod
    def of(cls, lower: Number | None, upper: Number | None) -> Interval:
        return cls(_end(Fraction, lower), _end(Fraction, upper))

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


def _end(of: Callable[[Any], Number], end: Number | None) -> Fraction | None:
    """What becomes of one end of an interval; an end that is not there stays so."""
    if end is None:
        return None
    value = of(end)
    # To make a fraction of a fraction takes as long as the arithmetic.
    return value if isinstance(value, Fraction) else Fraction(value)


EVERYTHING = Interval()
Bounds = Callable[[Column], Interval]


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


def interval(expr: Expr, bounds: Bounds) -> Interval:
    match expr:
        case Literal(value=value):
            return _point(value)
        case Column():
            return bounds(expr)
        case KeyRef() | AggregateRef():
            return EVERYTHING
        case Tied(value=value):
            return interval(value, lambda column: EVERYTHING)
        case Call(op="case", args=args):
            return hull([interval(arg, bounds) for arg in _values(args)])
        case Call(op="bucket", args=args):
            return hull([interval(arg, bounds) for arg in args[1:-1]])
        case Call(op="date_part", args=(Literal(value=part), _)):
            return Interval.of(*PARTS[str(part)])
        case Call(op=op, args=args) if op in _RULES:
            return _RULES[op]([interval(arg, bounds) for arg in args], expr)
    return EVERYTHING


def _point(value: Value) -> Interval:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return Interval.of(value, value)
    return EVERYTHING


PARTS: dict[str, tuple[int, int]] = {
    "year": (1, 9999),
    "quarter": (1, 4),
    "month": (1, 12),
    "week": (1, 53),
    "day": (1, 31),
    "dow": (0, 6),
    "isodow": (1, 7),
    "doy": (1, 366),
    "isoyear": (0, 9999),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}


# Units that date_diff counts, and at most how many a day has.
DIFFERENCES: dict[str, Fraction] = {
    "year": Fraction(1, 365),
    "quarter": Fraction(1, 90),
    "month": Fraction(1, 28),
    "week": Fraction(1, 7),
    "day": Fraction(1),
    "hour": Fraction(24),
    "minute": Fraction(1_440),
    "second": Fraction(86_400),
    "millisecond": Fraction(86_400_000),
    "microsecond": Fraction(86_400_000_000),
}


def _values(args: tuple[Expr, ...]) -> list[Expr]:
    """Of a CASE (c1, v1, c2, v2, …, else): what it may be, NULLs left out."""
    return [arg for arg in (*args[1:-1:2], args[-1]) if not (isinstance(arg, Literal) and arg.value is None)]


def hull(parts: Sequence[Interval]) -> Interval:
    """The least interval that holds them all; everything, if there are none."""
    if not parts:
        return EVERYTHING
    lowers, uppers = [p.lower for p in parts], [p.upper for p in parts]
    return Interval(_all(min, lowers), _all(max, uppers))


def _all(pick: Callable[[list[Fraction]], Fraction], ends: Sequence[Fraction | None]) -> Fraction | None:
    finite_ends = [end for end in ends if end is not None]
    if len(finite_ends) < len(ends):
        return None
    return pick(finite_ends)


def _any(pick: Callable[[list[Fraction]], Fraction], ends: Sequence[Fraction | None]) -> Fraction | None:
    finite_ends = [end for end in ends if end is not None]
    if finite_ends:
        return pick(finite_ends)
    return None


def _plus(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    if a is None or b is None:
        return None
    return a + b


def _minus(x: Interval) -> Interval:
    return Interval(_end(neg, x.upper), _end(neg, x.lower))


def _add(args: list[Interval], call: Call) -> Interval:
    return Interval(_plus(args[0].lower, args[1].lower), _plus(args[0].upper, args[1].upper))


def _subtract(args: list[Interval], call: Call) -> Interval:
    return _add([args[0], _minus(args[1])], call)


def _multiply(args: list[Interval], call: Call) -> Interval:
    a, b = args
    if a.bounds is None or b.bounds is None:
        is_positive = all(x.lower is not None and x.lower >= 0 for x in args)
        if is_positive:
            return Interval(Fraction(0), None)
        return EVERYTHING
    ends = [x * y for x in a.bounds for y in b.bounds]
    return Interval(min(ends), max(ends))


def _divide(args: list[Interval], call: Call) -> Interval:
    a, b = args
    if a.bounds is None or b.bounds is None or not b.without_zero():
        return EVERYTHING
    ends = [x / y for x in a.bounds for y in b.bounds]
    return Interval(min(ends), max(ends))


def _int_divide(args: list[Interval], call: Call) -> Interval:
    """Rounded towards zero, so never further from it than the quotient; a divisor is at
    least one unit of its scale in size."""
    if args[1].without_zero():
        return _outward(_divide(args, call), Fraction(1))
    size = _abs(args[:1], call).upper
    return _symmetric(_end(lambda s: s * 10 ** call.args[1].type.scale, size))


def _modulo(args: list[Interval], call: Call) -> Interval:
    size = _abs(args[1:], call).upper
    low, high = args[0].lower, args[0].upper
    both = _symmetric(size)
    lower, upper = both.lower, both.upper
    if low is not None and low >= 0:
        lower = Fraction(0)
    if high is not None and high <= 0:
        upper = Fraction(0)
    return Interval(lower, upper)


def _symmetric(size: Fraction | None) -> Interval:
    return Interval(_end(neg, size), size)


def _abs(args: list[Interval], call: Call) -> Interval:
    low, high = args[0].lower, args[0].upper
    if low is not None and low >= 0:
        return args[0]
    if high is not None and high <= 0:
        return _minus(args[0])
    return Interval(Fraction(0), _all(max, [_end(neg, low), high]))


def _outward(x: Interval, by: Fraction) -> Interval:
    return Interval(_plus(x.lower, -by), _plus(x.upper, by))


def _round(args: list[Interval], call: Call) -> Interval:
    digits = call.args[1]
    places = 0
    if isinstance(digits, Literal) and isinstance(digits.value, int):
        places = int(digits.value)
    return _cells(args[0], Fraction(1, 10**places))


def _cells(x: Interval, cell: Fraction) -> Interval:
    """The multiples of `cell` that numbers of `x` may be rounded to, whichever way halves go."""
    half = Fraction(1, 2)
    lower = _end(lambda end: math.ceil(end / cell - half) * cell, x.lower)
    return Interval(lower, _end(lambda end: math.floor(end / cell + half) * cell, x.upper))


def _floor(args: list[Interval], call: Call) -> Interval:
    return Interval(_end(math.floor, args[0].lower), _end(math.floor, args[0].upper))


def _ceil(args: list[Interval], call: Call) -> Interval:
    return Interval(_end(math.ceil, args[0].lower), _end(math.ceil, args[0].upper))


def _sqrt(args: list[Interval], call: Call) -> Interval:
    upper = _end(lambda end: math.isqrt(max(0, math.ceil(end))) + 1, args[0].upper)
    return Interval(Fraction(0), upper)


def _log(of: Callable[[float], float]) -> Callable[[list[Interval], Call], Interval]:
    """Of what grows; a little wider than floats say."""

    def rule(args: list[Interval], call: Call) -> Interval:
        low, high = (None if end is None or end <= 0 else end for end in (args[0].lower, args[0].upper))
        lower = _end(lambda end: of(_nearest(end)) - 1e-9, low)
        return Interval(lower, _end(lambda end: of(_nearest(end)) + 1e-9, high))

    return rule


def _nearest(x: Fraction) -> float:
    """A positive float near it."""
    return max(float(min(x, Fraction(sys.float_info.max))), 5e-324)


def _power(args: list[Interval], call: Call) -> Interval:
    """To a small literal power."""
    base, exponent = args[0], call.args[1]
    if not isinstance(exponent, Literal) or not isinstance(exponent.value, float):
        return EVERYTHING
    if base.bounds is None or exponent.value not in range(1, 9):
        return EVERYTHING
    times = int(exponent.value)
    ends = [end**times for end in base.bounds]
    if times % 2 == 0 and base.bounds[0] < 0 < base.bounds[1]:
        ends.append(Fraction(0))
    return Interval(min(ends), max(ends))


def _greatest(args: list[Interval], call: Call) -> Interval:
    return Interval(_any(max, [x.lower for x in args]), _all(max, [x.upper for x in args]))


def _least(args: list[Interval], call: Call) -> Interval:
    return Interval(_all(min, [x.lower for x in args]), _any(min, [x.upper for x in args]))


def _cast(args: list[Interval], call: Call) -> Interval:
    source, to = call.args[0].type, call.type
    if source.kind is Kind.BOOLEAN:
        return Interval.of(0, 1)
    if source.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT) and to.kind in (Kind.INTEGER, Kind.DECIMAL):
        return _cells(args[0], Fraction(1, 10**to.scale))
    if to.kind is Kind.FLOAT and source.kind is not Kind.TEXT:
        return args[0]
    return EVERYTHING


def _length(args: list[Interval], call: Call) -> Interval:
    return Interval.of(0, call.args[0].type.length)


def _byte_length(args: list[Interval], call: Call) -> Interval:
    return Interval.of(0, 4 * call.args[0].type.length)


def _date_diff(args: list[Interval], call: Call) -> Interval:
    unit = call.args[0]
    if not isinstance(unit, Literal):
        return EVERYTHING
    most = math.ceil((DAYS + 1) * DIFFERENCES[str(unit.value)]) + 1
    return Interval.of(-most, most)


_RULES: dict[str, Callable[[list[Interval], Call], Interval]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "int_divide": _int_divide,
    "modulo": _modulo,
    "negate": lambda args, call: _minus(args[0]),
    "abs": _abs,
    "sign": lambda args, call: Interval.of(-1, 1),
    "round": _round,
    "floor": _floor,
    "ceil": _ceil,
    "sqrt": _sqrt,
    "ln": _log(math.log),
    "log10": _log(math.log10),
    "power": _power,
    "position": lambda args, call: Interval.of(0, call.args[0].type.length),
    "exp": lambda args, call: Interval(Fraction(0), None),
    "greatest": _greatest,
    "least": _least,
    "coalesce": lambda args, call: hull(args),
    "nullif": lambda args, call: args[0],
    "cast": _cast,
    "length": _length,
    "byte_length": _byte_length,
    "date_diff": _date_diff,
    "epoch": lambda args, call: Interval.of(-(10**18), 10**18),
    "full_months": lambda args, call: Interval.of(-120_000, 120_000),
}
