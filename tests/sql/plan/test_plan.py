"""A plan costs no more than asked, releases what it says, and refuses by metadata only."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.accounting.filters.charges import charge
from deniable.accounting.methods import pure
from deniable.errors import InvalidParameter, InvalidQuery
from deniable.guarantee import Budget
from deniable.ledger import Ledger
from deniable.loss import Composed, Zcdp, exact
from deniable.mechanism import Mechanism
from deniable.randomness import SeededRandom
from deniable.sql.dialects import DIALECTS, DUCKDB
from deniable.sql.plan.noise import Family
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.planner import multiplicity, plan
from deniable.sql.plan.request import Terms
from deniable.sql.tree import (
    Aggregate,
    AggregateRef,
    Call,
    Filter,
    Key,
    KeyRef,
    Literal,
    Order,
    Output,
    Project,
    Union,
)
from deniable.sql.tree import Statistic as S
from deniable.units import Unit
from tests.sql.planned import (
    BOOLEAN,
    FLAG,
    FLOAT,
    INTEGER,
    N_BOUNDS,
    PEOPLE,
    PRIVATE,
    PUBLIC,
    REGION,
    TEXT,
    X_BOUNDS,
    Duck,
    N,
    X,
    duck,
    query,
    scan,
)

COUNT = Aggregate(S.COUNT)
KINDS = [
    COUNT,
    Aggregate(S.COUNT, X, FLAG),
    Aggregate(S.SUM, X, bounds=X_BOUNDS),
    Aggregate(S.AVG, N, bounds=N_BOUNDS),
    Aggregate(S.STDDEV, X, bounds=X_BOUNDS),
    Aggregate(S.COUNT_DISTINCT, N),
    Aggregate(S.QUANTILE, X, level=Fraction(1, 2), bounds=X_BOUNDS),
    Aggregate(S.SUM, X, FLAG),
]
ROWS = [(i // 2, "ab"[i % 2], float(i % 10), i % 8, i % 3 == 0) for i in range(4000)]


@pytest.fixture(scope="module")
def engine() -> Any:
    with duck(ROWS) as opened:
        yield opened


def cost(made: Plan) -> Fraction:
    """As the ledger charges it: by its own (ε, δ) if it has one, else at the query's δ."""
    if isinstance(made.loss, Zcdp):
        return charge(made.loss, delta=made.delta).epsilon
    epsilon, delta = pure.exact_pair(made.loss)
    assert delta <= exact(made.delta)
    return epsilon


# ------------------------------------------------------------------------------------------------ cost


@settings(max_examples=60, deadline=None)
@given(
    aggregates=st.lists(st.sampled_from(KINDS), max_size=5, unique=True),
    keys=st.sampled_from([(), PUBLIC, PRIVATE, (*PUBLIC, Key("n", N))]),
    unit=st.sampled_from(
        [
            Unit.row(),
            Unit.row(replace=True),
            PEOPLE,
            Unit.column("person"),
            Unit.column("person", max_rows=7, replace=True),
        ]
    ),
    noise=st.sampled_from(["auto", "laplace", "gaussian"]),
    epsilon=st.sampled_from([0.05, 0.5, 1, 3.7]),
    delta=st.sampled_from([1e-5, 1e-9]),
    rollup=st.booleans(),
)
def test_no_query_costs_more_than_asked(
    aggregates: Any, keys: Any, unit: Unit, noise: str, epsilon: float, delta: float, rollup: bool
) -> None:
    sets = [tuple(range(len(keys))), ()] if rollup and keys else None
    terms = Terms(epsilon=epsilon, delta=delta, noise=noise, discover=True)
    made = plan(query(aggregates, unit, keys=keys, sets=sets), unit, terms)
    assert cost(made) <= exact(epsilon)
    assert made.unit == unit
    assert made.epsilon == exact(epsilon)
    if aggregates and made.price.allotment.family is Family.LAPLACE:
        assert float(cost(made)) > 0.99 * epsilon


