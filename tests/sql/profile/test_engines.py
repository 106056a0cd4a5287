"""The parts of a profile before noise: the same integers on three engines, and those of a naive count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import pytest

from deniable.sql.engines import Engine
from deniable.sql.profile.mechanism import ProfileMechanism
from deniable.sql.profile.rows import PeopleByRows
from deniable.sql.profile.spread import ValueSpread
from deniable.sql.profile.tables import read_table, with_column
from deniable.sql.profile.totals import PeopleByTotals, edges
from deniable.sql.tree import Column, Scan
from deniable.units import Unit
from tests.contract.test_engine_statements import SCHEMA, _tables
from tests.sql.engines.real import ENGINES, opened

PERSON, EPSILON = Unit.column("person"), Fraction(1)
TABLES = _tables()


def rows_of(table: str, column: Column | None = None, unit: Unit = PERSON) -> Scan:
    scan = read_table(SCHEMA, unit, table)
    if column is None:
        return scan
    return with_column(scan, column)


def visits(name: str) -> Column:
    info = SCHEMA.table("visits")
    assert info is not None
    [found] = [Column(each.name, each.type) for each in info.columns if each.name == name]
    return found


def parts() -> list[ProfileMechanism]:
    cost, weight = visits("cost"), visits("weight")
    columns = (visits("days"), cost, weight)
    bounds = (Fraction(0), Fraction(1001, 2)), (Fraction(-9), Fraction(200))
    row = Unit.row()
    return [
        PeopleByRows(rows_of("visits"), PERSON, EPSILON),
        PeopleByRows(rows_of("prescriptions"), PERSON, EPSILON),
        *(ValueSpread(rows_of("visits", each), PERSON, EPSILON, each) for each in columns),
        ValueSpread(rows_of("visits", cost, row), row, EPSILON, cost),
        PeopleByTotals(rows_of("visits", cost), PERSON, EPSILON, cost, bounds[0]),
        PeopleByTotals(rows_of("visits", weight), PERSON, EPSILON, weight, bounds[1]),
    ]


PARTS = parts()


@pytest.fixture(scope="module")
def reference() -> Iterator[Engine]:
    engine = opened("duckdb", TABLES, SCHEMA)
    yield engine
    engine.close()


@pytest.fixture(scope="module", params=ENGINES[1:])
def other(request: pytest.FixtureRequest) -> Iterator[Engine]:
    engine = opened(request.param, TABLES, SCHEMA)
    yield engine
    engine.close()


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_engines_measure_the_same(reference: Engine, other: Engine, part: ProfileMechanism) -> None:
    expected = part.measure(reference)
    assert len(expected) > 1
    assert part.measure(other) == expected


def test_cells_are_those_of_a_naive_count(reference: Engine) -> None:
    lines = TABLES["visits"].to_pylist()
    rows = Counter(line["person"] for line in lines if line["person"] is not None)
    assert PARTS[0].measure(reference) == Counter((n - 1).bit_length() for n in rows.values())
    totals: Counter[int] = Counter()
    for line in lines:
        if line["person"] is not None and line["cost"] is not None:
            totals[line["person"]] += int(max(0, min(line["cost"], 500.5)) * 100)
    naive = Counter(sum(total > edge for edge in edges()) for total in totals.values())
    assert PARTS[-2].measure(reference) == naive
