"""Generic amplification by sampling."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.accounting import renyi
from deniable.accounting.methods.amplify import amplify_pair, epsilon
from deniable.accounting.methods.sampling import LARGE, has_sample
from deniable.errors import Unaccountable
from deniable.loss import (
    POISSON,
    SHUFFLED,
    WITHOUT_REPLACEMENT,
    Approximate,
    GaussianNoise,
    Grouped,
    LaplaceNoise,
    Loss,
    Parallel,
    PoissonRuns,
    Pure,
    Sampled,
    Scheme,
    Selected,
    Zcdp,
)


def worst_triple(eps: float, d: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Answers without the record, with the old and with the new one, on the corners that
    (ε, δ)-closeness allows."""
    t = 1 / (1 + math.exp(-eps))
    without = np.array([0.0, (1 - d) * (1 - t), (1 - d) * t, d])
    old = np.array([d, (1 - d) * t, (1 - d) * (1 - t), 0.0])
    return (
        without,
        old,
        np.array([0.0, (1 - d) * (1 - t) * math.exp(-eps), 1 - (1 - d) * (1 - t) * math.exp(-eps), 0.0]),
    )


def hockey_stick(p: np.ndarray, q: np.ndarray, eps: float) -> float:
    return float(np.maximum(p - math.exp(eps) * q, 0).sum())


@given(st.floats(0.01, 3), st.floats(0, 0.05), st.floats(0.01, 1))
def test_added_and_removed_records_are_covered_and_the_bound_is_reached(
    eps: float, d: float, rate: float
) -> None:
    out, spent = amplify_pair(Approximate(eps, d).sampled(rate), Fraction(eps), Fraction(d))
    without, old, _ = worst_triple(eps, d)
    mixture = (1 - rate) * without + rate * old
    slack = 1e-12
    assert hockey_stick(mixture, without, float(out)) <= float(spent) + slack
    assert hockey_stick(without, mixture, float(out)) <= float(spent) + slack
    assert hockey_stick(mixture, without, float(out)) >= float(spent) - slack


@given(st.floats(0.01, 3), st.floats(0, 0.05), st.floats(0.01, 1))
def test_replaced_records_in_a_poisson_sample_are_covered(eps: float, d: float, rate: float) -> None:
    out, spent = amplify_pair(Approximate(eps, d).sampled(rate, replace=True), Fraction(eps), Fraction(d))
    without, old, new = worst_triple(eps, d)
    one, two = (1 - rate) * without + rate * old, (1 - rate) * without + rate * new
    assert hockey_stick(one, two, float(out)) <= float(spent) + 1e-12
    assert hockey_stick(two, one, float(out)) <= float(spent) + 1e-12


@pytest.mark.parametrize(
    ("scheme", "replace"), [(POISSON, False), (WITHOUT_REPLACEMENT, True), (WITHOUT_REPLACEMENT, False)]
)
def test_the_formula(scheme: Scheme, replace: bool) -> None:
    loss = Sampled(0.01, Approximate(1, 1e-6), scheme, replace)
    value = math.log1p(0.01 * math.expm1(1))
    assert epsilon(loss, 1e-6) == pytest.approx(value, rel=1e-2)
    assert epsilon(Sampled(0.01, Pure(1), scheme, replace), 0) == pytest.approx(value, rel=1e-14)


def test_a_fixed_size_sample_of_a_real_data_set_is_covered() -> None:
    """Eight records, samples of two, randomized response to "is the odd one in the sample": by
    enumeration."""
    n, m, eps = 8, 2, 1.5
    inside = math.comb(n - 1, m - 1) / math.comb(n, m)
    t = 1 / (1 + math.exp(-eps))
    one = np.array([inside * t + (1 - inside) * (1 - t), inside * (1 - t) + (1 - inside) * t])
    two = np.array([1 - t, t])
    ours = epsilon(Pure(eps).sampled(Fraction(m, n), WITHOUT_REPLACEMENT, replace=True), 0)
    assert max(np.log(one / two).max(), np.log(two / one).max()) == pytest.approx(ours, rel=1e-12)


def test_shuffled_batches_are_refused_with_the_way_out() -> None:
    with pytest.raises(Unaccountable, match=r"Repeated\(epochs, of\)"):
        epsilon(Pure(1).sampled(0.1, SHUFFLED), 1e-6)


def test_a_loss_without_samples_is_refused() -> None:
    with pytest.raises(Unaccountable, match="no sample in this loss"):
        epsilon(Pure(1), 1e-6)


@pytest.mark.parametrize(
    "loss",
    [
        Pure(1).sampled(0.1) * 3,
        Pure(1) + Pure(1).sampled(0.1),
        Grouped(2, Pure(1).sampled(0.1)),
        Parallel((Pure(1), Pure(1).sampled(0.1))),
        Selected(Pure(1).sampled(0.1), PoissonRuns(2)),
    ],
)
def test_samples_are_found_anywhere(loss: Loss) -> None:
    assert has_sample(loss)


def test_composition_of_samples_is_dearer_than_the_renyi_method_but_finite() -> None:
    loss = GaussianNoise(4).sampled(0.01) * 1000
    assert renyi.epsilon(loss, 1e-5) < epsilon(loss, 1e-5) < 5
    assert epsilon(Zcdp(0.05).sampled(0.1) * 10, 1e-5) < 3
    assert epsilon(LaplaceNoise(1).sampled(0.1) * 10, 1e-5) < 2


def test_very_large_epsilons_stay_sound() -> None:
    loss = Approximate(LARGE + 1, 1e-6)
    assert amplify_pair(loss.sampled(0.1), Fraction(LARGE + 1), Fraction(1, 10**6)) == (
        LARGE + 1,
        Fraction(1, 10**6),
    )
    out, spent = amplify_pair(loss.sampled(0.1, replace=True), Fraction(LARGE + 1), Fraction(1, 10**6))
    assert (out, spent) == (2 * (LARGE + 1), 1)
