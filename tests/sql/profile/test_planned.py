"""Plans that take their bounds from a profile: what one person moves, what is said before and after, and which
questions have it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.errors import InvalidQuery
from deniable.randomness import SeededRandom
from deniable.sql.plan.bounds.values import EXPONENTS
from deniable.sql.plan.noise import IntegerSensitivity, Noise, laplace
from deniable.sql.plan.plan import Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.profile.histogram import NoisyCells
from deniable.sql.profile.knowledge import NOTHING, Knowledge, Known, list_parts
from deniable.sql.profile.part import PartKind, PartName
from deniable.sql.profile.rows import RowClasses
from deniable.sql.profile.spread import ValueSizes
from deniable.sql.read.query import check
from deniable.sql.tree import Aggregate
from deniable.sql.tree import Statistic as S
from deniable.sql.write.contributions import class_edges
from deniable.units import Unit
from tests.contract.test_engine_statements import SCHEMA
from tests.sql.planned import FLAG, N_BOUNDS, PUBLIC, SALT, X_BOUNDS, Duck, Line, N, X, duck, query, scan

PERSON, OTHER = Unit.column("person"), Unit.column("person", replace=True)
ROWS = PartName(PartKind.ROWS, "visits")
SPREAD = PartName(PartKind.SPREAD, "visits", "n")
NOISE = laplace(IntegerSensitivity(1, 1), Fraction(1))
AGGREGATES = [
    Aggregate(S.COUNT),
    Aggregate(S.COUNT, X, FLAG),
    Aggregate(S.SUM, X, bounds=X_BOUNDS),
    Aggregate(S.SUM, N, FLAG, bounds=N_BOUNDS),
    Aggregate(S.COUNT_DISTINCT, N),
]


def knowledge(top: int, *, largest: int | None = None) -> Knowledge:
    """Of people whose rows reach class `top`, and values below 2^largest."""
    sizes = [1000] * (top + 1) + [0] * (16 - top)
    parts: dict[PartName, Known] = {ROWS: RowClasses(class_edges(None), NoisyCells(tuple(sizes), NOISE))}
    if largest is not None:
        cells = [0] * (2 * len(EXPONENTS) + 1)
        cells[len(EXPONENTS) + largest + 20] = 5000
        parts[SPREAD] = ValueSizes(NoisyCells(tuple(cells), NOISE), 1, Fraction(1))
    return Knowledge(parts)


def planned(unit: Unit, known: Knowledge, terms: Terms | None = None, *, by: bool = True) -> Plan:
    asked = query(AGGREGATES, unit, keys=PUBLIC if by else (), relation=scan(unit))
    return plan(asked, unit, terms or Terms(epsilon=1), knowledge=known)


def vectors(plan_: Plan, engine: Duck, rows: list[Line]) -> list[dict[object, int]]:
    [integers] = plan_.measure(engine.fill(rows), SALT).integers()
    return [dict(part) for part in integers.parts]


lines = st.tuples(
    st.sampled_from([None, 1, 2]),
    st.sampled_from(["a", "b", None, "z"]),
    st.sampled_from([None, 0.0, 1.3, 9.9, -3.0]),
    st.sampled_from([None, 0, 1, 7, -1, 2**62]),
    st.sampled_from([True, False, None]),
)


@pytest.mark.parametrize("unit", [PERSON, OTHER], ids=str)
@pytest.mark.parametrize("known", [knowledge(0, largest=2), knowledge(1), knowledge(2, largest=1)])
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(lines, max_size=14))
def test_one_person_moves_every_number_by_at_most_its_sensitivity(
    unit: Unit, known: Knowledge, rows: list[Line]
) -> None:
    made = planned(unit, known)
    assert made.row_bound is not None
    assert made.limit.rows == made.row_bound.rows
    with duck() as engine:
        tables = [rows, *([row for row in rows if row[0] != who] for who in (1, 2))]
        measured = [vectors(made, engine, table) for table in tables]
    pairs = [(measured[0], each) for each in measured[1:]]
    if unit.replace:
        pairs.append((measured[1], measured[2]))
    for first, second in pairs:
        for noisy, a, b in zip(made.sets[0].measures, first, second, strict=True):
            assert isinstance(noisy.noise, Noise)
            gaps = [abs(a.get(key, 0) - b.get(key, 0)) for key in {*a, *b} if key[0] in ("a", "b", None)]
            assert sum(gaps) <= noisy.noise.sensitivity.l1
            assert sum(gap * gap for gap in gaps) <= noisy.noise.sensitivity.l2_squared


def test_loss_and_preview_are_those_of_a_declared_bound() -> None:
    """Of the same number: the noise, the ± before and the ± after."""
    known, declared = knowledge(1), Unit.column("person", max_rows=4)
    made = planned(PERSON, known, by=False)
    same = plan(query(AGGREGATES, declared, relation=scan(declared)), declared, Terms(epsilon=1))
    assert made.loss == same.loss
    assert made.expected() == same.expected()
    with duck([(1, "a", 1.0, 1, True)] * 3) as engine:
        result = made(engine, rng=SeededRandom(1))
    for column in made.expected():
        low, high = float(result.low[column.name][0]), float(result.high[column.name][0])
        assert column.within == pytest.approx((high - low) / 2, rel=1e-3, abs=0.51)
    assert result.bounding is not None
    assert (result.bounding.rows, result.bounding.hidden_people) == (
        4,
        made.row_bound and made.row_bound.hidden_people,
    )


def test_no_part_of_epsilon_goes_elsewhere() -> None:
    asked = query([Aggregate(S.COUNT)], PERSON, relation=scan(PERSON))
    old = plan(asked, PERSON, Terms(epsilon=1, left_out=True))
    new = plan(asked, PERSON, Terms(epsilon=1, left_out=True), knowledge=knowledge(1))
    assert old.settles
    assert not new.settles
    assert not new.tells
    assert [type(measure).__name__ for measure in new.measures] == ["Count"]
    assert new.shares_told == ()


def test_a_wanted_width_needs_no_declared_bound() -> None:
    asked = query([Aggregate(S.COUNT)], PERSON, relation=scan(PERSON))
    with pytest.raises(InvalidQuery, match="depends on the data"):
        plan(asked, PERSON, Terms(within=100))
    made = plan(asked, PERSON, Terms(within=100), knowledge=knowledge(1))
    assert made.expected()[0].within == pytest.approx(100, rel=1e-3)


def test_sums_are_clamped_inside_declared_bounds() -> None:
    made = planned(PERSON, knowledge(1, largest=0))  # values below 1 and one power of two more
    assert made.clamps == {"n": (0.0, 2.0)}
    assert planned(PERSON, knowledge(1, largest=5)).clamps == {}
    text = "SELECT SUM(visit) AS s FROM visits"
    asked = check(text, SCHEMA, PERSON)
    with pytest.raises(InvalidQuery, match="no bounds"):
        plan(asked, PERSON, Terms(epsilon=1), knowledge=knowledge(1))
    spread = knowledge(1, largest=4).parts[SPREAD]
    known = Knowledge({**knowledge(1).parts, PartName(PartKind.SPREAD, "visits", "visit"): spread})
    assert plan(asked, PERSON, Terms(epsilon=1), knowledge=known).clamps == {"visit": (-32.0, 32.0)}


PARTS = {
    "SELECT COUNT(*) FROM visits WHERE ill": ["rows of visits"],
    "SELECT place, SUM(days), SUM(cost + 1) FROM visits GROUP BY place": [
        "rows of visits",
        "spread of days in visits",
    ],
    "SELECT COUNT(*), AVG(days) FROM visits": [],
    "SELECT COUNT(DISTINCT person) FROM visits": [],
    "SELECT MEDIAN(days) FROM visits": [],
    "SELECT COUNT(*) FROM visits AS a JOIN visits AS b USING (person)": [],
}


@pytest.mark.parametrize("text", PARTS)
def test_a_question_names_the_parts_that_it_needs(text: str) -> None:
    assert [str(part) for part in list_parts(check(text, SCHEMA, PERSON), PERSON)] == PARTS[text]
    declared = Unit.column("person", max_rows=3)
    assert list_parts(check(text, SCHEMA, declared), declared) == ()
    assert (
        plan(check(text, SCHEMA, declared), declared, Terms(epsilon=1), knowledge=knowledge(1)).limit.rows
        == 3
    )


def test_what_is_assumed_has_the_price_of_what_is_bought() -> None:
    asked = check("SELECT place, COUNT(*), SUM(days) FROM visits GROUP BY place", SCHEMA, PERSON)
    assumed = plan(asked, PERSON, Terms(epsilon=1), knowledge=NOTHING.assume(list_parts(asked, PERSON)))
    bought = plan(asked, PERSON, Terms(epsilon=1), knowledge=knowledge(6))
    assert assumed.epsilon == bought.epsilon == 1


def test_one_row_for_each_person_is_counted_as_one() -> None:
    asked = check("SELECT COUNT(*) FROM (SELECT person FROM visits GROUP BY person) AS t", SCHEMA, PERSON)
    made = plan(asked, PERSON, Terms(epsilon=1, left_out=True))
    assert made.limit.rows == 1
    assert not made.settles
