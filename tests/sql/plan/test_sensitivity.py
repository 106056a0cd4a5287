"""The heart: one person moves every exact statistic by no more than the sensitivity that
its noise is made for."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.sql.dialects import DUCKDB
from deniable.sql.plan.bounds import row_classes
from deniable.sql.plan.measures.distinct import Distinct
from deniable.sql.plan.measures.ranks import Ranks
from deniable.sql.plan.measures.totals import Count, Square, Sum
from deniable.sql.plan.measures.units import Units
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.quantiles import Rank
from deniable.sql.plan.request import Terms
from deniable.sql.plan.settled import Settled
from deniable.sql.tree import Aggregate, Filter, Key, Union
from deniable.sql.tree import Statistic as S
from deniable.units import Unit
from tests.sql import planned
from tests.sql.planned import FLAG, N_BOUNDS, PRIVATE, PUBLIC, X_BOUNDS, Duck, N, X, duck, query, scan

AGGREGATES = [
    Aggregate(S.COUNT),
    Aggregate(S.COUNT, X, FLAG),
    Aggregate(S.SUM, X, bounds=X_BOUNDS),
    Aggregate(S.SUM, N, FLAG, bounds=N_BOUNDS),
    Aggregate(S.STDDEV, X, bounds=X_BOUNDS),
    Aggregate(S.VARIANCE_POP, N, bounds=(Fraction(-(2**61)), Fraction(2**61))),
    Aggregate(S.COUNT_DISTINCT, N),
    Aggregate(S.QUANTILE, X, level=Fraction(1, 3), bounds=X_BOUNDS),
    Aggregate(S.MIN, N, bounds=N_BOUNDS),
    Aggregate(S.COUNT_UNITS),
]
UNITS = [
    Unit.column("person", max_rows=1),
    Unit.column("person", max_rows=3),
    Unit.column("person", max_rows=2, replace=True),
    Unit.row(),
    Unit.row(replace=True),
]

floats = st.sampled_from(
    [None, math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, 1.3, 9.999, 10.5, -3.0, 5e-324]
)
wholes = st.sampled_from([None, 0, 1, 3, 7, 8, -1, 2**63 - 1, -(2**63), 5])
contents = st.tuples(
    st.sampled_from(["a", "b", "z", None]), floats, wholes, st.sampled_from([True, False, None])
)
people = st.lists(st.tuples(st.sampled_from([1, 2, None]), contents), max_size=6)
own = st.lists(contents, max_size=9)


@pytest.fixture(scope="module")
def engine() -> Any:
    with duck() as opened:
        yield opened


def test_aggregates_of_the_tests_cover_every_measure() -> None:
    made = plan(query(AGGREGATES), Unit.column("person", max_rows=1), Terms(epsilon=1))
    assert {type(measure) for measure in made.measures} == {Count, Distinct, Ranks, Square, Sum, Units}


@cache
def plan_once(unit: Unit, keys: tuple[Key, ...]) -> Plan:
    aggregates = AGGREGATES if unit.column_name else AGGREGATES[:-1]
    sets = [(0,), ()] if keys else None
    return plan(query(aggregates, unit, keys=keys, sets=sets), unit, Terms(epsilon=1, delta=1e-6))


@pytest.mark.sampled
@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("keys", [PUBLIC, PRIVATE, ()], ids=["public", "private", "none"])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(others=people, mine=own, instead=own)
def test_one_unit_moves_no_statistic_beyond_its_sensitivity(
    engine: Duck, unit: Unit, keys: Any, others: Any, mine: Any, instead: Any
) -> None:
    made = plan_once(unit, keys)
    if unit.column_name is None:
        mine, instead = mine[:1], instead[:1]
    after = instead if unit.replace else []
    rest = [(person, *line) for person, line in others]
    before = measured(made, engine.fill(rest + [(7, *line) for line in mine]))
    changed = measured(made, engine.fill(rest + [(7 if not unit.replace else 8, *line) for line in after]))
    check(made, before, changed)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(others=people, mine=own)
def test_filters_and_tables_put_together_do_not_help_a_unit(engine: Duck, others: Any, mine: Any) -> None:
    for unit in (UNITS[1], UNITS[3]):
        twice = Union((Filter(scan(unit), FLAG), scan(unit), scan(unit)))
        aggregates = AGGREGATES if unit.column_name else AGGREGATES[:-1]
        made = plan(query(aggregates, unit, keys=PRIVATE, relation=twice), unit, Terms(epsilon=1, delta=1e-6))
        rest = [(person, *line) for person, line in others]
        lines = [(7, *line) for line in (mine if unit.column_name else mine[:1])]
        check(made, measured(made, engine.fill(rest + lines)), measured(made, engine.fill(rest)))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(others=people, mine=own, rows=st.sampled_from([1, 2, 64, 256, 1 << 16]))
def test_a_privately_chosen_bound_has_the_same_sensitivity(
    engine: Duck, others: Any, mine: Any, rows: int
) -> None:
    unit = Unit.column("person")
    made = plan(query(AGGREGATES, unit, keys=PUBLIC), unit, Terms(epsilon=1))
    rest = [(person, *line) for person, line in others]
    bounded = replace(made.start, limit=row_classes.bounded(made.limit, rows))
    before = measured(made, engine.fill(rest + [(7, *line) for line in mine]), bounded)
    check(made, before, measured(made, engine.fill(rest), bounded))


def test_the_same_check_fails_without_bounding(engine: Duck) -> None:
    unit = UNITS[0]
    made = plan(query([Aggregate(S.COUNT)], unit, keys=PUBLIC), unit, Terms(epsilon=1), bounding=False)
    many = [(7, "a", 1.0, 1, True)] * 3
    with pytest.raises(AssertionError):
        check(made, measured(made, engine.fill(many)), measured(made, engine.fill([])))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(others=people, mine=own)
def test_value_bounds_are_looked_for_within_their_sensitivity(engine: Duck, others: Any, mine: Any) -> None:
    unit = UNITS[1]
    made = plan(query([Aggregate(S.SUM, X)], unit), unit, Terms(epsilon=1, discover=True))
    (bounds,) = made.private_bounds.values
    rest = [(person, *line) for person, line in others]

    def cells(rows: Any) -> dict[int, int]:
        table = engine.fill(rows).run(bounds.statement(made.start.writer(DUCKDB)))
        return {
            int(c): int(w) for c, w in zip(*(column.to_pylist() for column in table.columns), strict=True)
        }

    with_me, without = cells(rest + [(7, *line) for line in mine]), cells(rest)
    moved = [with_me.get(c, 0) - without.get(c, 0) for c in set(with_me) | set(without)]
    assert sum(map(abs, moved)) <= bounds.noise.sensitivity.l1


# ------------------------------------------------------------------------------------------------ measuring


def measured(
    made: Plan, engine: Duck, run: Settled | None = None
) -> list[tuple[list[dict[Any, Any]], dict[Any, int]]]:
    """For each grouping set the exact parts of the groups that may be released, and the
    units behind private keys."""
    sets = planned.measured(made, engine, run)
    for index, (parts, _) in enumerate(sets):
        if made.sets[index].selection is None and made.sets[index].keys:
            for part in parts:
                for key in part.keys() - {("a",), ("b",), (None,)}:
                    del part[key]
    return sets


def check(made: Plan, before: Any, after: Any) -> None:
    for group, (parts, units), (parts_after, units_after) in zip(made.sets, before, after, strict=True):
        selection = group.selection
        for noisy, old, new in zip(group.measures, parts, parts_after, strict=True):
            (check_noise if isinstance(noisy.noise, Noise) else check_rank)(noisy.noise, old, new)
        moved = [abs(units.get(key, 0) - units_after.get(key, 0)) for key in set(units) | set(units_after)]
        if selection is not None:
            assert max(moved, default=0) <= 1
            assert sum(moved) <= selection.groups * (2 if selection.replace else 1)


def check_noise(noise: Noise, old: dict[Any, int], new: dict[Any, int]) -> None:
    moved = [abs(old.get(key, 0) - new.get(key, 0)) for key in set(old) | set(new)]
    assert sum(moved) <= noise.sensitivity.l1
    assert sum(m * m for m in moved) <= noise.sensitivity.l2_squared


def check_rank(rank: Rank, old: dict[Any, Any], new: dict[Any, Any]) -> None:
    """The log-likelihood ratios of all groups' choices together span at most ε."""
    span = 0
    for key in set(old) | set(new):
        misses, misses_after = (rank.misses(side.get(key, {})) for side in (old, new))
        moved = [a - b for a, b in zip(misses, misses_after, strict=True)]
        span += max(moved) - min(moved)
    assert span * rank.rate <= rank.epsilon
