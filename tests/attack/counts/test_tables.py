"""Counts, medians and means of a small block are equations with few solutions."""

from __future__ import annotations

import numpy as np
import pytest

from deniable.attack import tables
from deniable.datasets import blocks
from deniable.datasets.blocks import GROUPS, SEXES
from deniable.errors import InvalidParameter
from deniable.randomness import SeededRandom

TABLE = blocks(6, seed=1)
BLOCKS = tables.each_block(TABLE, 6)


def holds(said: list[tables.PublishedStatistic], people: np.ndarray) -> bool:
    return all(s.low - 1e-9 <= s.weights @ people <= s.high + 1e-9 for s in said)


def one(age: int, sex: str, group: str) -> np.ndarray:
    people = np.zeros(tables.SHAPE, np.int64)
    people[age, SEXES.index(sex), GROUPS.index(group)] += 1
    return people.ravel()


def test_everybody_of_a_block_is_counted() -> None:
    assert sum(int(b.sum()) for b in BLOCKS) == TABLE.num_rows
    row = TABLE.to_pylist()[0]
    assert BLOCKS[0] @ one(row["age"], row["sex"], row["group"]) >= 1


@pytest.mark.parametrize("rules", [{}, {"least": 3}, {"base": 3}, {"base": 5}])
def test_what_is_published_is_true(rules: dict[str, int]) -> None:
    for people in BLOCKS:
        said = tables.publish(people, **rules)
        assert holds(said, people)
        assert holds(said, tables.solve(said))


@pytest.mark.parametrize(
    "ages", [(30, 52, 70), (31, 51, 70), (29, 53, 70), (30, 52, 71), (30, 52, 69), (31, 52, 70)]
)
def test_published_ages_exclude_other_ages(ages: tuple[int, ...]) -> None:
    """The same mean with a smaller or larger median, the same median with a larger or smaller mean."""
    said = tables.publish(sum(one(age, "F", "A") for age in (30, 52, 70)))
    assert holds(said, sum(one(age, "F", "A") for age in ages)) is (ages == (30, 52, 70))
    # Counts by ten years alone would have let most of them pass.
    counts = [s for s in said if s.low == s.high]
    assert holds(counts, sum(one(age, "F", "A") for age in ages)) is (29 not in ages and 69 not in ages)


def test_suppression_says_nothing_about_small_families() -> None:
    people = one(30, "F", "A") + one(50, "F", "A") + one(70, "M", "B")
    assert len(tables.publish(people, least=3)) < len(tables.publish(people)) / 3
    assert holds(tables.publish(people, least=3), one(50, "F", "A") + one(60, "F", "A") + one(40, "M", "C"))


def test_rounded_counts_leave_an_interval() -> None:
    assert [(s.low, s.high) for n in (0, 1, 2, 4, 5) for s in [tables._count(tables.EVERYBODY, n, 3)]] == [
        (0, 1),
        (0, 1),
        (2, 4),
        (2, 4),
        (5, 7),
    ]


def test_uniqueness_is_proved_where_it_holds_and_only_there() -> None:
    alone = one(33, "M", "C")
    assert (tables.solve(tables.publish(alone)) == alone).all()
    assert tables.unique(tables.publish(alone), alone)
    # Mean and median 40; 25 and 55 might be 24 and 56, but 20 and 60 are at the edges of their ten years.
    for ages, only in (((25, 40, 55), False), ((20, 40, 60), True)):
        people = sum(one(age, "M", "A") for age in ages)
        assert tables.unique(tables.publish(people), people) is only


def test_the_same_cells_with_other_numbers_are_another_solution() -> None:
    here, there = one(30, "M", "A"), one(40, "M", "A")
    nowhere_else = tables.PublishedStatistic((here + there == 0).astype(float), 0, 0)
    total = tables.PublishedStatistic(np.ones(len(here)), 3, 3)
    assert not tables.unique([nowhere_else, total], 2 * here + there)
    assert tables.unique(
        [nowhere_else, total, tables.PublishedStatistic(here.astype(float), 2, 2)], 2 * here + there
    )


def test_people_follow_from_tables_and_not_from_an_account() -> None:
    truth = BLOCKS[:3]
    full = tables.attack(truth, [tables.publish(p) for p in truth], release="x", proofs=True)
    paid = tables.attack(truth, tables.protect(TABLE, 6, 1.0, SeededRandom(1))[:3], release="x")
    assert full.share > 0.6
    assert 0 <= full.facts["proved_unique"] <= 3
    assert paid.share < 0.3


def test_a_proof_of_uniqueness_is_never_given_for_the_wrong_people() -> None:
    for people in BLOCKS[:4]:
        said = tables.publish(people)
        found = tables.solve(said)
        assert (found == people).all() or not tables.unique(said, found)


def test_swapping_moves_people_and_keeps_sizes() -> None:
    moved = tables.swap(TABLE, 0.5, 1)
    assert np.bincount(moved["block"]).tolist() == np.bincount(TABLE["block"]).tolist()
    assert moved["block"].to_pylist() != TABLE["block"].to_pylist()
    assert moved["age"].to_pylist() == TABLE["age"].to_pylist()
    with pytest.raises(InvalidParameter, match=r"rate=2 in \[0, 1\]"):
        tables.swap(TABLE, 2)


def test_protected_counts_with_much_budget_are_the_true_ones() -> None:
    said = tables.protect(TABLE, 6, 200.0, SeededRandom(1))
    assert all(holds(s, people) for s, people in zip(said, BLOCKS, strict=True))


def test_every_release_has_its_plan() -> None:
    plans = tables.plans(2)
    assert [
        word in plan().release for plan, word in zip(plans[3:5], ("swapped", "off by up to one"), strict=True)
    ] == [
        True,
        True,
    ]
    assert len(plans) == 6


def test_naive_noise_leaves_an_interval_around_the_truth() -> None:
    rng = np.random.default_rng(1)
    for people in BLOCKS:
        said, noisy = tables.publish(people), tables.perturb_counts(tables.publish(people), rng)
        assert holds(noisy, people)
        moved = [n for s, n in zip(said, noisy, strict=True) if s.low == s.high]
        assert all(n.high - n.low in (1, 2) for n in moved)
        assert (
            len({n.low + n.high - s.low - s.high for s, n in zip(said, noisy, strict=True) if n.low > 0}) > 1
        )
