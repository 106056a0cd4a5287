"""Three real engines that run a SELECT over one table `t` of hostile values, and return Python rows."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest

from deniable.sql.dialects import DUCKDB, POSTGRES
from deniable.sql.engines.spark import SETTINGS
from tests.postgres import server
from tests.sql.engines.real import session
from tests.sql.values import create, insert

Run = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="session")
def on_duckdb() -> Iterator[Run]:
    with duckdb.connect() as connection:
        connection.execute(create(DUCKDB))
        connection.execute(insert(DUCKDB))
        yield lambda sql: connection.execute(sql).fetchall()


@pytest.fixture(scope="session")
def on_postgres() -> Iterator[Run]:
    psycopg = importlib.import_module("psycopg")
    name = f"front_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        connection.execute(f"SET search_path TO {name}")
        connection.execute(create(POSTGRES))
        connection.execute(insert(POSTGRES))
        yield lambda sql: connection.execute(sql.encode()).fetchall()


@pytest.fixture(scope="session")
def on_spark() -> Iterator[Run]:
    spark = session()
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    with duckdb.connect() as connection:
        connection.execute(create(DUCKDB))
        connection.execute(insert(DUCKDB))
        rows = connection.execute("SELECT * FROM t").to_arrow_table()
    frame = spark.createDataFrame(rows)
    frame.withColumn("u", frame["u"].cast("timestamp_ntz")).createOrReplaceTempView("t")
    yield lambda text: [tuple(row) for row in spark.sql(text).collect()]
    spark.catalog.dropTempView("t")
    for name, value in before.items():
        spark.conf.set(name, value)
