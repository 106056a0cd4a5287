"""Exact sums, and integer noise that is never less private than the Gaussian node that is stated for it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from deniable.accounting import epsilon
from deniable.errors import InvalidParameter
from deniable.learn.recipes import exact
from deniable.loss import DiscreteGaussianNoise, GaussianNoise
from deniable.randomness import SeededRandom


@pytest.mark.parametrize(("multiplier", "sensitivity"), [(0.5, 1), (0.5, 8), (1.0, 3), (4.0, 1), (2.0, 1000)])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_integer_noise_costs_no_more_than_the_node_that_is_stated(
    multiplier: float, sensitivity: int, delta: float
) -> None:
    """In one dimension the integer noise's own profile is summed: an independent way to the same number."""
    own = epsilon(DiscreteGaussianNoise(exact.deviation(multiplier, sensitivity), sensitivity, 1), delta)
    stated = epsilon(GaussianNoise(multiplier), delta)
    assert own.lower <= stated.upper
    assert own.upper <= stated.upper * (1 + 2e-3)


def test_without_the_smoothing_the_stated_node_would_be_too_small() -> None:
    """Integer noise of the same ratio costs more: what `deviation` adds is needed."""
    own = epsilon(DiscreteGaussianNoise(1, 1, 1), 1e-5)
    assert own.lower > epsilon(GaussianNoise(1), 1e-5).upper


def test_the_laws_of_the_lemma_agree() -> None:
    """Rounding N(v, τ²) at random and integer noise of variance τ² + s² give one law,
    here summed and integrated."""
    tau, s, v = 2.0, exact.SMOOTHING, 0.0
    x, y = np.arange(-80, 81), np.linspace(-30, 30, 24_001)
    density = np.exp(-((y - v) ** 2) / (2 * tau**2)) / (tau * math.sqrt(2 * math.pi))
    rounded = np.exp(-((x[:, None] - y) ** 2) / (2 * s**2))
    rounded /= rounded.sum(0)
    law = (rounded * density).sum(1) * (y[1] - y[0])
    direct = np.exp(-((x - v) ** 2) / (2 * (tau**2 + s**2)))
    assert law == pytest.approx(direct / direct.sum(), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(("multiplier", "sensitivity"), [(0.01, 1), (math.inf, 1), (math.nan, 1), (1.0, 0.5)])
def test_noise_without_meaning_is_refused(multiplier: float, sensitivity: float) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        exact.deviation(multiplier, sensitivity)


def spread(sample: torch.Tensor, deviation: float) -> float:
    """How many of its own standard errors the variance lies from deviation²."""
    n = sample.numel()
    return abs(float((sample / deviation).square().mean()) - 1) / math.sqrt(2 / n)


def test_noise_has_the_deviation_that_is_stated() -> None:
    drawn = exact.noisy(torch.zeros(100_000), 3.0, 50.0, SeededRandom(1))
    assert spread(drawn, 150.0) < 6.1
    assert spread(drawn, 150.0 * 0.7) > 6.1
    assert spread(drawn, 150.0 * 1.3) > 6.1


def test_symmetric_noise_is_symmetric_and_narrower_off_the_diagonal() -> None:
    drawn = exact.noisy_symmetric(torch.zeros(400, 400), 2.0, 1000.0, SeededRandom(2))
    assert torch.equal(drawn, drawn.T)
    above = drawn[torch.triu_indices(400, 400, 1)[0], torch.triu_indices(400, 400, 1)[1]]
    assert spread(above, 2000 / math.sqrt(2)) < 6.1
    assert spread(drawn.diagonal(), 2000) < 6.1
    assert spread(above, 2000) > 6.1


def test_laplace_noise_is_symmetric_and_of_its_scale() -> None:
    drawn = exact.laplace_symmetric(torch.zeros(300, 300), Fraction(500), SeededRandom(3))
    assert torch.equal(drawn, drawn.T)
    above = drawn[torch.triu_indices(300, 300)[0], torch.triu_indices(300, 300)[1]]
    mean = float(above.abs().mean())
    assert abs(mean - 500) < 6.1 * 500 / math.sqrt(len(above))


def test_units_are_whole_and_never_too_long() -> None:
    rows = (
        torch.randn(2000, 30, generator=torch.Generator().manual_seed(0))
        * 10 ** torch.linspace(-30, 30, 2000)[:, None]
    )
    whole = exact.units(rows, 1 << 10, 127).numpy().astype(object)
    assert all(value == int(value) and abs(value) <= 127 for value in whole.reshape(-1))
    lengths = [sum(int(value) ** 2 for value in row) for row in whole]
    assert max(lengths) <= 1 << 20


def test_units_keep_the_direction_of_a_row() -> None:
    rows = torch.randn(50, 100, generator=torch.Generator().manual_seed(0))
    cosine = torch.nn.functional.cosine_similarity(rows, exact.units(rows, 1 << 14, 1 << 14))
    assert float(cosine.min()) > 0.9999


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 3e38])
def test_a_row_that_has_no_direction_is_left_out_and_no_other(bad: float) -> None:
    rows = torch.ones(3, 4)
    rows[1] = bad
    rows[2] = 0
    whole = exact.units(rows, 1000, 1000)
    assert whole[0].tolist() == [500] * 4
    assert not whole[1:].any()


def test_full_precision_holds_inside_and_is_given_back() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with exact.full_precision():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("noise", [(None, None), (1.0, 1.0)])
def test_one_noise_is_asked_for(noise: tuple[float | None, float | None]) -> None:
    with pytest.raises(InvalidParameter, match="either noise_multiplier"):
        exact.one_noise(*noise)
