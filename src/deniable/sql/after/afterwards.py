"""What is said over the blocks of a text: checked before anything is charged, and run on what was
released."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import groupby

import pyarrow as pa
from sqlglot import ErrorLevel
from sqlglot import expressions as exp
from sqlglot.errors import UnsupportedError

from deniable.errors import InvalidQuery, Stopped, TooMany
from deniable.sql.after.arithmetic import NOISE, SLOPE, START, NodeAllowance, OwnNoise, TooLong
from deniable.sql.after.closed.runs import RunClosed, run_here
from deniable.sql.after.companions import HIGH, LOW, AnswerColumn, AnswerColumns, annotate
from deniable.sql.after.reach import Reach, level
from deniable.sql.after.release import ReleasedBlock
from deniable.sql.after.split import split_query, table_name
from deniable.sql.answer.table import arrow_type
from deniable.sql.functions.times.formats import by_to_char, pieces
from deniable.sql.refusals import refuse
from deniable.sql.schema.declare import Schema
from deniable.sql.tree import AggregateRef, KeyRef, Kind, Query
from deniable.units import Unit

_NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
_ROUNDING = 1e-12
"""More than the rounding of a few operations on doubles, as a part of their result."""


@dataclass(frozen=True)
class SaidAnswer:
    """The answer of a query over released tables; `low` and `high` have the columns for which intervals
    follow, `computed` are the other numbers."""

    table: pa.Table
    low: pa.Table
    high: pa.Table
    computed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Afterwards:
    """A query over the released `blocks`, and who `run`s it."""

    blocks: tuple[Query, ...]
    tree: exp.Expr
    run: RunClosed = field(default=run_here, repr=False, compare=False)

    @cached_property
    def text(self) -> str:
        return duckdb_text(self.tree)

    @cached_property
    def _with_ends(self) -> tuple[str, AnswerColumns | None]:
        return self._annotate([frozenset() for _ in self.blocks])

    def _annotate(self, like: Sequence[Collection[str]]) -> tuple[str, AnswerColumns | None]:
        """With the ends of all numbers; `like` are, by block, the columns whose cells have one noise each.
        Without any where that would be too long."""
        names = {table_name(i): _columns(i, query, like[i]) for i, query in enumerate(self.blocks)}
        try:
            tree, columns = annotate(self.tree, names, NodeAllowance())
            return duckdb_text(tree), columns
        except (TooLong, RecursionError):
            return self.text, None

    # -------------------------------------------------------------------------------------- before the charge

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the answer's columns, from tables without rows. What cannot be run is refused
        here, before anything is charged."""
        tables = {
            table_name(i): pa.table({o.name: pa.array([], arrow_type(o.of.type)) for o in query.outputs})
            for i, query in enumerate(self.blocks)
        }
        text = self.text
        try:
            return self.run(tables, text, empty=True).schema
        except InvalidQuery as refusal:
            refuse(str(refusal))
        except (Stopped, TooMany) as failure:
            raise type(failure)(f"{failure} No data was read and nothing was charged.") from None

    @property
    def direct(self) -> dict[str, tuple[int, str]]:
        """AnswerColumns of the answer that are released numbers as they are: of which block, and which of its
        columns."""
        columns = self._with_ends[1] or ()
        return {c.name: c.reach.points[0][:2] for c in columns if c.reach is not None and c.reach.direct}

    @property
    def numbers(self) -> list[str]:
        """AnswerColumns of numbers that stand on released ones, or may."""
        keys = {c.name for c in self._with_ends[1] or () if c.reach is None and c.key}
        return [each.name for each in self.schema if _is_number(each.type) and each.name not in keys]

    # -------------------------------------------------------------------------------------- after the release

    def answer(self, released: Sequence[ReleasedBlock]) -> SaidAnswer:
        tables = {table_name(i): block.table for i, block in enumerate(released)}
        table = self.run(tables, self.text)
        low: dict[str, pa.ChunkedArray] = {}
        high: dict[str, pa.ChunkedArray] = {}
        by_level: dict[int, list[int]] = {}
        with_ends = self._annotate([block.noises for block in released])
        for position, each in _levels(table, released, with_ends[1]).items():
            by_level.setdefault(each, []).append(position)
        for each, positions in by_level.items():
            for position, ends in self._ends(table, released, each, positions, with_ends).items():
                name = table.column_names[position]
                low[name], high[name] = ends
        names = [name for name in table.column_names if name in low]
        sides = [pa.table({name: side[name] for name in names}) for side in (low, high)]
        bare_names = [name for name in self._noisy(table) if name not in low]
        return SaidAnswer(table, sides[0], sides[1], tuple(bare_names))

    def _ends(
        self,
        table: pa.Table,
        released: Sequence[ReleasedBlock],
        at: int,
        positions: Sequence[int],
        with_ends: tuple[str, AnswerColumns | None],
    ) -> dict[int, tuple[pa.ChunkedArray, pa.ChunkedArray]]:
        """Both ends of some columns, read at one level; none where the two runs differ in a row."""
        text, columns = with_ends
        assert columns is not None
        tables = {table_name(i): _with_ends_beside(block, at) for i, block in enumerate(released)}
        lines = {name: line for i, block in enumerate(released) for name, line in _error_lines(i, block, at)}
        try:
            both = self.run(tables | (lines if NOISE in text else {}), text)
        except InvalidQuery:
            return {}
        own = both.select(range(len(columns))).rename_columns(table.column_names)
        if not own.equals(table):
            return {}
        reach_positions = [i for i, column in enumerate(columns) if column.reach is not None]
        limits = {}
        for position in positions:
            first = len(columns) + 2 * reach_positions.index(position)
            reach = columns[position].reach
            slack = 0.0 if reach is not None and reach.direct else _ROUNDING
            limits[position] = (
                _round_ends(both.column(first), -1, slack),
                _round_ends(both.column(first + 1), 1, slack),
            )
        return limits

    def _noisy(self, table: pa.Table) -> list[str]:
        """The numbers of the answer but its keys."""
        columns = self._with_ends[1]
        answer_columns = None
        if columns is not None and len(columns) == table.num_columns:
            answer_columns = columns
        keys = {i for i, column in enumerate(answer_columns or ()) if column.key}
        fields = enumerate(table.schema)
        return [each.name for i, each in fields if _is_number(each.type) and i not in keys]


