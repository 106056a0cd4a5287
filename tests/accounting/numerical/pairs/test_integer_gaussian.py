"""Integer Gaussian noise beside continuous noise: computed outcome by outcome, and by the bound of T8."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from deniable.accounting import numerical
from deniable.accounting.numerical.lattice.one_step import height
from deniable.accounting.numerical.pairs import integer_gaussian
from deniable.accounting.numerical.rounding import Array
from deniable.loss import Composed, DiscreteGaussianNoise, GaussianNoise


def law(sigma: float, shift: int) -> Array:
    x = np.arange(-math.ceil(12 * sigma) - 8, math.ceil(12 * sigma) + 9)
    weights = np.exp(-(((x - shift) / sigma) ** 2) / 2)
    return np.asarray(weights / np.exp(-((x / sigma) ** 2) / 2).sum())


def true_delta(sigma: float, shifts: tuple[int, int], epsilon: float, rate: float = 1.0) -> float:
    """Σ max(0, P − e^ε·Q) over all integer vectors of two coordinates."""
    p, q = (np.multiply.outer(law(sigma, a), law(sigma, b)) for a, b in (shifts, (0, 0)))
    mixed = rate * p + (1 - rate) * q
    return float(np.maximum(0, mixed - math.exp(epsilon) * q).sum())


@pytest.mark.parametrize("sigma", [3.0, 6.0, 20.0])
@pytest.mark.parametrize("shifts", [(1, 1), (2, 1), (3, 4)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
def test_two_coordinates_lie_within_the_bracket(
    sigma: float, shifts: tuple[int, int], epsilon: float
) -> None:
    loss = DiscreteGaussianNoise(sigma, Fraction(math.hypot(*shifts)) + Fraction(1, 10**12), 2)
    bound = numerical.delta(loss, epsilon)
    assert true_delta(sigma, shifts, epsilon) <= bound.upper * (1 + 1e-9) + 1e-15
    assert bound.lower * (1 - 1e-9) <= true_delta(sigma, (math.floor(loss.sensitivity), 0), epsilon) + 1e-15


def test_two_coordinates_on_a_sample_lie_within_the_bracket() -> None:
    truth = true_delta(6, (2, 1), 0.1, rate=0.3)
    bound = numerical.delta(DiscreteGaussianNoise(6, 2.24, 2).sampled(0.3), 0.1)
    assert bound.lower <= truth <= bound.upper


def test_integer_noise_reveals_more_than_continuous_noise_of_the_same_deviation() -> None:
    """So a bound without s would be false."""
    epsilon, shifts = 2.5, (2, 1)
    truth = true_delta(0.7, shifts, epsilon)
    continuous = numerical.delta(GaussianNoise(0.7 / math.hypot(*shifts)), epsilon).upper
    assert truth > continuous


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("loss", [DiscreteGaussianNoise(1000, 200, 50), DiscreteGaussianNoise(3e12, 3e11)])
def test_the_bracket_meets_for_vectors_and_for_any_sigma(loss: DiscreteGaussianNoise, times: int) -> None:
    bound = numerical.epsilon(loss * times, 1e-6)
    continuous = numerical.epsilon(GaussianNoise(float(loss.sigma) / float(loss.sensitivity)) * times, 1e-6)
    assert bound.gap <= 1e-3 * bound.upper
    assert continuous.lower <= bound.upper <= continuous.upper * 1.001


@pytest.mark.parametrize("y", [0.0, 0.5, 2.0])
def test_the_two_pairs_enclose_the_finite_one(y: float) -> None:
    exact = numerical.delta(DiscreteGaussianNoise(200, 100, 1), y)
    above, below = (
        integer_gaussian.narrower(Fraction(200), Fraction(100)),
        integer_gaussian.wider(Fraction(200) ** 2, 100),
    )
    assert above is not None
    assert height(above, y, 1) >= exact.lower
    assert height(below, y, -1) <= exact.upper


def test_what_is_left_out_adds_up_and_is_charged() -> None:
    one = DiscreteGaussianNoise(50, 5)
    assert numerical.delta(one, 30.0).upper >= integer_gaussian.LEFT
    assert numerical.delta(one * 1000, 1e4).upper >= 1000 * integer_gaussian.LEFT


def test_gaussians_of_both_kinds_on_one_sample_are_one_gaussian() -> None:
    both = Composed((DiscreteGaussianNoise(500, 100, 7), GaussianNoise(5))).sampled(0.1) * 30
    merged = numerical.epsilon(both, 1e-6)
    alike = numerical.epsilon(GaussianNoise(5 / math.sqrt(2)).sampled(0.1) * 30, 1e-6)
    assert alike.lower <= merged.upper <= alike.upper * 1.002


def test_more_coordinates_need_a_wider_smoothing() -> None:
    near, far = (
        integer_gaussian.narrower(Fraction(100), Fraction(1)),
        integer_gaussian.narrower(Fraction(100), Fraction(10**8)),
    )
    assert near is not None
    assert far is not None
    assert far.sigma * 10**8 < near.sigma * (1 - 5e-5)
    assert integer_gaussian.narrower(Fraction(2), Fraction(1)) is None