def test_pure_queries_cost_exactly_what_was_asked() -> None:
    made = plan(query([COUNT], keys=PUBLIC), PEOPLE, Terms(epsilon=0.5, delta=1e-8))
    assert pure.exact_pair(made.loss) == (Fraction(1, 2), 0)
    assert made.delta == 0


def test_a_query_of_public_keys_alone_reveals_nothing(engine: Duck) -> None:
    made = plan(query([], keys=PUBLIC), PEOPLE, Terms(epsilon=1))
    assert made.loss == Composed(())
    assert made(engine, rng=SeededRandom(1)).table["k0"].to_pylist() == ["a", "b", None]


def test_private_keys_alone_are_released_under_delta(engine: Duck) -> None:
    made = plan(query([], keys=PRIVATE), PEOPLE, Terms(epsilon=1, delta=1e-6))
    assert cost(made) == 1
    assert made(engine, rng=SeededRandom(1)).table["k0"].to_pylist() == ["a", "b"]


def test_an_account_runs_a_plan(engine: Duck) -> None:
    made = plan(query([COUNT], keys=PUBLIC), PEOPLE, Terms(epsilon=0.5))
    assert isinstance(made, Mechanism)
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("visits", limit=Budget(3), unit=PEOPLE)
        for _ in range(6):
            release = account.run(made, engine, rng=SeededRandom(1))
        assert release.error is not None
        assert account.spent().epsilon == 3


# ------------------------------------------------------------------------------------------------ answers


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("unit", [Unit.row(), PEOPLE, Unit.column("person")], ids=str)
def test_answers_are_near_the_truth_and_intervals_hold_it(engine: Duck, unit: Unit, noise: str) -> None:
    made = plan(
        query(KINDS[:5], unit, keys=PUBLIC),
        unit,
        Terms(epsilon=10, delta=1e-6, noise=noise, confidence=0.999),
    )
    result = made(engine, rng=SeededRandom(7))
    truth = engine.connection.execute(
        "SELECT count(*), count(*) FILTER (flag), sum(x), avg(n), stddev(x) FROM visits GROUP BY region "
        "ORDER BY region"
    ).fetchall()
    assert result.table["k0"].to_pylist() == ["a", "b", None]
    for i in range(5):
        shown = result.table[f"a{i}"].to_pylist()
        for j in range(2):
            assert result.low[f"a{i}"][j] <= truth[j][i] <= result.high[f"a{i}"][j]
            assert shown[j] == pytest.approx(truth[j][i], rel=0.1)
    assert abs(result.table["a0"][2].as_py()) < 50
    assert result.high["a3"][2] in (
        N_BOUNDS[1],
        math.inf,
    )  # all that is known of no rows, or no average at all
    assert result.confidence == 0.999


def test_an_interval_holds_the_truth_as_often_as_stated(engine: Duck) -> None:
    made = plan(
        query([COUNT, Aggregate(S.AVG, N, bounds=N_BOUNDS)]), PEOPLE, Terms(epsilon=1, confidence=0.8)
    )
    missed = np.zeros(2)
    rng = SeededRandom(11)
    for _ in range(300):
        result = made(engine, rng=rng)
        for i, truth in enumerate((4000, 3.5)):
            missed[i] += not result.low[f"a{i}"][0] <= truth <= result.high[f"a{i}"][0]
    # 60 misses are allowed for in the mean; a count's ± is exact, an average's is a union bound.
    assert 30 < missed[0] < 100
    assert missed[1] < 100


def test_distinct_units_and_quantiles_are_near_the_truth(engine: Duck) -> None:
    kinds = [Aggregate(S.COUNT_UNITS), KINDS[6], Aggregate(S.MAX, N, bounds=(Fraction(0), Fraction(50)))]
    made = plan(query([*kinds, KINDS[5]], keys=PUBLIC), PEOPLE, Terms(epsilon=30))
    table = made(engine, rng=SeededRandom(5)).table.to_pydict()
    assert table["a0"][:2] == pytest.approx([2000, 2000], abs=10)
    assert table["a1"][:2] == pytest.approx([4, 5], abs=1)
    assert table["a2"][:2] == pytest.approx([6, 7], abs=1)
    assert table["a3"][:2] == pytest.approx([4, 4], abs=3)


