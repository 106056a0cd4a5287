"""Times of day are compared with literals, on every engine as DuckDB compares them."""

from __future__ import annotations

from datetime import datetime

import duckdb
import pyarrow as pa
import pytest

from deniable.errors import InvalidQuery
from deniable.randomness import SeededRandom
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.file import parse
from deniable.units import Unit
from tests.sql.engines.real import ENGINES, opened

SCHEMA = parse("tables: {t: {columns: {seen: timestamp}}}")
MOMENTS = [
    *(datetime(1969, 12, 31, hour, 30) for hour in range(24)),
    *(datetime(2024, 2, 29, 9, 30, 0, micros) for micros in (0, 1, 500_000, 999_999)),
    *(datetime(2024, 3, 1), datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), None),
]
ROWS = pa.table({"seen": pa.array(MOMENTS, pa.timestamp("us"))})
CONDITIONS = [
    "seen::time >= '22:00'",
    "CAST(seen AS TIME) BETWEEN TIME '07:00:00' AND '09:30:00.5'",
    "'09:30' = seen::time",
    "seen::time <> TIME '00:00:00'",
    "NOT (seen::time < '09:30:00.000001')",
    "seen::time <= '23:59:59.999999'",
]


@pytest.mark.parametrize("kind", ENGINES)
def test_they_hold_of_the_same_rows(kind: str) -> None:
    engine, unit = opened(kind, {"t": ROWS}, SCHEMA), Unit.row()
    items = ", ".join(
        f"COUNT(*) FILTER (WHERE {condition}) AS n{i}" for i, condition in enumerate(CONDITIONS)
    )
    text = f"SELECT {items} FROM t"
    answer = plan(check(text, SCHEMA, unit), unit, Terms(epsilon=10**6))(engine, rng=SeededRandom(1))
    with duckdb.connect() as connection:
        connection.register("t", ROWS)
        assert [tuple(answer.table.to_pylist()[0].values())] == connection.execute(text).fetchall()


@pytest.mark.parametrize(
    "condition", ["seen::time > '24:00'", "seen::time > seen::time", "seen::time = 7", "seen::time > '7 pm'"]
)
def test_what_is_no_time_of_day_is_refused(condition: str) -> None:
    with pytest.raises(InvalidQuery, match="beside literals only"):
        check(f"SELECT COUNT(*) FROM t WHERE {condition}", SCHEMA, Unit.row())
