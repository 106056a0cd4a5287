"""No stored value makes a statement fail: every storage type with its extreme values, on
every engine and from every source."""

from __future__ import annotations

import csv
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.errors import DataError
from deniable.randomness import SecureRandom
from deniable.sql.dialects.storage import Physical
from deniable.sql.engines import Engine, open_engine
from deniable.sql.engines.sources import PostgresTable
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import Schema
from deniable.units import Unit
from tests.contract.extremes import (
    EVERY_ARROW,
    EVERY_DUCKDB,
    EVERY_POSTGRES,
    EVERY_SPARK,
    TEXTS,
    Case,
    Stored,
    cases,
    schema,
)
from tests.postgres import server
from tests.sql.engines.real import session

PERSON = Unit.column("person", max_rows=2)


def every(chosen: list[Case]) -> list[str]:
    return [query for case in chosen for query in case.queries]


def shared(chosen: list[Case], part: slice) -> list[str]:
    """Of every kind of value the query of all its columns, and a part of those that group by one of them."""
    groups = [query for case in chosen for query in case.queries[1:]]
    return [case.queries[0] for case in chosen] + groups[part]


def first_and_last(chosen: list[Case]) -> list[str]:
    return [query for case in chosen for query in case.queries[:: len(case.queries) - 1]]


def unanswered(engine: Engine, chosen: list[Case], queries: list[str] | None = None) -> list[str]:
    """The queries, all if none are given, that fail after the charge, and why. (What is refused before is
    refused without these people too.)"""
    declared, failed = schema(chosen), []
    for query in queries or every(chosen):
        made = plan(check(query, declared, PERSON), PERSON, Terms(epsilon=10, delta=1e-3))
        try:
            made(engine, rng=SecureRandom())
        except Exception as error:
            failed.append(f"{error.__cause__ or error!r} in {query}"[:600])
    engine.close()
    return failed


def as_parquet(rows: pa.Table, folder: Path) -> Any:
    pq.write_table(rows, folder)
    return folder


def as_bare_parquet(rows: pa.Table, file: Path) -> Any:
    """Without statistics and dictionaries, in several row groups."""
    pq.write_table(rows, file, write_statistics=False, use_dictionary=False, row_group_size=16)
    return file


def as_arrow(rows: pa.Table, file: Path) -> Any:
    return rows


def as_polars(rows: pa.Table, file: Path) -> Any:
    return pl.from_arrow(rows)


def as_nullable(rows: pa.Table, file: Path) -> Any:
    """A pandas frame of Arrow's own types."""
    return rows.to_pandas(types_mapper=pd.ArrowDtype)


SOURCES = {
    "arrow": (as_arrow, slice(0, None, 2)),
    "parquet": (as_parquet, slice(1, None, 6)),
    "bare parquet": (as_bare_parquet, slice(3, None, 6)),
    "pandas": (as_nullable, slice(5, None, 6)),
    "polars": (as_polars, slice(4, None, 6)),
}
"""What makes a source of a table, and which of the groups are asked of it: DuckDB reads them all, and together they are
asked every query."""
ALL = pytest.mark.parametrize(
    "share", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["share", "all"]
)
"""A share of the queries in `make test`, all of them in `make soak`."""


@ALL
@pytest.mark.parametrize("source", SOURCES)
def test_every_value_that_arrow_can_store_is_answered(source: str, share: bool, tmp_path: Path) -> None:
    chosen = cases(EVERY_ARROW)
    if "parquet" in source:  # Arrow itself cannot write all seconds as parquet's milliseconds
        chosen = [case for case in chosen if not case.table.startswith("t_time_s")]
    if source == "polars":  # has no dates of 64 bits: it makes times of them
        chosen = [case for case in chosen if case.table != "t_date64"]
    make, part = SOURCES[source]
    places = {case.table: make(case.rows, tmp_path / f"{case.table}.parquet") for case in chosen}
    queries = shared(chosen, part) if share else every(chosen)
    assert unanswered(open_engine(places, schema(chosen), threads=1), chosen, queries) == []


def test_every_text_that_csv_can_store_is_answered(tmp_path: Path) -> None:
    texts = tuple(text.decode() for text in TEXTS if text.decode(errors="replace").encode() == text)
    case = Case("t_text", Stored(Physical.TEXT, EVERY_ARROW["string"].make, "5", (*texts, None)))
    with open(tmp_path / "t.csv", "w", encoding="utf-8", newline="") as stream:
        lines = csv.writer(stream, quoting=csv.QUOTE_MINIMAL)
        lines.writerow(["person", *case.columns])
        lines.writerows([i, *[value] * len(case.columns)] for i, value in enumerate(case.values))
    assert len(texts) > 25
    assert unanswered(open_engine({"t_text": tmp_path / "t.csv"}, schema([case]), threads=1), [case]) == []


