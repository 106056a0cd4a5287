"""REGR_SLOPE and its like are combined from released numbers, and are near what DuckDB says of the rows."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

from deniable.errors import InvalidQuery
from deniable.randomness import SeededRandom
from deniable.sql.engines import open_engine
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.file import parse
from deniable.units import Unit

SCHEMA = parse(
    "tables: {t: {unit: id, columns: {id: integer, x: {type: integer, bounds: [0, 20]}, "
    "y: {type: float, bounds: [1, 60]}}}}"
)
FUNCTIONS = [
    *("REGR_SLOPE(y, x)", "REGR_INTERCEPT(y, x)", "REGR_R2(y, x)", "REGR_COUNT(y, x)", "REGR_AVGX(y, x)"),
    *(
        "REGR_AVGY(y, x)",
        "COVAR_SAMP(x, y)",
        "COVAR_POP(x, y)",
        "CORR(x, y)",
        "GEOMEAN(y)",
        "1 + geometric_mean(y + 1)",
    ),
]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    draw = random.Random(7)
    x = [draw.choice([None, *range(21)]) for _ in range(3000)]
    y = [None if draw.random() < 0.1 else 2.0 * (a or 3) + 5 + draw.random() for a in x]
    return pa.table(
        {"id": pa.array(range(3000)), "x": pa.array(x, pa.int64()), "y": pa.array(y, pa.float64())}
    )


@pytest.mark.parametrize("function", FUNCTIONS)
def test_they_are_what_rows_would_give(table: pa.Table, function: str) -> None:
    unit = Unit.column("id", max_rows=1)
    mechanism = plan(check(f"SELECT {function} AS v FROM t", SCHEMA, unit), unit, Terms(epsilon=10**6))
    engine = open_engine({"t": table}, SCHEMA)
    answer = mechanism(engine, rng=SeededRandom(1)).table["v"][0].as_py()
    engine.close()
    with duckdb.connect() as connection:
        connection.register("t", table)
        ((real,),) = connection.execute(
            f"SELECT {function.replace('geometric_mean', 'geomean')} FROM t"
        ).fetchall()
    assert answer == pytest.approx(real, rel=1e-3)


def test_they_cost_no_more_than_what_is_asked() -> None:
    unit = Unit.column("id", max_rows=1)
    mechanism = plan(check("SELECT REGR_INTERCEPT(y, x) FROM t", SCHEMA, unit), unit, Terms(epsilon=1))
    assert mechanism.epsilon == 1


def test_a_filter_on_them_is_refused_with_what_to_write() -> None:
    with pytest.raises(InvalidQuery, match="REGR_SLOPE"):
        check("SELECT REGR_SLOPE(y, x) FILTER (WHERE x > 3) FROM t", SCHEMA, Unit.column("id", max_rows=1))


@pytest.mark.parametrize("call", ["REGR_SLOPE(y)", "REGR_COUNT(DISTINCT y, x)", "REGR_R2(*)"])
def test_one_argument_is_refused(call: str) -> None:
    with pytest.raises(InvalidQuery, match=r"REGR_\w+ is not answered"):
        check(f"SELECT {call} FROM t", SCHEMA, Unit.column("id", max_rows=1))


@pytest.mark.parametrize("epsilon", [5, 100])
@pytest.mark.parametrize("function", [f for f in FUNCTIONS if "geo" not in f.lower()])
def test_their_intervals_hold_what_rows_give_and_close_in_on_it(
    table: pa.Table, function: str, epsilon: int
) -> None:
    unit, engine = Unit.column("id", max_rows=1), open_engine({"t": table}, SCHEMA)
    text = f"SELECT {function} AS v FROM t"
    mechanism = plan(check(text, SCHEMA, unit), unit, Terms(epsilon=epsilon, confidence=1 - 1e-6))
    results = [mechanism(engine, rng=SeededRandom(seed)) for seed in range(5)]
    engine.close()
    with duckdb.connect() as connection:
        connection.register("t", table)
        ((real,),) = connection.execute(f"SELECT {function} FROM t").fetchall()
    for result in results:
        low, high = result.low["v"][0], result.high["v"][0]
        assert low <= real <= high
        assert epsilon < 100 or high - low < 0.4 * abs(real) + 1
