"""One integer noise: the scale that a loss states is the scale that is drawn, and nobody draws by hand."""

from __future__ import annotations

import ast
from fractions import Fraction

import numpy as np
import pytest

from deniable.errors import InvalidLoss
from deniable.loss import DiscreteGaussianNoise, DiscreteLaplaceNoise, Number
from deniable.mechanisms import Gaussian, Laplace, NoisyCounts, tails
from deniable.mechanisms.integer_noise import Family, IntegerNoise, gaussian, laplace
from deniable.randomness import SeededRandom
from tests.meta.source import list_nodes, modules

SCALES: list[Number] = [1, 2.5, Fraction(10, 3), 1000]
DRAWERS = ("discrete_laplace", "discrete_gaussian")


@pytest.mark.parametrize("scale", SCALES)
def test_a_draw_is_bit_for_bit_that_of_the_sampler(scale: Number) -> None:
    for noise, sampler in ((laplace(scale), "discrete_laplace"), (gaussian(scale), "discrete_gaussian")):
        ours, theirs = SeededRandom(7), SeededRandom(7)
        assert noise.draw(ours) == getattr(theirs, sampler)(scale)
        assert np.array_equal(noise.draw(ours, 50), getattr(theirs, sampler)(scale, 50))


@pytest.mark.parametrize("scale", SCALES)
def test_the_loss_states_what_is_drawn(scale: Number) -> None:
    assert laplace(scale, 3).loss == DiscreteLaplaceNoise(scale, 3)
    assert gaussian(scale, 1.5, 4).loss == DiscreteGaussianNoise(scale, 1.5, 4)


def test_a_sensitivity_that_no_integer_vector_has_is_refused() -> None:
    with pytest.raises(InvalidLoss, match="sensitivity"):
        IntegerNoise(Family.LAPLACE, 2, 0.5).loss  # noqa: B018


@pytest.mark.parametrize("noise", [laplace(3), gaussian(3), laplace(Fraction(1, 2)), gaussian(5000)])
@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-6])
def test_within_is_the_least_reach_that_fails_so_seldom(noise: IntegerNoise, beta: float) -> None:
    t = noise.within(beta)
    assert noise.tail(t + 1) <= beta
    assert t == 0 or noise.tail(t) > beta


@pytest.mark.parametrize("noise", [laplace(3), gaussian(3)])
def test_mean_tail_and_mass_at_zero_are_those_of_the_draws(noise: IntegerNoise) -> None:
    """A hundred thousand draws; each figure within six deviations, that is p = 1e-9."""
    n = 100_000
    drawn = np.abs(noise.draw(SeededRandom(11), n))
    figures = [(noise.at_zero, drawn == 0), (noise.tail(4), drawn >= 4)]
    for probability, seen in figures:
        assert abs(seen.mean() - probability) <= 6.2 * (probability * (1 - probability) / n) ** 0.5
    assert abs(drawn.mean() - noise.mean) <= 6.2 * drawn.std() / n**0.5


def test_mechanisms_compute_their_noise_once() -> None:
    for mechanism in (Laplace(2), Gaussian(4, granularity=0.5, dimension=3)):
        assert mechanism.noise is mechanism.noise
        assert mechanism.loss is mechanism.loss
    counts = NoisyCounts((("a", "b"),), scale=2)
    assert counts.loss is counts.loss


def test_the_norm_of_one_coordinate_is_its_size() -> None:
    for noise in (laplace(7), gaussian(7)):
        assert noise.norm_within(0.05, 1) == noise.within(0.05)
    assert laplace(7).norm_within(0.05, 9) > laplace(7).within(tails.per_coordinate(Fraction(1, 20), 9))


def test_nobody_draws_by_hand() -> None:
    """Noise is drawn by `IntegerNoise`, whose loss says what it costs; the samplers themselves are below
    it."""
    by_hand = [
        f"{name}:{node.lineno}"
        for name, path in modules().items()
        if not name.startswith("deniable.randomness") and name != "deniable.mechanisms.integer_noise"
        for node in list_nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in DRAWERS
    ]
    assert by_hand == []
