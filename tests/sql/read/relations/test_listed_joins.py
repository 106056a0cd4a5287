"""Rows beside each value of a list, joined by more than equalities: as every engine would join them."""

from __future__ import annotations

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

SCHEMA = parse(
    "tables: {stays: {unit: who, columns: {who: integer, a: {type: integer, bounds: [0, 9]}, "
    "b: {type: integer, bounds: [0, 9]}}}}"
)
ROWS = pa.table(
    {
        "who": pa.array([1, 1, 2, 3, 4, 5, None], pa.int64()),
        "a": pa.array([0, 3, 2, None, 5, 1, 1], pa.int64()),
        "b": pa.array([4, 3, 9, 2, None, 8, 8], pa.int64()),
    }
)
UNIT = Unit.column("who", max_rows=20)
SERIES = "generate_series(0, 4) AS g(d)"
QUERIES = [
    f"SELECT d, COUNT(*) AS n, SUM(b) AS s FROM {SERIES} JOIN stays ON a <= d AND b > d GROUP BY d",
    f"SELECT d, COUNT(*) AS n, SUM(b) AS s FROM stays, {SERIES} WHERE a <= d AND (b IS NULL OR b > d) GROUP BY d",
    f"SELECT d, COUNT(*) AS n, SUM(b) AS s FROM stays CROSS JOIN {SERIES} GROUP BY d",
    f"SELECT d, COUNT(*) AS n, SUM(b) AS s FROM stays RIGHT JOIN {SERIES} ON a <= d GROUP BY d",
    "SELECT hi AS d, COUNT(*) AS n, SUM(b) AS s FROM (VALUES (0, 2), (1, 9)) AS v(lo, hi) "
    "JOIN stays ON a BETWEEN lo AND hi GROUP BY hi",
]


@pytest.mark.parametrize("kind", ENGINES)
def test_they_are_the_rows_of_the_join(kind: str) -> None:
    engine = opened(kind, {"stays": ROWS}, SCHEMA)
    with duckdb.connect() as connection:
        connection.register("rows", ROWS)
        connection.execute("CREATE TABLE stays AS SELECT * FROM rows WHERE who IS NOT NULL")
        for text in QUERIES:
            mechanism = plan(check(text, SCHEMA, UNIT), UNIT, Terms(epsilon=10**6))
            answer = mechanism(engine, rng=SeededRandom(1)).table.to_pylist()
            real = connection.execute(text.replace("RIGHT JOIN", "JOIN")).fetchall()
            expected = {d: (n, int(total)) for d, n, total in real}
            assert {row["d"]: (row["n"], row["s"]) for row in answer if row["n"]} == expected, text


@pytest.mark.parametrize(
    ("text", "unit", "why"),
    [
        (
            f"SELECT d, COUNT(*) FROM {SERIES} JOIN stays ON a <= d GROUP BY d",
            Unit.row(),
            "one row would become many",
        ),
        (
            "SELECT COUNT(*) FROM stays JOIN generate_series(1, 300) AS g(d) ON a <= d",
            UNIT,
            "once for each of 300",
        ),
        (f"SELECT COUNT(*) FROM stays LEFT JOIN {SERIES} ON a <= d", UNIT, "LEFT JOIN is on equal columns"),
        ("SELECT COUNT(*) FROM stays x JOIN stays y ON x.a <= y.b", UNIT, "without an equality"),
    ],
)
def test_what_would_multiply_otherwise_is_refused(text: str, unit: Unit, why: str) -> None:
    with pytest.raises(InvalidQuery, match=why):
        check(text, SCHEMA, unit)


@pytest.mark.parametrize(
    ("series", "values"),
    [
        ("generate_series(DATE '2024-01-01', DATE '2024-01-02', INTERVAL 6 HOUR)", 5),
        ("range(DATE '2024-01-01', DATE '2024-01-02', INTERVAL 6 HOUR)", 4),
        ("generate_series(DATE '9999-12-31', DATE '9999-12-31', INTERVAL 1 MINUTE)", 1),
        ("generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL 24 HOUR)", 3),
    ],
)
def test_a_series_of_days_by_hours_is_one_of_moments(series: str, values: int) -> None:
    text = f"SELECT g.d, COUNT(*) AS n FROM {series} AS g(d) JOIN stays ON a >= 0 GROUP BY g.d"
    domain = check(text, SCHEMA, UNIT).keys[0].domain
    assert domain is not None
    assert len(domain) == values
    assert len({type(value) for value in domain}) == 1


def test_a_series_of_days_by_tiny_steps_is_refused_in_words() -> None:
    text = "SELECT COUNT(*) FROM generate_series(DATE '0001-01-01', DATE '9999-01-01', INTERVAL 1 MICROSECOND) AS g(d), stays"
    with pytest.raises(InvalidQuery, match="at most 1,000 values"):
        check(text, SCHEMA, UNIT)
