"""What is computed from released numbers: outputs, HAVING, ORDER BY, LIMIT. Total, with intervals. Costs
nothing.

Numbers are exact fractions until they are written. An operation that is not defined gives NULL; an interval
that is not known is infinite. Every interval holds the value that the expression would have without noise if
those of its aggregates do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from deniable.sql.answer.estimate import INFINITE, Cell, Interval
from deniable.sql.floats import held, nearest
from deniable.sql.tree import AggregateRef, Call, Expr, KeyRef, Kind, Literal, Order, Type

_LARGEST = 10**300
_UNDEFINED = (ArithmeticError, TypeError, ValueError, LookupError)
_NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
NOTHING: Mapping[Expr, Interval] = {}


@dataclass(frozen=True)
class Row:
    """A group: its keys (None where the grouping set leaves one out) and its noisy aggregates."""

    keys: tuple[Any, ...]
    aggregates: tuple[Cell, ...]


def evaluate(expr: Expr, row: Row, known: Mapping[Expr, Interval] = NOTHING) -> Cell:
    """The value and interval of an expression over released numbers, some of its parts' intervals `known`.
    Never raises."""
    match expr:
        case Literal(value, _):
            return _known(value)
        case KeyRef(index, _):
            return _known(row.keys[index])
        case AggregateRef(index, _):
            return row.aggregates[index]
        case Call(op, args, type_):
            cell = _call(op, [evaluate(arg, row, known) for arg in args], type_)
            if known and expr in known:
                return Cell(cell.value, *known[expr])
            if op == "multiply" and len(args) == 2 and args[0] == args[1]:
                return Cell(cell.value, *_square(evaluate(args[0], row, known), cell))
            return cell
        case _:
            return Cell(None)


def aggregates_in(expr: Expr) -> frozenset[int]:
    """Which aggregates an expression reads."""
    match expr:
        case AggregateRef(index, _):
            return frozenset((index,))
        case Call(_, args, _):
            return frozenset().union(*(aggregates_in(arg) for arg in args))
        case _:
            return frozenset()


def _known(value: Any) -> Cell:
    """A literal or a key is certain; NULL is no number, so its interval is empty."""
    content = _plain(value)
    if content is None:
        return Cell(None, math.inf, -math.inf)
    if isinstance(content, Fraction):
        return Cell(content, nearest(content), nearest(content))
    return Cell(content)


def _plain(value: Any) -> Any:
    """Numbers as fractions; truth values, texts and dates as they are; NaN and what no float holds as
    NULL."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        return value
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        return None
    fraction = Fraction(value)
    if abs(fraction) <= _LARGEST:
        return fraction
    return None


def _call(op: str, args: list[Cell], type_: Type) -> Cell:
    try:
        value = _plain(_VALUES[op](type_, *(arg.value for arg in args)))
    except _UNDEFINED:
        value = None
    if type_.kind not in _NUMBERS:
        return Cell(value)
    if isinstance(value, Fraction) and all(_certain(arg) for arg in args):
        return Cell(value, nearest(value), nearest(value))
    low, high = _interval(op, args)
    if op == "cast" and type_.kind is not Kind.FLOAT:
        half = 0.5 * 10.0**-type_.scale
        low, high = low - half, high + half
    if low <= high:
        return Cell(value, low, high)
    return Cell(value)


def _interval(op: str, args: list[Cell]) -> Interval:
    try:
        return _INTERVALS[op](args)
    except _UNDEFINED:
        return INFINITE


def _certain(cell: Cell) -> bool:
    return not isinstance(cell.value, Fraction) or cell.low == cell.high


# ------------------------------------------------------------------------------------------------ values


def _strict(of: Callable[..., Any]) -> Callable[..., Any]:
    """NULL if any argument is."""

    def strictly(type_: Type, *args: Any) -> Any:
        if any(arg is None for arg in args):
            return None
        return of(*args)

    return strictly


def _truncated(a: Fraction, b: Fraction) -> int | None:
    return math.trunc(a / b) if b else None


def _round(x: Fraction, digits: Fraction = Fraction(0)) -> Fraction:
    scale = Fraction(10) ** max(-30, min(30, int(digits)))
    size = Fraction(math.floor(abs(x) * scale + Fraction(1, 2))) / scale
    return size if x >= 0 else -size


def _case(type_: Type, *args: Any) -> Any:
    for condition, value in zip(args[0::2], args[1::2], strict=False):
        if condition is True:
            return value
    return args[-1] if len(args) % 2 else None


