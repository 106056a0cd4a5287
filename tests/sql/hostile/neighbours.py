"""Two neighbouring hospitals, one with a person whose rows are as bad as rows can be;
and what may differ between them."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa

from deniable.sql.engines import Engine
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Kind, Type
from deniable.units import Unit
from tests.sql.engines.real import opened
from tests.sql.plan.test_sensitivity import check_noise, check_rank

UNIT = Unit.column("patient_id", max_rows=3)
TERMS = Terms(epsilon=1, delta=1e-6)


def _column(
    name: str, kind: Kind, bounds: tuple[int, int] | None = None, keys: Any = None, scale: int = 0
) -> ColumnInfo:
    low, high = (Fraction(b) for b in bounds) if bounds else (None, None)
    return ColumnInfo(name, Type(kind, scale=scale), low, high, keys)


VISITS = TableInfo(
    "visits",
    (
        _column("patient_id", Kind.INTEGER),
        _column("age", Kind.INTEGER, (0, 120)),
        _column("days", Kind.INTEGER, (0, 60)),
        _column("cost", Kind.FLOAT, (0, 10_000)),
        _column("price", Kind.DECIMAL, (0, 1000), scale=2),
        _column("diagnosis", Kind.TEXT, keys=("flu", "cancer", "heart")),
        _column("ward", Kind.TEXT, keys=("A", "B")),
        _column("note", Kind.TEXT),
        _column("admitted", Kind.DATE),
        _column("seen", Kind.TIMESTAMP),
        _column("smoker", Kind.BOOLEAN),
    ),
    unit="patient_id",
)
WARDS = TableInfo(
    "wards",
    (_column("ward", Kind.TEXT), _column("floor", Kind.INTEGER, (0, 9))),
    public=True,
    unique=("ward",),
)
SCHEMA = Schema((VISITS, WARDS))

PLAIN = [
    (
        p,
        20 + 7 * p % 70,
        p % 9,
        100.5 * p,
        Decimal(p) / 4,
        ("flu", "cancer", "heart")[p % 3],
        "AB"[p % 2],
        f"note {p % 4}",
        p,
    )
    for p in (1, 1, 2, 3, 3, 3, 3, 4, 5, 5, 6)
]
NOTES = (
    "secret",
    "",
    "x" * 1000,
    "((((a+)+$",
    '{"a": ',
    "2020-13-45",
    "1e999",
    "NaN",
    "-9223372036854775809",
    "٣",
    "%_\\",
    "';--",
)
AGES = (0, None, 41, -(2**63), 2**63 - 1, 1, 2**62, 41, 50, -1)
COSTS = (math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, None, 0.0, 4611686018427387904.0, -0.0)
DATES = (date(1, 1, 1), date(9999, 12, 31), None, date(1970, 1, 1), date(2020, 2, 29))
WORST = [
    (
        7,
        AGES[i % len(AGES)],
        AGES[-i % len(AGES)],
        COSTS[i % len(COSTS)],
        (Decimal("0.00"), None, Decimal("9999999999999999.99"), Decimal("-9999999999999999.99"))[i % 4],
        (None, "flu", "unheard of", "FLU")[i % 4],
        (None, "A", "Z")[i % 3],
        NOTES[i % len(NOTES)],
        i,
    )
    for i in range(24)
]


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    ids, ages, days, costs, prices, diagnoses, wards, notes, ks = (list(c) for c in zip(*rows, strict=True))
    admitted = [DATES[k % len(DATES)] for k in ks]
    return pa.table(
        {
            "patient_id": pa.array(ids, pa.int64()),
            "age": pa.array(ages, pa.int64()),
            "days": pa.array(days, pa.int64()),
            "cost": pa.array(costs, pa.float64()),
            "price": pa.array(prices, pa.decimal128(18, 2)),
            "diagnosis": pa.array(diagnoses, pa.string()),
            "ward": pa.array(wards, pa.string()),
            "note": pa.array(notes, pa.string()),
            "admitted": pa.array(admitted, pa.date32()),
            "seen": pa.array(
                [d and datetime(d.year, d.month, d.day, 23, 59, 59) for d in admitted], pa.timestamp("us")
            ),
            "smoker": pa.array([(True, False, None)[k % 3] for k in ks], pa.bool_()),
        }
    )


@cache
def hospitals(kind: str) -> tuple[Engine, Engine]:
    """Without and with the worst person, on a real engine."""
    wards = pa.table({"ward": ["A", "B"], "floor": pa.array([1, 2], pa.int64())})
    without, with_ = ({"visits": table(rows), "wards": wards} for rows in (PLAIN, PLAIN + WORST))
    return opened(kind, without, SCHEMA), opened(kind, with_, SCHEMA)


def planned(text: str) -> Plan:
    """InvalidQuery if it is refused, from text and schema alone."""
    return plan(check(text, SCHEMA, UNIT), UNIT, TERMS)


def measured(made: Plan, engine: Engine) -> list[tuple[list[dict[Any, Any]], dict[Any, int]]]:
    """All that a run sees before noise: for each grouping set its parts, and the people behind private
    keys."""
    exact = made.measure(engine, "5a17")
    sets = []
    for group, integers in zip(made.query.sets, exact.integers(), strict=True):
        domains = [made.query.keys[i].domain for i in group]
        parts = [{key: part[key] for key in part if _listed(key, domains)} for part in integers.parts]
        sets.append((parts, dict(integers.supports or {})))
    return sets


def _listed(key: tuple[Any, ...], domains: list[tuple[Any, ...] | None]) -> bool:
    """Whether a group may be in the answer: sums of values outside a public list are
    computed, and never released."""
    return all(domain is None or value in domain for value, domain in zip(key, domains, strict=True))


def assert_alike(made: Plan, engines: tuple[Engine, Engine]) -> None:
    """One person moves every part by no more than the sensitivity that its noise is made for; nothing
    fails."""
    before, after = (measured(made, engine) for engine in engines)
    for group, (parts, people), (parts_after, people_after) in zip(made.sets, before, after, strict=True):
        for noisy, old, new in zip(group.measures, parts, parts_after, strict=True):
            (check_noise if isinstance(noisy.noise, Noise) else check_rank)(noisy.noise, old, new)
        if group.selection is not None:
            moved = [
                abs(people.get(key, 0) - people_after.get(key, 0)) for key in set(people) | set(people_after)
            ]
            assert max(moved, default=0) <= 1
            assert sum(moved) <= group.selection.groups
