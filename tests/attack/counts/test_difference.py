"""One person's bit from counts about many: rules that only look safe give it away, an account does not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from deniable.attack import asking, baselines, difference
from deniable.attack.counts.reconstruct import secret
from deniable.errors import InvalidParameter, InvalidQuery
from deniable.randomness import SeededRandom

PEOPLE = 60
BITS = secret(PEOPLE, 3)
TRUTH = asking.exact(BITS)


def share(estimate: difference.Estimate, ask: asking.Ask, pairs: int) -> float:
    return difference.attack(estimate, ask, BITS, PEOPLE, pairs, release="x").share


def test_one_exact_pair_tells_everybodys_bit() -> None:
    for estimate in (difference.average, difference.difference):
        assert share(estimate, TRUTH, 1) == 1


def test_a_rule_on_the_size_of_sets_refuses_small_ones_and_helps_nobody() -> None:
    ask = baselines.only_large(TRUTH, 15)
    with pytest.raises(InvalidQuery, match="at least 15 people"):
        ask(np.eye(PEOPLE, dtype=np.uint8))
    assert share(difference.difference, ask, 1) == 1


def test_rounding_is_undone_by_other_companions_and_not_by_asking_again() -> None:
    ask = baselines.to_multiples(TRUTH, 5)
    assert set((ask(asking.random_subsets(200, PEOPLE)) % 5).tolist()) == {0}
    assert share(difference.average, ask, 300) < 0.75
    assert share(difference.difference, ask, 300) > 0.95


def test_new_noise_is_averaged_away() -> None:
    once = difference.attack(difference.average, asking.noisy(TRUTH, 3, 1), BITS, PEOPLE, 1, release="x")
    again = difference.attack(difference.average, asking.noisy(TRUTH, 3, 1), BITS, PEOPLE, 2000, release="x")
    assert once.share < 0.8
    assert again.share == 1


def test_sticky_noise_withstands_repetition_and_not_rephrasing() -> None:
    ask = baselines.sticky(TRUTH, 3, "salt")
    asked = asking.random_subsets(5, PEOPLE)
    assert (ask(asked) == ask(asked)).all()
    assert (ask(asked) != baselines.sticky(TRUTH, 3, "pepper")(asked)).all()
    assert binom.sf(share(difference.average, ask, 100) * PEOPLE - 1, PEOPLE, 0.5) > 1e-9
    assert share(difference.difference, ask, 1500) > 0.95


def test_an_account_stops_the_averaging_and_stays_under_its_ceiling() -> None:
    found = difference.against_account(BITS, PEOPLE, 1.0, pairs=500, rng=SeededRandom(4))
    assert found.facts == {"pairs_asked": 500, "pairs_answered": 2}
    assert found.ceiling == pytest.approx(0.7311, abs=1e-4)
    assert binom.sf(found.right - 1, PEOPLE, found.ceiling) > 1e-9


def test_a_curator_who_answers_nothing_teaches_nothing() -> None:
    assert difference.average(lambda _: np.zeros(0), PEOPLE, 0, 10) == (0.5, 0)


def test_all_releases_are_compared_and_the_account_comes_last() -> None:
    found = difference.compare(80, 40, noise=2, pairs=150, rng=SeededRandom(5))
    by_name = {one.release: one for one in found}
    assert len(by_name) == 9
    assert by_name["exact counts"].share == by_name["only sets of 20 or more"].share == 1
    assert (
        by_name["sticky noise of 2, many companions"].share > by_name["sticky noise of 2, asked again"].share
    )
    assert found[-1].release == "account of ε = 1"
    assert "from one pair of counts" in found[0].reading


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="Expected targets=61 from 1 to the 60 people"):
        difference.attack(difference.average, TRUTH, BITS, 61, 1, release="x")
    with pytest.raises(InvalidParameter, match="Expected noise=0 above 0"):
        difference.compare(noise=0)
    with pytest.raises(InvalidParameter, match="Expected base=0"):
        baselines.to_multiples(TRUTH, 0)
