"""Parquet in place, so that no stored value can make a statement fail.

DuckDB raises on three kinds of values before any guard in SQL: text that is not UTF-8,
which it is told to replace, times in milliseconds beyond what microseconds hold, and
decimals beyond their precision. A file whose own statistics do not rule these out is
read by Arrow, once, and stored beside the prepared tables with NULL for such values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from deniable.errors import DataError
from deniable.sql.dialects import DUCKDB
from deniable.sql.dialects.storage import Physical
from deniable.sql.engines.engine import named
from deniable.sql.engines.sources import Parquet
from deniable.sql.engines.stored.fields import duckdb_rows, heads
from deniable.sql.engines.stored.frames import readable
from deniable.sql.schema.declare import TableInfo
from deniable.sql.tree import Kind

FARTHEST = 9 * 10**15
"""Milliseconds around 1970 that fit 64 bits as microseconds."""

TOTAL = frozenset(["NONE", "STRING", "INT", "DATE", "TIMESTAMP", "DECIMAL", "ENUM", "UUID", "FLOAT16"])
"""Parquet's types of which DuckDB reads every value, within `_limit`. (It checks JSON, and that times are
within a day.)"""


def scan(source: Parquet, *, strict: bool = False) -> str:
    """SQL for the rows. A `strict` scan raises on text that is not UTF-8; else such bytes are read as "?"."""
    hive = "false"
    if source.hive:
        hive = "true, hive_types_autocast = false"
    texts = "strict" if strict else "replace"
    files = ", ".join(map(DUCKDB.text, source.files))
    return f"read_parquet([{files}], hive_partitioning = {hive}, utf8_validation = '{texts}')"


def check_layout(source: Parquet) -> None:
    """Files with one layout, told by their footers: a file that differs would fail in the middle of a
    query."""
    first, *others = [pq.read_schema(file) for file in source.files]
    for file, other in zip(source.files[1:], others, strict=True):
        if not other.equals(first, check_metadata=False):
            raise DataError(
                f"The columns of {file} differ from those of {source.files[0]}. Nothing was opened; write "
                "one layout."
            )


def state(source: Parquet) -> tuple[tuple[int, int, int], ...]:
    """What changes when a file does."""
    statuses = (os.stat(file) for file in source.files)
    return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in statuses)


# -------------------------------------------------------------------------------------- values to be left out


def strays(source: Parquet, table: TableInfo) -> bool:
    """Whether a declared column may hold times or decimals that DuckDB fails on, as far as the footers
    tell."""
    columns = {column.name.casefold() for column in table.columns}
    return any(_strays(pq.read_metadata(file), columns, heads(table)) for file in source.files)


def _strays(footer: Any, wanted: set[str], structs: set[str]) -> bool:
    for index in range(footer.num_columns):
        column = footer.schema.column(index)
        path = column.path.casefold()
        # With one field of a struct its others may be read, of types that no declared column has too.
        is_inside = path.partition(".")[0] in structs
        if is_inside and column.logical_type.type not in TOTAL:
            return True
        limit = None
        if is_inside or path in wanted:
            limit = _limit(column)
        if limit is not None:
            groups = (footer.row_group(group).column(index) for group in range(footer.num_row_groups))
            if not all(_within(group.statistics, limit) for group in groups if group.num_values):
                return True
    return False


def _limit(column: Any) -> int | None:
    """What no stored number of a column may reach; None where DuckDB reads all of them."""
    if _milliseconds(column):
        return FARTHEST
    wide = column.logical_type.type == "DECIMAL" and column.precision > 18
    if wide:
        return int(10**column.precision)
    return None


def _milliseconds(column: Any) -> bool:
    logical = column.logical_type
    has_milliseconds = logical.type == "TIMESTAMP" and "milliseconds" in logical.to_json()
    return has_milliseconds or column.converted_type == "TIMESTAMP_MILLIS"


def _within(statistics: Any, limit: int) -> bool:
    if statistics is None or not statistics.has_min_max:
        return statistics is not None and statistics.num_values == 0
    low, high = (_number(end) for end in (statistics.min_raw, statistics.max_raw))
    return -limit < low <= high < limit


def _number(stored: int | bytes) -> int:
    if isinstance(stored, int):
        return stored
    return int.from_bytes(stored, "big", signed=True)


def batches(source: Parquet, table: TableInfo) -> pa.RecordBatchReader:
    """The declared columns of all files, with nothing in them that DuckDB could fail on."""
    names = pq.read_schema(source.files[0]).names
    columns = {column.name.casefold() for column in table.columns} | heads(table)
    selection = [name for name in names if name.casefold() in columns]
    pieces = _pieces(source, table, selection)
    first = next(pieces, None)
    if first is None:
        empty = readable(pq.read_schema(source.files[0]).empty_table().select(selection), table)
        return pa.RecordBatchReader.from_batches(empty.schema, iter(()))
    return pa.RecordBatchReader.from_batches(first.schema, _all(first, pieces))


def _all(first: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    yield from first.to_batches()
    for table in others:
        yield from table.cast(first.schema).to_batches()


def _pieces(source: Parquet, table: TableInfo, stored: Sequence[str]) -> Iterator[pa.Table]:
    for file in source.files:
        parts = folders(file) if source.hive else {}
        for batch in pq.ParquetFile(file).iter_batches(columns=list(stored)):
            piece = pa.Table.from_batches([batch])
            for name, value in parts.items():
                if name not in stored:
                    piece = piece.append_column(name, pa.repeat(pa.scalar(value, pa.string()), len(piece)))
            yield readable(piece, table)


def folders(file: str) -> dict[str, str | None]:
    """The columns that the names of folders say.

    >>> folders("data/region=EU/year=2024/part.parquet")
    {'region': 'EU', 'year': '2024'}
    """
    pairs = (part.split("=", 1) for part in Path(file).parent.parts if "=" in part)
    return {name: None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value) for name, value in pairs}


# -------------------------------------------------------------------------------------------- names of people


def check_identities(connection: Any, table: TableInfo, source: Parquet, identities: frozenset[str]) -> None:
    """Text that tells people apart is text: replaced bytes could make two of them one.
    For the owner, at the opening."""
    rows, column_types = duckdb_rows(connection, scan(source, strict=True), table)
    for column in table.columns:
        if column.name not in identities or column.type.kind is not Kind.TEXT:
            continue
        name = named(table, column.name, column_types)
        if DUCKDB.physical(column_types[name]) is Physical.TEXT:
            _check_text(connection, table.name, name, rows)


def _check_text(connection: Any, table: str, name: str, rows: str) -> None:
    try:
        connection.execute(f"SELECT bit_xor(hash({DUCKDB.quote(name)})) FROM {rows}").fetchall()
    except Exception as error:  # one row's text may steer it: the owner is told at opening, before any charge
        raise DataError(
            f'The column "{name}" of "{table}", which tells people or rows apart, holds text that is not '
            "UTF-8. Nothing was opened; write it as UTF-8, or as numbers."
        ) from error
