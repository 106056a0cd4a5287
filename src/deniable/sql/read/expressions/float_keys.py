"""Floats as group keys: those that were rounded are whole numbers or decimals, and become such.

floor(x / 20) * 20 has no digits behind the point, round(x, 1) has one: as numbers of their own type they are
equal on every engine, and their bounds may make them public keys. Other floats are not keys.
"""

from __future__ import annotations

from decimal import Decimal

from deniable.sql import types
from deniable.sql.coercion import convert
from deniable.sql.functions import FUNCTIONS
from deniable.sql.functions.arithmetic import MOST_PLACES
from deniable.sql.tree import Call, Expr, Kind, Literal


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
        places = decimal_places(expr)
    if places is None or places > MOST_PLACES or isinstance(expr, Literal):
        return expr
    return convert(expr, types.decimal(places) if places else types.INTEGER)


def decimal_places(expr: Expr) -> int | None:
    """How many decimal places the values of an expression have at most; None where that is not known."""
    if expr.type.kind in types.WHOLE:
        return expr.type.scale
    match expr:
        case Literal(value=float() as value):
            return _written(value)
        case Call(op=op):
            rule = FUNCTIONS[op].keys.places
            return None if rule is None else rule(expr, decimal_places)
    return None


def _written(value: float) -> int | None:
    """The places that a literal prints; None for an infinity."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    if isinstance(exponent, int):
        return max(0, -exponent)
    return None