def _levels(
    table: pa.Table, released: Sequence[ReleasedBlock], columns: AnswerColumns | None
) -> dict[int, int]:
    """The level at which each column of the answer reads the ends of released numbers."""
    if columns is None or len(columns) != table.num_columns:
        return {}
    rows = {i: block.table.num_rows for i, block in enumerate(released)}
    levels = {}
    for position, column in enumerate(columns):
        at = None
        if column.reach is not None:
            at = _level(column.reach, rows, released)
        if at is not None and _is_number(table.schema.field(position).type):
            levels[position] = at
    return levels


def answer_fields(text: str, schema: Schema, unit: Unit, run: RunClosed = run_here) -> list[tuple[str, Kind]]:
    """The names and types of an answer's columns, known before it is asked for."""
    query = split_query(text, schema, unit)
    if query.after is None:
        return [(output.name, output.of.type.kind) for output in query.blocks[0].outputs]
    return [(each.name, _kind(each.type)) for each in Afterwards(query.blocks, query.after, run).schema]


def _kind(kind: pa.DataType) -> Kind:
    tests = {
        Kind.BOOLEAN: pa.types.is_boolean,
        Kind.INTEGER: pa.types.is_integer,
        Kind.DECIMAL: pa.types.is_decimal,
        Kind.FLOAT: pa.types.is_floating,
        Kind.DATE: pa.types.is_date,
        Kind.TIMESTAMP: pa.types.is_timestamp,
    }
    return next((each for each, holds in tests.items() if holds(kind)), Kind.TEXT)


def _level(reach: Reach, rows: dict[int, int], released: Sequence[ReleasedBlock]) -> int | None:
    """The first level that all cells of a reach have their ends at."""
    levels = set.intersection(
        *(
            {m for m, (low, _) in released[table].limits.items() if name in low.column_names}
            for table, name, _ in reach.bases
        )
    )
    return level(reach.cells(rows), tuple(levels))


