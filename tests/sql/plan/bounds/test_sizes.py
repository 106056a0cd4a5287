"""Sums by the sizes of units are those under any bound, and count the units too: the unit is grouped once."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.errors import Uncopyable
from deniable.randomness import SeededRandom
from deniable.sql.dialects import DUCKDB
from deniable.sql.plan.measures.measure import read_cells
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.plan.settled import Settled
from deniable.sql.tree import Aggregate, Key
from deniable.sql.tree import Statistic as S
from deniable.sql.write import contributions
from deniable.sql.write.contributions import ONE, TOTAL, Limit, row_excess, row_weight
from deniable.units import Unit
from tests.sql.planned import FLAG, N_BOUNDS, PUBLIC, REGION, X_BOUNDS, Duck, N, X, duck, measured, query

AGGREGATES = [
    Aggregate(S.COUNT),
    Aggregate(S.COUNT, X, FLAG),
    Aggregate(S.SUM, X, bounds=X_BOUNDS),
    Aggregate(S.AVG, N, FLAG, bounds=N_BOUNDS),
    Aggregate(S.VARIANCE, N, bounds=N_BOUNDS),
]
UNITS = [Unit.column("person"), Unit.column("person", max_rows=3)]
TERMS = Terms(epsilon=1, delta=1e-6, left_out=True)
SETS = {"groups": (PUBLIC, [(0,)]), "none": ((), [()]), "rollup": (PUBLIC, [(0,), ()])}
lines = st.tuples(
    st.sampled_from([1, 2, 3, 4, None]),
    st.sampled_from(["a", "b", "z", None]),
    st.sampled_from([None, 1e308, -1e308, float("nan"), 9.99, -3.0]),
    st.sampled_from([None, 0, 7, 8, 2**63 - 1, -(2**63)]),
    st.sampled_from([True, False, None]),
)


@pytest.fixture(scope="module")
def engine() -> Any:
    with duck() as opened:
        yield opened


def nonzero(sets: Any) -> Any:
    return [[{key: n for key, n in part.items() if n} for part in parts] for parts, _ in sets]


def bounded(run: Settled, rows: int, most: int) -> Settled:
    limit = run.limit if not run.plan.chooses else replace(run.limit, rows=rows, one=TOTAL // rows)
    return replace(run, limit=replace(limit, most=most))


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("shape", SETS)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(lines, max_size=30),
    bound=st.sampled_from([1, 2, 3, 8]),
    most=st.sampled_from([0, 4, 7, 1 << 30]),
)
def test_sums_by_size_are_those_of_weighted_rows(
    engine: Duck, unit: Unit, shape: str, rows: Any, bound: int, most: int
) -> None:
    keys, sets = SETS[shape]
    made = plan(query(AGGREGATES, unit, keys=keys, sets=sets), unit, TERMS)
    engine.fill(rows)
    sizes = made.start.read_sizes(engine)
    run = bounded(made.start, bound, most)
    assert set(sizes) == set(map(tuple, sets))
    assert nonzero(measured(made, engine, replace(run, sizes=sizes))) == nonzero(measured(made, engine, run))

    classes = made.private_bounds.classes
    assert classes is not None
    asked = read_cells(engine.run(classes.statement(made.start.writer(DUCKDB))))
    for group, each in sizes.items():
        public = [(region,) for region in ("a", "b", None)] if group else [()]
        assert each.units(public, classes.edges) == asked


@pytest.mark.parametrize("rows", [1, 3, 4])
@pytest.mark.parametrize("most", [0, 5, 9, 1 << 30])
def test_weights_here_are_those_of_the_engine(engine: Duck, rows: int, most: int) -> None:
    limit = Limit(True, rows, 1, ONE, most=most)
    for count in (1, 2, 3, 4, 5, 8, 9, 10, 1000):
        engine.fill([(1, "a", None, None, None)] * count)
        asked = [contributions.weight(ONE, rows, DUCKDB)]
        if limit.tells:
            asked.append(contributions.excess(rows, most, DUCKDB))
        found = engine.connection.execute(f"SELECT {', '.join(asked)} FROM visits").fetchall()[0]
        assert found == (row_weight(limit, count), row_excess(limit, count))[: len(asked)]
        assert count * row_excess(limit, count) <= TOTAL


def test_a_run_groups_the_unit_once(engine: Duck) -> None:
    made = plan(query(AGGREGATES, UNITS[0], keys=PUBLIC), UNITS[0], TERMS)
    (statement,) = made.statements(DUCKDB)
    assert statement.select.count('GROUP BY "_unit"') == 1
    many = (Key("region", REGION, tuple(f"region {i}" for i in range(200))),)
    assert len(plan(query(AGGREGATES, UNITS[0], keys=many), UNITS[0], TERMS).statements(DUCKDB)) == 2


def test_what_is_asked_before_the_bound_is_private_and_not_handed_on(engine: Duck) -> None:
    made = plan(query(AGGREGATES, UNITS[0], keys=PUBLIC), UNITS[0], TERMS)
    engine.fill([(person, "a", 1.0, 1, True) for person in range(50)])
    run = made.settle(engine, SeededRandom(1))
    assert "Sizes" not in repr(run)
    with pytest.raises(Uncopyable):
        copy.copy(run.sizes[(0,)])
    assert not made.groups(engine, SeededRandom(1))[0].sizes
