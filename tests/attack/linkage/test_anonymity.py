"""k-anonymity, t-closeness and swapping fail, each in its own way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deniable.attack import anonymity as an
from deniable.attack import hide
from deniable.datasets import hospital, people
from deniable.errors import InvalidParameter
from deniable.randomness import SeededRandom

TABLE = people(1500, seed=4)
IDENTITY, SECRETS = hide.quasi_identifiers(TABLE), hide.diagnoses(TABLE)


def test_the_hospital_is_3_anonymous_and_tells_everything_about_three() -> None:
    table = hospital()
    keys, secrets = an.generalise(table), table["disease"].to_pylist()
    assert keys[0] == ("476**", "2*")
    assert keys[3] == ("4790*", "≥ 40")
    classes = an.classes_of(keys)
    assert an.anonymity(classes) == 3
    assert an.diversity(classes, secrets) == 1
    assert an.homogeneity(classes, secrets) == dict.fromkeys((0, 1, 2), "heart disease")


def test_background_knowledge_leaves_one_disease() -> None:
    table = hospital()
    classes, secrets = an.classes_of(an.generalise(table)), table["disease"].to_pylist()
    told = an.background(classes, secrets, {7: ["heart disease"], 3: ["flu"]})
    assert told[7] == "cancer"
    assert 3 not in told


@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_mondrian_gives_classes_of_at_least_k_and_not_of_everybody(k: int) -> None:
    classes = an.mondrian(IDENTITY, k)
    assert an.anonymity(classes) >= k
    assert len(np.unique(classes)) > 1500 / (4 * k)
    assert set(classes.tolist()) == set(range(int(classes.max()) + 1))


def test_mondrian_keeps_to_t() -> None:
    loose, tight = (an.mondrian(IDENTITY, 5, secrets=SECRETS, t=t) for t in (0.5, 0.2))
    assert an.closeness(tight, SECRETS) <= 0.2 < an.closeness(loose, SECRETS) <= 0.5
    assert an.closeness(an.mondrian(IDENTITY, 5), SECRETS) > 0.5


def test_distance_is_total_variation() -> None:
    assert an.distance(np.array([0, 0]), np.array([0, 1])) == 0.5
    assert an.distance(np.array([0, 1]), np.array([1, 0, 0, 1])) == 0
    assert an.distance(np.array([2]), np.array([0, 1])) == 1


def test_swapping_moves_that_many_and_keeps_the_counts() -> None:
    moved = an.swap_secrets(np.arange(1000), 0.1, 1)
    assert (moved != np.arange(1000)).sum() == 100
    assert sorted(moved.tolist()) == list(range(1000))
    assert (an.swap_secrets(SECRETS, 0.0) == SECRETS).all()


def test_what_a_class_says_is_more_than_the_others_say() -> None:
    found = an.guess_by_class(an.mondrian(IDENTITY, 5), SECRETS, SECRETS, release="x")
    assert found.share > found.chance + 0.1
    raw = an.guess_by_class(np.arange(1500), SECRETS, SECRETS, release="x")
    assert raw.share == raw.facts["certain"] == 1


def test_a_guess_without_the_row_is_the_guess_from_the_others() -> None:
    classes, secrets = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 1])
    found = an.guess_by_class(classes, secrets, secrets, release="x")
    # In: class 0 says 0, class 1 says 1. Without their own row: 1 and 1 tie for the first two (1 is
    # commoner), the third sees two 0s, the last two see a 1 each.
    assert found.right == 4
    assert found.chance == 0.4


def test_a_protected_guess_stays_under_e_to_the_epsilon_times_chance() -> None:
    cells = hide.public_cells(IDENTITY)
    counts = hide.protect(cells, SECRETS, 1.0, SeededRandom(2))
    found = an.guess_by_class(cells, SECRETS, counts, release="x", epsilon=1.0)
    assert found.ceiling == pytest.approx(math.e * found.chance)
    assert found.share < found.ceiling


def test_public_cells_do_not_depend_on_other_rows() -> None:
    whole, part = hide.public_cells(IDENTITY), hide.public_cells(IDENTITY[:7])
    assert (whole[:7] == part).all()
    assert whole.max() < hide.ZIPS * hide.PERIODS * 2


def test_tables_that_are_close_one_by_one_give_everything_together() -> None:
    alone, together = (hide.link_across_tables(200, tables, k=20, t=0.3) for tables in (1, 16))
    assert together.share > 0.95
    assert alone.share < 0.5


def test_all_releases_are_compared() -> None:
    found = hide.compare(400, rng=SeededRandom(3))
    assert [one.release for one in found[:3]] == ["raw table", "raw table, 10 % swapped", "5-anonymous"]
    assert found[1].share == pytest.approx(0.9, abs=0.03)
    assert found[-1].release == "account of ε = 1"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"k": 0}, "Expected k=0 from 1"),
        ({"k": 2000}, "k=2000"),
        ({"k": 2, "t": 0.1}, "t and secrets together"),
    ],
)
def test_impossible_classes_are_refused(arguments: dict[str, float], text: str) -> None:
    with pytest.raises(InvalidParameter, match=text):
        an.mondrian(IDENTITY, **arguments)  # type: ignore[arg-type]


def test_shares_outside_of_one_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"rate=1.5 in \[0, 1\]"):
        an.swap_secrets(SECRETS, 1.5)
    with pytest.raises(InvalidParameter, match=r"t=-1 in \[0, 1\]"):
        an.mondrian(IDENTITY, 2, secrets=SECRETS, t=-1)
