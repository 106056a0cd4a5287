"""Noise has the scale that its loss states, and reaches as far as it says."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from deniable.accounting import epsilon
from deniable.accounting.filters.charges import charge
from deniable.errors import InvalidQuery
from deniable.loss import DiscreteGaussianNoise, DiscreteLaplaceNoise, Zcdp
from deniable.randomness import SeededRandom
from deniable.sql.plan.noise import IntegerSensitivity, Noise, concentrated, gaussian, laplace, optimistic

SENSITIVITY = IntegerSensitivity(4 << 20, (4 << 20) ** 2)


def test_losses_are_those_of_integer_noise() -> None:
    assert laplace(IntegerSensitivity(3, 9), Fraction(1, 10)).loss == DiscreteLaplaceNoise(30, 3)
    assert isinstance(gaussian(SENSITIVITY, Fraction(1, 100)).loss, DiscreteGaussianNoise)


@settings(max_examples=60, deadline=None)
@given(l1=st.integers(1, 2**40), amount=st.fractions(Fraction(1, 1000), 20, max_denominator=10**6))
def test_no_more_is_spent_than_allotted(l1: int, amount: Fraction) -> None:
    assert laplace(IntegerSensitivity(l1, l1 * l1), amount).epsilon <= amount
    noise = gaussian(IntegerSensitivity(l1, l1 * l1), amount)
    assert noise.rho <= amount
    assert float(noise.rho) == pytest.approx(float(amount), rel=1e-3)


@pytest.mark.parametrize("asked", [0.01, 0.5, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_gaussian_noise_costs_no_more_than_asked_when_charged(asked: float, delta: float) -> None:
    rho = concentrated(Fraction(str(asked)), delta)
    assert charge(Zcdp(rho), delta=delta).epsilon <= Fraction(str(asked))
    assert epsilon(Zcdp(rho * Fraction(101, 100)), delta).upper > asked
    assert optimistic(Fraction(str(asked)), delta) > float(rho)


@pytest.mark.parametrize("make", [laplace, gaussian])
@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (0.7, False), (1.3, False)])
def test_drawn_noise_has_the_stated_scale(make: object, factor: float, right: bool) -> None:
    noise: Noise = make(SENSITIVITY, Fraction(1, 2))  # type: ignore[operator]
    drawn = [x / (float(noise.scale) * factor) for x in noise.draw(20_000, SeededRandom(5))]
    law = stats.laplace if make is laplace else stats.norm
    assert bool(stats.kstest(drawn, law.cdf).pvalue > 1e-9) is right


@pytest.mark.parametrize("make", [laplace, gaussian])
@pytest.mark.parametrize("beta", [0.05, 0.01])
def test_noise_stays_within_its_radius_as_often_as_stated(make: object, beta: float) -> None:
    noise: Noise = make(SENSITIVITY, Fraction(1, 3))  # type: ignore[operator]
    outside = sum(abs(x) > noise.within(beta) for x in noise.draw(20_000, SeededRandom(6)))
    assert stats.binomtest(outside, 20_000, beta).pvalue > 1e-9
    assert noise.within(beta) < 1.01 * float(noise.scale) * math.log(2 / beta)


def test_noise_beyond_the_samplers_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="more than 58 binary digits"):
        laplace(IntegerSensitivity(1 << 50, 1), Fraction(1, 1 << 10))