def test_private_keys_hide_what_few_have(engine: Duck) -> None:
    made = plan(query([COUNT], keys=PRIVATE), PEOPLE, Terms(epsilon=1, delta=1e-6))
    lonely = [*ROWS, (10**6, "rare disease", 1.0, 1, True)]
    with duck(lonely) as with_one:
        result = made(with_one, rng=SeededRandom(3))
    assert result.table["k0"].to_pylist() == ["a", "b"]


def test_totals_stand_beside_groups(engine: Duck) -> None:
    made = plan(query([COUNT], keys=PUBLIC, sets=[(0,), ()]), PEOPLE, Terms(epsilon=50))
    table = made(engine, rng=SeededRandom(2)).table.to_pydict()
    assert table["k0"] == ["a", "b", None, None]
    assert table["a0"] == pytest.approx([2000, 2000, 0, 4000], abs=5)


def test_rows_outside_the_public_keys_count_nowhere() -> None:
    rows = [(i, "z" if i % 2 else "a", 1.0, 1, True) for i in range(2000)]
    for unit in (PEOPLE, Unit.row()):
        made = plan(query([COUNT], unit, keys=PUBLIC, sets=[(0,), ()]), unit, Terms(epsilon=50))
        with duck(rows) as engine:
            counts = made(engine, rng=SeededRandom(2)).table["a0"].to_pylist()
        assert counts == pytest.approx([1000, 0, 0, 1000], abs=5)


def test_outputs_having_order_and_limit_act_on_noisy_rows(engine: Duck) -> None:
    count = AggregateRef(0, INTEGER)
    share = Call("divide", (count, Literal(2000, INTEGER)), FLOAT)
    asked = query(
        [COUNT],
        keys=PUBLIC,
        having=Call("gt", (count, Literal(1000, INTEGER)), BOOLEAN),
        order=(Order(KeyRef(0, TEXT), descending=True),),
        limit=1,
    )
    asked = type(asked)(
        **{
            **asked.__dict__,
            "outputs": (Output("r", KeyRef(0, TEXT)), Output("s", share), Output("s", share)),
        }
    )
    result = plan(asked, PEOPLE, Terms(epsilon=20))(engine, rng=SeededRandom(2))
    assert result.table.column_names == ["r", "s", "s_2"]
    assert result.table["r"].to_pylist() == ["b"]
    assert result.table["s"][0].as_py() == pytest.approx(1, abs=0.01)
    assert result.low["s"][0] < 1 < result.high["s"][0]
    assert "r" not in result.low


def test_the_same_seed_gives_the_same_answer_and_another_another(engine: Duck) -> None:
    made = plan(query([COUNT, KINDS[2]], keys=PUBLIC), PEOPLE, Terms(epsilon=1))
    first, again, other = (made(engine, rng=SeededRandom(s)).table for s in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)


def test_counting_units_beyond_their_groups_is_bounded(engine: Duck) -> None:
    """Everybody is in two regions; at one group each, a person's weight is shared."""
    made = plan(query([Aggregate(S.COUNT_UNITS)], keys=PUBLIC), PEOPLE, Terms(epsilon=100, max_groups=1))
    assert made(engine, rng=SeededRandom(1)).table["a0"].to_pylist()[:2] == pytest.approx([1000, 1000], abs=2)


# ------------------------------------------------------------------------------------------------ accuracy asked for