def test_bytes_that_are_no_text_are_told_to_the_owner_of_a_csv_file(tmp_path: Path) -> None:
    """CSV is read once, at the opening: what cannot be read never meets a query."""
    (tmp_path / "t.csv").write_bytes(b"person,as_text\n1,\xff\n")
    case = Case("t_text", Stored(Physical.TEXT, EVERY_ARROW["string"].make, "5", ()))
    only = replace(case.info, columns=tuple(c for c in case.info.columns if c.name in ("person", "as_text")))
    with pytest.raises(DataError, match="cannot be read"):
        open_engine({"t_text": tmp_path / "t.csv"}, Schema((only,)), threads=1)


@ALL
def test_every_value_that_a_duckdb_file_can_store_is_answered(share: bool, tmp_path: Path) -> None:
    chosen = [Case(f"t_{key}", stored) for key, (_, stored) in EVERY_DUCKDB.items()]
    file = tmp_path / "all.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for case, (kind, _) in zip(chosen, EVERY_DUCKDB.values(), strict=True):
            columns = ", ".join(f"{column} {kind}" for column in case.columns)
            lines = (f"({i}{f', {value}' * len(case.columns)})" for i, value in enumerate(case.values))
            connection.execute(f"CREATE TABLE {case.table} (person BIGINT, {columns})")
            connection.execute(f"INSERT INTO {case.table} VALUES {', '.join(lines)}")
    queries = shared(chosen, slice(0, None, 4)) if share else every(chosen)
    assert unanswered(open_engine(file, schema(chosen), threads=1), chosen, queries) == []


@ALL
@pytest.mark.needs("postgres")
def test_every_value_that_postgresql_can_store_is_answered(share: bool) -> None:
    chosen, places = [], {}
    name = f"extremes_{uuid.uuid4().hex[:12]}"
    server().psql(f"CREATE SCHEMA {name};")
    for key, (kind, stored) in EVERY_POSTGRES.items():
        case = Case(f"t_{key}", stored)
        columns = ", ".join(f"{column} {kind}" for column in case.columns)
        lines = (f"({i}{f', {value}' * len(case.columns)})" for i, value in enumerate(case.values))
        server().psql(f"CREATE TABLE {name}.{case.table} (person bigint, {columns});")
        server().psql(f"INSERT INTO {name}.{case.table} VALUES {', '.join(lines)};")
        chosen.append(case)
        places[case.table] = PostgresTable(server().get_uri(), case.table, name)
    queries = shared(chosen, slice(1, None, 3)) if share else every(chosen)
    assert unanswered(open_engine(places, schema(chosen)), chosen, queries) == []


@pytest.mark.needs("spark")
def test_parquet_that_spark_reads_is_answered_or_refused_by_its_type(tmp_path: Path) -> None:
    """Spark's reader fails on a time in milliseconds and on a decimal of 39 digits
    before any guard of a statement."""
    chosen = {case.table: case for case in cases(EVERY_ARROW)}
    for table, reason in (
        ("t_time_ms", "milliseconds"),
        ("t_time_ms_zoned", "milliseconds"),
        ("t_decimal38_0", "at most 38 digits"),
    ):
        case = chosen[table]
        frame = session().read.parquet(str(as_parquet(case.rows, tmp_path / f"{table}.parquet")))
        for given in (frame, frame.selectExpr("person", *(f"{name} AS {name}" for name in case.columns))):
            with pytest.raises(DataError, match=reason):
                open_engine({table: given}, schema([case]))
    tame = Case("t_tame", replace(EVERY_ARROW["decimal38_0"], extremes=(10**38 - 1, 1 - 10**38, None)))
    for case in (tame, chosen["t_time_us"], chosen["t_date32"]):
        frame = session().read.parquet(str(as_parquet(case.rows, tmp_path / f"{case.table}.parquet")))
        assert (
            unanswered(open_engine({case.table: frame}, schema([case])), [case], first_and_last([case])) == []
        )


@pytest.mark.sampled(1)
@pytest.mark.needs("spark")
@pytest.mark.parametrize("part", range(6))
def test_every_value_that_spark_can_store_is_answered(part: int) -> None:
    """Spark takes a second for each query: one in six, of every kind of value in turn."""
    chosen, places = [], {}
    for key, (kind, stored) in EVERY_SPARK.items():
        case = Case(f"t_{key}", stored)
        lines = ", ".join(f"({i}L, CAST({value} AS {kind}))" for i, value in enumerate(case.values))
        columns = ", ".join(f"v AS {column}" for column in case.columns)
        chosen.append(case)
        places[case.table] = session().sql(f"SELECT person, {columns} FROM VALUES {lines} AS rows(person, v)")
    assert unanswered(open_engine(places, schema(chosen)), chosen, first_and_last(chosen)[part::6]) == []
