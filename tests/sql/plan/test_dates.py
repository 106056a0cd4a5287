"""Least, largest and middle dates and times without declared bounds, on a real engine."""

from __future__ import annotations

import datetime as d
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from deniable import Budget, Curator, Unit
from deniable.randomness import SeededRandom

PEOPLE, FIRST, SPAN = 5_000, d.date(2024, 1, 1), 200
_RNG = random.Random(3)
DAYS = sorted(FIRST + d.timedelta(days=_RNG.randrange(SPAN)) for _ in range(PEOPLE))
TIMES = [d.datetime.combine(day, d.time(_RNG.randrange(24))) for day in DAYS]
NEAR = d.timedelta(days=3)


@pytest.fixture(scope="module")
def visits() -> Iterator[Curator]:
    table = pa.table({"person": range(PEOPLE), "day": DAYS, "seen": TIMES})
    unit, limit = Unit.column("person", max_rows=1), Budget(1000, 1e-6)
    terms = {"unit": unit, "limit": limit, "ledger": "sqlite://", "rng": SeededRandom(5)}
    with Curator.open(table, name="visits", **terms) as curator:
        yield curator


@pytest.mark.parametrize(("column", "values"), [("day", DAYS), ("seen", TIMES)])
def test_ends_and_the_middle_are_within_three_days(
    visits: Curator, column: str, values: list[d.date]
) -> None:
    """At ε = 1 each, among 25 people a day: noise moves the rank of an end by some 60 people."""
    truth = {"MIN": values[0], "MAX": values[-1], "MEDIAN": values[PEOPLE // 2]}
    for name, true_value in truth.items():
        answer = visits.sql(f"SELECT {name}({column}) AS x FROM visits", epsilon=1)
        [row] = answer.value.to_pylist()
        assert abs(row["x"] - true_value) <= NEAR, name
