"""Units that are declared as text are told apart as they are stored: the same integers as by their texts."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import duckdb
import pytest

from deniable.errors import DataError
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.dialects.duckdb import DuckDB
from deniable.sql.engines import Engine, open_engine
from deniable.sql.engines.sources import PostgresTable
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.file import parse
from deniable.units import Unit
from tests.postgres import server
from tests.sql.engines.real import listed

IDS = {
    "UUID": "CAST(md5(CAST(p AS VARCHAR)) AS UUID)",
    "UBIGINT": "CASE p WHEN 0 THEN 0 WHEN 1 THEN 18446744073709551615 ELSE hash(p) END",
}
QUERIES = [
    "SELECT place, COUNT(*), AVG(days) FROM visits GROUP BY place",
    "SELECT day, COUNT(*) FROM visits GROUP BY day",
    "SELECT COUNT(DISTINCT id), COUNT(DISTINCT days) FROM visits WHERE id <> '5' AND id LIKE '%1%'",
    "SELECT COUNT(*) FROM visits AS a JOIN visits AS b ON a.id = b.id",
    "SELECT AVG(n) FROM (SELECT id, LEAST(COUNT(*), 9) AS n FROM visits GROUP BY id) AS t",
]
JOINS = [
    "SELECT COUNT(*), SUM(visits.days) FROM visits JOIN bills ON visits.id = bills.who",
    "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT * FROM bills WHERE bills.who = visits.id)",
    "SELECT COUNT(*) FROM lines",
]
VISITS = (
    "unit: id, columns: {id: text, bill: integer, place: {type: text, keys: [a, b]}, day: integer, "
    "days: {type: integer, bounds: [0, 9]}}"
)
ONE = parse(f"tables: {{visits: {{{VISITS}}}}}")
SEVERAL = parse(
    f"tables: {{visits: {{{VISITS}}}, bills: {{unit: who, columns: {{who: text, bill: integer}}}}, "
    "lines: {path: [bill -> bills.bill], columns: {bill: integer}}}"
)


@pytest.fixture(autouse=True)
def one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB scrambles by hashes of values as they are stored; by those of texts the same ones are chosen."""
    monkeypatch.setattr(DuckDB, "scrambled", Dialect.scrambled)


def folder(place: Path, kind: str, bills: str = "") -> Path:
    """Three tables whose people are stored in a type of their own."""
    place.mkdir()
    with duckdb.connect() as connection:
        rows = f"SELECT *, {IDS[kind]} AS id FROM (SELECT hash(range) % 11 AS p, range FROM range(120))"
        connection.execute(
            "CREATE TABLE visits AS SELECT CASE WHEN range % 17 > 0 THEN id END AS id, range AS bill, "
            "chr(97 + (hash(range) % 3)::INT) AS place, "
            f"range % 13 AS day, range % 12 AS days FROM ({rows})"
        )
        connection.execute(
            f"CREATE TABLE bills AS SELECT id AS who, range AS bill FROM ({rows}) WHERE p % 2 = 0"
        )
        connection.execute("CREATE TABLE lines AS SELECT range % 40 AS bill FROM range(50)")
        for table in ("visits", "bills", "lines"):
            as_text = (
                "* REPLACE (CAST(who AS VARCHAR) AS who)" if (table, bills) == ("bills", "text") else "*"
            )
            connection.execute(
                f"COPY (SELECT {as_text} FROM {table}) TO '{place / table}.parquet' (FORMAT parquet)"
            )
    return place


def texts(place: Path, of: Path) -> Path:
    place.mkdir()
    with duckdb.connect() as connection:
        for table, name in (("visits", "id"), ("bills", "who"), ("lines", None)):
            what = f"* REPLACE (CAST({name} AS VARCHAR) AS {name})" if name else "*"
            connection.execute(
                f"COPY (SELECT {what} FROM '{of / table}.parquet') TO '{place / table}.parquet' (FORMAT parquet)"
            )
    return place


def three(place: Path) -> Engine:
    return open_engine({table: place / f"{table}.parquet" for table in ("visits", "bills", "lines")}, SEVERAL)