def _and(type_: Type, *args: Any) -> bool | None:
    if any(a is False for a in args):
        return False
    if any(a is None for a in args):
        return None
    return True


def _or(type_: Type, *args: Any) -> bool | None:
    if any(a is True for a in args):
        return True
    if any(a is None for a in args):
        return None
    return False


def _nullif(type_: Type, a: Any, b: Any) -> Any:
    if a is not None and a == b:
        return None
    return a


def _in(type_: Type, a: Any, *rest: Any) -> bool | None:
    if a is None:
        return None
    if a in rest:
        return True
    if None in rest:
        return None
    return False


def _cast(type_: Type, x: Any) -> Any:
    if x is None or type_.kind is Kind.FLOAT:
        if isinstance(x, bool):
            return Fraction(x)
        return x
    if type_.kind is Kind.INTEGER:
        return _round(Fraction(x))
    if type_.kind is Kind.DECIMAL:
        return _round(Fraction(x), Fraction(type_.scale))
    if type_.kind is Kind.BOOLEAN:
        return bool(x)
    if type_.kind is Kind.TEXT:
        return str(_shown(x))[: type_.length]
    return x


def _shown(x: Any) -> Any:
    if not isinstance(x, Fraction):
        return x
    if x.denominator == 1:
        return int(x)
    return held(x)


def _real(of: Callable[[float], float]) -> Callable[..., Any]:
    return _strict(lambda x: of(float(x)))


_VALUES: dict[str, Callable[..., Any]] = {
    "add": _strict(lambda a, b: a + b),
    "subtract": _strict(lambda a, b: a - b),
    "multiply": _strict(lambda a, b: a * b),
    "divide": _strict(lambda a, b: a / b),
    "int_divide": _strict(_truncated),
    "modulo": _strict(lambda a, b: a - b * math.trunc(a / b)),
    "negate": _strict(lambda a: -a),
    "abs": _strict(abs),
    "sign": _strict(lambda a: (a > 0) - (a < 0)),
    "round": _strict(_round),
    "floor": _strict(math.floor),
    "ceil": _strict(math.ceil),
    "sqrt": _real(math.sqrt),
    "ln": _real(math.log),
    "log10": _real(math.log10),
    "exp": _real(math.exp),
    "power": _strict(lambda a, b: math.pow(float(a), float(b))),
    "greatest": _strict(max),
    "least": _strict(min),
    "coalesce": lambda type_, *args: next((arg for arg in args if arg is not None), None),
    "nullif": _nullif,
    "case": _case,
    "eq": _strict(lambda a, b: a == b),
    "ne": _strict(lambda a, b: a != b),
    "lt": _strict(lambda a, b: a < b),
    "le": _strict(lambda a, b: a <= b),
    "gt": _strict(lambda a, b: a > b),
    "ge": _strict(lambda a, b: a >= b),
    "and": _and,
    "or": _or,
    "not": _strict(lambda a: not a),
    "is_null": lambda type_, a: a is None,
    "in": _in,
    "cast": _cast,
    "add_days": _strict(lambda start, days: start + timedelta(days=int(_round(days)))),
    "add_micros": _strict(lambda start, micros: start + timedelta(microseconds=int(_round(micros)))),
}
OPS = frozenset(_VALUES)


# ------------------------------------------------------------------------------------------------ intervals


def _products(args: list[Cell]) -> Interval:
    ends = [_times(a, b) for a in (args[0].low, args[0].high) for b in (args[1].low, args[1].high)]
    return min(ends), max(ends)


def _square(base: Cell, product: Cell) -> Interval:
    """Of a number by itself, which is one number and not two: never below 0."""
    smallest, largest = _sizes([base])
    return max(product.low, _times(smallest, smallest)), min(product.high, _times(largest, largest))


def _times(a: float, b: float) -> float:
    return 0.0 if not a or not b else a * b


def _quotients(args: list[Cell]) -> Interval:
    """A denominator that may be 0 leaves nothing to say."""
    top, bottom = args
    if bottom.low <= 0 <= bottom.high:
        return INFINITE
    return _products([top, Cell(None, 1 / bottom.high, 1 / bottom.low)])


def _sizes(args: list[Cell]) -> Interval:
    low, high = abs(args[0].low), abs(args[0].high)
    if args[0].low <= 0 <= args[0].high:
        return 0.0, max(low, high)
    return min(low, high), max(low, high)


