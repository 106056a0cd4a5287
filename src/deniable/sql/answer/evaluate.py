"""What is computed from released numbers: outputs, HAVING, ORDER BY, LIMIT. Total, with intervals. Costs
nothing.

Numbers are exact fractions until they are written. An operation that is not defined gives NULL; an interval
that is not known is infinite. Every interval holds the value that the expression would have without noise if
those of its aggregates do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from deniable.sql.answer.estimate import Interval
from deniable.sql.floats import half_up, held, nearest, shown_number
from deniable.sql.functions import FUNCTIONS
from deniable.sql.functions.function import UNDEFINED, Cell
from deniable.sql.tree import AggregateRef, Call, Expr, KeyRef, Kind, Literal, Order, Type
from deniable.sql.types import NUMBERS

_LARGEST = 10**300
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
        case Call():
            cell = _call(expr, [evaluate(arg, row, known) for arg in expr.args])
            if known and expr in known:
                return Cell(cell.value, *known[expr])
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


def _call(call: Call, args: list[Cell]) -> Cell:
    function = FUNCTIONS.get(call.op)
    rule = None if function is None else function.released
    if rule is None:
        return Cell(None)
    try:
        value = _plain(rule.value(call.type, *(arg.value for arg in args)))
    except UNDEFINED:
        value = None
    if call.type.kind not in NUMBERS:
        return Cell(value)
    if isinstance(value, Fraction) and all(_certain(arg) for arg in args):
        return Cell(value, nearest(value), nearest(value))
    try:
        low, high = rule.ends(args, call)
    except UNDEFINED:
        return Cell(value)
    if low <= high:
        return Cell(value, low, high)
    return Cell(value)


def _certain(cell: Cell) -> bool:
    return not isinstance(cell.value, Fraction) or cell.low == cell.high


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
            return max(-(2**63), min(2**63 - 1, int(half_up(value))))
        case Kind.DECIMAL:
            units = int(half_up(value, Fraction(type_.scale)) * 10**type_.scale)
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
                return str(shown_number(value))
            return None