def measured(engine: Engine, schema: Any, text: str, unit: Unit, *, left_out: bool = False) -> Any:
    planned = plan(check(text, schema, unit), unit, Terms(epsilon=1, delta=1e-6, left_out=left_out))
    tables = [engine.run(statement) for statement in planned.statements(engine.dialect)]
    return [sorted(map(repr, listed(table))) for table in tables]


@pytest.mark.parametrize("kind", IDS)
def test_people_are_the_same_as_by_their_texts(tmp_path: Path, kind: str) -> None:
    place = folder(tmp_path / "stored", kind)
    unit = Unit.column("id", max_rows=3)
    stored = open_engine(place / "visits.parquet", ONE)
    text = open_engine(texts(tmp_path / "texts", place) / "visits.parquet", ONE)
    assert stored.dialect.stored_units == {("visits", "id")}
    assert not text.dialect.stored_units
    for query in QUERIES:
        for left_out in (False, True):
            asked = [measured(engine, ONE, query, unit, left_out=left_out) for engine in (stored, text)]
            assert asked[0] == asked[1]
            assert asked[0]


@pytest.mark.parametrize("kind", IDS)
def test_several_tables_are_joined_in_the_type_of_all(tmp_path: Path, kind: str) -> None:
    place = folder(tmp_path / "stored", kind)
    unit = Unit.column("id", max_rows=3)
    stored, text = three(place), three(texts(tmp_path / "texts", place))
    mixed = three(folder(tmp_path / "mixed", kind, bills="text"))
    assert stored.dialect.stored_units == {("visits", "id"), ("bills", "who")}
    assert not mixed.dialect.stored_units
    for query in [*QUERIES[:2], *JOINS]:
        asked = [measured(engine, SEVERAL, query, unit) for engine in (stored, text, mixed)]
        assert asked[0] == asked[1] == asked[2]


def test_prepared_tables_hold_units_as_they_are_stored(tmp_path: Path) -> None:
    place = folder(tmp_path / "stored", "UUID")
    unit = Unit.column("id", max_rows=3)
    stored, text = three(place), three(texts(tmp_path / "texts", place))
    for engine in (stored, text):
        engine.prepare(SEVERAL, unit)
    assert stored.summaries["visits"].units == text.summaries["visits"].units
    for query in QUERIES[:3]:
        assert measured(stored, SEVERAL, query, unit) == measured(text, SEVERAL, query, unit)


def test_a_file_of_other_types_is_not_read_on(tmp_path: Path) -> None:
    place = folder(tmp_path / "stored", "UUID")
    engine = open_engine(place / "visits.parquet", ONE)
    (texts(tmp_path / "texts", place) / "visits.parquet").replace(place / "visits.parquet")
    with pytest.raises(DataError, match="did not finish"):
        measured(engine, ONE, QUERIES[0], Unit.column("id", max_rows=3))


@pytest.mark.needs("postgres")
def test_postgresql_groups_by_its_own_uuid() -> None:
    name = f"ids_{uuid.uuid4().hex[:8]}"
    rows = (
        "SELECT md5((i % 11)::text)::uuid AS id, i AS bill, chr(97 + i % 3) AS place, i % 13 AS day, "
        "i % 12 AS days FROM generate_series(1, 120) AS i"
    )
    server().psql(f"CREATE SCHEMA {name}; CREATE TABLE {name}.visits AS {rows};")
    same = f"SELECT id::text AS id, bill, place, day, days FROM {name}.visits"
    server().psql(f"CREATE SCHEMA {name}_t; CREATE TABLE {name}_t.visits AS {same};")
    unit, url = Unit.column("id", max_rows=3), server().get_uri()
    stored, text = (
        open_engine({"visits": PostgresTable(url, "visits", each)}, ONE) for each in (name, f"{name}_t")
    )
    assert stored.dialect.stored_units
    for query in QUERIES:
        assert measured(stored, ONE, query, unit) == measured(text, ONE, query, unit)
