"""Relations as SQL: the same rows as SQL written by hand, the unit beside them, on real engines."""

from __future__ import annotations

import importlib
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from deniable.sql.dialects import DIALECTS, DUCKDB, POSTGRES, SPARK, Dialect
from deniable.sql.dialects.dialect import LONG
from deniable.sql.schema.declare import TableInfo
from deniable.sql.tree import Type
from deniable.sql.types import INTEGER, TEXT
from deniable.sql.write import relations
from deniable.units import Unit
from tests.postgres import server
from tests.sql.conftest import Run
from tests.sql.engines.real import session
from tests.sql.hospital import PATIENT, PATIENTS, PRESCRIPTIONS, ROW, VISITS, WARDS, checked
from tests.sql.values import expression

TABLES = (VISITS, PATIENTS, PRESCRIPTIONS, WARDS)


def cell(name: str, of: Type, rng: random.Random) -> Any:
    if name in ("patient_id", "id"):
        return rng.choice([1, 2, 3, 4, 5, None])
    if name in ("visit_id", "visit"):
        return rng.randrange(12)
    choices = {
        "text": ["a", "b", None],
        "boolean": [True, False, None],
        "float": [0.5, 1.5, None],
        "integer": [0, 3, 70, None],
    }
    return (
        rng.choice(choices.get(of.kind, [None])) if of.kind != "decimal" else rng.choice([150, 99999, None])
    )


def statements(table: TableInfo, dialect: Dialect, seed: int) -> list[str]:
    """The table with rows in which units are missing and values repeat."""
    rng = random.Random(seed)
    columns = ", ".join(f"{dialect.quote(c.name)} {dialect.type_name(c.type)}" for c in table.columns)
    rows = []
    for i in range(3 if table is WARDS else 25):
        values = [cell(c.name, c.type, rng) for c in table.columns]
        values = [("a", "b", "c")[i], i] if table is WARDS else values
        kinds = [INTEGER if c.type.scale else c.type for c in table.columns]
        if table is VISITS:
            values[1] = i
        rows.append(f"({', '.join(dialect.literal(v, k) for v, k in zip(values, kinds, strict=True))})")
    return [
        f"CREATE TABLE {dialect.quote(table.name)} ({columns})",
        f"INSERT INTO {dialect.quote(table.name)} VALUES {', '.join(rows)}",
    ]


@pytest.fixture(scope="module")
def hospital() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for seed, table in enumerate(TABLES):
            for statement in statements(table, DUCKDB, seed):
                connection.execute(statement)
        yield connection


PAIRS = yaml.safe_load((Path(__file__).parents[1] / "fixtures" / "relations.yaml").read_text())
RELATIONS = [(pair["query"], pair["rows"]) for pair in PAIRS]


def ordered(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    plain = [tuple(round(x, 9) if isinstance(x, float) else x for x in row) for row in rows]
    return sorted(plain, key=lambda row: [(x is None, str(x)) for x in row])


def rendered(sql: str, dialect: Dialect, unit: Unit = PATIENT) -> str:
    return relations.relation(checked(sql, unit).relation, dialect)


@pytest.mark.parametrize(("sql", "by_hand"), RELATIONS)
def test_the_relation_has_the_rows_written_by_hand(
    hospital: duckdb.DuckDBPyConnection, sql: str, by_hand: str
) -> None:
    found, wanted = (ordered(hospital.execute(q).fetchall()) for q in (rendered(sql, DUCKDB), by_hand))
    assert found == wanted
    assert found


def agree(run: Run, hospital: duckdb.DuckDBPyConnection, dialect: Dialect, step: int = 1) -> list[str]:
    odd = []
    for sql, _ in RELATIONS[::step]:
        wanted = ordered(hospital.execute(rendered(sql, DUCKDB)).fetchall())
        if ordered(run(rendered(sql, dialect))) != wanted:
            odd.append(sql)
    return odd


@pytest.mark.needs("postgres")
def test_postgres_has_the_same_rows(hospital: duckdb.DuckDBPyConnection) -> None:
    psycopg = importlib.import_module("psycopg")
    name = f"render_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        connection.execute(f"SET search_path TO {name}")
        for seed, table in enumerate(TABLES):
            for statement in statements(table, POSTGRES, seed):
                connection.execute(statement)
        assert agree(lambda sql: connection.execute(sql.encode()).fetchall(), hospital, POSTGRES) == []


@pytest.mark.needs("spark")
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_spark_has_the_same_rows(hospital: duckdb.DuckDBPyConnection, step: int) -> None:
    spark = session()
    for table in TABLES:
        rows = hospital.execute(f'SELECT * FROM "{table.name}"').to_arrow_table()
        spark.createDataFrame(rows).createOrReplaceTempView(table.name)
    spark.conf.set("spark.sql.ansi.enabled", "true")
    assert agree(lambda sql: [tuple(row) for row in spark.sql(sql).collect()], hospital, SPARK, step) == []
    for table in TABLES:
        spark.catalog.dropTempView(table.name)


def test_rows_as_units_carry_no_unit(hospital: duckdb.DuckDBPyConnection) -> None:
    assert hospital.execute(rendered("SELECT COUNT(*) FROM visits", DUCKDB, ROW)).fetchall() == [(True,)] * 25
    assert (
        len(
            hospital.execute(
                rendered("SELECT SUM(floor) FROM visits JOIN wards USING (ward)", DUCKDB, ROW)
            ).fetchall()
        )
        > 9
    )


def test_sums_of_a_unit_cannot_overflow() -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT 1 AS patient_id, 9223372036854775807 AS days FROM range(3)"
        )
        sql = rendered(
            "SELECT SUM(s) FROM (SELECT patient_id, SUM(days) AS s FROM visits GROUP BY 1) v", DUCKDB
        )
        assert connection.execute(sql).fetchall() == [(1, None)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nested_guards_do_not_double_the_text(dialect: Dialect) -> None:
    """Fifty operations deep: without `let` the text would have 2^50 letters."""
    deep = "f"
    for i in range(50):
        deep = f"(1 / ({deep} {'*' if i % 2 else '+'} g))" if i < 12 else f"{deep} * g"
    assert len(relations.expression(expression(deep), dialect)) < 200_000


@pytest.mark.parametrize("dialect", DIALECTS)
def test_long_parts_are_named_and_short_ones_written(dialect: Dialect) -> None:
    assert dialect.let(["x"], lambda x: f"f({x}, {x})") == "f(x, x)"
    assert dialect.let(["y" * (LONG + 1)], lambda x: f"f({x}, {x})").count("y" * LONG) == 1


def test_quotes_and_escapes_cannot_be_left() -> None:
    assert DUCKDB.text("'; DROP --") == "'''; DROP --'"
    assert SPARK.text("\\'${x}") == "'\\\\\\'\\u0024{x}'"
    assert POSTGRES.text("\\'") == "E'\\\\'''"
    assert DUCKDB.literal("a", TEXT) == "'a'"


@pytest.mark.parametrize(
    ("expr", "guarded"),
    [
        ("i + j", True),
        ("i + 1", True),
        ("length(s) + 1", False),
        ("extract(year FROM p) * 12", False),
        ("clamp(i, 0, 9) * 9", False),
    ],
)
def test_a_guard_is_left_out_only_where_types_prove_it_useless(expr: str, guarded: bool) -> None:
    assert ("HUGEINT" in relations.expression(expression(expr), DUCKDB)) is guarded
