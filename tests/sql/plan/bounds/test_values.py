"""Bounds that nobody declared are found privately."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.randomness import SeededRandom
from deniable.sql.dialects import DUCKDB
from deniable.sql.plan.bounds.values import EXPONENTS, ValueBounds, _edges
from deniable.sql.plan.measures.measure import read_cells
from deniable.sql.plan.measures.totals import Sum, counted
from deniable.sql.plan.noise import laplace
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.tree import Aggregate
from deniable.sql.tree import Statistic as S
from deniable.sql.write.contributions import ONE, TOTAL, Limit, by_units
from deniable.units import Unit
from tests.sql.planned import X, duck, query

NOISE = laplace(counted(1, replace=False, single=False), Fraction(1))


def test_values_lie_between_the_edges_of_their_cell() -> None:
    made = plan(query([Aggregate(S.SUM, X)], Unit.row()), Unit.row(), Terms(epsilon=1, discover=True))
    (bounds,) = made.private_bounds.values
    for value in (0.0, 1.0, 1.5, -3.0, 1e-9, 1e30, -1e6, 0.7):
        with duck([(1, "a", value, 1, True)]) as engine:
            table = engine.run(bounds.statement(made.start.writer(DUCKDB)))
        ((cell,), (weight,)) = (column.to_pylist() for column in table.columns)
        low, high = _edges(int(cell))
        assert weight == "1"
        assert low <= min(Fraction(value), Fraction(2) ** 62) <= high


def test_bounds_hold_the_bulk_and_leave_the_noise_out() -> None:
    measure, rng = Sum(X), SeededRandom(2)
    place = 1 - EXPONENTS[0]
    weights = {place + 3: 500, place + 6: 800, place + 40: 1}
    found = {ValueBounds(measure, NOISE)(weights, rng=rng) for _ in range(10)}
    assert found == {(Fraction(8), Fraction(128))}
    assert ValueBounds(measure, NOISE)({}, rng=rng) == (-1, 1)


def test_a_cell_next_to_others_need_not_be_as_sure_as_one_that_stands_alone() -> None:
    place = 1 - EXPONENTS[0]
    beside, alone = ({place + 6: 800, place + at: 9} for at in (7, 9))
    uppers = [
        [ValueBounds(Sum(X), NOISE)(weights, rng=SeededRandom(seed))[1] for seed in range(40)]
        for weights in (beside, alone, {place + 6: 800})
    ]
    assert uppers[0].count(Fraction(256)) >= 36
    assert uppers[1].count(Fraction(128)) >= 30
    assert uppers[2].count(Fraction(128)) >= 38


@pytest.mark.parametrize("unit", [Unit.column("person"), Unit.column("person", max_rows=40)], ids=str)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(mine=st.lists(st.sampled_from([None, 0.0, 1.5, -3.0, 1e30, 700.0]), max_size=60))
def test_one_person_counts_as_one_in_all_cells_together(unit: Unit, mine: list[float | None]) -> None:
    """However many rows count: by brute force, with the person and without."""
    made = plan(query([Aggregate(S.SUM, X)], unit), unit, Terms(epsilon=1, discover=True))
    (bounds,) = made.private_bounds.values
    others = [(2, "a", 5.0, 1, True), (3, "b", 5.0, 1, True)]
    cells = []
    for rows in (others, others + [(1, "a", value, 1, True) for value in mine]):
        with duck(rows) as engine:
            cells.append(read_cells(engine.run(bounds.statement(made.start.writer(DUCKDB)))))
    change = [cells[1].get(cell, 0) - cells[0].get(cell, 0) for cell in {*cells[0], *cells[1]}]
    total = bounds.noise.sensitivity.l1
    assert sum(map(abs, change)) <= total
    if mine and None not in mine:
        assert sum(change) > total * (1 - len(mine) / ONE)


@pytest.mark.parametrize(
    ("rows", "one"), [(1, ONE), (3, ONE), (16, ONE), (17, ONE), (1 << 40, ONE), (5, TOTAL // 5)]
)
@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_a_person_counts_for_the_whole_bound_and_no_more(rows: int, one: int, count: int) -> None:
    limit = Limit(True, rows, 1, one)
    source, weight = by_units(f"SELECT 1 AS _unit FROM range({count})", limit, DUCKDB)
    with duckdb.connect() as connection:
        ((total,),) = connection.execute(f"SELECT SUM({weight}) FROM {source}").fetchall()
    assert limit.total * (1 - count / ONE) < total <= limit.total


@pytest.mark.parametrize("unit", [Unit.row(), Unit.column("person"), Unit.column("person", max_rows=3)])
def test_found_bounds_are_released_with_the_answer(unit: Unit) -> None:
    rows = [(i // 3, "a", 20.0 + i % 10, 1, True) for i in range(9000)]
    made = plan(query([Aggregate(S.AVG, X)], unit), unit, Terms(epsilon=8, discover=True))
    with duck(rows) as engine:
        result = made(engine, rng=SeededRandom(3))
    assert result.bounds == {"x": (16.0, 32.0)}
    assert result.table["a0"][0].as_py() == pytest.approx(24.5, abs=0.5)
    assert made.expected()[0].within is None
