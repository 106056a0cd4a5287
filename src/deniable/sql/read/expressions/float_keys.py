"""Floats as group keys: those that were rounded are whole numbers or decimals, and become such.

floor(x / 20) * 20 has no digits behind the point, round(x, 1) has one: as numbers of their own type they are
equal on every engine, and their bounds may make them public keys. Other floats are not keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from deniable.sql import types
from deniable.sql.read.expressions.coercion import convert
from deniable.sql.tree import Call, Expr, Kind, Literal

MOST_PLACES = 6


def as_key(expr: Expr) -> Expr:
    """The expression as a whole number or decimal where it is a float of few decimal places, else itself.

    >>> x = Literal(1.5, types.FLOAT)
    >>> as_key(Call("floor", (x,), types.FLOAT)).type.kind
    <Kind.INTEGER: 'integer'>
    >>> as_key(x) is x
    True
    """
    places = None
    if expr.type.kind is Kind.FLOAT:
        places = _places(expr)
    if places is None or places > MOST_PLACES or isinstance(expr, Literal):
        return expr
    return convert(expr, types.decimal(places) if places else types.INTEGER)


def _places(expr: Expr) -> int | None:
    """How many decimal places the values of an expression have at most; None where that is not known."""
    if expr.type.kind in types.WHOLE:
        return expr.type.scale
    match expr:
        case Literal(value=float() as value):
            return _written(value)
        case Call(op="floor" | "ceil"):
            return 0
        case Call(op="round", args=(_, Literal(value=int() as digits))):
            return digits
        case Call(op="cast" | "negate" | "abs" | "nullif", args=args):
            return _places(args[0])
        case Call(op="add" | "subtract" | "least" | "greatest" | "coalesce", args=args):
            return _most(args)
        case Call(op="case", args=args):
            return _most([arg for arg in (*args[1:-1:2], args[-1]) if not _is_null(arg)])
        case Call(op="divide", args=(a, Literal(value=float() as by))):
            return _quotient_places(_places(a), by)
        case Call(op="multiply", args=(a, b)):
            return _together(_places(a), _places(b))
    return None


def _written(value: float) -> int | None:
    """The places that a literal prints; None for an infinity."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    if isinstance(exponent, int):
        return max(0, -exponent)
    return None


def _together(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return None
    return a + b


def _quotient_places(places: int | None, by: float) -> int | None:
    """Of a number divided by a whole one, where that has an end: by 2, 5, 10, 1000000."""
    if places is None or not by.is_integer() or not 1 <= by <= 10**MOST_PLACES:
        return None
    more = next((n for n in range(MOST_PLACES + 1) if 10**n % int(by) == 0), None)
    if more is None:
        return None
    return places + more


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


def _most(values: Sequence[Expr]) -> int | None:
    places = [_places(value) for value in values]
    numbers = [each for each in places if each is not None]
    if numbers and len(numbers) == len(places):
        return max(numbers)
    return None
