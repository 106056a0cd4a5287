"""The trade-off curve against its closed form, and from both sides."""

import numpy as np
import pytest
from scipy.stats import norm

from deniable.accounting import tradeoff
from deniable.errors import InvalidParameter
from deniable.loss import Composed, GaussianNoise, Pure, Zcdp

ALPHA = np.array([0.0, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.9, 1.0])


@pytest.mark.parametrize("sigma", [0.5, 1, 4])
def test_a_gaussian_has_its_closed_form(sigma: float) -> None:
    curve = tradeoff(GaussianNoise(sigma), ALPHA)
    true = norm.cdf(norm.ppf(1 - ALPHA) - 1 / sigma)
    assert np.all(curve.lower <= true + 1e-12)
    assert np.all(curve.upper >= true - 1e-12)
    assert np.all(true - curve.lower <= 0.01)
    assert np.all(curve.upper - true <= 0.03)


def test_pure_privacy_is_two_lines() -> None:
    curve = tradeoff(Pure(1), ALPHA)
    true = np.maximum(0, np.maximum(1 - np.e * ALPHA, (1 - ALPHA) / np.e))
    assert np.all(curve.lower <= true + 1e-12)
    assert np.all(true - curve.lower <= 1e-3)


def test_nothing_revealed_leaves_the_attacker_guessing() -> None:
    curve = tradeoff(Composed(()), ALPHA)
    assert curve.lower == pytest.approx(1 - ALPHA, abs=1e-9)
    assert curve.power == pytest.approx(ALPHA, abs=1e-9)


def test_a_loss_without_a_pair_has_a_curve_too() -> None:
    curve = tradeoff(Zcdp(0.5), ALPHA, points=12)
    assert np.all(curve.lower <= norm.cdf(norm.ppf(1 - ALPHA) - 1) + 1e-9)


def test_rates_outside_the_unit_interval_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="false-positive rate"):
        tradeoff(Pure(1), np.array([1.5]))
