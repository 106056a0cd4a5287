"""The Gaussian mechanism's closed form."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.accounting.methods.gaussian import (
    analytic_sigma,
    classical_sigma,
    epsilon,
    epsilon_of,
    hockey_stick,
    textbook_epsilon,
)
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import Composed, GaussianNoise, Grouped, LaplaceNoise

mp.mp.dps = 60


def truth(mu: float, eps: float) -> mp.mpf:
    m, e = mp.mpf(mu), mp.mpf(eps)
    tail = lambda x: mp.erfc(x / mp.sqrt(2)) / 2  # noqa: E731
    return tail(e / m - m / 2) - mp.exp(e) * tail(e / m + m / 2)


@given(st.floats(-3, 2), st.floats(-4, 12))
def test_the_hockey_stick_is_never_below_the_truth_and_close(log_mu: float, z: float) -> None:
    mu = 10**log_mu
    eps = max(0.0, mu * mu / 2 + mu * z)
    exact, ours = truth(mu, eps), hockey_stick(mu, eps)
    assert exact <= ours
    assert ours <= exact * (1 + mp.mpf(10) ** -8) + mp.mpf(10) ** -300


@pytest.mark.parametrize("delta", [1e-5, 1e-9, 1e-13, 1e-20, 1e-30])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0, 100.0])
def test_epsilon_inverts_the_truth_down_to_tiny_deltas(sigma: float, delta: float) -> None:
    eps = epsilon(GaussianNoise(sigma), delta)
    assert truth(1 / sigma, eps) <= delta
    assert eps == 0 or truth(1 / sigma, eps * (1 - 1e-9)) > delta


def test_gaussian_noise_composes_to_one() -> None:
    whole = epsilon(GaussianNoise(2), 1e-9)
    assert epsilon(GaussianNoise(4) * 4, 1e-9) == pytest.approx(whole, rel=1e-12)
    assert epsilon(
        Composed((GaussianNoise(4) * 2, GaussianNoise(4), GaussianNoise(4))), 1e-9
    ) == pytest.approx(whole)
    assert epsilon(Grouped(2, GaussianNoise(4)), 1e-9) == pytest.approx(whole, rel=1e-12)


def test_other_noise_has_no_closed_form() -> None:
    with pytest.raises(Unaccountable, match="Gaussian noise alone"):
        epsilon(GaussianNoise(1) + LaplaceNoise(1), 1e-6)


def test_no_delta_means_no_finite_epsilon() -> None:
    assert epsilon(GaussianNoise(1), 0) == math.inf
    assert epsilon(Composed(()), 0) == 0


@pytest.mark.parametrize(
    ("eps", "delta", "sensitivity"), [(1, 1e-5, 1), (0.1, 1e-9, 3), (8, 1e-5, 1), (1, 1e-30, 1)]
)
def test_the_analytic_noise_suffices_and_a_little_less_does_not(
    eps: float, delta: float, sensitivity: float
) -> None:
    sigma = analytic_sigma(eps, delta, sensitivity)
    assert truth(sensitivity / sigma, eps) <= delta
    assert truth(sensitivity / (sigma * (1 - 1e-6)), eps) > delta


@pytest.mark.parametrize("eps", [0.1, 0.5, 1.0])
def test_the_classical_noise_suffices_up_to_one(eps: float) -> None:
    sigma = classical_sigma(eps, 1e-5)
    assert sigma == pytest.approx(math.sqrt(2 * math.log(1.25e5)) / eps)
    assert truth(1 / sigma, eps) <= 1e-5
    assert sigma > analytic_sigma(eps, 1e-5)


def test_the_classical_formula_is_refused_above_one_where_it_fails() -> None:
    with pytest.raises(InvalidParameter, match=r"epsilon=1.5 in \(0, 1\].*analytic_sigma"):
        classical_sigma(1.5, 1e-5)
    # The reason: at ε = 60 it would claim a δ that its noise exceeds.
    sigma = math.sqrt(2 * math.log(1.25e2)) / 60
    assert truth(1 / sigma, 60) > 1e-2


@given(st.floats(0.05, 30), st.floats(1e-12, 0.5))
@settings(deadline=None)
def test_the_textbook_reading_is_never_below_the_exact_epsilon(mu: float, delta: float) -> None:
    loss = GaussianNoise(1 / mu)
    assert textbook_epsilon(loss, delta) >= epsilon(loss, delta)


@pytest.mark.parametrize("bad", [(0, 1e-5, 1), (1, 0, 1), (1, 1, 1), (1, 1e-5, 0), (math.inf, 1e-5, 1)])
def test_parameters_outside_their_range_are_refused(bad: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidParameter, match="Expected epsilon="):
        analytic_sigma(*bad)


def test_epsilon_of_nothing_is_nothing() -> None:
    assert epsilon_of(0, 1e-5) == 0
    assert epsilon_of(1e-7, 1e-5) == 0
