"""Bounds hold: what is certified contradicts a true claim with probability at most
alpha, and the numbers are exact."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from deniable.accounting.proportion import lower, upper
from deniable.audit.bench import NULLS, Case
from deniable.audit.rules.thresholds import Rule, choose
from deniable.audit.statistics import (
    detectable,
    from_guesses,
    from_pairs,
    from_rates,
    gaussian_from_rates,
    one_run,
    one_run_gaussian,
    one_run_p_value,
)
from deniable.errors import InvalidParameter
from tests.audit.repeats import repeats

SURE = 1e-9


# ------------------------------------------------------------------------------------------------ exact bounds


@pytest.mark.parametrize(
    ("k", "n", "alpha"), [(1, 10, 0.05), (7, 20, 0.01), (500, 1000, 0.05), (3, 100_000, 1e-6)]
)
def test_clopper_pearson_inverts_the_binomial_tail(k: int, n: int, alpha: float) -> None:
    """Computed a second way: at the bound, moved outward by a billionth, the tail that
    mpmath sums is alpha, never more."""
    low, high = mpmath.mpf(float(lower(k, n, alpha))), mpmath.mpf(float(upper(k, n, alpha)))
    mpmath.mp.dps = 40
    assert alpha * (1 - 1e-6) <= float(mpmath.betainc(k, n - k + 1, 0, low, regularized=True)) <= alpha
    assert alpha * (1 - 1e-6) <= float(mpmath.betainc(k + 1, n - k, high, 1, regularized=True)) <= alpha


def test_clopper_pearson_knows_the_ends() -> None:
    assert lower(0, 10, 0.05) == 0
    assert upper(10, 10, 0.05) == 1
    assert float(lower(10, 10, 0.05)) == pytest.approx(0.05 ** (1 / 10))


@given(st.floats(0, 3), st.integers(1, 60), st.floats(0.01, 0.3))
def test_a_true_epsilon_is_contradicted_with_probability_alpha_at_most(
    epsilon: float, guesses: int, alpha: float
) -> None:
    """Randomized response attains ε exactly, so the chance of each count is known: no simulation is
    needed."""
    truth = 1 / (1 + math.exp(-epsilon))
    counts = np.arange(guesses + 1)
    bounds = [from_guesses(int(k), int(guesses - k), guesses, delta=0.0, alpha=alpha) for k in counts]
    wrong = np.array([bound > epsilon + 1e-12 for bound in bounds])
    assert float(binom.pmf(counts, guesses, truth)[wrong].sum()) <= alpha * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.05), (1.0, 0.2), (0.0, 0.3)])
def test_a_true_epsilon_and_delta_are_contradicted_with_probability_alpha_at_most(
    epsilon: float, delta: float
) -> None:
    """The worst (ε, δ)-private target: the secret with probability δ, else randomized response."""
    n, alpha = 40, 0.1
    right = delta + (1 - delta) / (1 + math.exp(-epsilon))
    k = np.arange(n + 1)
    wrong = [from_guesses(int(i), int(n - i), n, delta=delta, alpha=alpha) > epsilon + 1e-12 for i in k]
    assert float(binom.pmf(k, n, right)[np.array(wrong)].sum()) <= alpha


def test_one_side_pays_half_of_delta() -> None:
    """Only S₁ is guessed and P(S₁) = δ, Q(S₁) = 0: that is (0, δ)-private, and nothing may be certified."""
    n, delta = 100_000, 0.01
    right = int(binom.ppf(0.5, n, delta / 2))
    assert from_guesses(right, 0, n, delta=delta, alpha=0.05, sides=1) == 0
    assert from_guesses(right, 0, n, delta=delta / 2, alpha=0.05, sides=1) > 0


def test_no_wrong_guess_certifies_the_logarithm_of_the_right_ones() -> None:
    bound = from_guesses(1_000_000, 0, 2_000_000, delta=0.0, alpha=0.05)
    assert bound == pytest.approx(math.log(1e6 / -math.log(0.05)), abs=1e-5)


def test_rates_and_guesses_agree_for_large_samples() -> None:
    both = from_rates(30_000, 100_000, 20_000, 100_000, delta=0.0, alpha=0.05)
    joint = from_guesses(30_000, 20_000, 200_000, delta=0.0, alpha=0.05)
    assert both < joint < math.log(1.5)
    assert both == pytest.approx(math.log(1.5), abs=0.03)


def test_gaussian_rates_give_the_shift_back() -> None:
    n, mu = 1_000_000, 1.3
    hits, alarms = round(n * norm.cdf(mu / 2)), round(n * norm.cdf(-mu / 2))
    assert mu - 0.01 < gaussian_from_rates(hits, n, alarms, n, alpha=0.05) < mu


@pytest.mark.parametrize(
    "bad", [{"alpha": 0.0}, {"alpha": 1.0}, {"alpha": 0.05, "delta": 1.0}, {"alpha": 0.05, "delta": -0.1}]
)
def test_impossible_levels_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        from_guesses(5, 5, 10, **{"delta": 0.0, **bad})


def test_more_guesses_than_trials_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="among trials=9"):
        from_guesses(5, 5, 9, delta=0.0, alpha=0.05)


# ------------------------------------------------------------------------------------------------ coupled pairs


@given(st.floats(0, 2), st.floats(0, 0.3), st.integers(1, 24), st.floats(0.02, 0.3))
def test_coupled_pairs_contradict_a_true_epsilon_with_probability_alpha_at_most(
    epsilon: float, against: float, met: int, alpha: float
) -> None:
    """Every outcome of `met` pairs with P(S)/Q(S) = e^ε exactly, whatever share speaks
    against: multinomial, summed exactly."""
    only = 1 - math.exp(-epsilon) * (1 - against)
    if only + against > 1:
        return
    error = 0.0
    for a in range(met + 1):
        for b in range(met - a + 1):
            if from_pairs(a, b, met - a - b, alpha=alpha) > epsilon + 1e-12:
                given_a = against / (1 - only) if only < 1 else 0.0
                error += float(binom.pmf(a, met, only) * binom.pmf(b, met - a, min(1.0, given_a)))
    assert error <= alpha * (1 + 1e-9)


def test_coupled_pairs_certify_by_two_exact_shares() -> None:
    """The formula, computed a second way: 90 % of alpha for the share that speaks for
    the rule, 10 % for the one against."""
    sure, most = float(lower(300, 1000, 0.09)), float(upper(5, 1000, 0.01))
    assert from_pairs(300, 5, 695, alpha=0.1) == pytest.approx(math.log((1 - most) / (1 - sure)))
    assert (
        from_pairs(0, 0, 0, alpha=0.1)
        == from_pairs(0, 9, 0, alpha=0.1)
        == from_pairs(0, 0, 50, alpha=0.1)
        == 0
    )


def test_coupled_pairs_see_more_than_as_many_coins() -> None:
    """Laplace at ε = .1: half of all outputs are in S; the margin of pairs is less than
    a quarter of that of fair coins."""
    n, truth = 1_000_000, 0.1
    inside, less = n / 4, n / 4 * math.exp(-truth)
    coins = from_guesses(round(inside), round(less), n, delta=0.0, alpha=0.1)
    pairs = from_pairs(round(inside - less), 0, round(less), alpha=0.1)
    assert coins < pairs < truth
    assert truth - pairs < (truth - coins) / 4


def test_impossible_coupled_counts_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="Expected counts of at least 0, got -1, 0 and 5"):
        from_pairs(-1, 0, 5, alpha=0.1)
    with pytest.raises(InvalidParameter, match="Expected alpha=0"):
        from_pairs(1, 0, 5, alpha=0)


def test_what_coupled_runs_can_detect_is_detected() -> None:
    """Randomized response of that ε, on the same uniform numbers for both neighbours:
    nineteen of twenty audits succeed."""
    least = detectable(4000, epsilon=0.5, delta=0.0, alpha=0.05, coupled=True)
    assert 0.5 < least < detectable(4000, epsilon=0.5, delta=0.0, alpha=0.05)
    rng = np.random.default_rng(0)
    met = rng.binomial(2000, 1 / (1 + math.exp(-least)), 400)
    only = rng.binomial(met, 1 - math.exp(-least))
    found = sum(from_pairs(int(a), 0, int(n - a), alpha=0.05) > 0.5 for a, n in zip(only, met, strict=True))
    assert found >= binom.ppf(SURE, 400, 0.95)
    assert detectable(10, epsilon=5.0, delta=0.0, alpha=0.05, coupled=True) == math.inf


# ------------------------------------------------------------------------------------------------ false alarms, power


@pytest.mark.parametrize("case", NULLS, ids=lambda c: c.name)
def test_null_mechanisms_raise_no_more_false_alarms_than_stated(case: Case) -> None:
    """Many times: choose a rule on outputs of a mechanism that ignores its input,
    certify on fresh ones. α = .05: at most one in twenty.

    A rule that is promised nothing abstains, so the audit stays far below α; forced to
    guess, the same test errs at α.
    """
    alarms = forced = 0
    runs = repeats(1000)
    for seed in range(runs):
        rng = np.random.default_rng([seed, 1])
        scores = case.draw(0, 3000, rng).sum(axis=1)
        rule, _ = choose(scores[:500], scores[500:1000], delta=0.0, alpha=0.05, trials=2000)
        heads = int(rng.binomial(2000, 0.5))
        fresh = scores[1000 : 1000 + heads], scores[1000 + heads :]
        middle = float(np.median(scores[:1000]))
        alarms += from_guesses(*rule.count(*fresh), 2000, delta=0.0, alpha=0.05) > 0
        forced += from_guesses(*Rule(middle, middle).count(*fresh), 2000, delta=0.0, alpha=0.05) > 0
    assert alarms <= 0.05 * runs
    assert 0 < forced <= binom.ppf(1 - SURE, runs, 0.05)


@pytest.mark.parametrize(
    ("trials", "epsilon", "delta"), [(1000, 1.0, 0.0), (100_000, 0.1, 0.0), (20_000, 1.0, 0.05)]
)
def test_what_is_called_detectable_is_detected(trials: int, epsilon: float, delta: float) -> None:
    """On the easiest target of that ε, at least 95 % of all audits succeed; slightly below it, fewer do."""
    least = detectable(trials, epsilon=epsilon, delta=delta, alpha=0.05)
    k = np.arange(trials + 1)
    wrong = binom.pmf(k, trials, (1 - delta) / (1 + math.exp(least)))
    near = k[wrong > 1e-12]
    found = [from_guesses(trials - int(i), int(i), trials, delta=delta, alpha=0.05) > epsilon for i in near]
    assert float(wrong[near][np.array(found)].sum()) >= 0.95 - 1e-6
    assert least > epsilon


def test_too_few_samples_detect_nothing() -> None:
    assert detectable(10, epsilon=5.0, delta=0.0, alpha=0.05) == math.inf
    assert detectable(0, epsilon=0.1, delta=0.0, alpha=0.05) == math.inf


# ------------------------------------------------------------------------------------------------ one run


@pytest.mark.parametrize(("m", "guesses", "right"), [(100, 40, 38), (1000, 200, 150), (50, 50, 50)])
def test_the_one_run_p_value_is_the_formula_of_the_paper(m: int, guesses: int, right: int) -> None:
    epsilon, delta = 1.0, 1e-3
    q = 1 / (1 + math.exp(-epsilon))
    best, mass = 0.0, 0.0
    for i in range(1, right + 1):
        mass += float(binom.pmf(right - i, guesses, q))
        best = max(best, mass / i)
    naive = float(binom.sf(right - 1, guesses, q)) + 2 * m * delta * best
    assert one_run_p_value(m, guesses, right, epsilon=epsilon, delta=delta) == pytest.approx(
        min(1, naive), rel=1e-9
    )


def test_one_run_bounds_hold_for_independent_randomized_response() -> None:
    """m reports of ε = 1: the certified ε passes 1 in at most α of all runs, by the
    exact law of the right guesses."""
    m, alpha = 200, 0.05
    k = np.arange(m + 1)
    wrong = np.array([one_run(m, m, int(i), delta=0.0, alpha=alpha) > 1.0 for i in k])
    assert float(binom.pmf(k, m, 1 / (1 + math.exp(-1)))[wrong].sum()) <= alpha


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_one_run_gaussian_bounds_hold_and_are_not_empty(mu: float) -> None:
    """Canaries of μ-Gaussian privacy, 200 runs: the certified μ passes the true one in
    about α of them at most."""
    rng, m, guesses, alpha, bounds = np.random.default_rng(5), 600, 120, 0.05, []
    for _ in range(200):
        inside = rng.random(m) < 0.5
        ordered = inside[np.argsort(mu * inside + rng.standard_normal(m))]
        right = int((~ordered[: guesses // 2]).sum() + ordered[m - guesses // 2 :].sum())
        bounds.append(one_run_gaussian(m, guesses, right, alpha=alpha, precision=0.02))
    assert np.sum(np.array(bounds) > mu) <= binom.ppf(1 - SURE, 200, alpha)
    assert np.median(bounds) > 0.4 * mu


def test_one_run_certifies_nothing_from_coin_flips() -> None:
    assert one_run(1000, 200, 100, delta=1e-5, alpha=0.05) == 0
    assert one_run_gaussian(1000, 200, 100, alpha=0.05) == 0
