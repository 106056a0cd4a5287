"""Rules follow what is there, not luck."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deniable.audit.rules.thresholds import (
    HOPE,
    NO_GUESS,
    Counts,
    Rule,
    choose,
    choose_coupled,
    expect_bound,
    implied_ratios,
)
from deniable.audit.statistics import from_guesses, from_pairs


def test_the_chosen_rule_is_near_the_best_one() -> None:
    """Laplace at ε = 1: half of all outputs have the ratio e, so the rule must be broad
    and its fresh ratio near e."""
    rng = np.random.default_rng(3)
    first, second, *fresh = (rng.laplace(-shift, 1, 50_000) for shift in (0, 1, 0, 1))
    rule, value = choose(first, second, delta=0.0, alpha=0.05, trials=1_000_000)
    right, wrong = rule.count(*fresh)
    assert 0.9 < value < 1.1
    assert right + wrong > 5_000
    assert math.log(right / wrong) == pytest.approx(1, abs=0.1)


def test_a_rule_that_is_never_wrong_is_preferred_where_supports_differ() -> None:
    rng = np.random.default_rng(4)
    first = np.where(rng.random(20_000) < 0.02, 9.0, rng.random(20_000))
    rule, _ = choose(first, rng.random(20_000), delta=0.0, alpha=0.05, trials=100_000)
    right, wrong = rule.count(first, rng.random(20_000))
    assert (right > 300, wrong) == (True, 0)


def test_expectation_grows_with_the_samples_to_come() -> None:
    rng = np.random.default_rng(5)
    first, second = (rng.random(10_000) < rate for rate in (0.6, 0.4))
    few, many = (
        choose(first.astype(float), second.astype(float), delta=0.0, alpha=0.05, trials=n)[1]
        for n in (10_000, 10_000_000)
    )
    assert few < many < math.log(1.5)


def test_calibrated_scores_say_the_ratio_of_each_event() -> None:
    """Laplace at ε = 1: the score is the log-ratio, and what it implies is the true
    ratio of {score ≥ t}, at any t."""
    rng = np.random.default_rng(6)
    x = rng.laplace(1, 1, 400_000)
    said = implied_ratios(np.abs(x - 1) - np.abs(x), np.array([-1.0, 0.0, 0.999]))
    true = [0.0, math.log(norm_free_laplace(0.5) / norm_free_laplace(-0.5)), 1.0]
    assert said == pytest.approx(true, abs=0.02)


def norm_free_laplace(x: float) -> float:
    """P(Laplace ≤ x)."""
    return math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2


def test_abstaining_everywhere_certifies_nothing() -> None:
    rule = Rule(math.inf, -math.inf)
    assert (rule.count(np.ones(5), np.ones(5)), rule.sides) == ((0, 0), 0)
    assert from_guesses(0, 0, 10, delta=0.0, alpha=0.05) == 0


def test_luck_is_not_followed() -> None:
    """Scores that mean nothing: a rule may promise little, and no more than luck allows, in 50 tries."""
    promises = []
    for seed in range(50):
        scores = np.random.default_rng([seed, 8]).random(20_000)
        promises.append(choose(scores[:10_000], scores[10_000:], delta=0.0, alpha=0.05, trials=10**9)[1])
    assert sum(promise > 0.02 for promise in promises) <= 5


def test_delta_is_forgiven() -> None:
    """A set of mass .01 that only one neighbour reaches promises nothing at δ = .02, and much at δ = .001."""
    rng = np.random.default_rng(9)
    first, second = np.where(rng.random(20_000) < 0.01, 9.0, rng.random(20_000)), rng.random(20_000)
    assert choose(first, second, delta=0.02, alpha=0.05, trials=10**6)[1] < 0.1
    assert choose(first, second, delta=0.001, alpha=0.05, trials=10**6)[1] > 2


# ------------------------------------------------------------------------------------------------ coupled pairs


def test_pairs_are_counted_by_who_met_the_set() -> None:
    first, second = np.array([3.0, 3.0, 1.0, 1.0, 1.0]), np.array([3.0, 1.0, 3.0, 1.0, 1.0])
    assert Rule(2.0, -math.inf).count_pairs(first, second) == (1, 1, 1)
    assert Rule(math.inf, 2.0).count_pairs(first, second) == (1, 1, 2)
    assert NO_GUESS.count_pairs(first, second) == (0, 0, 0)


def test_the_chosen_coupled_rule_is_near_the_best_one() -> None:
    """Laplace at ε = 1 on the same noise: the full ratio holds on half of all outputs."""
    noise = np.random.default_rng(3).laplace(0, 1, (2, 50_000))
    rule, value = choose_coupled(-noise[0], -(noise[0] + 1), alpha=0.05, pairs=1_000_000)
    only_right, only_wrong, both = rule.count_pairs(-noise[1], -(noise[1] + 1))
    assert only_wrong == 0
    assert only_right + both > 5_000
    assert 0.9 < value < math.log((only_right + both) / both) + 0.02 < 1.05


def test_a_rare_event_is_not_trusted_on_a_handful_of_pairs() -> None:
    """Five outputs of ten thousand at the top come from one neighbour only, by luck;
    half of the others show e^.5."""
    rng = np.random.default_rng(4)
    met = rng.random(10_000) < 0.5
    first, second = met.astype(float), (met & (rng.random(10_000) < math.exp(-0.5))).astype(float)
    first[:5], second[:5] = 9.0, 0.0
    rule, _ = choose_coupled(first, second, alpha=0.05, pairs=10_000)
    assert rule == Rule(1.0, -math.inf)


def test_equal_runs_are_not_guessed_from() -> None:
    scores = np.random.default_rng(5).random(10_000)
    assert choose_coupled(scores, scores, alpha=0.05, pairs=10**6) == (NO_GUESS, 0.0)


@pytest.mark.parametrize("both", [None, 5000])
def test_the_bound_to_expect_is_the_one_that_comes(both: int | None) -> None:
    """From as many samples as there will be, the expectation is what the same counts
    certify, HOPE deviations of each lower."""
    right, wrong, alpha = 6000, 5100, 0.1
    shared = both or 0
    comes = from_guesses(right, wrong, 100_000, delta=0.0, alpha=alpha)
    if both is not None:
        comes = from_pairs(right - shared, wrong - shared, shared, alpha=alpha)
    counts = Counts.from_rule(right, wrong, 100_000, 0.0, both)
    luck = HOPE * math.sqrt(1 / right + 1 / wrong)
    assert comes - luck - 1e-3 < expect_bound(counts, alpha, 1.0) < comes - luck / 4
    assert expect_bound(counts, alpha, 0.5) > expect_bound(counts, alpha, 1.0)


def test_a_set_that_only_one_neighbour_reaches_is_expected_to_show() -> None:
    assert expect_bound(Counts.from_rule(300, 0, 20_000, 0.0), 0.05, 0.2) > 4
    assert expect_bound(Counts.from_rule(300, 0, 20_000, 0.02), 0.05, 0.2) == -math.inf
