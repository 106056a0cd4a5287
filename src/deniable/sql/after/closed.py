"""A DuckDB of its own for what is said over released tables: it holds those and can reach nothing else.

No file, no extension, no frame of the calling program, no other database; settings are locked; memory, time
and rows are limited. It is made for one question and closed after it. What fails here fails because of the
text or of released numbers, so it is told in full and freezes nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from itertools import groupby
from typing import NoReturn

import duckdb
import pyarrow as pa
from sqlglot import ErrorLevel
from sqlglot import expressions as exp
from sqlglot.errors import UnsupportedError

from deniable.errors import InvalidQuery
from deniable.sql.date_formats import pieces
from deniable.sql.dialects import DUCKDB
from deniable.sql.engines.duckdb import CLOSED
from deniable.sql.read.names import fold
from deniable.sql.read.parse import refuse
from deniable.sql.read.times.date_formats import by_to_char

SECONDS = 10.0
MEMORY = "512MB"
ROWS = 100_000
SETTINGS = CLOSED | {
    "threads": "1",
    "memory_limit": MEMORY,
    "temp_directory": "",
    "secret_directory": "none",
    "max_expression_depth": "1000",
    "default_null_order": "nulls_last",
}

Tables = Mapping[str, pa.Table]


class Closed:
    """A locked connection that holds `tables`."""

    def __init__(self, tables: Tables, *, seconds: float | None = None) -> None:
        self._seconds = SECONDS if seconds is None else seconds
        self._connection = duckdb.connect(":memory:", config={**SETTINGS})
        try:
            self._connection.execute("SET TimeZone = 'UTC'")
            for name, table in tables.items():
                self._connection.register("_given", table)
                self._connection.execute(f"CREATE TABLE {DUCKDB.quote(name)} AS SELECT * FROM _given")
                self._connection.unregister("_given")
            self._connection.execute("SET enable_external_access = false")
            self._connection.execute("SET lock_configuration = true")
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Closed:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def stop(self) -> None:
        self._connection.interrupt()

    def answer(self, text: str) -> pa.Table:
        """The rows of one SELECT."""
        with self._told():
            statements = self._connection.extract_statements(text)
            if any(each.type != duckdb.StatementType.SELECT for each in statements[-1:]):
                _refuse("is not a SELECT.")
            reader = self._connection.sql(text).to_arrow_reader(ROWS + 1)
            table = pa.Table.from_batches(_some(reader), reader.schema)
        if table.num_rows > ROWS:
            _refuse(f"has more than {ROWS:,} rows.")
        return _simple(table)

    @contextmanager
    def _told(self) -> Iterator[None]:
        late = threading.Event()

        def end() -> None:
            late.set()
            self.stop()

        timer = threading.Timer(self._seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except duckdb.Error as error:
            if late.is_set():
                _refuse(f"takes longer than {self._seconds:g} seconds.")
            _refuse(f"fails: {_first_lines(str(error))}")
        finally:
            timer.cancel()


def _some(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """As many batches as it takes to see that there are too many rows."""
    rows = 0
    for batch in reader:
        yield batch
        rows += batch.num_rows
        if rows > ROWS:
            return


def _refuse(what: str) -> NoReturn:
    raise InvalidQuery(f"What is said over the released numbers {what}")


def _first_lines(text: str) -> str:
    """What DuckDB says, without the excerpt of the text that was written here."""
    message = " ".join(line.strip() for line in text.split("\n\nLINE")[0].splitlines() if line.strip())
    if len(message) <= 500:
        return message
    return message[:499] + "…"


def _simple(table: pa.Table) -> pa.Table:
    """Whole numbers of 64 bits and floats instead of DuckDB's wider ones; other types than columns have are
    texts."""
    names: list[str] = []
    for name in table.column_names:
        folds = {fold(other) for other in names}
        names.append(
            next(n for n in (name, *(f"{name}_{i}" for i in range(2, 9999))) if fold(n) not in folds)
        )
    return pa.table([_column(column) for column in table.columns], names=names)


def _column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return _cast(column, pa.int64())
    if any(is_one(kind) for is_one in _AS_THEY_ARE):
        return column
    for is_one, to in _WIDER:
        if is_one(kind):
            return column.cast(to)
    texts = [None if v is None else str(v) for v in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


_AS_THEY_ARE = (pa.types.is_decimal, pa.types.is_boolean, pa.types.is_date32)
_WIDER = (
    (pa.types.is_floating, pa.float64()),
    (pa.types.is_timestamp, pa.timestamp("us")),
    (pa.types.is_string, pa.string()),
    (pa.types.is_null, pa.string()),
    (pa.types.is_large_string, pa.string()),
)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Types do not depend on numbers: one that 64 bits do not hold is refused."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        _refuse("has a whole number that 64 bits do not hold. Write CAST(… AS DOUBLE).")


def duckdb_text(tree: exp.Expr) -> str:
    """What DuckDB runs over released tables. What has no words there is refused, not left out."""
    try:
        return tree.transform(_said).sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError:
        refuse(
            "A function of this query has an argument that is not read over released results.",
            "Leave it out.",
        )


def _said(node: exp.Expr) -> exp.Expr:
    """to_char(x, 'YYYY-"Q"Q') by what DuckDB has: strftime(x, '%Y-Q') || quarter(x)."""
    form = node.args.get("format")
    if not isinstance(node, exp.ToChar) or not isinstance(form, exp.Literal):
        return node
    runs = groupby(pieces(by_to_char(str(form.this))), key=lambda piece: piece if _is_foreign(piece) else "")
    texts = [_piece(node.this, foreign or "".join(run)) for foreign, run in runs]
    text = reduce(lambda a, b: exp.DPipe(this=a, expression=b), texts)
    return exp.Paren(this=text)


def _is_foreign(piece: str) -> bool:
    """Whether it is a code of ours that DuckDB does not know."""
    return piece == "%q" or piece.startswith("%^")


def _piece(of: exp.Expr, form: str) -> exp.Expr:
    if form == "%q":
        return exp.cast(exp.Anonymous(this="quarter", expressions=[of.copy()]), "text")
    if _is_foreign(form):
        return exp.Upper(this=_piece(of, form.replace("^", "")))
    return exp.Anonymous(this="strftime", expressions=[of.copy(), exp.Literal.string(form)])
