"""What the bound on a person's rows leaves out is told: within its sensitivity, and so that ± holds the real answer."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.accounting import epsilon as epsilon_of
from deniable.errors import InvalidParameter
from deniable.randomness import SeededRandom
from deniable.sql.plan.measures.totals import Count, LeftOut
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.plan.settled import Settled
from deniable.sql.tree import Aggregate
from deniable.sql.tree import Statistic as S
from deniable.sql.write import contributions
from deniable.sql.write.contributions import TOTAL
from deniable.units import Unit
from tests.sql.planned import FLAG, N_BOUNDS, PRIVATE, PUBLIC, X_BOUNDS, Duck, N, X, duck, measured, query

AGGREGATES = [
    Aggregate(S.COUNT),
    Aggregate(S.SUM, X, bounds=X_BOUNDS),
    Aggregate(S.SUM, N, FLAG, bounds=N_BOUNDS),
    Aggregate(S.AVG, N, bounds=N_BOUNDS),
]
UNITS = [
    Unit.column("person"),
    Unit.column("person", max_rows=3),
    Unit.column("person", max_rows=2, replace=True),
]
TERMS = Terms(epsilon=1, delta=1e-6, left_out=True)
contents = st.tuples(
    st.sampled_from(["a", "b", "z", None]),
    st.sampled_from([None, 1e308, -1e308, 0.0, 9.99, -3.0]),
    st.sampled_from([None, 0, 7, 8, 2**63 - 1, -(2**63)]),
    st.sampled_from([True, False, None]),
)


@pytest.fixture(scope="module")
def engine() -> Any:
    with duck() as opened:
        yield opened


def settled(made: Plan, most: int, rows: int = 2) -> Settled:
    """A run for which `most` was found, and, where a bound is chosen, `rows`."""
    limit = made.limit if not made.chooses else replace(made.limit, rows=rows, one=TOTAL // rows)
    return replace(made.start, limit=replace(limit, most=most))


def far(made: Plan, before: Any, after: Any) -> list[Fraction]:
    """How far each measure moved, in its sensitivities; more than 1 is a leak."""
    shares = []
    for group, (parts, _), (later, _) in zip(made.sets, before, after, strict=True):
        for noisy, old, new in zip(group.measures, parts, later, strict=True):
            assert isinstance(noisy.noise, Noise)
            allowed = {("a",), ("b",), (None,)}
            keys = {key for key in {*old, *new} if not group.keys or group.selection or key in allowed}
            change = [abs(old.get(key, 0) - new.get(key, 0)) for key in keys]
            shares.append(Fraction(sum(change), noisy.noise.sensitivity.l1))
            shares.append(Fraction(sum(m * m for m in change), noisy.noise.sensitivity.l2_squared))
    return shares


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("keys", [PUBLIC, PRIVATE, ()], ids=["public", "private", "none"])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    others=st.lists(st.tuples(st.sampled_from([1, 2, None]), contents), max_size=6),
    mine=st.lists(contents, max_size=12),
    instead=st.lists(contents, max_size=12),
    most=st.sampled_from([3, 4, 7, 1 << 30]),
)
def test_one_person_moves_nothing_that_is_told_beyond_its_sensitivity(
    engine: Duck, unit: Unit, keys: Any, others: Any, mine: Any, instead: Any, most: int
) -> None:
    made = plan(query(AGGREGATES, unit, keys=keys), unit, TERMS)
    run = settled(made, most)
    rest = [(person, *line) for person, line in others]
    before = measured(made, engine.fill(rest + [(7, *line) for line in mine]), run)
    after = measured(
        made, engine.fill(rest + [(8, *line) for line in (instead if unit.replace else [])]), run
    )
    assert max(far(made, before, after)) <= 1


@pytest.mark.parametrize(
    "twin",
    [
        lambda rows, most, dialect: f"CAST(LEAST(COUNT(*), {most}) * {TOTAL // most} AS INTEGER)",
        lambda rows, most, dialect: f"CAST({TOTAL} AS INTEGER)",
        lambda rows, most, dialect: contributions.weight(TOTAL // rows, most, dialect),
    ],
    ids=["not divided", "a whole row each", "the weight of the larger bound"],
)
def test_weights_that_leak_are_found_by_the_same_check(
    engine: Duck, monkeypatch: pytest.MonkeyPatch, twin: Any
) -> None:
    monkeypatch.setattr(contributions, "excess", twin)
    unit = Unit.column("person")
    made = plan(query(AGGREGATES, unit), unit, TERMS)
    many = [(7, "a", 9.99, 7, True)] * 12
    run = settled(made, most=4)
    worst = max(far(made, measured(made, engine.fill(many), run), measured(made, engine.fill([]), run)))
    assert worst > 1


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_what_counts_and_what_is_left_out_are_the_rows_up_to_the_larger_bound(
    engine: Duck, unit: Unit
) -> None:
    people = {1: 1, 2: 3, 3: 5, 4: 8, 5: 20}
    engine.fill([(person, "a", 1.0, 7, True) for person, n in people.items() for _ in range(n)])
    made = plan(query([Aggregate(S.COUNT), Aggregate(S.SUM, N, bounds=N_BOUNDS)], unit), unit, TERMS)
    for most in (4, 8, 16):
        run = settled(made, most)
        [(parts, _)] = measured(made, engine, run)
        values = {
            noisy.measure: part[()] * noisy.measure.worth(run.footprint)
            for noisy, part in zip(made.sets[0].measures, parts, strict=True)
        }
        count = next(measure for measure in values if isinstance(measure, Count))
        capped = sum(min(n, most) for n in people.values())
        assert float(values[count] + values[LeftOut.of_measure(count)]) == pytest.approx(capped, rel=1e-4)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_all_that_is_told_is_in_the_price(unit: Unit, noise: str) -> None:
    made = plan(query(AGGREGATES, unit), unit, Terms(epsilon=1, delta=1e-6, noise=noise, left_out=True))
    assert 0.99 < epsilon_of(made.loss, 1e-6 if noise == "gaussian" else 0).upper <= 1 + 1e-9
    alone = plan(query(AGGREGATES, unit), unit, Terms(epsilon=1, delta=1e-6, noise=noise))
    assert len(made.measures) > len(alone.measures)
    assert made.shares_told or noise == "gaussian"
    assert alone.shares_told == ()


def test_a_cap_that_is_declared_costs_no_count_of_people() -> None:
    unit = Unit.column("person", max_rows=3)
    made = plan(query(AGGREGATES, unit), unit, Terms(epsilon=1, left_out=True, most_rows=8))
    assert made.private_bounds.classes is None
    with duck([(1, "a", 1.0, 1, True)] * 6) as engine, pytest.raises(InvalidParameter, match="settled"):
        made.measure(engine, "0")


def test_a_row_that_is_the_unit_has_nothing_left_out() -> None:
    made = plan(query(AGGREGATES, Unit.row()), Unit.row(), TERMS)
    assert not made.tells
    assert made.loss == plan(query(AGGREGATES, Unit.row()), Unit.row(), Terms(epsilon=1, delta=1e-6)).loss


ROWS = [
    (i, "ab"[i % 2], 1.0, (i * 7 + j) % 8, j % 3 == 0)
    for i in range(6000)
    for j in range(1 + (i % 10 == 0) * (4 + i % 9))
]


@pytest.mark.parametrize("bound", [None, 2])
def test_intervals_hold_the_answer_of_all_rows(bound: int | None) -> None:
    unit = Unit.column("person", max_rows=bound)
    aggregates = [
        Aggregate(S.COUNT),
        Aggregate(S.SUM, N, bounds=N_BOUNDS),
        Aggregate(S.AVG, N, bounds=N_BOUNDS),
    ]
    true = len(ROWS), sum(row[3] for row in ROWS), sum(row[3] for row in ROWS) / len(ROWS)
    held, cut = [0, 0, 0], 0
    runs, rng = 40, SeededRandom(5)
    with duck(ROWS) as engine:
        told = plan(query(aggregates, unit), unit, replace(TERMS, epsilon=3))
        alone = plan(query(aggregates, unit), unit, Terms(epsilon=3))
        for _ in range(runs):
            result = told(engine, rng=rng)
            held = [
                n + (result.low[f"a{i}"][0] <= true[i] <= result.high[f"a{i}"][0]) for i, n in enumerate(held)
            ]
            result = alone(engine, rng=rng)
            cut += result.low["a0"][0] <= true[0] <= result.high["a0"][0]
    assert min(held) >= 0.85 * runs
    assert bound is None or cut == 0


def test_of_an_average_only_the_rows_that_are_left_out_are_told() -> None:
    unit = Unit.column("person")
    alone = plan(query([Aggregate(S.AVG, N, bounds=N_BOUNDS)], unit), unit, TERMS)
    assert [measure.counted for measure in alone.measures if isinstance(measure, LeftOut)] == [
        alone.measures[1]
    ]
    beside = plan(
        query([Aggregate(S.AVG, N, bounds=N_BOUNDS), Aggregate(S.SUM, N, bounds=N_BOUNDS)], unit), unit, TERMS
    )
    assert sum(isinstance(measure, LeftOut) for measure in beside.measures) == 2


FEW_ROWS = [(i, "ab"[i % 2], 1.0, (i * 7 + j) % 8, True) for i in range(3000) for j in range(1 + i % 4)]


@pytest.mark.parametrize("keys", [PUBLIC, ()], ids=["groups", "whole"])
def test_telling_costs_little_on_a_small_table_of_people_with_few_rows(keys: Any) -> None:
    unit, rng = Unit.column("person"), SeededRandom(7)
    aggregates = [Aggregate(S.COUNT), Aggregate(S.AVG, N, bounds=N_BOUNDS)]
    widths: dict[bool, list[list[float]]] = {}
    with duck(FEW_ROWS) as engine:
        for told in (True, False):
            made = plan(query(aggregates, unit, keys=keys), unit, Terms(epsilon=0.5, left_out=told))
            runs = [made(engine, rng=rng) for _ in range(15)]
            widths[told] = [sorted(r.high[name][0] - r.low[name][0] for r in runs) for name in ("a0", "a1")]
    for told_widths, bounded_widths in zip(widths[True], widths[False], strict=True):
        assert told_widths[7] <= 2.5 * bounded_widths[7]


def test_the_column_says_what_was_added_and_the_note_under_which_assumption() -> None:
    unit = Unit.column("person", max_rows=2)
    with duck(ROWS) as engine:
        made = plan(query([Aggregate(S.COUNT)], unit, keys=PUBLIC), unit, replace(TERMS, epsilon=20))
        result = made(engine, rng=SeededRandom(2))
        told = result.bounding
        assert told is not None
        assert told.people is not None
        assert told.within is not None
        assert (told.rows, told.most) == (2, 16)
        assert abs(told.people - 600) <= told.within + 5
        left = sum(max(0, n - 2) for n in (1 + (i % 10 == 0) * (4 + i % 9) for i in range(6000)))
        assert sum(result.left_out["a0"]) == pytest.approx(left, rel=0.25)
