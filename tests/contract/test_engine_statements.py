"""One query, three engines, no noise: what each engine measures is the same integer, cell by cell."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.dialects.duckdb import DuckDB
from deniable.sql.engines import Engine
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.file import parse
from deniable.units import Unit
from tests.sql.engines.real import ENGINES, listed, opened

SCHEMA = parse("""
tables:
  visits:
    unit: person
    columns:
      person: integer
      visit: integer
      place: {type: text, keys: [north, south, east]}
      days: {type: integer, bounds: [0, 60]}
      cost: {type: decimal, scale: 2, bounds: [0, 500.5]}
      weight: {type: float, bounds: [0, 200]}
      ill: boolean
      day: date
      at: timestamp
  prescriptions:
    path: [visit -> visits.visit]
    columns: {visit: integer, drug: text, dose: {type: integer, bounds: [0, 10]}}
  regions:
    public: true
    unique: [place]
    columns: {place: text, country: {type: text, keys: [here, there]}}
""")
QUERIES = [
    "SELECT COUNT(*), COUNT(weight), SUM(days), AVG(cost), SUM(weight) FROM visits",
    "SELECT place, COUNT(*), SUM(cost), VAR_SAMP(days) FROM visits GROUP BY place",
    "SELECT place, ill, COUNT(*) FILTER (WHERE days > 10) FROM visits GROUP BY ROLLUP (place, ill)",
    "SELECT day, COUNT(*) FROM visits GROUP BY day",
    "SELECT date_trunc('month', day) AS month, COUNT(DISTINCT person), COUNT(DISTINCT days) FROM visits "
    "GROUP BY month",
    "SELECT MEDIAN(days), MAX(cost), QUANTILE_CONT(weight, 0.9) FROM visits WHERE ill OR days % 7 = 3",
    "SELECT CASE WHEN days < 10 THEN 'short' ELSE 'long' END AS stay, SUM(cost * 2 - days) FROM visits GROUP "
    "BY stay",
    "SELECT SUM(CLAMP(days / (days - 7), 0, 5)), SUM(CLAMP(CAST(cost AS INTEGER), 0, 100)) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE place LIKE '%o%' AND LENGTH(UPPER(place)) = 5 AND place <> 'South'",
    "SELECT COUNT(*) FROM visits WHERE day BETWEEN DATE '2023-03-01' AND DATE '2024-02-29' AND EXTRACT(hour "
    "FROM at) >= 12",
    "SELECT country, AVG(days) FROM visits JOIN regions USING (place) GROUP BY country",
    "SELECT COUNT(*), SUM(dose) FROM prescriptions WHERE drug IN ('a', 'b')",
    "SELECT AVG(n) FROM (SELECT person, LEAST(COUNT(*), 9) AS n FROM visits GROUP BY person) AS t",
    "SELECT COUNT(*) FROM (SELECT days FROM visits UNION ALL SELECT dose AS days FROM prescriptions) AS t "
    "WHERE days > 5",
]


def _tables() -> dict[str, pa.Table]:
    draw = random.Random(7)
    n = 400
    some = lambda *values: [draw.choice([*values, None]) for _ in range(n)]  # noqa: E731
    visits = {
        "person": pa.array([draw.choice([None, *range(90)]) for _ in range(n)], pa.int64()),
        "visit": pa.array(range(n), pa.int64()),
        "place": some("north", "south", "east", "South", "west", ""),
        "days": pa.array(some(*range(-5, 80)), pa.int64()),
        "cost": pa.array(
            some(*(Decimal(draw.randrange(-1000, 60_000)).scaleb(-2) for _ in range(50))), pa.decimal128(9, 2)
        ),
        "weight": pa.array(
            some(math.nan, math.inf, -1.0, 1e300, *(draw.random() * 250 for _ in range(50))), pa.float64()
        ),
        "ill": some(True, False),
        "day": some(
            *(date(2023, 1, 1) + timedelta(draw.randrange(600)) for _ in range(9)), date(9999, 12, 31)
        ),
        "at": pa.array(
            some(*(datetime(2023, 1, 1) + timedelta(minutes=draw.randrange(10**6)) for _ in range(9))),
            pa.timestamp("us"),
        ),
    }
    drugs = {
        "visit": pa.array([draw.randrange(n) for _ in range(n)], pa.int64()),
        "drug": some("a", "b", "c"),
        "dose": some(1, 6, 99),
    }
    regions = {"place": ["north", "south", "east"], "country": ["here", "here", "there"]}
    return {"visits": pa.table(visits), "prescriptions": pa.table(drugs), "regions": pa.table(regions)}


TERMS = Terms(epsilon=1, delta=1e-6)


def measured(engine: Engine, text: str, unit: Unit, terms: Terms = TERMS) -> list[list[tuple[Any, ...]]]:
    """The rows of every statement of the plan, sums as integers."""
    planned = plan(check(text, SCHEMA, unit), unit, terms)
    tables = [engine.run(statement) for statement in planned.statements(engine.dialect)]
    return [sorted((tuple(map(_plain, row)) for row in listed(table)), key=repr) for table in tables]


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value


@pytest.fixture(scope="module")
def reference() -> Iterator[Engine]:
    engine = opened("duckdb", _tables(), SCHEMA)
    yield engine
    engine.close()


@pytest.fixture(scope="module", params=ENGINES[1:])
def other(request: pytest.FixtureRequest) -> Iterator[Engine]:
    engine = opened(request.param, _tables(), SCHEMA)
    yield engine
    engine.close()


@pytest.fixture(autouse=True)
def one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB scrambles by a hash of its own; by the same hash it chooses the same values as the others."""
    monkeypatch.setattr(DuckDB, "scrambled", Dialect.scrambled)


@pytest.mark.sampled
@pytest.mark.parametrize("text", QUERIES)
def test_engines_measure_the_same(reference: Engine, other: Engine, text: str) -> None:
    unit = Unit.column("person", max_rows=3)
    expected = measured(reference, text, unit)
    assert any(any(row) for rows in expected for row in rows)
    assert measured(other, text, unit) == expected


@pytest.mark.sampled
@pytest.mark.parametrize("text", QUERIES[:3])
@pytest.mark.parametrize("rows", [None, 3])
def test_sums_by_the_sizes_of_units_are_the_same(
    reference: Engine, other: Engine, text: str, rows: int | None
) -> None:
    unit, terms = Unit.column("person", max_rows=rows), Terms(epsilon=1, delta=1e-6, left_out=True)
    expected = measured(reference, text, unit, terms)
    assert any(any(row) for rows in expected for row in rows)
    assert measured(other, text, unit, terms) == expected


def test_rows_as_units_are_measured_the_same(reference: Engine, other: Engine) -> None:
    text = "SELECT place, COUNT(*), SUM(days), AVG(cost) FROM visits GROUP BY place"
    assert measured(other, text, Unit.row()) == measured(reference, text, Unit.row())
