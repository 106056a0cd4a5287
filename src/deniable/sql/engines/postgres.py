"""A PostgreSQL server through ADBC: statements run there, in transactions that can only
read, and small tables come back."""

from __future__ import annotations

import importlib
import math
import threading
import warnings
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from deniable import extras
from deniable.errors import DataError, InvalidParameter
from deniable.process import Home, abandon
from deniable.sql.dialects import POSTGRES
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.dialects.postgres import Postgres
from deniable.sql.engines.engine import (
    Engine,
    Statement,
    TimeLimit,
    guarded,
    stored_units,
    text,
    view,
    within,
)
from deniable.sql.engines.sources import PostgresTable, Source
from deniable.sql.engines.stored.fields import Path, heads, with_fields
from deniable.sql.schema.declare import Schema, TableInfo

VERSIONS = ((12,), (19,))
READ_ONLY = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL search_path = pg_catalog",
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL DateStyle = 'ISO, YMD'",
    "SET LOCAL standard_conforming_strings = on",
)
"""The first words of every transaction. A function or operator that somebody put beside
the data is never found by its name."""
COMPUTED = """
    SELECT c.relkind IN ('v', 'f') AS computed
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2"""
"""Whether reading a row runs somebody's program: that of a view, or of a foreign server."""
VERSION = "SELECT CAST(current_setting('server_version_num') AS integer) / 10000 AS major"
ENCODING = "SELECT CAST(getdatabaseencoding() AS text) AS encoding"
COLUMNS = """
    SELECT CAST(a.attname AS text) AS name,
           CASE WHEN a.attgenerated = 'v' THEN 'a virtual column'
                WHEN NOT l.collisdeterministic THEN 'a text that equals others'
                WHEN t.typtype = 'e' THEN 'text' ELSE format_type(a.atttypid, a.atttypmod) END AS type
    FROM pg_attribute AS a
    JOIN pg_class AS c ON c.oid = a.attrelid
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_type AS t ON t.oid = a.atttypid
    LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
    WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""

FIELDS = """
    WITH RECURSIVE field AS (
        SELECT ARRAY[CAST(a.attname AS text)] AS path, t.typtype, t.typrelid, CAST('' AS text) AS type
        FROM pg_attribute AS a
        JOIN pg_class AS c ON c.oid = a.attrelid
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        JOIN pg_type AS t ON t.oid = a.atttypid
        WHERE n.nspname = $1 AND c.relname = $2
          AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v'
        UNION ALL
        SELECT f.path || CAST(a.attname AS text), t.typtype, t.typrelid,
               CASE WHEN t.typtype = 'e' THEN 'text' ELSE format_type(a.atttypid, a.atttypmod) END
        FROM field AS f
        JOIN pg_attribute AS a ON a.attrelid = f.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        JOIN pg_type AS t ON t.oid = a.atttypid
        WHERE f.typtype = 'c')
    SELECT path, type FROM field WHERE cardinality(path) > 1"""
"""The fields of columns of a composite type. (A type cannot hold itself.)"""


class PostgresEngine(Engine):
    """One connection; each statement in a read-only transaction of its own, cancelled by
    the server after `seconds`.

    The declared tables stand in front of the statement as queries that PostgreSQL folds into it, so nothing
    is created there. Give it a role that may only SELECT from these tables.
    """

    dialect: Dialect = POSTGRES

    def __init__(
        self, sources: Mapping[str, Source], schema: Schema, *, seconds: float | None = None
    ) -> None:
        tables = {name: source for name, source in sources.items() if isinstance(source, PostgresTable)}
        addresses = {source.url for source in tables.values()}
        if len(tables) < len(sources) or len(addresses) != 1:
            raise InvalidParameter(
                "Expected all tables of a data set on one PostgreSQL server, by one address."
            )
        self._home = Home()
        self._lock = threading.Lock()
        self._limit = TimeLimit(seconds)
        self._timeout = 0 if seconds is None else max(1, math.ceil(seconds * 1000))
        self._connection = connect(addresses.pop())
        try:
            within((ask(self._connection, VERSION).column("major")[0].as_py(),), *VERSIONS, "PostgreSQL")
            self._check_encoding()
            self._warn_of_views(schema, tables)
            rows = {table.name: self._rows(table, tables[table.name]) for table in schema.tables}
            types = {name: of for name, (_, of) in rows.items()}
            self.dialect = Postgres(stored_units(schema, types, POSTGRES))
            self._tables = tuple(
                (table.name, self._view(table, *rows[table.name], schema)) for table in schema.tables
            )
            self._look(schema)
        except BaseException:  # whatever it is goes on to the owner; no connection stays open behind it
            self.close()
            raise

    def _warn_of_views(self, schema: Schema, sources: Mapping[str, PostgresTable]) -> None:
        """A view that fails on one row (a division, a cast) fails in every query that reads it, after the
        charge: the account freezes, and that it does tells of the row."""
        for table in schema.tables:
            source = sources[table.name]
            kinds = ask(self._connection, COMPUTED, (source.schema, source.table)).column("computed")
            if any(kinds.to_pylist()):
                warnings.warn(
                    f'"{source.schema}"."{source.table}" is a view or a foreign table. If it fails on a row '
                    "(a division, a cast), the query fails after it was charged, the account freezes, "
                    "and analysts learn that there is such a row. Store what it computes in a table or a "
                    "materialized view.",
                    UserWarning,
                    stacklevel=2,
                )

    def _rows(self, table: TableInfo, source: PostgresTable) -> tuple[str, Mapping[str, str]]:
        """SQL for the rows of a declared table, and how its columns and fields are stored."""
        origin = ".".join(POSTGRES.quote(part) for part in (source.schema, source.table))
        fields = _fields(self._connection, source) if heads(table) else {}
        return with_fields(table, origin, self._types(source), fields, POSTGRES)

    def _types(self, source: PostgresTable) -> dict[str, str]:
        column_types = _columns(self._connection, source)
        if not column_types:
            raise DataError(
                f'There is no table "{source.schema}"."{source.table}" on the server, or its role may not '
                "see it. Nothing was opened."
            )
        return column_types

    def _view(self, table: TableInfo, origin: str, types: Mapping[str, str], schema: Schema) -> str:
        return view(table, types, origin, self.dialect, schema.identities(table.name))

    def _check_encoding(self) -> None:
        """In other encodings a database may hold text that has no Unicode, and a
        statement that meets it fails."""
        encoding = ask(self._connection, ENCODING).column("encoding")[0].as_py()
        if encoding != "UTF8":
            raise DataError(
                f"The database is in the encoding {encoding}, in which not every stored text can be read as "
                "Unicode. Nothing was opened; copy the tables to a database in UTF8."
            )

    def _look(self, schema: Schema) -> None:
        """Ask each table for no row, so that a missing right is told to the owner at the opening."""
        looks = [f"EXISTS (SELECT * FROM {POSTGRES.quote(table.name)} LIMIT 0)" for table in schema.tables]
        try:
            self.run(Statement((), f"SELECT {', '.join(looks)}"))
        except DataError as error:
            raise DataError(
                "The role of this address may not SELECT from every declared table."
            ) from error.__cause__

    def run(self, statement: Statement) -> pa.Table:
        self.check_process()
        with guarded(), self._lock, self._limit():  # the server stops it, our clock says so
            sql = text(statement, POSTGRES, self._tables, "NOT MATERIALIZED ")
            return ask(self._connection, sql, timeout=self._timeout)

    @property
    def overran(self) -> bool:
        return self._limit.reached

    def cancel(self) -> None:
        self._connection.adbc_cancel()

    def close(self) -> None:
        if not self.at_home:
            abandon(self._connection)
            return
        self._connection.close()


def connect(url: str) -> Any:
    """An ADBC connection. What the driver says may hold the address and its password, so
    it is not passed on."""
    try:
        driver = importlib.import_module("adbc_driver_postgresql.dbapi")
    except ImportError:
        raise extras.missing("PostgreSQL needs ADBC", "postgres") from None
    try:
        return driver.connect(url)
    except driver.Error:
        raise DataError(
            "The PostgreSQL server cannot be reached at the address given. Nothing was opened."
        ) from None


def ask(connection: Any, sql: str, values: tuple[str, ...] = (), timeout: int = 0) -> pa.Table:
    """The answer of one SELECT, in a transaction that can only read. The protocol takes
    one command at a time: `sql` is one."""
    try:
        with connection.cursor() as cursor:
            for setting in (*READ_ONLY, f"SET LOCAL statement_timeout = {timeout}"):
                cursor.execute(setting)
            cursor.execute(sql, values or None)
            return cursor.fetch_arrow_table()
    finally:
        connection.rollback()


def _columns(connection: Any, source: PostgresTable) -> dict[str, str]:
    reply = ask(connection, COLUMNS, (source.schema, source.table))
    return dict(zip(reply.column("name").to_pylist(), reply.column("type").to_pylist(), strict=True))


def _fields(connection: Any, source: PostgresTable) -> dict[Path, str]:
    reply = ask(connection, FIELDS, (source.schema, source.table))
    paths = map(tuple, reply.column("path").to_pylist())
    return dict(zip(paths, reply.column("type").to_pylist(), strict=True))


def stored_columns(source: PostgresTable) -> tuple[dict[str, str], dict[Path, str]]:
    """The columns and fields of a table on a server, and PostgreSQL's names of their types, from its
    catalogue."""
    with connect(source.url) as connection:
        return _columns(connection, source), _fields(connection, source)
