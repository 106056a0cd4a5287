"""A few ratings, known roughly, name a record; records drawn from protected counts name nobody."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from deniable.attack import fuzzy
from deniable.datasets import Ratings, ratings
from deniable.errors import InvalidParameter
from deniable.randomness import SeededRandom

DATA = ratings(250, seed=1)


def test_what_is_known_is_near_the_truth_and_partly_wrong() -> None:
    facts = [fuzzy.draw_knowledge(DATA, user, 8) for user in range(50)]
    theirs = [DATA.stars[user, about.items] > 0 for user, about in enumerate(facts)]
    low, high = binom.interval(1 - 1e-9, 400, 1 - 1 / 8)
    assert low <= np.concatenate(theirs).sum() <= high + 8  # a mistaken item may be theirs after all
    off = [np.abs(DATA.days[user, about.items] - about.days) <= 14 for user, about in enumerate(facts)]
    assert binom.sf(np.concatenate(off).sum() - 1, 400, 0.7) < 1e-9
    assert all(((about.stars >= 1) & (about.stars <= 5)).all() for about in facts)


def test_rare_items_weigh_more() -> None:
    stars = np.array([[5, 0], [0, 5], [5, 0], [5, 0]], np.int8)
    data = Ratings(stars, (stars > 0).astype(np.int16))
    both = fuzzy.Known(np.array([0, 1]), np.array([5.0, 5.0]), np.array([1.0, 1.0]))
    assert fuzzy.scores(data, both).argmax() == 1


def test_a_record_that_does_not_stand_out_is_not_named() -> None:
    twins = Ratings(np.repeat(DATA.stars[:1], 3, axis=0), np.repeat(DATA.days[:1], 3, axis=0))
    assert fuzzy.match(twins, fuzzy.draw_knowledge(DATA, 0, 8)) is None
    assert fuzzy.match(Ratings(DATA.stars[:1], DATA.days[:1]), fuzzy.draw_knowledge(DATA, 0, 8)) is None


def test_somebody_without_ratings_cannot_be_known() -> None:
    nobody = Ratings(np.zeros((2, 3), np.int8), np.zeros((2, 3), np.int16))
    with pytest.raises(InvalidParameter, match="user 1 has none"):
        fuzzy.draw_knowledge(nobody, 1, 3)


def test_more_knowledge_names_more_people() -> None:
    shares = [fuzzy.attack(DATA, DATA, items, 100, release="x").share for items in (1, 3, 8)]
    assert shares == sorted(shares)
    assert shares[0] < 0.5 < 0.95 < shares[2]


def test_blurring_and_generalising_help_little_and_protected_counts_name_nobody() -> None:
    raw, coarse, grouped, blurred, drawn = fuzzy.compare(250, 100, rng=SeededRandom(1))
    assert grouped.share == 0  # five records alike: none stands out
    assert raw.share > 0.95
    assert coarse.share > 0.9
    assert blurred.share > 0.6
    assert binom.sf(drawn.right - 1, 100, drawn.chance) > 1e-9


def test_k_anonymous_records_stand_there_k_times() -> None:
    made = fuzzy.merge_classes(DATA, 5)
    both = np.hstack([made.stars, made.days])
    classes, counts = np.unique(both, axis=0, return_counts=True)
    assert counts.min() >= 5
    assert len(classes) > 20
    assert ((made.stars > 0) == (made.days > 0)).all()
    assert 0 < np.count_nonzero(made.stars) < 2 * np.count_nonzero(DATA.stars)


def test_a_user_moves_the_counts_by_no_more_than_is_charged() -> None:
    most = 12
    with_all = fuzzy._bounded_support(DATA, most)
    for user in range(20):
        rest = Ratings(np.delete(DATA.stars, user, 0), np.delete(DATA.days, user, 0))
        assert np.abs(with_all - fuzzy._bounded_support(rest, most)).sum() <= most + 1


def test_how_many_records_are_drawn_is_noisy_too() -> None:
    sizes = {fuzzy.draw_records(DATA, 1.0, rng=SeededRandom(seed)).users for seed in range(4)}
    assert len(sizes) == 4
