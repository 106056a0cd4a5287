"""PostgreSQL: read-only, by qualified names, and silent about its address."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from deniable.errors import DataError, InvalidParameter
from deniable.sql.engines import Engine, Statement, open_engine
from deniable.sql.engines.sources import PostgresTable
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Kind, Type
from deniable.units import Unit
from tests.postgres import server
from tests.sql.engines.real import ingest, rows

pytestmark = pytest.mark.needs("postgres")
SCHEMA = Schema((TableInfo("t", (ColumnInfo("a", Type(Kind.INTEGER)), ColumnInfo("s", Type(Kind.TEXT)))),))


@pytest.fixture(scope="module")
def source() -> PostgresTable:
    return ingest({"t": pa.table({"a": [1, 2, 3], "s": ["x", "y", None]})})["t"]


@pytest.fixture
def engine(source: PostgresTable) -> Iterator[Engine]:
    opened = open_engine({"t": source}, SCHEMA)
    yield opened
    opened.close()


def cell(sql: str) -> Any:
    driver = importlib.import_module("adbc_driver_postgresql.dbapi")
    with driver.connect(server().get_uri()) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetch_arrow_table().column(0)[0].as_py()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {t} (a) VALUES (9) RETURNING a",
        "WITH gone AS (DELETE FROM {t} RETURNING a) SELECT * FROM gone",
        "SELECT a FROM {t} FOR UPDATE",
        "SELECT nextval('{schema}.numbers')",
        "CREATE TABLE {schema}.more (a int)",
        "SELECT 1; DELETE FROM {t}",
        "COPY {t} TO PROGRAM 'cat'",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; SELECT 1",
    ],
)
def test_nothing_is_written(engine: Engine, source: PostgresTable, statement: str) -> None:
    server().psql(f"CREATE SEQUENCE IF NOT EXISTS {source.schema}.numbers;")
    table = f'{source.schema}."t"'
    with pytest.raises(DataError, match="did not finish"):
        engine.run(Statement((), statement.format(t=table, schema=source.schema)))
    assert cell(f"SELECT count(*) FROM {table}") == 3
    assert cell(f"SELECT last_value FROM {source.schema}.numbers") == 1
    assert rows(engine, 'SELECT count(*) FROM "t"') == [(3,)]


def test_a_statement_that_loosens_its_session_binds_no_later_one(
    engine: Engine, source: PostgresTable
) -> None:
    loosen = "SELECT set_config('default_transaction_read_only', 'off', false), set_config('search_path', 'public', false)"
    engine.run(Statement((), loosen))
    assert rows(
        engine, "SELECT current_setting('transaction_read_only'), current_setting('search_path')"
    ) == [("on", "pg_catalog")]


def test_a_function_planted_beside_the_data_is_not_found(engine: Engine) -> None:
    name = f"planted_{uuid.uuid4().hex[:8]}"
    server().psql(f"CREATE FUNCTION public.{name}() RETURNS int LANGUAGE sql AS 'SELECT 7';")
    assert cell(f"SELECT {name}()") == 7
    with pytest.raises(DataError, match="did not finish"):
        engine.run(Statement((), f"SELECT {name}()"))


def test_a_missing_table_and_a_missing_right_are_told_at_the_opening(source: PostgresTable) -> None:
    with pytest.raises(DataError, match=r'There is no table "none"[.]"t"'):
        open_engine({"t": PostgresTable(source.url, "t", "none")}, SCHEMA)
    role = f"poor_{uuid.uuid4().hex[:8]}"
    server().psql(f"CREATE ROLE {role} LOGIN;")
    poor = PostgresTable(source.url.replace("postgres:@", f"{role}:@"), "t", source.schema)
    with pytest.raises(DataError, match="may not SELECT from every declared table"):
        open_engine({"t": poor}, SCHEMA)


def test_an_address_is_never_repeated() -> None:
    address = "postgresql://ada:secret@127.0.0.1:1/none?connect_timeout=2"
    with pytest.raises(DataError, match="cannot be reached") as told:
        open_engine(address, SCHEMA)
    assert "secret" not in f"{told.value!r}{told.value.__cause__}"
    assert told.value.__suppress_context__
    assert "secret" not in repr(PostgresTable(address, "t"))


def test_an_enum_is_text_and_a_numeric_may_be_anything(source: PostgresTable) -> None:
    server().psql(
        f"CREATE TYPE {source.schema}.mood AS ENUM ('ok', 'sad'); CREATE TABLE {source.schema}.odd AS "
        f"SELECT CAST('ok' AS {source.schema}.mood) AS s, CAST(x AS numeric) AS a, CAST('infinity' AS "
        "timestamp) AS m FROM unnest(ARRAY['NaN', 'Infinity', '-Infinity', '1e40', '2.5', '-2.5']) AS x;"
    )
    kinds = {"s": Kind.TEXT, "a": Kind.INTEGER, "m": Kind.TIMESTAMP}
    schema = Schema((TableInfo("odd", tuple(ColumnInfo(name, Type(kind)) for name, kind in kinds.items())),))
    engine = open_engine({"odd": PostgresTable(source.url, "odd", source.schema)}, schema)
    found = rows(engine, 'SELECT s, a, m FROM "odd"')
    engine.close()
    assert found == [("ok", None, None)] * 4 + [("ok", 3, None), ("ok", -3, None)]


def test_a_collation_in_which_different_texts_are_equal_is_refused() -> None:
    """This server has no ICU, which alone makes such collations: its catalogue is told of one."""
    name = f"data_{uuid.uuid4().hex[:12]}"
    server().psql(f'CREATE SCHEMA {name}; CREATE COLLATION {name}.loose FROM "C";')
    server().psql(f"CREATE TABLE {name}.t (a bigint, s text COLLATE {name}.loose);")
    table = PostgresTable(server().get_uri(), "t", name)
    open_engine({"t": table}, SCHEMA).close()
    loose = f"collnamespace = CAST('{name}' AS regnamespace)"
    server().psql(f"UPDATE pg_collation SET collisdeterministic = false WHERE {loose};")
    with pytest.raises(DataError, match="a text that equals others"):
        open_engine({"t": table}, SCHEMA)
    server().psql(f"DROP SCHEMA {name} CASCADE;")


def test_nothing_is_prepared(engine: Engine) -> None:
    with pytest.raises(InvalidParameter, match="Nothing was prepared"):
        engine.prepare(SCHEMA, Unit.column("a", max_rows=1))
    assert engine.prepared == {}


def test_tables_of_two_homes_are_refused(source: PostgresTable) -> None:
    two = Schema((*SCHEMA.tables, TableInfo("u", (ColumnInfo("a", Type(Kind.INTEGER)),))))
    with pytest.raises(InvalidParameter, match="in one engine, got duckdb and postgres"):
        open_engine({"t": source, "u": pa.table({"a": [1]})}, two)


def test_the_owner_is_warned_of_a_view(source: PostgresTable) -> None:
    """It may fail on a row; what is stored cannot."""
    for kind, name in (("VIEW", "computed"), ("MATERIALIZED VIEW", "stored")):
        server().psql(f'CREATE {kind} {source.schema}."{name}" AS SELECT a, s FROM {source.schema}."t";')
    with pytest.warns(UserWarning, match='"computed" is a view or a foreign table. If it fails on a row'):
        open_engine({"t": replace(source, table="computed")}, SCHEMA).close()
    open_engine({"t": replace(source, table="stored")}, SCHEMA).close()
