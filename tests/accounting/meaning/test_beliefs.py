"""What a guarantee means: against high precision, against the mechanisms that attain it, one-sidedly."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.accounting.meaning import advantage, attacker_power, group_delta, group_odds, posterior
from deniable.errors import InvalidParameter

EPSILON = st.floats(0, 60)
DELTA = st.floats(0, 0.3)
SHARE = st.floats(1e-9, 1 - 1e-9)
TIGHT = 1 + mp.mpf(2) ** -45


def phi(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def test_a_prior_of_two_fifths_after_an_answer_of_epsilon_one() -> None:
    belief = posterior(0.4, 1)
    assert (round(belief.low, 3), round(belief.high, 3), belief.failure) == (0.197, 0.644, 0)


@given(SHARE, EPSILON)
def test_the_posterior_is_bayes_on_randomized_response_and_rounded_outward(
    prior: float, epsilon: float
) -> None:
    with mp.workdps(50):
        p, e = mp.mpf(prior), mp.exp(mp.mpf(epsilon))
        high = p * e / (p * e + 1 - p)  # after the answer that is e^ε times likelier if the fact holds
        low = p / (p + (1 - p) * e)
        belief = posterior(prior, epsilon)
        assert low / TIGHT <= belief.low <= low
        assert high <= belief.high <= high * TIGHT or belief.high == 1


@pytest.mark.parametrize("sigma", [0.7, 1, 4])
@pytest.mark.parametrize("epsilon", [0.3, 1, 3])
@pytest.mark.parametrize("slack", [0.01, 0.1, 1])
def test_with_delta_the_interval_fails_as_rarely_as_stated_on_gaussian_noise(
    sigma: float, epsilon: float, slack: float
) -> None:
    mu = 1 / sigma
    delta = phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)  # Balle, Wang 2018
    reach = epsilon + slack
    # The privacy loss is N(μ²/2, μ²) where the fact holds and N(−μ²/2, μ²) where it does not.
    fails = phi(-(reach - mu**2 / 2) / mu) + phi((-reach - mu**2 / 2) / mu)
    belief = posterior(0.5, epsilon, delta, slack=slack)
    assert fails <= belief.failure
    assert belief.high >= 1 / (1 + math.exp(-reach))


@given(st.floats(0, 1), EPSILON, DELTA)
def test_the_attacker_is_the_one_of_the_canonical_mechanism(
    rate: float, epsilon: float, delta: float
) -> None:
    """Kairouz, Oh, Viswanath 2015: four outputs that every (ε, δ)-DP mechanism can be
    made from; Neyman–Pearson on them."""
    with mp.workdps(50):
        e, d = mp.exp(mp.mpf(epsilon)), mp.mpf(delta)
        inside, outside = (
            (d, (1 - d) * e / (1 + e), (1 - d) / (1 + e), 0),
            (0, (1 - d) / (1 + e), (1 - d) * e / (1 + e), d),
        )
        left, found = mp.mpf(rate), mp.mpf(0)
        for member, other in zip(inside, outside, strict=True):  # from the most telling output to the least
            share = mp.mpf(1) if other <= left else left / other
            found, left = found + member * share, left - other * share
        best = attacker_power(rate, epsilon, delta)
        assert found * (1 - mp.mpf(10) ** -40) <= best <= found * TIGHT + mp.mpf(10) ** -40 or best == 1


@given(EPSILON, DELTA)
def test_the_advantage_is_the_widest_gap_of_the_attacker(epsilon: float, delta: float) -> None:
    with mp.workdps(50):
        e, d = mp.exp(mp.mpf(epsilon)), mp.mpf(delta)
        gap = (mp.expm1(mp.mpf(epsilon)) + 2 * d) / (e + 1)
        assert gap <= advantage(epsilon, delta) <= gap * TIGHT or advantage(epsilon, delta) == 1
        kink = float((1 - d) / (1 + e))
        assert attacker_power(kink, epsilon, delta) - kink == pytest.approx(float(gap), abs=1e-12)


@given(st.floats(0, 20), st.floats(1e-30, 1e-3), st.integers(1, 30))
def test_a_group_pays_for_every_step_of_the_path(epsilon: float, delta: float, size: int) -> None:
    with mp.workdps(50):
        odds = mp.exp(size * mp.mpf(epsilon))
        assert odds <= group_odds(epsilon, size) <= odds * (1 + mp.mpf(10) ** -9)
        path = mp.mpf(0)
        for _ in range(size):
            path = mp.exp(mp.mpf(epsilon)) * path + mp.mpf(delta)
        assert min(path, 1) <= group_delta(epsilon, delta, size) <= path * (1 + mp.mpf(10) ** -9)


def test_huge_epsilons_say_that_nothing_is_left() -> None:
    assert group_odds(1e6, 3) == math.inf
    assert group_delta(1e6, 1e-9, 3) == 1
    assert attacker_power(0.01, 1e6) == 1
    assert posterior(0.5, 1e6).low == 0
    assert group_delta(1e6, 0, 3) == 0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: posterior(0, 1), r"Expected prior=0 in \(0, 1\)\."),
        (lambda: posterior(math.nan, 1), r"Expected prior=nan in \(0, 1\)\."),
        (lambda: posterior(0.5, 1, 1e-6, slack=0), r"Expected slack=0 in \(0, ∞\)\."),
        (lambda: posterior(0.5, -1), r"Expected epsilon=-1 in \[0, ∞\)\."),
        (lambda: attacker_power(0.5, math.nan), r"Expected epsilon=nan in \[0, ∞\)\."),
        (lambda: attacker_power(1.5, 1), r"Expected false_positive_rate=1.5 in \[0, 1\]\."),
        (lambda: advantage(1, 1), r"Expected delta=1 in \[0, 1\)\."),
        (lambda: group_odds(1, 0), r"Expected size=0 to be at least 1"),
        (lambda: group_odds(1, True), r"Expected size=True to be a whole number of at least 1"),
    ],
)
def test_what_means_nothing_is_refused(call, text: str) -> None:
    with pytest.raises(InvalidParameter, match=text):
        call()