def _hull(args: Iterable[Cell]) -> Interval:
    """Of all arguments: without noise another one might be taken."""
    cells = list(args)
    return min(cell.low for cell in cells), max(cell.high for cell in cells)


def _branches(args: list[Cell]) -> Interval:
    values = args[1::2]
    if len(args) % 2:
        values = [*values, args[-1]]
    return _hull(values)


def _monotone(of: Callable[[float], float], least: float = -math.inf) -> Callable[[list[Cell]], Interval]:
    def interval(args: list[Cell]) -> Interval:
        return _end(of, args[0].low, least), _end(of, args[0].high, least)

    return interval


def _end(of: Callable[[float], float], x: float, least: float) -> float:
    if math.isinf(x) and x > 0:
        return math.inf
    try:
        return of(x)
    except OverflowError:
        return math.inf
    except ValueError:
        return least


def _rounded(args: list[Cell]) -> Interval:
    """Rounding to d digits moves a number by half of 10^-d at most."""
    digits = Fraction(0)
    if len(args) > 1 and isinstance(args[1].value, Fraction):
        digits = args[1].value
    half = 0.5 * 10.0 ** -max(-30, min(30, int(digits)))
    return args[0].low - half, args[0].high + half


_INTERVALS: dict[str, Callable[[list[Cell]], Interval]] = {
    "add": lambda args: (args[0].low + args[1].low, args[0].high + args[1].high),
    "subtract": lambda args: (args[0].low - args[1].high, args[0].high - args[1].low),
    "multiply": _products,
    "divide": _quotients,
    "negate": lambda args: (-args[0].high, -args[0].low),
    "abs": _sizes,
    "sign": lambda args: (-1.0, 1.0),
    "round": _rounded,
    "floor": lambda args: (args[0].low - 1, args[0].high),
    "ceil": lambda args: (args[0].low, args[0].high + 1),
    "sqrt": _monotone(math.sqrt, 0.0),
    "ln": _monotone(math.log),
    "log10": _monotone(math.log10),
    "exp": _monotone(math.exp),
    "greatest": lambda args: (max(a.low for a in args), max(a.high for a in args)),
    "least": lambda args: (min(a.low for a in args), min(a.high for a in args)),
    "coalesce": _hull,
    "nullif": lambda args: (args[0].low, args[0].high),
    "case": _branches,
    "cast": lambda args: (args[0].low, args[0].high),
}


# ------------------------------------------------------------------------------------------------ rows


def arranged(
    rows: Sequence[Row], having: Expr | None, order: Sequence[Order], limit: int | None, offset: int
) -> list[Row]:
    """HAVING, ORDER BY, LIMIT and OFFSET on noisy rows; rows that tie stay in their order."""
    selection = [row for row in rows if having is None or evaluate(having, row).value is True]
    for key in reversed(order):
        selection.sort(key=cmp_to_key(_by(key)))
    if limit is None:
        return selection[offset:]
    return selection[offset : offset + limit]


def _by(order: Order) -> Callable[[Row, Row], int]:
    nulls = -1 if order.nulls_first else 1
    direction = -1 if order.descending else 1

    def compare(a: Row, b: Row) -> int:
        x, y = evaluate(order.by, a).value, evaluate(order.by, b).value
        if x is None or y is None:
            return ((x is None) - (y is None)) * nulls
        try:
            return (int(x > y) - int(x < y)) * direction
        except TypeError:
            return 0

    return compare


def written(value: Any, type_: Type) -> Any:
    """A value as the answer's column holds it; numbers beyond what the column holds become its largest."""
    if value is None:
        return None
    if isinstance(value, bool):
        if type_.kind is Kind.BOOLEAN:
            return value
        return None
    match type_.kind:
        case Kind.INTEGER | Kind.DECIMAL if not isinstance(value, Fraction):
            return None
        case Kind.INTEGER:
            return max(-(2**63), min(2**63 - 1, int(_round(value))))
        case Kind.DECIMAL:
            units = int(_round(value, Fraction(type_.scale)) * 10**type_.scale)
            # From its text: arithmetic of decimals rounds to the digits of Python's context.
            return Decimal(f"{max(1 - 10**38, min(10**38 - 1, units))}E-{type_.scale}")
        case Kind.FLOAT:
            if isinstance(value, Fraction):
                return held(value)
            return None
        case Kind.DATE | Kind.TIMESTAMP:
            if isinstance(value, date | datetime):
                return value
            return None
        case _:
            if type_.kind is Kind.TEXT:
                return str(_shown(value))
            return None
