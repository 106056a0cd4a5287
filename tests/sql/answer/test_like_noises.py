"""The line in √n lies above the exact quantile of every sum of like integer noises, and not far above."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from deniable.sql.answer.like_noises import line
from deniable.sql.plan.noise import Family, IntegerSensitivity, Noise

ONE = IntegerSensitivity(1, 1)
NOISES = [Noise(Family.LAPLACE, Fraction(s), ONE) for s in ("0.3", "1", "10")] + [
    Noise(Family.GAUSSIAN, Fraction(s), ONE) for s in ("1", "1.5", "8")
]
LENGTH = 1 << 14


def transform(noise: Noise) -> np.ndarray:
    x = np.abs(np.fft.fftfreq(LENGTH, 1 / LENGTH))
    scale = float(Fraction(noise.scale))
    weights = np.exp(-x / scale if noise.family is Family.LAPLACE else -((x / scale) ** 2) / 2)
    return np.fft.rfft(weights / weights.sum())


def beyond(noise: Noise, n: int, t: float) -> float:
    """P(|sum of n| > t), on a circle whose far side nothing reaches."""
    law = np.fft.irfft(transform(noise) ** n, LENGTH)
    return float(law[np.abs(np.fft.fftfreq(LENGTH, 1 / LENGTH)) > t].sum())


@pytest.mark.parametrize("noise", NOISES, ids=lambda n: f"{n.family.value}-{float(n.scale)}")
@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-4, 1e-7])
def test_the_sum_of_n_is_within_its_line(noise: Noise, beta: float) -> None:
    told = line(Fraction(1), noise, 300, beta)
    assert told is not None
    for n in (1, 2, 3, 5, 19, 20, 21, 47, 100, 299, 300):
        assert beyond(noise, n, told(n)) <= beta + 1e-12


@pytest.mark.parametrize("noise", NOISES[1:], ids=lambda n: f"{n.family.value}-{float(n.scale)}")
def test_a_hundred_reach_about_ten_times_as_far_as_one(noise: Noise) -> None:
    told = line(Fraction(1), noise, 100, 0.05)
    assert told is not None
    assert told(100) <= 1.3 * 10 * noise.within(0.05)
    # Not much farther than the true quantile either.
    assert beyond(noise, 100, told(100) / 1.2) > 0.05


def test_worth_scales_it_and_narrow_gaussian_noise_has_none() -> None:
    one, three = (line(Fraction(w), NOISES[1], 50, 0.05) for w in (1, -3))
    assert one is not None
    assert three is not None
    assert math.isclose(three(7), 3 * one(7))
    assert line(Fraction(1), Noise(Family.GAUSSIAN, Fraction("0.9"), ONE), 5, 0.05) is None
