"""Floats as group keys: those that were rounded are whole numbers or decimals, and become such.

floor(x / 20) * 20 has no digits behind the point, round(x, 1) has one: as numbers of their own type they are
equal on every engine, and their bounds may make them public keys. Other floats are not keys.
"""

from __future__ import annotations

from decimal import Decimal

from deniable.sql import types
from deniable.sql.read.coercion import convert
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
    places = _places(expr) if expr.type.kind is Kind.FLOAT else None
    if places is None or places > MOST_PLACES or isinstance(expr, Literal):
        return expr
    return convert(expr, types.decimal(places) if places else types.INTEGER)


def _places(expr: Expr) -> int | None:
    """How many decimal places the values of an expression have at most; None where that is not known."""
    if expr.type.kind in types.WHOLE:
        return expr.type.scale
    match expr:
        case Literal(value=float() as value):
            exponent = Decimal(repr(value)).normalize().as_tuple().exponent
            return max(0, -exponent) if isinstance(exponent, int) else None
        case Call(op="floor" | "ceil"):
            return 0
        case Call(op="round", args=(_, Literal(value=int() as digits))):
            return digits
        case Call(op="cast" | "negate" | "abs" | "nullif", args=args):
            return _places(args[0])
        case Call(op="add" | "subtract" | "least" | "greatest" | "coalesce", args=args):
            return _most([_places(arg) for arg in args])
        case Call(op="case", args=args):
            values = [arg for arg in (*args[1:-1:2], args[-1]) if not _is_null(arg)]
            return _most([_places(arg) for arg in values])
        case Call(op="multiply", args=(a, b)):
            both = _places(a), _places(b)
            return None if both[0] is None or both[1] is None else both[0] + both[1]
    return None


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


def _most(places: list[int | None]) -> int | None:
    numbers = [each for each in places if each is not None]
    return max(numbers) if numbers and len(numbers) == len(places) else None
