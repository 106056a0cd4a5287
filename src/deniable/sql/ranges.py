"""Where the values of an expression lie: exact interval arithmetic over Fractions.

Two questions are asked of it. With the bounds that the owner declared for columns it gives the bounds that an
aggregate clamps to (a value outside is clamped, so nothing rests on the data keeping to them). With
`physical`, the ranges that the types themselves enforce, it proves that an operation cannot overflow, and
`sql.write.expressions` then leaves the guard out.

Assumes:   every expression is NULL or a number of its interval; NULLs are not counted.

>>> from deniable.sql.types import INTEGER
>>> x = Column("x", INTEGER)
>>> twice = Call("multiply", (x, Literal(-2, INTEGER)), INTEGER)
>>> str(interval(twice, lambda column: Interval.of(0, 10)))
'[-20, 0]'
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from deniable.sql.functions import FUNCTIONS
from deniable.sql.intervals import EVERYTHING, Interval, physical
from deniable.sql.tree import AggregateRef, Call, Column, Expr, KeyRef, Literal, Tied, Value

Bounds = Callable[[Column], Interval]


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
        case Call(op=op, args=args) if op in FUNCTIONS:
            return FUNCTIONS[op].range([interval(arg, bounds) for arg in args], expr)
    return EVERYTHING


def _point(value: Value) -> Interval:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return Interval.of(value, value)
    return EVERYTHING


def cannot_overflow(call: Call) -> bool:
    """By the ranges of the types alone; declared bounds are not relied on, since the
    data may not keep to them."""
    limits = physical(call.type).bounds
    return limits is not None and interval(call, lambda column: physical(column.type)).within(*limits)