@pytest.mark.parametrize("aggregate", [COUNT, KINDS[2], Aggregate(S.COUNT_DISTINCT, N)])
def test_the_least_epsilon_for_an_accuracy_is_found(aggregate: Aggregate) -> None:
    made = plan(query([aggregate], keys=PUBLIC), PEOPLE, Terms(within=50, delta=1e-8))
    (shown,) = made.expected()
    assert shown.within is not None
    assert shown.within <= 50
    less = plan(
        query([aggregate], keys=PUBLIC),
        PEOPLE,
        Terms(epsilon=exact(made.epsilon) * Fraction(98, 100), delta=1e-8),
    )
    worse = less.expected()[0].within
    assert worse is not None
    assert worse > 50 or aggregate.statistic is S.COUNT_DISTINCT


def test_an_average_needs_a_public_size() -> None:
    asked = query([Aggregate(S.AVG, N, bounds=N_BOUNDS)], keys=PUBLIC)
    with pytest.raises(InvalidQuery, match='How accurate "a0" will be depends on the data'):
        plan(asked, PEOPLE, Terms(within=0.5))
    made = plan(asked, PEOPLE, Terms(within=0.5, at_least=200))
    assert 0.1 < float(made.epsilon) < 10
    assert made.expected()[0].rows == 200


def test_what_is_known_only_afterwards_cannot_be_asked_for() -> None:
    with pytest.raises(InvalidQuery, match="depends on the data"):
        plan(query([KINDS[7]]), PEOPLE, Terms(within=5, at_least=10, discover=True))


def test_a_quantile_is_as_near_in_rank_as_asked(engine: Duck) -> None:
    asked, level = query([KINDS[6]], keys=PUBLIC), Fraction(1, 2)
    made = plan(asked, PEOPLE, Terms(within=0.05, at_least=1500))
    (shown,) = made.expected()
    assert shown.ranks is not None
    assert 0.95 * 0.05 * 1500 < shown.ranks <= 0.05 * 1500
    ordered = sorted(row[2] for row in ROWS if row[1] == "a")
    for seed in range(20):
        said = made(engine, rng=SeededRandom(seed)).table.column("a0")[0].as_py()
        step = 13 / 1024
        below, upto = (sum(x <= said + side * step for x in ordered) / len(ordered) for side in (-1, 1))
        assert below - 0.05 <= level <= upto + 0.05


@pytest.mark.parametrize(
    ("aggregates", "terms"),
    [
        ([KINDS[6]], {"within": 0.05}),
        ([KINDS[6]], {"within": 5, "at_least": 1000}),
        ([KINDS[6], COUNT], {"within": 0.05, "at_least": 1000}),
    ],
)
def test_the_accuracy_of_a_quantile_is_a_share_of_rows(
    aggregates: list[Aggregate], terms: dict[str, Any]
) -> None:
    with pytest.raises(InvalidQuery, match="The accuracy of a quantile is a share of its group's rows"):
        plan(query(aggregates), PEOPLE, Terms(**terms))


def test_an_accuracy_beyond_reach_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="No ε up to 4096 brings the error within 1e-05"):
        plan(query([COUNT]), PEOPLE, Terms(within=1e-5))


def test_what_to_expect_is_said_before() -> None:
    made = plan(query([COUNT, KINDS[3], KINDS[6]], keys=PUBLIC), PEOPLE, Terms(epsilon=1))
    said = [str(each) for each in made.expected()]
    assert said[0].startswith("a0: ± ")
    assert said[1].endswith("for a group of 1,000")
    assert said[2].endswith("rows of the rank asked for")
    assert made.error() is None
    alone = plan(query([COUNT], keys=PUBLIC), PEOPLE, Terms(epsilon=1)).error(0.9)
    assert alone is not None
    assert alone.within == pytest.approx(2 * math.log(10), rel=0.01)


# ------------------------------------------------------------------------------------------------ refusals


def test_private_keys_need_a_delta() -> None:
    with pytest.raises(InvalidQuery, match="The values of region are not public"):
        plan(query([COUNT], keys=PRIVATE), PEOPLE, Terms(epsilon=1))


