"""Zero-concentrated privacy: ρ and its conversion."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.accounting import renyi
from deniable.accounting.methods import gaussian
from deniable.accounting.methods.zcdp import delta, epsilon, rho
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import (
    SHUFFLED,
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    Grouped,
    LaplaceNoise,
    Loss,
    NegativeBinomialRuns,
    Parallel,
    Pure,
    ResponseNoise,
    Selected,
    Zcdp,
)

ORDERS = 1 + np.exp(np.linspace(-12, 9, 400))

LEAVES = st.one_of(
    st.floats(1e-5, 30).map(Pure),
    st.floats(0.05, 1e5).map(LaplaceNoise),
    st.floats(1e-5, 20).map(BoundedRange),
    st.builds(DiscreteLaplaceNoise, st.integers(1, 50), st.integers(1, 50)),
    st.builds(ResponseNoise, st.floats(0.51, 0.999), st.integers(2, 100)),
    st.just(DiscreteLaplaceNoise(2**40, 2**40)),
)


@given(LEAVES)
def test_rho_bounds_every_order_and_is_nearly_reached(loss: Loss) -> None:
    slopes = renyi.curve(loss, ORDERS) / ORDERS
    assert rho(loss) >= slopes.max() * (1 - 1e-9)
    if not isinstance(loss, BoundedRange):  # for it ε²/8 is the limit of small ε
        assert rho(loss) <= slopes.max() * (1 + 5e-3)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (GaussianNoise(2), 0.125),
        (DiscreteGaussianNoise(4, 2), 0.125),
        (DiscreteGaussianNoise(4, 2, 7), 0.125),
        (Zcdp(0.3), 0.3),
        (BoundedRange(2), 0.5),
        (Pure(1), math.tanh(0.5)),
        (LaplaceNoise(1), math.exp(-1)),
        (ResponseNoise(0.75), 0.5 * math.log(3)),
        (GaussianNoise(2) * 8, 1.0),
        (Composed((GaussianNoise(1), Zcdp(1))), 1.5),
        (Parallel((GaussianNoise(1), Zcdp(2))), 2.0),
        (Parallel((GaussianNoise(1), Zcdp(2)), replace=True), 8.0),
        (Grouped(3, Zcdp(1)), 9.0),
        (GaussianNoise(1).sampled(0.1), 0.5),
        (GaussianNoise(1).sampled(0.1, replace=True), 2.0),
    ],
)
def test_known_rhos(loss: Loss, expected: float) -> None:
    assert expected <= rho(loss) * (1 + 1e-15)
    assert rho(loss) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("value", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("d", [1e-3, 1e-6, 1e-20])
def test_the_conversion_lies_between_the_gaussian_and_the_textbook(value: float, d: float) -> None:
    ours = epsilon(Zcdp(value), d)
    textbook = value + 2 * math.sqrt(value * math.log(1 / d))
    exact = gaussian.epsilon(GaussianNoise(1 / math.sqrt(2 * value)), d)
    assert exact * (1 - 1e-12) <= ours < textbook


def test_delta_inverts_epsilon() -> None:
    for d in (1e-3, 1e-9):
        assert delta(Zcdp(0.5), epsilon(Zcdp(0.5), d)) == pytest.approx(d, rel=1e-2)
    assert delta(Composed(()), 0.0) <= 1e-300
    with pytest.raises(InvalidParameter, match="epsilon=-1"):
        delta(Zcdp(1), -1)


def test_no_delta_means_no_finite_epsilon() -> None:
    assert epsilon(Zcdp(1), 0) == math.inf
    assert epsilon(Composed(()), 0) == 0


def test_failures_are_taken_from_delta() -> None:
    loss = Approximate(1, Fraction(1, 10**7)) + Zcdp(0.1)
    assert epsilon(loss, 1e-6) >= epsilon(Pure(1) + Zcdp(0.1), 9e-7) * (1 - 1e-7)
    assert epsilon(loss, 1e-8) == math.inf


def test_unconcentrated_losses_are_refused_by_name() -> None:
    with pytest.raises(Unaccountable, match="the best of"):
        rho(Selected(GaussianNoise(1), NegativeBinomialRuns(0, 0.5)))
    with pytest.raises(Unaccountable, match="shuffled batches"):
        rho(GaussianNoise(1).sampled(0.1, SHUFFLED))
