"""Zip, birth date and sex single people out, and a join tells their secrets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deniable.attack import hide, link
from deniable.datasets import people
from deniable.errors import InvalidParameter
from deniable.randomness import SeededRandom

TABLE = people(8000, seed=2)
IDENTITY, SECRETS = hide.quasi_identifiers(TABLE), hide.diagnoses(TABLE)


def test_uniqueness_is_counted() -> None:
    assert link.unique_share(np.array([[1, 2], [1, 2], [1, 3], [2, 2]])) == 0.5
    assert link.unique_share(np.zeros((0, 2), np.int64)) == 0


def test_the_triplet_is_as_unique_as_expected() -> None:
    # 8,000 people in 4 zips of 29,220 days and 2 sexes.
    expected = link.expected_unique_share(8000, 4 * 29_220 * 2)
    assert abs(link.unique_share(IDENTITY) - expected) < 6.2 * math.sqrt(2 * expected * (1 - expected) / 8000)
    assert expected > 0.96


def test_sweeneys_share_comes_out() -> None:
    """87 % of the population of the United States, in zip codes of 7,500 on average."""
    assert abs(link.expected_unique_share(7500, 365 * 80 * 2) - 0.87) < 0.02
    assert link.expected_unique_share(1, 1) == 1
    assert link.expected_unique_share(2, 1) == 0
    with pytest.raises(InvalidParameter, match="cells=0"):
        link.expected_unique_share(2, 0)


def test_only_one_to_one_matches_are_joined() -> None:
    register = np.array([[1], [2], [3], [3], [4]])
    released = np.array([[4], [2], [2], [3], [9]])
    assert link.join(register, released).tolist() == [-1, -1, -1, -1, 0]


def test_the_order_of_the_release_does_not_protect() -> None:
    order = np.random.default_rng(1).permutation(len(SECRETS))
    found = link.attack(IDENTITY, SECRETS, IDENTITY[order], SECRETS[order], release="x")
    assert found.right == round(found.facts["linked"] * len(SECRETS))
    assert found.facts["wrong"] == 0
    assert found.share > 0.95


def test_every_release_gives_what_it_gives_and_the_protected_one_gives_chance() -> None:
    raw, coarse, moved, swapped, grouped, classes, made = link.compare(8000, rng=SeededRandom(6))
    assert raw.share > 0.95
    assert 0.8 < swapped.share < raw.share
    assert moved.share > 5 * made.share > 0
    assert coarse.share < 0.05
    assert grouped.right == 0
    assert classes.share > classes.chance + 0.1
    # Whoever meets a row that was made from counts meets a stranger's: right as often as a random row.
    deviation = math.sqrt(made.chance / made.total)
    assert abs(made.share - made.chance) < 6.2 * deviation + 0.003


def test_rows_made_from_counts_are_as_many_as_the_counts_say_and_lie_in_their_cells() -> None:
    rows, told = link.synthetic(IDENTITY, SECRETS, 1.0, rng=SeededRandom(7))
    counts = hide.protect(hide.public_cells(IDENTITY), SECRETS, 1.0, SeededRandom(7))
    cells = hide.public_cells(rows)
    assert (np.bincount(cells * 8 + told, minlength=128).reshape(16, 8) == counts).all()
