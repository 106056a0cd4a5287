"""Windows within the rows of one unit, on three real engines: the same numbers, whatever the order in which rows lie."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest

from deniable.errors import InvalidQuery
from deniable.sql import types
from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Project
from deniable.sql.write import relations
from deniable.units import Unit
from tests.sql.engines.real import ENGINES, opened, rows
from tests.sql.hospital import ROW, checked

UNIT = Unit.column("person", max_rows=4)
VISITS = TableInfo(
    "visits",
    (
        ColumnInfo("person", types.INTEGER),
        ColumnInfo("day", types.DATE),
        ColumnInfo("place", types.TEXT),
        ColumnInfo("cost", types.INTEGER),
        ColumnInfo("score", types.FLOAT),
    ),
    unit="person",
)
SCHEMA = Schema((VISITS,))
FIRST = date(2024, 1, 1)
PLACES = ("a", "B", "ä", "", "Z", None)

OVER = "OVER (PARTITION BY person ORDER BY day)"
WINDOWS = {
    "numbered": f"ROW_NUMBER() {OVER}",
    "numbered by place": "ROW_NUMBER() OVER (PARTITION BY person ORDER BY place DESC NULLS FIRST, score)",
    "numbered by nothing": "ROW_NUMBER() OVER (PARTITION BY person)",
    "ranked": f"RANK() {OVER}",
    "densely ranked": "DENSE_RANK() OVER (PARTITION BY person ORDER BY place)",
    "the one before": f"LAG(place) {OVER}",
    "two after, or 7": "LEAD(cost, 2, 7) OVER (PARTITION BY person ORDER BY day DESC)",
    "days since": f"date_diff('day', LAG(day) {OVER}, day)",
    "the first": f"FIRST_VALUE(score) {OVER}",
    "the last": "LAST_VALUE(place) OVER (PARTITION BY person ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND "
    "UNBOUNDED FOLLOWING)",
    "how many": "COUNT(*) OVER (PARTITION BY person)",
    "how many there": "COUNT(*) FILTER (WHERE cost > 2) OVER (PARTITION BY person, place)",
    "running": f"SUM(cost) {OVER}",
    "running by rows": "SUM(cost) OVER (PARTITION BY person ORDER BY day ROWS UNBOUNDED PRECEDING)",
    "moving": "AVG(score) OVER (PARTITION BY person ORDER BY day ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "largest": "MAX(cost) OVER (PARTITION BY person)",
}


def visits(seed: int) -> list[tuple[Any, ...]]:
    """Ties on every side: days, places, costs, both zeros, whole rows twice."""
    rng = random.Random(seed)
    people = [
        (
            person,
            rng.choice([None, FIRST + timedelta(rng.randrange(3))]),
            rng.choice(PLACES),
            rng.choice([None, 0, 1, 5]),
            rng.choice([None, 0.0, -0.0, 0.5]),
        )
        for person in range(6)
        for _ in range(rng.randrange(6))
    ]
    return people + people[::5]


def table(of: list[tuple[Any, ...]]) -> pa.Table:
    kinds = (pa.int64(), pa.date32(), pa.string(), pa.int64(), pa.float64())
    names = [column.name for column in VISITS.columns]
    columns = zip(*of, strict=True)
    return pa.table({n: pa.array(list(c), k) for n, c, k in zip(names, columns, kinds, strict=True)})


@pytest.fixture(scope="module", params=ENGINES)
def engines(request: pytest.FixtureRequest) -> list[Any]:
    """The same rows in three orders."""
    sorted_rows = visits(3)
    shuffled = random.Random(5).sample(sorted_rows, len(sorted_rows))
    return [
        opened(request.param, {"visits": table(each)}, SCHEMA)
        for each in (sorted_rows, shuffled, sorted_rows[::-1])
    ]


def measured(engine: Any, window: str) -> list[tuple[Any, ...]]:
    """The person, the row and what the window says of it."""
    text = (
        "SELECT COUNT(*), COUNT(day), COUNT(place), COUNT(cost), COUNT(score), COUNT(w) FROM "
        f"(SELECT *, {window} AS w FROM visits) t"
    )
    query = check(text, SCHEMA, UNIT)
    statement = relations.relation(query.relation, engine.dialect)
    return rows(engine, statement)


@pytest.mark.parametrize("name", WINDOWS)
def test_the_order_of_rows_changes_nothing(engines: list[Any], name: str) -> None:
    first, *others = (_signed(measured(engine, WINDOWS[name])) for engine in engines)
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", WINDOWS)
def test_all_engines_say_what_duckdb_says_by_hand(engines: list[Any], name: str) -> None:
    ours = measured(engines[1], WINDOWS[name])
    theirs = measured(_duck(), WINDOWS[name])
    assert _rounded(ours) == _rounded(theirs)


def _duck() -> Any:
    return opened("duckdb", {"visits": table(visits(3))}, SCHEMA)


def _signed(of: list[tuple[Any, ...]]) -> list[str]:
    """In which zeros of both signs differ."""
    return sorted(repr(row) for row in of)


def _rounded(of: list[tuple[Any, ...]]) -> Counter[Any]:
    """Floats to nine places; zeros of both signs are one."""
    return Counter(
        tuple(round(cell, 9) + 0.0 if isinstance(cell, float) else cell for cell in row) for row in of
    )


def test_the_numbers_are_those_of_a_loop() -> None:
    by_person: dict[int, list[tuple[Any, ...]]] = {}
    for row in visits(3):
        by_person.setdefault(row[0], []).append(row)
    loop = Counter(cell for person in by_person.values() for cell in _loop(person))
    ours = Counter((row[0], row[1], row[-1]) for row in measured(_duck(), WINDOWS["ranked"]))
    assert ours == loop


def _loop(person: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """RANK by day, NULL last."""
    for row in person:
        before = sum(
            (o[1] is not None and row[1] is None) or bool(o[1] and row[1] and o[1] < row[1]) for o in person
        )
        yield row[0], row[1], before + 1


ZEROS = [
    (person, None, place, 1, score)
    for person in range(3)
    for place, score in (("z", 0.0), ("z", -0.0), ("b", 0.0))
]
"""Which zero stands for both of them must not follow from the order of rows: a tie tells them apart."""
PUT_TOGETHER = {
    "the least of groups": "SELECT person, MIN(score) AS m, place FROM visits GROUP BY person, place",
    "the least by a window": "SELECT person, MIN(score) OVER (PARTITION BY person, place) AS m, place FROM visits",
    "the largest by a window": "SELECT person, MAX(score) OVER (PARTITION BY person, place) AS m, place FROM visits",
    "different rows": "SELECT DISTINCT person, score AS m, place FROM visits",
}


@pytest.fixture(scope="module", params=ENGINES)
def engines_of_zeros(request: pytest.FixtureRequest) -> list[Any]:
    return [
        opened(request.param, {"visits": table(each)}, SCHEMA)
        for each in (ZEROS, ZEROS[::-1], sorted(ZEROS, key=repr))
    ]


@pytest.mark.parametrize("name", PUT_TOGETHER)
def test_a_zero_that_stands_for_both_is_the_same_in_every_order(
    engines_of_zeros: list[Any], name: str
) -> None:
    first = (
        f"SELECT FIRST_VALUE(place) OVER (PARTITION BY person ORDER BY m) AS w FROM ({PUT_TOGETHER[name]}) t"
    )
    query = check(f"SELECT w, COUNT(*) FROM ({first}) u GROUP BY w", SCHEMA, UNIT)
    answers = [rows(each, relations.relation(query.relation, each.dialect)) for each in engines_of_zeros]
    assert [{place for _, place in answer} for answer in answers] == [{"b"}] * 3


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("inside", "says"),
    [
        ("ROW_NUMBER() OVER (ORDER BY days) AS r FROM visits", "PARTITION BY patient_id"),
        ("RANK() OVER (PARTITION BY ward ORDER BY days) AS r FROM visits", "would look at other people's"),
        ("COUNT(*) OVER () AS r FROM visits", "would look at other people's"),
        ("NTILE(4) OVER (PARTITION BY patient_id ORDER BY days) AS r FROM visits", "NTILE"),
        ("LAG(days) OVER (PARTITION BY patient_id) AS r FROM visits", "expects an ORDER BY"),
        (
            "LAG(days, visit_id) OVER (PARTITION BY patient_id ORDER BY seen) AS r FROM visits",
            "written as a literal",
        ),
        ("MEDIAN(days) OVER (PARTITION BY patient_id) AS r FROM visits", "inside a subquery is not answered"),
        ("COUNT(DISTINCT days) OVER (PARTITION BY patient_id) AS r FROM visits", "is not answered"),
        (
            "SUM(days) OVER (PARTITION BY patient_id ORDER BY seen RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) AS r "
            "FROM visits",
            "This frame",
        ),
        (
            "COUNT(*) OVER (PARTITION BY patient_id ORDER BY (SELECT MAX(floor) FROM wards)) AS r FROM visits",
            "subquery",
        ),
        ("days AS r FROM visits WHERE ROW_NUMBER() OVER (PARTITION BY patient_id) = 1", "is not answered"),
        (
            "patient_id, ward, RANK() OVER (PARTITION BY patient_id ORDER BY COUNT(*)) AS r FROM visits GROUP BY 1, 2",
            "Group in one subquery",
        ),
    ],
)
def test_what_is_no_function_of_one_units_values_is_refused(inside: str, says: str) -> None:
    with pytest.raises(InvalidQuery) as refusal:
        checked(f"SELECT SUM(r) FROM (SELECT {inside}) t")
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY seen) FROM visits",
        "SELECT COUNT(*) FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id) = 1",
        "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM visits w QUALIFY RANK() OVER (PARTITION BY patient_id "
        "ORDER BY days) = 1)",
        "SELECT COUNT(*) FROM visits v WHERE v.days IN (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id) FROM visits w "
        "WHERE w.patient_id = v.patient_id)",
    ],
)
def test_a_window_at_the_top_or_in_an_expression_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery):
        checked(text)


def test_where_each_row_is_a_unit_there_is_no_window_over_rows() -> None:
    with pytest.raises(InvalidQuery, match="each row is a person's"):
        checked(
            "SELECT SUM(r) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id) AS r FROM visits) t", ROW
        )


def test_a_hint_can_be_followed() -> None:
    hinted = "SELECT SUM(r) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY days) AS r FROM visits) t"
    assert isinstance(checked(hinted).relation, Project)
