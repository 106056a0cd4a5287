"""How many cells of a table cannot be read as they were declared, for the eyes of its owner.

A cell that does not fit its type is NULL in every query: that no stored value can make a query fail is part
of the guarantee, and so is that no analyst is told. The owner may look: she holds the rows, and a column
whose every date is written 31.01.2026 is a slip of her declaration. What is told here is exact and not a
release.

Cells beyond bounds or outside of public keys are not counted. Bounds and keys are public, so they must come
from knowledge; whoever fits them to such counts publishes the data by way of its schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from deniable.errors import DataError, InvalidParameter
from deniable.sql.dialects.duckdb import DUCKDB
from deniable.sql.engines.duckdb import origin
from deniable.sql.engines.engine import named, view
from deniable.sql.engines.sources import CSV, DuckDBTable, Frame, Parquet, Source
from deniable.sql.engines.stored.fields import duckdb_rows
from deniable.sql.schema.declare import Schema, TableInfo

FORMS = 3
"""As many ways of writing are named."""
LONGEST_FORM = 24


@dataclass(frozen=True)
class ColumnCells:
    """Of one column: all cells, those that are empty, those that cannot be read, and how most of these are
    written: 9 for a digit, a for a letter."""

    table: str
    column: str
    cells: int
    empty: int
    unread: int
    forms: tuple[str, ...]


def unread_cells(sources: Mapping[str, Source], schema: Schema) -> list[ColumnCells]:
    """Every declared column of every table, by reading all rows of files and frames."""
    counts: list[ColumnCells] = []
    for index, table in enumerate(schema.tables):
        source = sources[table.name]
        if not isinstance(source, CSV | DuckDBTable | Frame | Parquet):
            raise InvalidParameter(
                f'The cells of "{table.name}" are not counted: they lie in a database whose types are its '
                "own. Cells are counted in files and frames."
            )
        with duckdb.connect(":memory:") as connection:
            try:
                counts += _of_table(connection, f"_source_{index}", table, source)
            except duckdb.Error:
                # What DuckDB says holds the line that it failed at; opening the table tells what is wrong.
                raise DataError(f'The table "{table.name}" cannot be read.') from None
    return counts


def _of_table(
    connection: duckdb.DuckDBPyConnection, name: str, table: TableInfo, source: Source
) -> list[ColumnCells]:
    rows_as_stored = origin(connection, name, source, tuple(column.name for column in table.columns))
    relation, types = duckdb_rows(connection, rows_as_stored, table)
    body = view(table, types, relation, DUCKDB)
    # Both sides read the same rows in the same order.
    rows = f"(SELECT * FROM {relation}) AS raw POSITIONAL JOIN ({body}) AS fit"
    return [
        _of_column(connection, rows, table.name, column.name, named(table, column.name, types))
        for column in table.columns
    ]


def _of_column(
    connection: duckdb.DuckDBPyConnection, rows: str, table: str, column: str, stored: str
) -> ColumnCells:
    raw, fit = f"raw.{DUCKDB.quote(stored)}", f"fit.{DUCKDB.quote(column)}"
    unread = f"{raw} IS NOT NULL AND {fit} IS NULL"
    ((cells, empty, missing),) = connection.execute(
        f"SELECT COUNT(*), COUNT(*) FILTER ({raw} IS NULL), COUNT(*) FILTER ({unread}) FROM {rows}"
    ).fetchall()
    form = f"regexp_replace(regexp_replace({raw}::VARCHAR, '[0-9]', '9', 'g'), '\\pL', 'a', 'g')"
    forms = Counter[str]()
    if missing:
        common = connection.execute(
            f"SELECT left({form}, {LONGEST_FORM}), COUNT(*) FROM {rows} WHERE {unread} GROUP BY 1 "
            f"ORDER BY 2 DESC, 1 LIMIT {FORMS}"
        ).fetchall()
        forms.update(dict(common))
    return ColumnCells(table, column, cells, empty, missing, tuple(forms))
