"""How many people have how many rows: one of them moves one number by one, and bounds follow from the noisy numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.loss import DiscreteLaplaceNoise
from deniable.randomness import SeededRandom
from deniable.sql.dialects import DUCKDB
from deniable.sql.plan.bounds.row_classes import AggregateNoise, Classes, Crowd, moved
from deniable.sql.plan.measures.measure import read_cells
from deniable.sql.plan.noise import laplace
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.tree import Aggregate
from deniable.sql.tree import Statistic as S
from deniable.sql.write.contributions import class_edges
from deniable.units import Unit
from tests.sql.planned import PUBLIC, Duck, duck, query

PEOPLE = {0: 54745, 1: 10434, 2: 4749, 3: 1381, 4: 183, 5: 25, 6: 1}
"""Encounters of a patient in the table of diabetes-hospitals."""
QUIET = laplace(moved(replaced=False), Fraction(1000))


def crowd(units: dict[int, int], epsilon: Fraction = Fraction(1000), seed: int = 1) -> Crowd:
    noise = laplace(moved(replaced=False), epsilon)
    return Classes(class_edges(None), noise)(units, rng=SeededRandom(seed))


@pytest.fixture(scope="module")
def engine() -> Any:
    with duck() as opened:
        yield opened


@pytest.mark.parametrize(
    "unit",
    [Unit.column("person"), Unit.column("person", max_rows=3), Unit.column("person", replace=True)],
    ids=str,
)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    others=st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["a", "b", "z", None])), max_size=12),
    mine=st.lists(st.sampled_from(["a", "z", None]), max_size=20),
    instead=st.lists(st.sampled_from(["a", "z"]), max_size=5),
)
def test_one_person_moves_the_classes_by_one(
    engine: Duck, unit: Unit, others: Any, mine: Any, instead: Any
) -> None:
    made = plan(query([Aggregate(S.COUNT)], unit, keys=PUBLIC), unit, Terms(epsilon=1, left_out=True))
    classes = made.private_bounds.classes
    assert classes is not None
    after = [(8, key) for key in instead] if unit.replace else []

    def cells(people: list[tuple[int, str | None]]) -> dict[int, int]:
        rows = [(person, key, 1.0, 1, True) for person, key in people]
        return read_cells(engine.fill(rows).run(classes.statement(made.start.writer(DUCKDB))))

    before, later = cells(others + [(7, key) for key in mine]), cells(others + after)
    change = [abs(before.get(i, 0) - later.get(i, 0)) for i in range(len(classes.edges))]
    assert set(before) <= set(range(len(classes.edges)))
    assert sum(change) <= classes.noise.sensitivity.l1
    assert sum(each**2 for each in change) <= classes.noise.sensitivity.l2_squared
    # A twin that counts rows in place of people is found by the same check.
    twin = {i: count * classes.edges[i] for i, count in before.items()}
    twin_later = {i: count * classes.edges[i] for i, count in later.items()}
    if len(mine) > 4 and unit.max_rows is None and set(mine) <= {"a", None}:
        assert sum(abs(twin.get(i, 0) - twin_later.get(i, 0)) for i in {*twin, *twin_later}) > 2


def test_the_loss_is_that_of_the_noise_on_one_class() -> None:
    assert Classes(class_edges(None), QUIET).loss == DiscreteLaplaceNoise(Fraction(1, 1000), 1)
    assert moved(replaced=True).l1 == 2


def test_edges_are_powers_of_two_and_go_through_a_declared_bound() -> None:
    assert class_edges(None)[:4] == (1, 2, 4, 8)
    assert class_edges(None)[-1] == 1 << 16
    assert class_edges(6)[:6] == (1, 2, 4, 6, 12, 24)
    assert class_edges(1)[:3] == (1, 2, 4)
    assert class_edges(1 << 40)[-1] == 1 << 40


def test_without_noise_the_cap_is_where_nobody_has_more() -> None:
    assert crowd(PEOPLE).most == 64
    assert crowd({0: 100}).most == 1
    assert crowd(PEOPLE).over(8) == (209, 3)


def test_noise_in_empty_classes_is_not_taken_for_people() -> None:
    found = [crowd(PEOPLE, Fraction(1, 10), seed).most for seed in range(200)]
    assert sum(most <= 128 for most in found) > 190
    assert sum(most >= 32 for most in found) > 180


def test_a_small_crowd_in_which_no_class_stands_out_is_seen() -> None:
    speakers = dict(enumerate([31, 13, 21, 24, 40, 49, 34, 23, 29, 26, 9]))
    found = [crowd(speakers, Fraction(1, 5), seed).most for seed in range(200)]
    assert sum(512 <= most <= 4096 for most in found) > 170


def test_the_bound_grows_with_what_it_would_cut_and_falls_with_noise() -> None:
    zipf = {i: 40_000 >> i for i in range(14)}
    assert crowd(zipf).quantile() == 16
    one, fifty = (crowd(zipf).best([AggregateNoise(1.0, None)], groups) for groups in (1, 50))
    assert one > 16 * 100
    assert 16 < fifty < one
    assert crowd(zipf).best([AggregateNoise(100.0, None)], 50) < fifty


def test_a_mean_beside_a_count_lowers_the_bound_since_a_cut_hardly_moves_it() -> None:
    zipf = {i: 40_000 >> i for i in range(14)}
    count, mean = AggregateNoise(0.1, 0.1), AggregateNoise(0.1, 0.1, mean=True)
    alone, beside, averaged = (crowd(zipf).best(aims, 10) for aims in ([count], [count, mean], [mean]))
    assert averaged <= beside <= alone
    assert averaged < alone


@pytest.mark.parametrize("mean", [False, True])
def test_the_bound_of_a_small_table_is_its_cap_where_telling_would_drown_the_answer(mean: bool) -> None:
    small, large = {0: 200, 1: 60, 2: 30, 3: 10}, {0: 54745, 1: 10434, 2: 4749, 3: 1381, 4: 183, 5: 25}
    assert crowd(small).best([AggregateNoise(0.1, 20.0, mean)], 5) == crowd(small).most == 8
    assert crowd(large).best([AggregateNoise(4.0, 20.0, mean)], 5) < crowd(large).most == 32


def test_people_whom_noise_hides_in_the_next_class_are_allowed_for() -> None:
    people, noise = {0: 240, 1: 40, 2: 15}, laplace(moved(replaced=False), Fraction(1, 20))
    crowds = [Classes(class_edges(None), noise)(people, rng=SeededRandom(seed)) for seed in range(200)]
    missed = [each for each in crowds if each.most < 4]
    assert missed
    rows = 240 + 80 + 15 * 4
    enough = [float(each.hidden) * each.rows >= (3 - each.most) * 15 for each in missed]
    assert sum(enough) > 0.7 * len(missed)
    assert all(float(each.hidden) * each.rows < rows / 2 for each in missed)
    assert float(crowd(PEOPLE).hidden) < 1e-3


def test_what_is_believed_to_be_left_out_is_near_what_is() -> None:
    rows = {1: 54745, 2: 10434, 3: 3328, 4: 1421, 6: 1381, 11: 183, 20: 25, 40: 1}
    for bound in (2, 4, 8):
        true = sum(max(0, n - bound) * people for n, people in rows.items())
        told, deviation = crowd(PEOPLE).left_out(bound)
        assert told == pytest.approx(true, rel=0.3)
        assert deviation < 1
    assert float(crowd(PEOPLE).factor(4)) == pytest.approx(1.05, abs=0.02)
    assert crowd(PEOPLE).factor(64) == 1


SPEAKERS = {0: 32, 1: 13, 2: 21, 3: 25, 4: 40, 5: 49, 6: 34, 7: 23, 8: 29, 9: 26, 10: 9}
"""Lines of the 301 speakers of a play."""


def test_rows_of_a_small_crowd_are_within_what_is_seen_and_what_may_be_hidden() -> None:
    """An eighth of ε = .5 hides each class by itself: they stand out together, or their rows are allowed for."""
    rows = crowd(SPEAKERS).rows
    held = 0
    for seed in range(300):
        noisy = crowd(SPEAKERS, Fraction(1, 16), seed)
        beyond = crowd(SPEAKERS).left_out(noisy.most)[0]
        held += (
            beyond <= float(noisy.hidden) * (rows - beyond) + 0.25 * rows
        )  # noise of the count allows for some
    assert held >= 270


def test_a_small_crowd_of_one_row_each_is_not_taken_for_a_long_one() -> None:
    """One class that holds nearly everybody leaves little room in the second one after it."""
    caps = [crowd({0: 300}, Fraction(1, 16), seed) for seed in range(300)]
    assert sum(each.most <= 4 for each in caps) >= 225
    assert sorted(each.hidden for each in caps)[150] <= Fraction(1, 4)
