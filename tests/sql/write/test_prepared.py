"""Sums that `prepare` stored: the same integers as from the rows, wherever they are
used, and used nowhere else."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.errors import DataError
from deniable.randomness import SeededRandom
from deniable.sql.engines import Engine, Statement, open_engine
from deniable.sql.engines import duckdb as embedded
from deniable.sql.plan.keys import Group, combinations
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import Schema
from deniable.sql.schema.file import parse
from deniable.sql.write import summaries
from deniable.sql.write.contributions import ONE
from deniable.units import Unit
from tests.sql.planned import Around

MOST = 3
PEOPLE = Unit.column("person", max_rows=MOST)
SCHEMA = parse("""
tables:
  visits:
    unit: person
    columns:
      person: integer
      place: {type: text, keys: [north, south, east]}
      ill: {type: boolean, keys: [true, false]}
      grade: {type: float, keys: [0.5, 1.5]}
      ward: text
      days: {type: integer, bounds: [-5, 60]}
      cost: {type: decimal, scale: 2, bounds: [0, 500.5]}
      far: {type: integer, bounds: [1000000000000000000, 1000000000000000100]}
      wide: {type: integer, bounds: [0, 4000000000]}
      weight: {type: float, bounds: [0, 200]}
""")
HELD = [
    "SELECT COUNT(*) FROM visits",
    "SELECT COUNT(*), COUNT(days), SUM(days), AVG(cost) FROM visits",
    "SELECT place, COUNT(*), SUM(days) FROM visits GROUP BY place",
    "SELECT place, ill, COUNT(*), AVG(days), AVG(far) FROM visits GROUP BY ROLLUP (place, ill)",
    "SELECT place, SUM(days) FROM visits WHERE ill AND place <> 'north' GROUP BY place",
    "SELECT ill, COUNT(*) FILTER (WHERE place LIKE '%th'), SUM(cost) FILTER (WHERE place IS NULL) FROM "
    "visits GROUP BY ill",
    "SELECT CASE WHEN place = 'east' THEN 'e' ELSE 'o' END AS c, AVG(days) FROM visits GROUP BY c",
    "SELECT p, COUNT(d), SUM(d) FROM (SELECT place AS p, days AS d, ward FROM visits WHERE NOT ill) AS t "
    "GROUP BY p",
    "SELECT AVG(days) FROM (SELECT place AS days_of, days FROM visits) AS t WHERE days_of IN ('north', "
    "'nowhere')",
]
NOT_HELD = [
    "SELECT COUNT(*) FROM visits WHERE days > 3",
    "SELECT COUNT(*) FROM visits WHERE ward = 'w1'",
    "SELECT COUNT(ward) FROM visits",
    "SELECT grade, COUNT(*) FROM visits GROUP BY grade",
    "SELECT SUM(days + 1) FROM visits",
    "SELECT SUM(CLAMP(days, 0, 10)) FROM visits",
    "SELECT SUM(wide) FROM visits",
    "SELECT SUM(weight) FROM visits",
    "SELECT VAR_SAMP(days) FROM visits",
    "SELECT COUNT(*) FILTER (WHERE days > 3), SUM(days) FROM visits",
    "SELECT p, SUM(d) FROM (SELECT place AS p, days * 2 AS d FROM visits) AS t GROUP BY p",
]


def some(seed: int) -> pa.Table:
    """People with 0 to 7 rows; NULLs, values beyond the bounds and keys that nobody listed in every
    column."""
    rng = random.Random(seed)
    people = [person for person in range(40) for _ in range(rng.randrange(8))] + [None, None]
    pick: dict[str, list[Any]] = {
        "place": ["north", "south", "east", "nowhere", None],
        "ill": [True, False, None],
        "grade": [0.5, 1.5, -0.0, 0.0, None],
        "ward": ["w1", "w2", None],
        "days": [-6, -5, 0, 7, 60, 61, 10**18, None],
        "cost": [Decimal("-1.00"), Decimal("0.01"), Decimal("500.51"), Decimal("12.34"), None],
        "far": [0, 10**18, 10**18 + 7, 2**62, None],
        "wide": [0, 4 * 10**9, None],
        "weight": [0.0, 12.5, 1e308, None],
    }
    kinds = {"cost": pa.decimal128(18, 2), "ill": pa.bool_(), "place": pa.string(), "ward": pa.string()}
    kinds |= {
        "days": pa.int64(),
        "far": pa.int64(),
        "wide": pa.int64(),
        "grade": pa.float64(),
        "weight": pa.float64(),
    }
    columns = {
        name: pa.array([rng.choice(values) for _ in people], kinds[name]) for name, values in pick.items()
    }
    return pa.table({"person": pa.array(people, pa.int64())} | columns)


class Seen(Around):
    """A prepared engine that keeps what it is asked; `sums=False` hides its summaries.

    It does not tell where no value is NULL.
    """

    def __init__(self, engine: Engine, sums: bool = True) -> None:
        super().__init__(engine)
        self.summaries = engine.summaries if sums else {}
        self.asked: list[str] = []

    def present(self, table: str, columns: Sequence[str]) -> frozenset[str]:
        return frozenset()

    def run(self, statement: Statement) -> pa.Table:
        self.asked.append(statement.select)
        return self.engine.run(statement)


class Told(Seen):
    """One that also tells where no value is NULL."""

    def present(self, table: str, columns: Sequence[str]) -> frozenset[str]:
        return self.engine.present(table, columns)


@pytest.fixture(scope="module", params=[1, 2])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    opened = open_engine(some(request.param), SCHEMA, threads=1)
    opened.prepare(SCHEMA, PEOPLE)
    yield opened
    opened.close()


def measured(
    text: str, engine: Engine, seen: Seen, schema: Schema = SCHEMA, unit: Unit = PEOPLE
) -> list[dict[Group, list[int]]]:
    """Each part of each public group, exactly, set by set."""
    made = plan(check(text, schema, unit), unit, Terms(epsilon=1, delta=1e-6))
    ready = made.prepared(engine.prepared)
    exact = ready.start.measure(seen, "0")
    found = []
    for group, integers in zip(ready.query.sets, exact.integers(), strict=True):
        keys = combinations([ready.query.keys[i] for i in group])
        found.append({key: [part.get(key, 0) for part in integers.parts] for key in keys})
    return found


@pytest.mark.parametrize("text", HELD)
def test_stored_sums_are_the_sums_of_the_rows(text: str, engine: Engine) -> None:
    short, long = Seen(engine), Seen(engine, sums=False)
    assert measured(text, engine, short) == measured(text, engine, long)
    assert all("_summary_" in sql for sql in short.asked)
    assert not any("_summary_" in sql for sql in long.asked)


@pytest.mark.parametrize("text", NOT_HELD)
def test_rows_are_read_where_sums_do_not_hold_the_answer(text: str, engine: Engine) -> None:
    seen = Seen(engine)
    measured(text, engine, seen)
    assert seen.asked
    assert not any("_summary_" in sql for sql in seen.asked)


def test_stored_sums_agree_with_a_loop() -> None:
    rows = some(3).to_pylist()
    engine = open_engine(some(3), SCHEMA, threads=1)
    engine.prepare(SCHEMA, PEOPLE)
    (found,) = measured("SELECT place, COUNT(*), SUM(days) FROM visits GROUP BY place", engine, Seen(engine))
    engine.close()
    sizes: dict[int, int] = {}
    for row in rows:
        sizes[row["person"]] = sizes.get(row["person"], 0) + 1
    wanted = {(place,): [0, 0] for place in ("north", "south", "east")}
    for row in rows:
        if row["person"] is not None and (row["place"],) in wanted:
            weight = min(ONE, ONE * MOST // sizes[row["person"]])
            wanted[(row["place"],)][0] += weight
            wanted[(row["place"],)][1] += (
                weight * min(60, max(-5, row["days"])) if row["days"] is not None else 0
            )
    assert {key: sorted(numbers) for key, numbers in found.items()} == {
        k: sorted(v) for k, v in wanted.items()
    }


def test_a_table_that_was_not_prepared_is_counted_row_by_row() -> None:
    engine = open_engine(some(1), SCHEMA, threads=1)
    seen = Seen(engine)
    assert engine.summaries == {}
    measured(HELD[2], engine, seen)
    assert not any("_weight" in sql for sql in seen.asked)
    engine.close()


def test_an_empty_table_has_empty_sums() -> None:
    engine = open_engine(some(1).slice(0, 0), SCHEMA, threads=1)
    engine.prepare(SCHEMA, PEOPLE)
    for text in HELD:
        assert all(n == [0] * len(n) for each in measured(text, engine, Seen(engine)) for n in each.values())
    engine.close()


def test_prepared_for_another_bound_the_sums_are_those_of_the_last() -> None:
    engine = open_engine(some(1), SCHEMA, threads=1)
    engine.prepare(SCHEMA, Unit.column("person", max_rows=7))
    engine.prepare(SCHEMA, PEOPLE)
    assert measured(HELD[1], engine, Seen(engine)) == measured(HELD[1], engine, Seen(engine, sums=False))
    engine.close()


def test_sums_of_an_earlier_bound_do_not_outlive_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_engine(some(1), SCHEMA, threads=1)
    engine.prepare(SCHEMA, Unit.column("person", max_rows=7))
    monkeypatch.setattr(summaries, "summarising", lambda stored, summary, dialect: "SELECT nothing")
    with pytest.raises(DataError):
        engine.prepare(SCHEMA, PEOPLE)
    assert engine.summaries == {}
    seen = Seen(engine)
    measured(HELD[1], engine, seen)
    assert not any("_summary_" in sql for sql in seen.asked)
    engine.close()


def test_too_many_combinations_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "SUMMARY_ROWS", 3)
    engine = open_engine(some(1), SCHEMA, threads=1)
    engine.prepare(SCHEMA, PEOPLE)
    assert engine.summaries["visits"].table is None
    assert engine.prepared == {"visits": MOST}
    result = plan(check(HELD[2], SCHEMA, PEOPLE), PEOPLE, Terms(epsilon=1))(engine, rng=SeededRandom(1))
    assert result.table.num_rows == 3
    engine.close()


def tidy(days: Sequence[int | None]) -> pa.Table:
    """Two people, ten rows; only `days` differs from what the bounds allow."""
    table = some(1).slice(0, 10)
    columns = {
        "person": [1] * 7 + [2] * 3,
        "days": days,
        "cost": [Decimal("1.25")] * 10,
        "far": [10**18 + 1] * 10,
    }
    kinds = {"person": pa.int64(), "days": pa.int64(), "cost": pa.decimal128(18, 2), "far": pa.int64()}
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, kinds[name]))
    return table


TIDY = [-5, 60, 0, 1, 2, 3, 4, 5, 6, 7]
"""Bounds are inside."""


@pytest.mark.parametrize("days", [TIDY, [*TIDY[:9], None], [*TIDY[:9], 61], [-6, *TIDY[1:]], [None] * 10])
def test_values_are_clamped_unless_all_are_known_to_lie_inside(days: list[int | None]) -> None:
    engine = open_engine(tidy(days), SCHEMA, threads=1)
    engine.prepare(SCHEMA, PEOPLE)
    assert engine.summaries["visits"].whole == ({"days", "cost", "far"} if days == TIDY else {"cost", "far"})
    for text in (
        "SELECT COUNT(*), SUM(days), AVG(cost), AVG(far) FROM visits WHERE ward IS NULL OR ward <> 'w9'",
        "SELECT VAR_SAMP(d), COUNT(d) FROM (SELECT days AS d, ward FROM visits) AS t WHERE d < 100 OR d IS "
        "NULL",
        "SELECT AVG(days) FILTER (WHERE days < 5) FROM visits",
        "SELECT SUM(CLAMP(days, 0, 3)), SUM(days * 2), COUNT(ward) FROM visits",
    ):
        known, asked = Seen(engine), Seen(engine, sums=False)
        assert measured(text, engine, known) == measured(text, engine, asked)
        assert "CASE" in "".join(asked.asked)
        assert not any("_summary_" in sql for sql in known.asked)
    engine.close()


def test_nothing_is_asked_of_a_column_that_is_whole() -> None:
    engine = open_engine(tidy(TIDY), SCHEMA, threads=1)
    engine.prepare(SCHEMA, PEOPLE)
    seen = Seen(engine)
    measured("SELECT COUNT(days), SUM(days) FROM visits WHERE ward = 'w1'", engine, seen)
    assert "CASE" not in seen.asked[0]
    engine.close()


def test_a_plan_with_other_bounds_clamps_to_its_own() -> None:
    (table,) = SCHEMA.tables
    narrow = replace(
        table, columns=tuple(replace(c, upper=Fraction(3)) if c.name == "days" else c for c in table.columns)
    )
    engine = open_engine(tidy(TIDY), SCHEMA, threads=1)
    engine.prepare(SCHEMA, PEOPLE)
    for text in (
        "SELECT SUM(days) FROM visits",
        "SELECT AVG(days) FROM visits WHERE ward IS NULL OR ward <> 'w9'",
    ):
        short, long = Seen(engine), Seen(engine, sums=False)
        assert measured(text, engine, short, Schema((narrow,))) == measured(
            text, engine, long, Schema((narrow,))
        )
        assert not any("_summary_" in sql for sql in short.asked)
        assert measured(text, engine, long, Schema((narrow,))) != measured(text, engine, long)
    engine.close()


@pytest.mark.parametrize("rows", [MOST - 1, MOST + 1])
def test_sums_for_another_bound_are_not_used(rows: int, engine: Engine) -> None:
    seen = Seen(engine)
    measured(HELD[2], engine, seen, unit=Unit.column("person", max_rows=rows))
    assert not any("_summary_" in sql or "_weight" in sql for sql in seen.asked)


@pytest.mark.parametrize("days", [TIDY, [*TIDY[:9], None]])
def test_a_column_without_a_null_is_counted_by_its_rows(days: list[int | None], tmp_path: Path) -> None:
    pq.write_table(tidy(days), tmp_path / "visits.parquet")
    engine = open_engine(tmp_path / "visits.parquet", SCHEMA, threads=1)
    for text in (
        "SELECT COUNT(days), AVG(days) FROM visits",
        "SELECT COUNT(*), COUNT(d) FROM (SELECT days AS d FROM visits WHERE ward IS NULL OR ward <> 'w9') AS "
        "t",
    ):
        told, asked = Told(engine), Seen(engine)
        assert measured(text, engine, told) == measured(text, engine, asked)
        assert ("IS NOT NULL THEN" in told.asked[0]) is (None in days)
        assert "IS NOT NULL THEN" in asked.asked[0]
    engine.close()


def test_columns_of_a_summary_come_from_the_schema_alone() -> None:
    (table,) = SCHEMA.tables
    assert summaries.summary_keys(table) == {"place", "ill"}
    bounds = summaries.summary_bounds(table)
    assert bounds == {"days": (-5, 60), "cost": (0, 50050), "far": (10**18, 10**18 + 100)}
