"""FROM generate_series(0, 23) AS g(h): a public table of literals, so that an axis is complete; and one whose
rows are written out, FROM (VALUES ('a', 1), ('b', 2)) AS v(x, y)."""

from __future__ import annotations

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.coercion import convert, meet
from deniable.sql.functions.choices import choice
from deniable.sql.functions.conditions import equality
from deniable.sql.functions.times.periods import DAY, Period, moved, period
from deniable.sql.intervals import Interval
from deniable.sql.read.expressions.translator import Translator
from deniable.sql.read.names import MAX_DOMAIN, Field, Scope
from deniable.sql.refusals import refuse
from deniable.sql.tree import Column, Expr, Kind, Listed, Literal, Project, Type, Value


def series(node: exp.GenerateSeries) -> Scope:
    """Whole numbers, days or moments from literal to literal by a literal step; a `range` ends before its
    end."""
    type_, values = _values(node)
    if not values:
        refuse("A GENERATE_SERIES without values is not answered.", "Write generate_series(0, 23).")
    column = Column("generate_series", type_)
    numbers = [value for value in values if isinstance(value, int)]
    bounds = Interval.of(min(numbers), max(numbers)) if numbers else Interval()
    field = Field(column.name, column.name, column, bounds, tuple(values))
    return Scope(Listed(column, tuple(values)), (field,), unique=frozenset({column.name}))


def _values(node: exp.GenerateSeries) -> tuple[Type, list[Value]]:
    read = Translator(_no_columns)
    start, end = read(node.args["start"]), read(node.args["end"])
    step, before_end = node.args.get("step"), node.args.get("is_end_exclusive")
    if before_end and not step and isinstance(end, Literal) and end.value == 0:
        refuse("An empty RANGE is not answered.", "Write range(0, 10).")
    if not isinstance(start, Literal) or not isinstance(end, Literal) or start.type.kind is not end.type.kind:
        refuse("GENERATE_SERIES expects two literals of one type.", "Write generate_series(0, 23).")
    start, end = _as_moments(start, end, step)
    is_whole = start.type.kind is Kind.INTEGER
    values = _numbers(start, end, step, read) if is_whole else _times(start, end, step)
    if before_end and values and values[-1] == end.value:
        return start.type, values[:-1]
    return start.type, values


MAX_ROWS = 100
_WRITE = "Write (VALUES ('a', 1), ('b', 2)) AS v(x, y)."


def listed_rows(node: exp.Values) -> Scope:
    """The rows of VALUES. The first column whose values all differ names them, and the others follow from
    it."""
    literals = _literal_columns(_equally_long_rows(node))
    at = _naming_column(literals)
    key = Column(f"v{at}", literals[at][0].type)
    items = [
        (f"v{i}", key if i == at else _choose_cell(key, literals[at], cells))
        for i, cells in enumerate(literals)
    ]
    relation = Project(Listed(key, tuple(cell.value for cell in literals[at])), tuple(items))
    fields = tuple(_listed_field(i, cells) for i, cells in enumerate(literals))
    return Scope(relation, fields, unique=frozenset({key.name}))


def _equally_long_rows(node: exp.Values) -> list[list[Expr]]:
    read = Translator(_no_columns)
    tuples = [row for row in node.expressions if isinstance(row, exp.Tuple)]
    rows = [[read(cell) for cell in row.expressions] for row in tuples]
    lengths = {len(row) for row in rows}
    if not 1 <= len(rows) <= MAX_ROWS or len(rows) < len(node.expressions) or len(lengths) > 1:
        refuse(f"VALUES expects from 1 to {MAX_ROWS} rows of one length.", _WRITE)
    return rows


def _literal_columns(rows: list[list[Expr]]) -> list[list[Literal]]:
    """The cells of each column, of one type."""
    columns = [meet(list(cells), "VALUES")[0] for cells in zip(*rows, strict=True)]
    literals = [[cell for cell in cells if isinstance(cell, Literal)] for cells in columns]
    if any(len(cells) < len(rows) for cells in literals):
        refuse("VALUES expects literals.", _WRITE)
    return literals


def _naming_column(columns: list[list[Literal]]) -> int:
    for i, cells in enumerate(columns):
        if _all_differ(cells):
            return i
    refuse("VALUES expects a column whose values all differ, and none of which is NULL.", "Number the rows.")


def _listed_field(i: int, cells: list[Literal]) -> Field:
    distinct = dict.fromkeys(cell.value for cell in cells)
    return Field(f"col{i}", "", Column(f"v{i}", cells[0].type), domain=tuple(distinct))


def _all_differ(cells: list[Literal]) -> bool:
    values = {cell.value for cell in cells}
    return None not in values and len(values) == len(cells)


def _choose_cell(key: Column, keys: list[Literal], cells: list[Literal]) -> Expr:
    pairs = zip(keys, cells, strict=True)
    whens = [part for at, cell in pairs for part in (equality(key, at), cell)]
    return choice(cells[0].type, *whens, Literal(None, cells[0].type))


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


def _as_moments(start: Literal, end: Literal, step: exp.Expr | None) -> tuple[Literal, Literal]:
    """Days by steps of less than a day are moments."""
    by = period(step)
    if start.type.kind is not Kind.DATE or by is None or not by.micros % DAY:
        return start, end
    first, last = convert(start, types.TIMESTAMP), convert(end, types.TIMESTAMP)
    assert isinstance(first, Literal)
    assert isinstance(last, Literal)
    return first, last


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
        if not isinstance(value, Literal) or value.value is None:
            break
        if not value.value <= end.value:  # type: ignore[operator]
            break
        values.append(value.value)
    _check_length(len(values))
    return values


def _check_length(length: int) -> None:
    if length > MAX_DOMAIN:
        refuse(f"Expected a GENERATE_SERIES of at most {MAX_DOMAIN:,} values.", "Take longer steps.")
