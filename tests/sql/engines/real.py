"""Three real engines with the same rows in them."""

from __future__ import annotations

import functools
import importlib
import uuid
import warnings
from typing import Any

import pyarrow as pa
import pytest

from deniable.sql.engines import Engine, Statement, open_engine
from deniable.sql.engines.sources import PostgresTable
from deniable.sql.schema.declare import Schema
from tests.postgres import server

ENGINES = (
    "duckdb",
    pytest.param("postgres", marks=pytest.mark.needs("postgres")),
    pytest.param("spark", marks=pytest.mark.needs("spark")),
)


@functools.cache
def session() -> Any:
    """One Spark session for this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = importlib.import_module("pyspark.sql").SparkSession.builder
        quiet = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            # Plans of one use: what the second compiler of Java gains is less than what it takes.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        started = builder.master("local[2]").config(map=quiet).getOrCreate()
        started.sparkContext.setLogLevel("OFF")
    return started


def ingest(tables: dict[str, pa.Table]) -> dict[str, PostgresTable]:
    """The tables in a new schema of the server."""
    driver = importlib.import_module("adbc_driver_postgresql.dbapi")
    name = f"data_{uuid.uuid4().hex[:12]}"
    server().psql(f"CREATE SCHEMA {name};")
    with driver.connect(server().get_uri()) as connection, connection.cursor() as cursor:
        for table, rows in tables.items():
            cursor.adbc_ingest(table, rows, mode="create", db_schema_name=name)
        connection.commit()
    return {table: PostgresTable(server().get_uri(), table, name) for table in tables}


def frames(tables: dict[str, pa.Table]) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: session().createDataFrame(rows) for name, rows in tables.items()}


def opened(kind: str, tables: dict[str, pa.Table], schema: Schema, **limits: Any) -> Engine:
    """An engine of this kind with these rows."""
    put = {"duckdb": lambda given: given, "postgres": ingest, "spark": frames}[kind]
    return open_engine(put(tables), schema, **limits)


def listed(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows by position: an engine may give two columns one name."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def rows(engine: Engine, select: str) -> list[tuple[Any, ...]]:
    return listed(engine.run(Statement((), select)))
