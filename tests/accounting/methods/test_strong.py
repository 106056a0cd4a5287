"""Strong and optimal composition."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.accounting.methods.strong import advanced, optimal
from deniable.errors import Unaccountable
from deniable.loss import (
    SHUFFLED,
    Approximate,
    Composed,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Pure,
    Shuffled,
    Zcdp,
)


def kairouz(k: int, eps: float, d: float, i: int) -> tuple[mp.mpf, mp.mpf]:
    """Theorem 3.3 as printed: ((k − 2i)ε, 1 − (1 − δ)^k(1 − δ_i))."""
    with mp.workdps(150):
        e, per = mp.mpf(repr(eps)), mp.mpf(repr(d))
        s = sum(mp.binomial(k, l) * (mp.exp((k - l) * e) - mp.exp((k - 2 * i + l) * e)) for l in range(i))
        return (k - 2 * i) * e, 1 - (1 - per) ** k * (1 - s / (1 + mp.exp(e)) ** k)


@pytest.mark.parametrize(
    ("k", "eps", "d"), [(30, 0.5, 0.0), (30, 0.5, 1e-8), (200, 0.1, 0.0), (5, 3.0, 1e-4)]
)
def test_optimal_composition_is_the_theorem_at_its_nodes(k: int, eps: float, d: float) -> None:
    loss = (Approximate(eps, d) if d else Pure(eps)) * k
    for i in range(1, k // 2 + 1, max(1, k // 10)):
        node, target = kairouz(k, eps, d, i)
        ours = optimal(loss, float(target) * (1 + 1e-6))
        assert ours == pytest.approx(float(node), rel=1e-4)
        assert optimal(loss, float(target) * (1 - 1e-9)) >= float(node) * (1 - 1e-12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.05, 2), min_size=1, max_size=6), st.floats(1e-9, 0.1))
def test_unequal_steps_are_exact(epsilons: list[float], d: float) -> None:
    """All outcomes of unequal randomized responses, one by one: the claimed ε holds, and
    a little less does not."""
    p, q = np.ones(1), np.ones(1)
    for eps in epsilons:
        t = 1 / (1 + math.exp(-eps))
        p, q = np.outer(p, [t, 1 - t]).ravel(), np.outer(q, [1 - t, t]).ravel()
    ours = optimal(Composed(tuple(map(Pure, epsilons))), d)
    assert np.maximum(p - math.exp(ours) * q, 0).sum() <= d * (1 + 1e-9)
    if ours > 1e-6:
        assert np.maximum(p - math.exp(ours - 1e-6) * q, 0).sum() > d


def test_a_thousand_laplace_answers() -> None:
    loss = LaplaceNoise(10) * 1000
    assert round(advanced(loss, 1e-6), 1) == 27.1
    assert round(optimal(loss, 1e-6), 3) == 19.345
    assert optimal(loss, 1e-6) == pytest.approx(optimal(DiscreteLaplaceNoise(10) * 1000, 1e-6))
    assert round(optimal(DiscreteLaplaceNoise(2) * 30, 1e-6), 2) == 13.95


def test_advanced_is_the_formula() -> None:
    k, eps, d = 100, 0.2, 1e-6
    formula = math.sqrt(2 * k * math.log(1 / d)) * eps + k * eps * math.expm1(eps)
    assert advanced(Pure(eps) * k, d) == pytest.approx(formula, rel=1e-9)
    assert advanced(Pure(eps) * k, d) >= formula
    mixture = math.sqrt(2 * math.log(1 / d) * (50 * 0.04 + 50 * 0.01)) + 50 * (
        0.2 * math.expm1(0.2) + 0.1 * math.expm1(0.1)
    )
    assert advanced(Pure(0.2) * 50 + Pure(0.1) * 50, d) == pytest.approx(mixture, rel=1e-9)


def test_valid_strong_composition_of_the_moments_accountant_paper() -> None:
    """q = .01, σ = 4, T = 10000, δ = 1e-5: 26.39 with ln(1 + q(e^ε − 1)); the 9.34 in
    print has qε in its place."""
    loss = GaussianNoise(4).sampled(0.01) * 10_000
    assert round(advanced(loss, 1e-5), 2) == 26.39
    first_order = min(
        math.sqrt(2 * 1e4 * math.log(1 / (d - 100 * each))) * e + 1e4 * e * math.expm1(e)
        for d in (1e-5,)
        for each in np.geomspace(1e-9, 0.99e-7, 400)
        for e in (0.01 * math.sqrt(2 * math.log(1.25 / each)) / 4,)
    )
    assert first_order == pytest.approx(9.35, abs=0.02)
    assert optimal(loss, 1e-5) < 13


def test_first_order_amplification_is_no_bound() -> None:
    """Randomized response on a sample: the ratio ln(1 + q(e^ε − 1)) is attained, and lies above qε."""
    eps, rate = 1.0, 0.1
    t = 1 / (1 + math.exp(-eps))
    attained = math.log(((1 - rate) * (1 - t) + rate * t) / (1 - t))
    assert attained > rate * eps * 1.5


def test_a_million_steps_and_more_use_the_listing_and_then_the_closed_form() -> None:
    listed, closed = optimal(Pure(0.001) * 10**6, 1e-6), optimal(Pure(0.001) * (10**7), 1e-6)
    assert listed == pytest.approx(4.8865, abs=1e-3)
    formula = 1e7 * 0.001 * math.tanh(0.0005) + math.sqrt(2 * math.log(1e6) * 1e7) * 0.001
    assert closed == pytest.approx(formula, rel=1e-6)
    assert optimal(Pure(0.001) * 10**6, 1e-6) < advanced(Pure(0.001) * 10**6, 1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 400), st.floats(0.001, 3), st.floats(1e-12, 0.1))
def test_optimal_is_at_most_basic_and_advanced(k: int, eps: float, d: float) -> None:
    loss = Pure(eps) * k
    assert optimal(loss, d) <= min(k * eps * (1 + 1e-9), advanced(loss, d))
    assert optimal(loss, d) >= optimal(loss, min(1.0, 2 * d))


def test_delta_spent_by_the_steps_is_infinite_when_too_much() -> None:
    assert optimal(Approximate(0.1, 1e-6) * 10, 1e-6) == math.inf
    assert optimal(Approximate(0.1, 1.01e-7) * 10, 1e-6) == math.inf
    assert optimal(Approximate(0.1, 1e-7) * 10, 1e-6) == pytest.approx(1.0)
    assert optimal(Pure(0.1) * 10, 0) == pytest.approx(1.0)
    assert advanced(Pure(0.1) * 10, 0) == math.inf
    assert optimal(Composed(()), 0) == advanced(Composed(()), 0) == 0


def test_steps_with_an_epsilon_for_every_delta_are_given_a_share() -> None:
    for step in (GaussianNoise(5), Zcdp(0.02), Shuffled(10_000, Pure(1))):
        total = optimal(step * 20, 1e-6)
        assert 0 < total < 40
        assert total >= optimal(step * 10, 1e-6)
    assert optimal(GaussianNoise(5), 0) == math.inf


def test_shuffled_batches_are_refused() -> None:
    with pytest.raises(Unaccountable, match="shuffled batches"):
        optimal(GaussianNoise(1).sampled(0.1, SHUFFLED), 1e-5)
