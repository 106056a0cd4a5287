"""A first schema from metadata: names and types of columns, and nothing that a row says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from deniable.errors import DataError, InvalidParameter
from deniable.sql.dialects import DUCKDB, Dialect
from deniable.sql.dialects.storage import Physical
from deniable.sql.duckdb_settings import CLOSED
from deniable.sql.engines import duckdb as embedded
from deniable.sql.engines import stored_on_server
from deniable.sql.engines.sources import CSV, DuckDBTable, Frame, PostgresTable, Source, recognise
from deniable.sql.engines.stored import fields
from deniable.sql.schema.declare import ColumnInfo, TableInfo
from deniable.sql.schema.draft import draft_text
from deniable.sql.tree import Kind, Type
from deniable.sql.types import MAX_SCALE

KINDS = {
    Physical.BOOLEAN: Kind.BOOLEAN,
    Physical.INTEGER: Kind.INTEGER,
    Physical.WIDE: Kind.TEXT,
    Physical.DECIMAL: Kind.DECIMAL,
    Physical.FLOAT: Kind.FLOAT,
    Physical.TEXT: Kind.TEXT,
    Physical.DATE: Kind.DATE,
    Physical.TIMESTAMP: Kind.TIMESTAMP,
    Physical.ZONED: Kind.TIMESTAMP,
}


def describe(name: str, source: Any) -> TableInfo:
    """The columns and types of a source as a declared table, from metadata only. CSV
    says nothing of types: all is text.

    Columns that have no meaning here (lists, bytes) are left out; of a struct column its fields are
    declared, like "address.city". A frame whose types its rows could change is refused: what an analyst may
    ask would tell of a row. Of structs in a frame, whose fields rows could change as well, none is declared.
    """
    where = recognise(source, name)
    if isinstance(where, Frame) and where.loose:
        raise InvalidParameter(_undeclared(where))
    return _described(name, _without_structs(where) if isinstance(where, Frame) else where)


def _without_structs(frame: Frame) -> Frame:
    """One row of another form adds a field to a struct that is made from Python's objects."""
    flat = [i for i, field in enumerate(frame.table.schema) if not pa.types.is_struct(field.type)]
    return replace(frame, table=frame.table.select(flat))


def _undeclared(frame: Frame) -> str:
    first, *others = sorted(frame.loose, key=frame.table.column_names.index)
    more = f" (and of {len(others)} more)" if others else ""
    return (
        f'The type of the column "{first}"{more} comes from its values, so that one row could change it and '
        "with it what may be asked. Nothing was opened. Declare it in a schema=, or in the frame: "
        f"{frame.line}"
    )


def _described(name: str, source: Source) -> TableInfo:
    column_types, dialect = _stored(source)
    columns = [
        ColumnInfo(column, kind)
        for column, type_name in column_types.items()
        if (kind := _type(type_name, dialect))
    ]
    if not columns:
        raise DataError(f'The table "{name}" has no column that can be asked about.')
    return TableInfo(name, tuple(columns))


def draft(source: Any, name: str | None = None) -> str:
    """The text of a schema file to review, with the places where the owner's knowledge goes.

    >>> import pyarrow as pa
    >>> print(draft(pa.table({"patient_id": [1], "days": [3]}), "visits"))
    # What analysts may ask about, ...
    version: "1"
    tables:
      visits:
        # Who is protected: the column whose every value is one person. Without it one row is protected.
        # unit: patient_id
        columns:
          patient_id: {type: integer}  # bounds: [lower, upper] ...
          days: {type: integer}  # bounds: [lower, upper] ...
    """
    name = named(source) if name is None else name
    return draft_text(declarable(source, name))


def declarable(source: Any, name: str) -> TableInfo:
    """As `describe`, of any source: for an owner who reviews the types before they are declared."""
    return _described(name, recognise(source, name))


def named(source: Any) -> str:
    """The name of a table that a file suggests.

    >>> named("data/Visits 2024.parquet"), named("s/*.parquet"), named([1])
    ('visits_2024', 's', 'data')
    """
    if isinstance(source, CSV):
        source = source.path
    if isinstance(source, DuckDBTable | PostgresTable):
        return source.table
    if not isinstance(source, str | Path) or "://" in str(source):
        return "data"
    parts = Path(str(source)).parts
    stem = next((part for part in reversed(parts) if "*" not in part), "data").split(".")[0]
    return re.sub(r"\W+", "_", stem.lower()).strip("_") or "data"


def _stored(source: Source) -> tuple[dict[str, str], Dialect]:
    """The stored columns with the engine's names of their types."""
    server = stored_on_server(source)
    if server is not None:
        columns, inside, dialect = server
        return _with_fields(columns, inside), dialect
    if not isinstance(source, CSV):
        return _embedded(source), DUCKDB
    names = source.names()
    if names is None:
        raise InvalidParameter(
            "A CSV file without a header has no names for its columns. Write the schema by hand."
        )
    return dict.fromkeys(names, "VARCHAR"), DUCKDB


def _embedded(source: Source) -> dict[str, str]:
    try:
        with duckdb.connect(":memory:", config={**CLOSED}) as connection:
            if isinstance(source, Frame):
                return _types(connection, source.table)
            return _stored_in(connection, embedded.origin(connection, "_source", source, ()))
    except (duckdb.Error, OSError) as error:
        raise DataError(f"The source cannot be read: {error}") from error


def _stored_in(connection: Any, origin: str) -> dict[str, str]:
    return _with_fields(fields.columns(connection, origin), fields.duckdb_fields(connection, origin))


def _with_fields(columns: dict[str, str], inside: Mapping[fields.Path, str]) -> dict[str, str]:
    """Fields of structs are columns too, unless there is one of such a name."""
    column_types, names = dict(columns), {name.casefold() for name in columns}
    for path, of in inside.items():
        name = fields.joined(path)
        if name.casefold() not in names:
            names.add(name.casefold())
            column_types[name] = of
    return column_types


def _types(connection: Any, table: pa.Table) -> dict[str, str]:
    """Column by column and without a row: DuckDB does not know every type that Arrow has."""
    column_types: dict[str, str] = {}
    for name in table.column_names:
        with suppress(duckdb.Error):
            connection.register("_column", table.select([name]).slice(0, 0))
            column_types |= _stored_in(connection, "_column")
    return column_types


def _type(stored: str, dialect: Dialect) -> Type | None:
    kind = KINDS.get(dialect.physical(stored))
    if kind is None:
        return None
    places = re.search(r"\(\d+, *(\d+)\)", stored)
    if kind is not Kind.DECIMAL:
        return Type(kind)
    # A numeric of PostgreSQL without stated places has any number of them.
    if places:
        return Type(kind, scale=min(MAX_SCALE, int(places[1])))
    return Type(Kind.FLOAT)