def test_missing_bounds_are_refused_with_the_way_out() -> None:
    with pytest.raises(
        InvalidQuery, match=r'The column "x" .*has no bounds.*bounds= or --bounds.*discover=True'
    ):
        plan(query([Aggregate(S.SUM, X)]), PEOPLE, Terms(epsilon=1))
    made = Call("multiply", (X, N), FLOAT)
    with pytest.raises(InvalidQuery, match=r'An expression of "x" and "n" is summed'):
        plan(query([Aggregate(S.SUM, made)]), PEOPLE, Terms(epsilon=1))


def test_rows_have_no_units_to_count() -> None:
    with pytest.raises(InvalidQuery, match=r"Use COUNT\(\*\)"):
        plan(query([Aggregate(S.COUNT_UNITS)], Unit.row()), Unit.row(), Terms(epsilon=1))


def test_other_units_are_refused() -> None:
    with pytest.raises(InvalidQuery, match="protects a row or a column's value"):
        plan(query([COUNT]), Unit.client(), Terms(epsilon=1))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"epsilon": 1, "within": 5},
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"epsilon": 1, "delta": 1},
        {"epsilon": 1, "confidence": 1},
        {"epsilon": 1, "noise": "none"},
        {"epsilon": 1, "noise": "gaussian"},
        {"epsilon": 1, "max_groups": 0},
        {"within": 5, "at_least": 0},
    ],
)
def test_terms_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        Terms(**wrong)


# ------------------------------------------------------------------------------------------------ statements


def test_a_row_that_is_read_twice_counts_twice() -> None:
    row = Unit.row()
    assert multiplicity(scan(row)) == 1
    assert multiplicity(Union((scan(row), Filter(scan(row), FLAG)))) == 2
    once = plan(query([COUNT], row), row, Terms(epsilon=1)).sets[0].measures[0].noise
    twice = (
        plan(query([COUNT], row, relation=Union((scan(row), scan(row)))), row, Terms(epsilon=1))
        .sets[0]
        .measures[0]
        .noise
    )
    assert twice.loss.sensitivity == 2 * once.loss.sensitivity == 2  # type: ignore[union-attr]


def test_one_statement_measures_all_sums_of_a_grouping_set() -> None:
    made = plan(query(KINDS[:5], keys=PUBLIC), PEOPLE, Terms(epsilon=1))
    for dialect in DIALECTS:
        (statement,) = made.statements(dialect)
        assert statement.select.startswith("SELECT")


def test_stored_weights_are_used_only_where_they_are_the_units_own(engine: Duck) -> None:
    made = plan(query([COUNT], keys=PUBLIC, relation=Filter(scan(PEOPLE), FLAG)), PEOPLE, Terms(epsilon=50))
    assert made.prepared({"visits": 3}) is made
    assert made.prepared({}) is made
    ready = made.prepared({"visits": 2})
    (statement,) = ready.statements(DUCKDB)
    assert "_weight" in statement.select
    assert "JOIN" not in statement.select
    assert ready.loss == made.loss
    joined = plan(query([COUNT], relation=Union((scan(PEOPLE), scan(PEOPLE)))), PEOPLE, Terms(epsilon=1))
    assert joined.prepared({"visits": 2}) is joined


def test_stored_weights_give_the_same_counts() -> None:
    renamed = Project(scan(PEOPLE), (("c0", REGION),))
    made = plan(
        query([COUNT], keys=(Key("r", type(REGION)("c0", TEXT), ("a", "b")),), relation=renamed),
        PEOPLE,
        Terms(epsilon=100),
    )
    with duck(ROWS) as engine:
        before = made(engine, rng=SeededRandom(1)).table
        engine.connection.execute("ALTER TABLE visits ADD COLUMN _weight BIGINT DEFAULT 1048576")
        assert made(replace(engine, prepared={"visits": 2}), rng=SeededRandom(1)).table.equals(before)
