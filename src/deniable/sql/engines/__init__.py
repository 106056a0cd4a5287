"""Where a plan's statements run. An engine sees whole aggregate statements that we wrote
and returns small tables."""

from __future__ import annotations

from typing import Any

from deniable.errors import DataError, InvalidParameter
from deniable.sql.dialects import DUCKDB, POSTGRES, SPARK, Dialect
from deniable.sql.engines.engine import Engine, Statement
from deniable.sql.engines.sources import PostgresTable, Source, SparkFrame, SparkTable, recognised
from deniable.sql.engines.stored.fields import Path
from deniable.sql.engines.uniqueness import check_unique
from deniable.sql.schema.declare import Schema
from deniable.sql.write.summaries import Summary

__all__ = ["Engine", "Statement", "Summary", "open_engine"]


def open_engine(
    sources: Any,
    schema: Schema,
    *,
    memory: str | None = None,
    seconds: float | None = None,
    threads: int | None = None,
) -> Engine:
    """Open every declared table where it lies, check that it has its columns, and lock the connection down.

    `sources` is {table: source}, or one source that holds all tables (see `sources`).
    `seconds` limits each statement, `memory` ("4GB") and `threads` embedded DuckDB. What
    is wrong with the data is told to the owner here, as a DataError: a public table whose columns are not
    unique as declared, too.
    """
    engine = _opened(sources, schema, memory=memory, seconds=seconds, threads=threads)
    try:
        check_unique(engine, schema)
    except DataError:
        engine.close()
        raise
    return engine


def _opened(
    sources: Any, schema: Schema, *, memory: str | None, seconds: float | None, threads: int | None
) -> Engine:
    tables = recognised(sources, tuple(table.name for table in schema.tables))
    if seconds is not None and not seconds > 0:
        raise InvalidParameter(f"Expected seconds={seconds!r} to be above 0.")
    homes = {_home(source) for source in tables.values()}
    if len(homes) != 1:
        names = " and ".join(sorted(home.name for home in homes)) or "no table"
        raise InvalidParameter(
            f"Expected all tables of a data set in one engine, got {names}. Nothing was opened."
        )
    # Each engine's package is loaded only where it is used: pyspark and ADBC are extras.
    home = homes.pop()
    if home is POSTGRES:
        from deniable.sql.engines.postgres import PostgresEngine

        return PostgresEngine(tables, schema, seconds=seconds)
    if home is SPARK:
        from deniable.sql.engines.spark import SparkEngine

        return SparkEngine(tables, schema, seconds=seconds)
    from deniable.sql.engines.duckdb import DuckDBEngine

    return DuckDBEngine(tables, schema, memory=memory, seconds=seconds, threads=threads)


def stored_on_server(source: Source) -> tuple[dict[str, str], dict[Path, str], Dialect] | None:
    """The columns of a table that a server holds, and the fields inside them, with the server's names of
    their types; None for what is embedded."""
    home = _home(source)
    if isinstance(source, PostgresTable):
        from deniable.sql.engines import postgres

        return *postgres.stored_columns(source), home
    if isinstance(source, SparkTable | SparkFrame):
        from deniable.sql.engines import spark

        return *spark.stored_columns(source), home
    return None


def _home(source: object) -> Dialect:
    if isinstance(source, PostgresTable):
        return POSTGRES
    if isinstance(source, SparkTable | SparkFrame):
        return SPARK
    return DUCKDB
