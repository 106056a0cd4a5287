"""Randomized response: the survey's numbers, its law, and estimates that are unbiased and cover."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from deniable.accounting import epsilon
from deniable.errors import InvalidParameter
from deniable.loss import ResponseNoise
from deniable.mechanisms import RandomizedResponse
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.mechanisms.law import follows

COLOURS = ("red", "green", "blue")


def test_the_survey_with_fair_coins() -> None:
    survey = RandomizedResponse.coins()
    assert survey.truth == Fraction(3, 4)
    assert survey.posterior(0.02) == pytest.approx(0.058, abs=5e-4)
    assert epsilon(survey.loss, 0).upper == pytest.approx(math.log(3), rel=1e-9)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.9])
def test_the_variance_is_at_least_four_times_that_of_truthful_answers(share: float) -> None:
    survey = RandomizedResponse.coins()
    assert survey.variance(share, 1000) >= 4 * share * (1 - share) / 1000 * (1 - 1e-12)
    assert survey.variance(0.5, 1000) == pytest.approx(4 * 0.25 / 1000)
    assert survey.variance(share, 4000) == pytest.approx(survey.variance(share, 1000) / 4)


@pytest.mark.parametrize("truth", [0.75, 0.4])
def test_reports_follow_their_law(truth: float) -> None:
    m = RandomizedResponse(truth, COLOURS)
    lie = (1 - truth) / 2
    reports = m(["green"] * 20_000, rng=SeededRandom(1))
    assert follows(reports, {"red": lie, "green": truth, "blue": lie})
    assert not follows(reports, {"red": lie * 1.3, "green": truth - 0.3 * lie, "blue": lie})


def test_one_value_gives_one_report() -> None:
    m, rng = RandomizedResponse(0.6, COLOURS), SeededRandom(2)
    assert follows([m("red", rng=rng) for _ in range(4000)], {"red": 0.6, "green": 0.2, "blue": 0.2})


def test_who_has_none_of_the_options_answers_at_random() -> None:
    m = RandomizedResponse(0.9, COLOURS)
    for nothing in (math.nan, None, "pink", [1]):
        assert follows(m([nothing] * 3000, rng=SeededRandom(3)), dict.fromkeys(COLOURS, 1 / 3))


def test_options_may_be_pairs() -> None:
    m = RandomizedResponse(0.999999, ((0, 0), (0, 1)))
    assert m((0, 1), rng=SeededRandom(1)) == (0, 1)
    assert m([(0, 1), (0, 0)], rng=SeededRandom(1)) == [(0, 1), (0, 0)]


@pytest.mark.parametrize("eps", [0.1, 1, 5, Fraction(1, 3)])
@pytest.mark.parametrize("k", [2, 3, 100])
def test_a_budget_is_met_from_below_and_closely(eps: float, k: int) -> None:
    m = RandomizedResponse.for_budget(eps, tuple(range(k)))
    assert m.loss == ResponseNoise(m.truth, k)
    odds = m.truth * (k - 1) / (1 - m.truth)
    assert float(odds) <= math.exp(eps) * (1 + 1e-15)
    assert math.log(odds) == pytest.approx(float(eps), rel=1e-12)
    assert epsilon(m.loss, 0).upper <= float(eps) * (1 + 1e-12)


def test_estimates_are_unbiased_and_their_variance_is_right() -> None:
    m, rng, n, runs = RandomizedResponse(0.6, COLOURS), SeededRandom(4), 400, 600
    people = ["red"] * 200 + ["green"] * 160 + ["blue"] * 40
    values, variances = [], []
    for _ in range(runs):
        share = m.estimate(m(people, rng=rng))["red"]
        values.append(share.value)
        variances.append(share.variance)
    # These people are fixed, so their own variance 0.5·0.5/n is not seen; the estimate's formula includes it.
    fixed = m.variance(0.5, n) - 0.25 / n
    assert abs(np.mean(values) - 0.5) < 6 * math.sqrt(fixed / runs)
    assert np.var(values) == pytest.approx(fixed, rel=6 * math.sqrt(2 / runs))
    assert np.mean(variances) == pytest.approx(m.variance(0.5, n), rel=0.02)


def test_intervals_cover_a_random_sample() -> None:
    m, rng, people = RandomizedResponse.coins(), SeededRandom(5), np.random.default_rng(1)
    missed, runs = 0, 400
    for _ in range(runs):
        share = m.estimate(m((people.random(200) < 0.3).tolist(), rng=rng), 0.9)[True]
        missed += not share.low <= 0.3 <= share.high
    assert stats.binomtest(missed, runs, 0.1, alternative="greater").pvalue > 1e-9
    assert missed > 0.02 * runs


def test_intervals_shrink_with_the_root_of_the_reports() -> None:
    m = RandomizedResponse.coins()
    few, many = (m.estimate([True] * (n // 2) + [False] * (n // 2))[True] for n in (100, 10_000))
    assert few.high - few.low == pytest.approx(10 * (many.high - many.low), rel=0.1)
    assert few.value == many.value == 0.5


def test_shares_add_up_to_one_and_impossible_ones_are_kept_unbiased() -> None:
    shares = RandomizedResponse(0.6, COLOURS).estimate(["red"] * 90 + ["green"] * 10)
    assert sum(s.value for s in shares.values()) == pytest.approx(1)
    assert shares["red"].value > 1
    assert 0 <= shares["blue"].low <= shares["blue"].high <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"truth": 0.5},
        {"truth": 1},
        {"truth": 0.2},
        {"options": (1,)},
        {"options": (1, 1)},
        {"unit": 0},
        {"unit": Unit.row()},
    ],
)
def test_wrong_parameters_are_refused_before_data(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        RandomizedResponse(**wrong)


def test_one_report_is_no_sample() -> None:
    with pytest.raises(InvalidParameter, match="at least 2 reports"):
        RandomizedResponse().estimate([True])


def test_the_error_of_one_report_is_not_known() -> None:
    assert RandomizedResponse().error(0.9) is None
