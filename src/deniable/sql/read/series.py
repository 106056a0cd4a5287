"""FROM generate_series(0, 23) AS g(h): a public table of literals, so that an axis is complete."""

from __future__ import annotations

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.intervals import Interval
from deniable.sql.read.expressions import Translator
from deniable.sql.read.names import MAX_DOMAIN, Field, Scope
from deniable.sql.read.parse import refuse
from deniable.sql.read.periods import Period, moved, period
from deniable.sql.tree import Column, Expr, Kind, Listed, Literal, Value


def series(node: exp.GenerateSeries) -> Scope:
    """Whole numbers, days or moments from literal to literal by a literal step; a `range` ends before its end."""
    read = Translator(_no_columns)
    start, end = read(node.args["start"]), read(node.args["end"])
    if (
        node.args.get("is_end_exclusive")
        and not node.args.get("step")
        and isinstance(end, Literal)
        and end.value == 0
    ):
        refuse("An empty RANGE is not answered.", "Write range(0, 10).")
    if not isinstance(start, Literal) or not isinstance(end, Literal) or start.type.kind is not end.type.kind:
        refuse("GENERATE_SERIES expects two literals of one type.", "Write generate_series(0, 23).")
    step = node.args.get("step")
    values = _numbers(start, end, step, read) if start.type.kind is Kind.INTEGER else _times(start, end, step)
    if not isinstance(start, Literal) or not isinstance(end, Literal) or start.type.kind is not end.type.kind:
        refuse("GENERATE_SERIES expects two literals of one type.", "Write generate_series(0, 23).")
    step = node.args.get("step")
    values = _numbers(start, end, step, read) if start.type.kind is Kind.INTEGER else _times(start, end, step)
    if node.args.get("is_end_exclusive") and values and values[-1] == end.value:
        values = values[:-1]
    if not values:
        refuse("A GENERATE_SERIES without values is not answered.", "Write generate_series(0, 23).")
    column = Column("generate_series", start.type)
    numbers = [value for value in values if isinstance(value, int)]
    bounds = Interval.of(min(numbers), max(numbers)) if numbers else Interval()
    field = Field(column.name, column.name, column, bounds, tuple(values))
    return Scope(Listed(column, tuple(values)), (field,), unique=frozenset({column.name}))


def _no_columns(node: exp.Expr) -> Expr | None:
    if isinstance(node, exp.Column):
        refuse("GENERATE_SERIES expects literals, not columns.", "Write generate_series(0, 23).")
    return None


def _numbers(start: Literal, end: Literal, step: exp.Expr | None, read: Translator) -> list[Value]:
    by = Literal(1, types.INTEGER) if step is None else read(step)
    if not isinstance(by, Literal) or type(by.value) is not int or not by.value:
        refuse("GENERATE_SERIES of whole numbers expects a whole step.", "Write generate_series(0, 100, 10).")
    low, high = int(start.value), int(end.value)  # type: ignore[arg-type]
    _check_length((high - low) // by.value + 1)
    return list(range(low, high + (1 if by.value > 0 else -1), by.value))


def _times(start: Literal, end: Literal, step: exp.Expr | None) -> list[Value]:
    by = period(step) or (Period(days=1) if step is None else None)
    if (
        start.type.kind not in types.TIMES
        or by is None
        or min(by.months, by.days, by.micros) < 0
        or by == Period()
    ):
        refuse(
            "GENERATE_SERIES expects whole numbers, or dates and a literal INTERVAL.",
            "Write generate_series(DATE '2024-01-01', DATE '2024-12-31', INTERVAL 1 DAY).",
        )
    values: list[Value] = []
    for n in range(MAX_DOMAIN + 2):
        value = moved(start, by.times(n))
        if not isinstance(value, Literal) or value.value is None or not value.value <= end.value:  # type: ignore[operator]
            break
        values.append(value.value)
    _check_length(len(values))
    return values


def _check_length(length: int) -> None:
    if length > MAX_DOMAIN:
        refuse(f"Expected a GENERATE_SERIES of at most {MAX_DOMAIN:,} values.", "Take longer steps.")
