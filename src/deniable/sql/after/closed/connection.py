"""The connection that runs what is said over released tables.

No file, no extension, no frame of the calling program, no other database; settings are locked; memory, rows
and bytes are limited. It is opened for one statement and closed after it. What fails here fails because of
the text or of released numbers, so it is told in full and freezes nothing.

This file imports DuckDB, Arrow and our errors, and nothing else: a process of its own runs it too (`child`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

import duckdb
import pyarrow as pa

from deniable.errors import InvalidQuery
from deniable.sql.duckdb_settings import CLOSED

MEMORY = "512MB"
ROWS = 100_000
BYTES = 32 * 1024 * 1024
"""How large an answer may be: it is copied a few times on its way to whoever asked."""
COLUMNS = 1_000
SETTINGS = CLOSED | {
    "threads": "1",
    "memory_limit": MEMORY,
    "temp_directory": "",
    "secret_directory": "none",
    "max_expression_depth": "1000",
    "default_null_order": "nulls_last",
}
BATCH = 2_048
"""Rows that are made at once: as many as DuckDB works on, so that too large an answer is seen early."""

Tables = Mapping[str, pa.Table]


class Closed:
    """A locked connection that holds `tables`, under limits: `seconds` of time, if any, and the `memory` that
    is named to whoever needs more."""

    def __init__(
        self, tables: Tables | None = None, *, seconds: float | None = None, memory: str = "512 MB"
    ) -> None:
        self._seconds = seconds
        self._memory = memory
        self._connection = duckdb.connect(":memory:", config={**SETTINGS})
        try:
            self._connection.execute("SET TimeZone = 'UTC'")
            if tables is not None:
                self.fill(tables)
        except BaseException:  # released tables only: it goes on as it is, and the connection is closed
            self._connection.close()
            raise

    def fill(self, tables: Tables, setup: Sequence[str] = ()) -> None:
        """Take tables in, each by its quoted name, run statements of ours over them, then lock every
        setting."""
        with self._limit_time():
            for name, table in tables.items():
                self._connection.register("_given", table)
                self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM _given")
                self._connection.unregister("_given")
            for statement in setup:
                self._connection.execute(statement)
            self._connection.execute("SET enable_external_access = false")
            self._connection.execute("SET lock_configuration = true")

    def __enter__(self) -> Closed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def answer(self, text: str, *, lists: bool = False) -> pa.Table:
        """The rows of one SELECT, in the types that answers have; `lists` and whole numbers of other widths
        may be among them."""
        with self._limit_time():
            statements = self._connection.extract_statements(text)
            if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
                _refuse("is not one SELECT.")
            reader = self._connection.sql(text).to_arrow_reader(BATCH)
            if len(reader.schema) > COLUMNS:
                _refuse(f"has more than {COLUMNS:,} columns.")
            table = pa.Table.from_batches(_read_batches(reader), reader.schema)
            return pa.table([_column(each, lists) for each in table.columns], names=table.column_names)

    @contextmanager
    def _limit_time(self) -> Iterator[None]:
        late = threading.Event()

        def end() -> None:
            late.set()
            self._connection.interrupt()

        timer = None
        if self._seconds is not None:
            timer = threading.Timer(self._seconds, end)
            timer.daemon = True
            timer.start()
        try:
            yield
        except (duckdb.OutOfMemoryException, MemoryError):
            raise OutOfMemory(out_of_memory(self._memory)) from None
        except OSError as error:  # Arrow's reader says so of whatever DuckDB raises behind it
            if "Out of Memory" in str(error):
                raise OutOfMemory(out_of_memory(self._memory)) from None
            self._refuse_late(late)
            _refuse(f"fails: {_first_lines(str(error))}")
        except (duckdb.Error, pa.ArrowException) as error:
            self._refuse_late(late)
            _refuse(f"fails: {_first_lines(str(error))}")
        finally:
            if timer is not None:
                timer.cancel()

    def _refuse_late(self, late: threading.Event) -> None:
        if late.is_set():
            _refuse(f"takes longer than {self._seconds:g} seconds.")


class OutOfMemory(InvalidQuery):
    """A statement that needs more memory than it may use."""


def quoted(name: str) -> str:
    """A name as DuckDB reads it back."""
    return '"' + name.replace('"', '""') + '"'


def _read_batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The rows of an answer, until there are too many."""
    rows = size = 0
    for batch in reader:
        rows += batch.num_rows
        size += batch.nbytes
        check_size(rows, size)
        yield batch


def check_size(rows: int, size: int) -> None:
    if rows > ROWS:
        _refuse(f"has more than {ROWS:,} rows.")
    if size > BYTES:
        _refuse(f"is larger than {BYTES >> 20} MB.")


SUBJECT = "What is said over the released numbers"


def out_of_memory(memory: str) -> str:
    return f"{SUBJECT} needs more memory than it may use ({memory})."


def _refuse(what: str) -> NoReturn:
    raise InvalidQuery(f"{SUBJECT} {what}")


def _first_lines(text: str) -> str:
    """What DuckDB says, without the excerpt of the text that was written here."""
    message = " ".join(line.strip() for line in text.split("\n\nLINE")[0].splitlines() if line.strip())
    if len(message) <= 500:
        return message
    return message[:499] + "…"


# ------------------------------------------------------------------------------------------------- types


def _column(column: pa.ChunkedArray, lists: bool) -> pa.ChunkedArray:
    """Whole numbers of 64 bits and floats instead of DuckDB's wider ones; other types than columns have are
    texts."""
    kind = column.type
    if pa.types.is_decimal(kind) and kind.scale == 0 and not lists:
        return _cast(column, pa.int64())
    if is_known(kind, lists=lists):
        return column
    if pa.types.is_integer(kind):
        return _cast(column, pa.int64())
    for is_one, to in _WIDER:
        if is_one(kind):
            return column.cast(to)
    texts = [None if v is None else str(v) for v in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def is_known(kind: pa.DataType, *, lists: bool) -> bool:
    """Whether a column of an answer may have this type."""
    if kind in (pa.int64(), pa.float64(), pa.string(), pa.timestamp("us")):
        return True
    if any(is_one(kind) for is_one in _AS_THEY_ARE):
        return True
    is_list = bool(pa.types.is_list(kind)) and kind.value_type in (pa.int32(), pa.int64(), pa.string())
    return lists and (kind == pa.int32() or is_list)


_AS_THEY_ARE = (pa.types.is_decimal128, pa.types.is_boolean, pa.types.is_date32)
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
