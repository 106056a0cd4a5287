"""Fields of struct columns as columns: a declared "address.city" that no stored column is called is the
field `city` of the stored column `address`.

The rows are read through a SELECT that lists declared columns and fields, so that all that follows sees flat
columns and reads a field as totally as any other. The field of a struct that is NULL is NULL. A stored
column whose own name is "address.city" comes first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deniable.sql.dialects import DUCKDB
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.engines.engine import named
from deniable.sql.schema.declare import TableInfo

Path = tuple[str, ...]
"""The stored column and the fields on the way, outermost first."""


def joined(path: Path) -> str:
    """The name that a field is declared by.

    >>> joined(("address", "city"))
    'address.city'
    """
    return ".".join(path)


def heads(table: TableInfo) -> set[str]:
    """What the stored columns may be called, in lower case, of which a declared name says a field.

    >>> from deniable.sql.schema.declare import ColumnInfo
    >>> from deniable.sql.types import TEXT
    >>> sorted(heads(TableInfo("visits", (ColumnInfo("days", TEXT), ColumnInfo("Home.geo.lat", TEXT)))))
    ['home', 'home.geo']
    """
    parts = (column.name.casefold().split(".") for column in table.columns)
    return {joined(tuple(steps[:count])) for steps in parts for count in range(1, len(steps))}


def field_paths(table: TableInfo, stored: Iterable[str], fields: Collection[Path]) -> dict[str, Path]:
    """The declared columns that are fields of stored ones, and where these lie."""
    columns = {name.casefold() for name in stored}
    places = {
        column.name: _path(column.name, fields)
        for column in table.columns
        if column.name.casefold() not in columns
    }
    return {name: path for name, path in places.items() if path is not None}


def _path(name: str, fields: Collection[Path]) -> Path | None:
    """The field of that name, or else the only one that differs in upper and lower case."""
    same = [path for path in fields if joined(path) == name]
    alike = same or [path for path in fields if joined(path).casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def with_fields(
    table: TableInfo, origin: str, stored: Mapping[str, str], fields: Mapping[Path, str], dialect: Dialect
) -> tuple[str, Mapping[str, str]]:
    """SQL for the rows with declared fields as columns, and how all of these are stored."""
    paths = field_paths(table, stored, fields)
    if not paths:
        return origin, stored
    # By name and not by *: a role may be allowed to read the declared columns only.
    names = [named(table, column.name, stored) for column in table.columns if column.name not in paths]
    columns = [f"_rows.{dialect.quote(name)}" for name in names]
    columns += [f"{_field(path, dialect)} AS {dialect.quote(name)}" for name, path in paths.items()]
    types = {name: stored[name] for name in names} | {name: fields[path] for name, path in paths.items()}
    return f"(SELECT {', '.join(columns)} FROM {origin} AS _rows) AS _fields", types


def _field(path: Path, dialect: Dialect) -> str:
    part = f"_rows.{dialect.quote(path[0])}"
    for name in path[1:]:
        part = f"({part}).{dialect.quote(name)}"
    return part


# ------------------------------------------------------------------------------------------------ of Arrow


def arrow_fields(schema: pa.Schema) -> list[Path]:
    """All fields inside the structs of a table."""
    return [path for field in schema for path in _inside((field.name,), field.type)]


def _inside(path: Path, kind: pa.DataType) -> list[Path]:
    if not pa.types.is_struct(kind):
        return []
    inner = [((*path, field.name), field.type) for field in kind]
    return [each for place, of in inner for each in (place, *_inside(place, of))]


def arrow_column(table: pa.Table, path: Path) -> pa.ChunkedArray:
    """A column, or a field of one: NULL where a struct on the way is."""
    column = table.column(table.column_names.index(path[0]))
    if len(path) > 1:
        return pc.struct_field(column, list(path[1:]))
    return column


# ------------------------------------------------------------------------------------------------ of DuckDB


def columns(connection: Any, origin: str) -> dict[str, str]:
    """The stored columns and DuckDB's names of their types, from metadata."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {origin}").fetchall()
    return {row[0]: row[1] for row in rows}


def duckdb_fields(connection: Any, origin: str) -> dict[Path, str]:
    """All fields inside structs, and DuckDB's names of their types."""
    relation = connection.sql(f"SELECT * FROM {origin}")
    pairs = zip(relation.columns, relation.types, strict=True)
    return {path: of for name, kind in pairs for path, of in _duckdb_inside((name,), kind)}


def _duckdb_inside(path: Path, kind: Any) -> list[tuple[Path, str]]:
    if kind.id != "struct":
        return []
    inner = [((*path, name), of) for name, of in kind.children]
    return [each for place, of in inner for each in ((place, str(of)), *_duckdb_inside(place, of))]


def duckdb_rows(connection: Any, origin: str, table: TableInfo) -> tuple[str, Mapping[str, str]]:
    """SQL for the rows with the declared fields as columns, and how these are stored."""
    types = columns(connection, origin)
    fields = duckdb_fields(connection, origin) if heads(table) else {}
    return with_fields(table, origin, types, fields, DUCKDB)
