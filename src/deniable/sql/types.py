"""Types of expressions: which go together, what they become, and how a literal becomes
another type's literal.

>>> common([Type(Kind.INTEGER), Type(Kind.DECIMAL, scale=2)])
Type(kind=<Kind.DECIMAL: 'decimal'>, scale=2, length=256)
>>> literal_as("2020-02-30", DATE) is None
True
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import date, datetime
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext

from deniable.sql.tree import Expr, Kind, Literal, Type, Value

BOOLEAN, INTEGER, FLOAT = Type(Kind.BOOLEAN), Type(Kind.INTEGER), Type(Kind.FLOAT)
TEXT, DATE, TIMESTAMP = Type(Kind.TEXT), Type(Kind.DATE), Type(Kind.TIMESTAMP)

NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT})
WHOLE = frozenset({Kind.INTEGER, Kind.DECIMAL})
TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP})

LOWEST, HIGHEST = -(2**63), 2**63 - 1
MAX_SCALE = 18
MAX_TEXT = 1024

# One grammar for texts that are read as other types, so that the engines cannot disagree about one. Each is
# matched whole.
INTEGER_TEXT = "[+-]?[0-9]{1,18}"
FLOAT_TEXT = "[+-]?[0-9]{1,18}([.][0-9]{1,18})?([eE][+-]?[0-9]{1,2})?"
_DAY = (
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
)
_LEAP = "([0-9][0-9](0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
DATE_TEXT = f"({_YEAR}-{_DAY}|{_LEAP}-02-29)"
TIMESTAMP_TEXT = f"{DATE_TEXT}[ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{{1,6}})?"


def decimal_text(scale: int) -> str:
    """Texts read as a decimal: few enough digits before the point that the scaled integer has at most 18."""
    if scale < 18:
        return f"[+-]?[0-9]{{1,{18 - scale}}}([.][0-9]{{1,18}})?"
    return "[+-]?0([.][0-9]{1,18})?"


def decimal(scale: int) -> Type:
    return Type(Kind.DECIMAL, scale=scale)


def text(length: int) -> Type:
    return Type(Kind.TEXT, length=max(1, min(length, MAX_TEXT)))


def name(of: Type) -> str:
    """As an analyst would write it.

    >>> name(decimal(2))
    'DECIMAL(18, 2)'
    """
    if of.kind is Kind.DECIMAL:
        return f"DECIMAL(18, {of.scale})"
    return of.kind.upper()


def is_null(expr: Expr) -> bool:
    """A bare NULL, which takes any type; CAST(NULL AS DATE) has one."""
    return isinstance(expr, Literal) and expr.value is None and expr.type.kind is Kind.TEXT


def common(types: Iterable[Type]) -> Type | None:
    """The type that all these become when they meet (in a comparison, CASE, COALESCE,
    …); None if there is none."""
    items = list(types)
    kinds = {t.kind for t in items}
    if len(kinds) == 1 and not kinds & {Kind.DECIMAL, Kind.TEXT}:
        return Type(kinds.pop())
    if kinds == {Kind.TEXT}:
        return text(max(t.length for t in items))
    if kinds <= WHOLE:
        return decimal(max(t.scale for t in items))
    if kinds <= NUMBERS:
        return FLOAT
    return TIMESTAMP if kinds == TIMES else None


def literal_as(value: Value, to: Type) -> Literal | None:
    """The literal that `value` is when cast to `to`, by the same rules that the engines
    are given; None where a cast is NULL."""
    try:
        read = _READ[to.kind](value, to)
    except (ValueError, ArithmeticError):
        return None
    if value is None or read is not None:
        return Literal(read, to)
    return None


_TRUTHS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def _boolean(value: Value, to: Type) -> Value:
    if isinstance(value, str):
        return _TRUTHS.get(value.lower())
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value != 0
    return None


def _integer(value: Value, to: Type) -> Value:
    if isinstance(value, str):
        value = int(value) if re.fullmatch(INTEGER_TEXT, value) else None
    elif isinstance(value, float):
        value = round(value) if math.isfinite(value) else None
    elif isinstance(value, Decimal):
        value = int(value.quantize(Decimal(1), ROUND_HALF_UP))
    if isinstance(value, int) and LOWEST <= value <= HIGHEST:
        return int(value)
    return None


def _decimal(value: Value, to: Type) -> Value:
    half = ROUND_HALF_EVEN if isinstance(value, float) else ROUND_HALF_UP
    if isinstance(value, str):
        value = Decimal(value) if re.fullmatch(decimal_text(to.scale), value) else None
    if value is None or not isinstance(value, (int, float, Decimal)):
        return None
    with localcontext() as context:
        context.prec = 60
        number = Decimal(value).quantize(Decimal(1).scaleb(-to.scale), half)
    if LOWEST <= number.scaleb(to.scale) <= HIGHEST:
        return number
    return None


def _float(value: Value, to: Type) -> Value:
    if isinstance(value, str) and not re.fullmatch(FLOAT_TEXT, value):
        return None
    number = math.nan
    if isinstance(value, (int, float, Decimal, str)):
        number = float(value)
    if math.isfinite(number):
        return number
    return None


def _text(value: Value, to: Type) -> Value:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, date)) and not isinstance(value, datetime):
        return str(value)[: to.length]
    return None


def _date(value: Value, to: Type) -> Value:
    if isinstance(value, str):
        if re.fullmatch(DATE_TEXT, value):
            return date.fromisoformat(value)
        return None
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    return None


def _timestamp(value: Value, to: Type) -> Value:
    if isinstance(value, str):
        if re.fullmatch(DATE_TEXT, value):
            return datetime.fromisoformat(value)
        if re.fullmatch(TIMESTAMP_TEXT, value):
            return datetime.fromisoformat(value)
        return None
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        return value
    return None


_READ = {
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: _integer,
    Kind.DECIMAL: _decimal,
    Kind.FLOAT: _float,
    Kind.TEXT: _text,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
}