def _columns(index: int, query: Query, like: Collection[str]) -> AnswerColumns:
    keys = frozenset(output.name for output in query.outputs if isinstance(output.of, KeyRef))
    columns = []
    for output in query.outputs:
        column = AnswerColumn(output.name, key=isinstance(output.of, KeyRef))
        if isinstance(output.of, AggregateRef) and output.of.type.kind in _NUMBERS:
            column = replace(column, reach=Reach(((index, output.name, 0),), direct=True))
        if output.name in like:
            column = replace(column, noise=OwnNoise(f"{NOISE}{index}_{output.name}", keys))
        if output.name in keys:
            column = replace(column, origin=output.name)
        columns.append(column)
    return tuple(columns)


def _with_ends_beside(block: ReleasedBlock, at: int) -> pa.Table:
    """A released table with the ends of its numbers; NULL where there are none at this level."""
    low, high = block.limits.get(at) or (pa.table({}), pa.table({}))
    table = block.table
    for name in block.table.column_names:
        if name.startswith("a"):
            for prefix, side in ((LOW, low), (HIGH, high)):
                has_ends = name in side.column_names
                ends = side.column(name) if has_ends else pa.nulls(table.num_rows, pa.float64())
                table = table.append_column(prefix + name, ends)
    return table


def _error_lines(index: int, block: ReleasedBlock, at: int) -> Iterator[tuple[str, pa.Table]]:
    """How far sums of a column's cells are off at this level: a table of one row for each column."""
    for name, noise in block.noises.items():
        line = noise.line(block.table.num_rows, at)
        slope, start = (math.inf, math.inf) if line is None else (line.slope, line.start)
        yield f"{NOISE}{index}_{name}", pa.table({SLOPE: [slope], START: [start]})


def _is_number(kind: pa.DataType) -> bool:
    return _kind(kind) in _NUMBERS


def _round_ends(ends: pa.ChunkedArray, side: int, slack: float) -> pa.ChunkedArray:
    """Rounded outward; what is not a number is unbounded."""
    values = [None if end is None else _round_outward(end, side, slack) for end in ends.to_pylist()]
    return pa.chunked_array([pa.array(values, pa.float64())])


def _round_outward(end: float, side: int, slack: float) -> float:
    if math.isnan(end):
        return side * math.inf
    if math.isinf(end):
        return end
    return end + side * abs(end) * slack


# -------------------------------------------------------------------------------- the text that DuckDB runs


def duckdb_text(tree: exp.Expr) -> str:
    """What DuckDB runs over released tables. What has no words there is refused, not left out."""
    try:
        return tree.transform(_write_to_char).sql(
            dialect="duckdb", comments=False, unsupported_level=ErrorLevel.RAISE
        )
    except UnsupportedError:
        refuse(
            "A function of this query has an argument that is not read over released results.",
            "Leave it out.",
        )


def _write_to_char(node: exp.Expr) -> exp.Expr:
    """to_char(x, 'YYYY-"Q"Q') by what DuckDB has: strftime(x, '%Y-Q') || quarter(x)."""
    form = node.args.get("format")
    if not isinstance(node, exp.ToChar) or not isinstance(form, exp.Literal):
        return node
    runs = groupby(pieces(by_to_char(str(form.this))), key=lambda piece: piece if _is_foreign(piece) else "")
    texts = [_write_piece(node.this, foreign or "".join(run)) for foreign, run in runs]
    text = reduce(lambda a, b: exp.DPipe(this=a, expression=b), texts)
    return exp.Paren(this=text)


def _is_foreign(piece: str) -> bool:
    """Whether it is a code of ours that DuckDB does not know."""
    return piece == "%q" or piece.startswith("%^")


def _write_piece(of: exp.Expr, form: str) -> exp.Expr:
    if form == "%q":
        return exp.cast(exp.Anonymous(this="quarter", expressions=[of.copy()]), "text")
    if _is_foreign(form):
        return exp.Upper(this=_write_piece(of, form.replace("^", "")))
    return exp.Anonymous(this="strftime", expressions=[of.copy(), exp.Literal.string(form)])
