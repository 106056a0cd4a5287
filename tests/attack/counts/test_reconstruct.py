"""Too many counts answered too well give everybody away; an account does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from deniable.attack import reconstruct as attack
from deniable.attack.asking import PERSON
from deniable.attack.counts.solve import SolvingMethod
from deniable.errors import InvalidParameter
from deniable.mechanisms import RandomizedResponse
from deniable.randomness import SeededRandom


def test_92_percent_of_4096_bits_follow_from_noisy_counts() -> None:
    found = attack.against_noise(4096, 4 * 4096, 0.3)
    assert found.share >= 0.92
    assert found.facts["expected"] == pytest.approx(0.9405, abs=1e-4)
    assert found.facts["answered"] == 4 * 4096


@pytest.mark.parametrize("method", [SolvingMethod.LARGEST, SolvingMethod.SUMMED, SolvingMethod.LEAST_SQUARES])
def test_every_method_finds_far_more_than_chance(method: SolvingMethod) -> None:
    found = attack.against_noise(96, 4 * 96, 0.1, method=method)
    assert binom.sf(found.right - 1, 96, 0.5) < 1e-9


def test_success_falls_with_noise_and_exact_counts_give_all() -> None:
    shares = [one.share for one in attack.sweep(512, 4, (0.0, 0.2, 0.5, 2.0))]
    assert shares[0] == 1
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.7


@pytest.mark.parametrize("batch", [None, 1])
def test_through_an_account_the_attack_is_near_chance_and_under_the_ceiling(batch: int | None) -> None:
    found = attack.against_account(1024, 4096, 1, batch=batch, rng=SeededRandom(1))
    # The noise is at least 9·√n, for which theory expects 52.2 %.
    assert found.share < 0.522 + 6.2 * math.sqrt(0.25 / 1024)
    assert found.ceiling is not None
    assert found.share < found.ceiling
    assert 0 < found.facts["spent"] <= 1
    assert "No attack on that account can expect more than 73.11 %." in found.reading


def test_an_account_that_is_asked_one_by_one_refuses_long_before_the_end() -> None:
    found = attack.against_account(64, 4096, 1, 0, batch=1, rng=SeededRandom(1))
    assert found.facts["answered"] == 100
    assert found.facts["asked"] == 4096


def test_without_a_delta_all_questions_at_once_spend_all_of_epsilon() -> None:
    found = attack.against_account(64, 256, 1, 0, rng=SeededRandom(1))
    assert found.facts["answered"] == 256
    assert found.facts["spent"] == 1


def test_a_generous_account_gives_everything_away_and_says_so() -> None:
    found = attack.against_account(256, 1024, 1000, rng=SeededRandom(1))
    assert found.share > 0.9
    assert found.ceiling == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [0.5, 1, 3])
def test_the_ceiling_is_attained_by_randomized_response_and_not_passed(epsilon: float) -> None:
    bits = attack.secret(100_000, 1)
    told = RandomizedResponse.for_budget(epsilon, (0, 1))(bits.tolist(), rng=SeededRandom(2))
    right = int((np.asarray(told) == bits).sum())
    low, high = binom.interval(1 - 1e-9, len(bits), attack.ceiling(epsilon))
    assert low <= right <= high


def test_the_ceiling_grows_with_epsilon_and_delta() -> None:
    assert attack.ceiling(0) == pytest.approx(0.5, abs=1e-9)
    assert attack.ceiling(1, 1e-3) > attack.ceiling(1)
    assert attack.ceiling(50) <= 1


def test_no_curator_within_e_hides_more_than_4e_bits_and_a_misleading_one_hides_that_many() -> None:
    found = attack.exhaustive_errors(10, (0.5, 1.0, 2.0))
    assert all(one.wrong_bits <= one.bound for one in found)
    assert any(one.wrong_bits == one.bound for one in found if one.curator == "misleading")


def test_the_misleading_curator_keeps_within_her_error() -> None:
    bits, subsets = attack.secret(10), attack.all_subsets(10)
    said = attack._misleading(subsets, bits, 1.0)
    assert np.abs(said - attack.asking.counts(subsets, bits)).max() == 1


def test_the_unit_of_the_questions_is_a_person_whose_row_is_exchanged() -> None:
    assert attack._gaussian(16, 0.5).unit == attack._laplace(16, 1).unit == PERSON
    assert attack._laplace(16, 1).sensitivity == 16
    assert attack._gaussian(16, 0.5).sensitivity >= 4


@pytest.mark.parametrize("noise", [-1.0, math.inf, math.nan])
def test_noise_that_is_none_is_refused(noise: float) -> None:
    with pytest.raises(InvalidParameter, match="Expected noise="):
        attack.against_noise(8, 8, noise)
