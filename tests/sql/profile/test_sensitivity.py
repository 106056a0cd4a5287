"""One person moves the cells of each part of a profile by no more than its noise is made for: all neighbours of
random tables, on a real DuckDB."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.sql.dialects import DUCKDB
from deniable.sql.profile.mechanism import ProfileMechanism
from deniable.sql.profile.rows import PeopleByRows
from deniable.sql.profile.spread import ValueSpread
from deniable.sql.profile.totals import PeopleByTotals
from deniable.sql.write.contributions import TOTAL
from deniable.units import Unit
from tests.sql.planned import N_BOUNDS, X_BOUNDS, Duck, Line, N, X, duck, scan

PERSON, OTHER = Unit.column("person"), Unit.column("person", replace=True)
ROW, OTHER_ROW = Unit.row(), Unit.row(replace=True)
EPSILON = Fraction(1, 7)


def parts() -> list[ProfileMechanism]:
    people = (PERSON, OTHER)
    return [
        *(PeopleByRows(scan(unit), unit, EPSILON) for unit in people),
        *(
            ValueSpread(scan(unit), unit, EPSILON, column)
            for unit in (*people, ROW, OTHER_ROW)
            for column in (X, N)
        ),
        *(PeopleByTotals(scan(unit), unit, EPSILON, X, X_BOUNDS) for unit in people),
        *(PeopleByTotals(scan(unit), unit, EPSILON, N, N_BOUNDS) for unit in people),
    ]


PARTS = parts()
floats = st.sampled_from(
    [None, math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, 1.3, 9.9, 10.5, -3.0, 5e-324]
)
wholes = st.sampled_from([None, 0, 1, 3, 7, 8, -1, 2**63 - 1, -(2**63), 5])
lines = st.tuples(st.sampled_from([None, 1, 2, 3]), st.just("a"), floats, wholes, st.just(True))
tables = st.lists(lines, max_size=14)


def cells(mechanism: ProfileMechanism, engine: Duck, rows: list[Line]) -> list[int]:
    found = mechanism.measure(engine.fill(rows))
    assert set(found) <= set(mechanism.cells)
    return [found.get(cell, 0) for cell in mechanism.cells]


def distance(first: list[int], second: list[int]) -> tuple[int, int]:
    gaps = [abs(a - b) for a, b in zip(first, second, strict=True)]
    return sum(gaps), sum(gap * gap for gap in gaps)


def neighbours(rows: list[Line], unit: Unit) -> list[list[Line]]:
    """The table without each of its units."""
    if unit.column_name is None:
        return [rows[:i] + rows[i + 1 :] for i in range(len(rows))]
    return [[row for row in rows if row[0] != who] for who in (1, 2, 3)]


@pytest.mark.sampled
@pytest.mark.parametrize("mechanism", PARTS, ids=lambda part: f"{type(part).__name__} {part.unit}")
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=tables)
def test_a_unit_moves_all_cells_by_at_most_the_sensitivity(
    mechanism: ProfileMechanism, rows: list[Line]
) -> None:
    unit, bound = mechanism.unit, mechanism.sensitivity
    with duck() as engine:
        whole = cells(mechanism, engine, rows)
        without = [cells(mechanism, engine, other) for other in neighbours(rows, unit)]
    pairs = [(whole, other) for other in without]
    if unit.replace:  # one goes and another comes: two tables that lack one unit each
        pairs += [(a, b) for a in without for b in without]
    for pair in pairs:
        l1, l2_squared = distance(*pair)
        assert l1 <= bound.l1
        assert l2_squared <= bound.l2_squared


def test_the_sensitivity_is_reached() -> None:
    with duck() as engine:
        rows: list[Line] = [(1, "a", 1.0, 1, True), (2, "a", 8.0, 5, True), (2, "a", 9.0, 5, True)]
        for mechanism in PARTS:
            first, second = neighbours(rows, mechanism.unit)[:2]
            start = cells(mechanism, engine, first if mechanism.unit.replace else rows)
            l1, _ = distance(start, cells(mechanism, engine, second))
            assert l1 == mechanism.sensitivity.l1


def test_a_heavy_person_counts_as_one() -> None:
    many: list[Line] = [(1, "a", float(2**i), i, True) for i in range(20)] * 10
    mechanism = ValueSpread(scan(PERSON), PERSON, EPSILON, X)
    with duck() as engine:
        weights = cells(mechanism, engine, many)
    assert TOTAL - 200 <= sum(weights) <= TOTAL


def test_a_weight_of_one_for_each_row_is_found() -> None:
    """The twin that forgets to divide by the person's rows breaks the bound."""
    many: list[Line] = [(1, "a", 2.0, 1, True)] * 9
    mechanism = ValueSpread(scan(PERSON), PERSON, EPSILON, X)
    text = mechanism.statement(DUCKDB).select
    assert "COUNT(*)" in text
    with duck() as engine:
        broken = engine.fill(many).connection.sql(text.replace("COUNT(*)", "1")).fetchall()
    assert sum(int(weight) for _, weight in broken) > mechanism.sensitivity.l1


def test_loss_and_noise_are_those_of_epsilon() -> None:
    for mechanism in PARTS:
        assert mechanism.noise.epsilon <= EPSILON
        assert mechanism.noise.sensitivity == mechanism.sensitivity
        assert mechanism.loss == mechanism.noise.loss
