"""Sums of integer Gaussian noises from several parties, against the convolution itself."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from deniable import accounting
from deniable.accounting import renyi
from deniable.errors import InvalidLoss
from deniable.loss import (
    DiscreteGaussianNoise,
    GaussianNoise,
    IntegerGaussianSum,
    Loss,
    Repeated,
    Sampled,
    Silenced,
    mismatch,
)
from deniable.units import Relation, Unit


def convolved(parties: int, sigma: float, reach: int) -> list[mpmath.mpf]:
    """The law of the sum on −reach..reach, each noise on as many integers, with 60 digits."""
    one = [
        mpmath.e ** (-(mpmath.mpf(x) ** 2) / (2 * mpmath.mpf(repr(sigma)) ** 2))
        for x in range(-reach, reach + 1)
    ]
    total = mpmath.fsum(one)
    one = [p / total for p in one]
    law = one
    for _ in range(parties - 1):
        law = [mpmath.fsum(law[i] * one[k - i + reach] for i in range(max(0, k - reach), min(2 * reach, k + reach) + 1))
               for k in range(2 * reach + 1)]  # fmt: skip
    return law


@pytest.mark.parametrize("parties", [2, 3, 4])
@pytest.mark.parametrize("sigma", [0.6, 0.8])
def test_the_log_ratio_to_one_integer_gaussian_is_bounded(parties: int, sigma: float) -> None:
    """Below 2.5 grid units, where the distance can be seen at all; the formula is the node's."""
    with mpmath.workdps(60):
        reach = 30
        law = convolved(parties, sigma, reach)
        width = mpmath.mpf(repr(sigma)) * mpmath.sqrt(parties)
        one = [mpmath.e ** (-(mpmath.mpf(x) ** 2) / (2 * width**2)) for x in range(-reach, reach + 1)]
        total = mpmath.fsum(one)
        worst = max(abs(mpmath.log(law[x + reach] / (one[x + reach] / total))) for x in range(-6, 7))
    tau = 10 * sum(math.exp(-2 * math.pi**2 * sigma**2 * k / (k + 1)) for k in range(1, parties))
    assert 1e-8 < worst <= tau
    assert worst > tau / 50  # of its size, so a distance a hundred times less would be wrong


def test_the_distance_is_the_sum_of_the_formula() -> None:
    node = IntegerGaussianSum(3000, 2.5, 10**6, 50)
    terms = [math.exp(-2 * math.pi**2 * 6.25 * k / (k + 1)) for k in range(1, 3000)]
    assert 10 * 50 * math.fsum(terms) <= node.distance <= 10.1 * 50 * math.fsum(terms)
    assert IntegerGaussianSum(1, 2.5, 10, 50).distance == 0
    # Vectors at distance 2 differ in at most four coordinates.
    assert IntegerGaussianSum(9, 2.5, 2, 50).distance == pytest.approx(
        IntegerGaussianSum(9, 2.5, 50, 4).distance
    )


@pytest.mark.parametrize(("parties", "sigma", "epsilon"), [(2, 2.5, 0.5), (4, 3.0, 1.0), (10, 2.5, 0.3)])
def test_no_shift_in_two_coordinates_passes_the_bound(parties: int, sigma: float, epsilon: float) -> None:
    x = np.arange(-160, 161)
    one = np.exp(-((x / sigma) ** 2) / 2)
    one /= one.sum()
    law = one
    for _ in range(parties - 1):
        law = np.convolve(law, one, "same")
    bound = accounting.delta(IntegerGaussianSum(parties, sigma, 5, 2), epsilon)
    for shift in ((5, 0), (3, 4)):
        p = np.multiply.outer(np.roll(law, shift[0]), np.roll(law, shift[1]))
        truth = np.maximum(p - math.exp(epsilon) * np.multiply.outer(law, law), 0).sum()
        assert truth <= bound.upper


@pytest.mark.parametrize(("parties", "sigma", "shift"), [(2, 2.5, 5), (3, 4.0, 1), (20, 2.5, 12)])
def test_in_one_coordinate_a_sum_is_bracketed_by_its_convolution(
    parties: int, sigma: float, shift: int
) -> None:
    x = np.arange(-600, 601)
    one = np.exp(-((x / sigma) ** 2) / 2)
    one /= one.sum()
    law = one
    for _ in range(parties - 1):
        law = np.convolve(law, one, "same")
    for epsilon in (0.1, 0.8, 2.0):
        truth = np.maximum(np.roll(law, shift) - math.exp(epsilon) * law, 0).sum()
        bound = accounting.delta(IntegerGaussianSum(parties, sigma, shift, 1), epsilon)
        assert bound.lower <= truth * (1 + 1e-9) + 1e-15
        assert truth <= bound.upper * (1 + 1e-9) + 1e-15
        assert bound.gap <= 1e-3 * truth + 1e-12


def test_vectors_that_differ_by_less_than_a_grid_unit_are_equal() -> None:
    assert accounting.epsilon(IntegerGaussianSum(10, 2.5, 0.5, 100), 1e-9).upper == 0


def test_a_sum_costs_what_one_gaussian_of_its_variance_does() -> None:
    rounds: Loss = IntegerGaussianSum(1000, 20, 300, 10**6) * 50
    bound = accounting.epsilon(rounds, 1e-6)
    one = accounting.epsilon(Silenced(GaussianNoise(20 * math.sqrt(1000) / 300)) * 50, 1e-6)
    assert bound.gap <= 1e-3 * bound.upper
    assert bound.upper == pytest.approx(one.upper, rel=2e-3)
    assert renyi.divergence(rounds, 8) == pytest.approx(
        renyi.divergence(DiscreteGaussianNoise(20, 300) * 50, 8) / 1000, rel=1e-6
    )


def test_it_is_for_units_that_stay_or_are_replaced() -> None:
    silent, replaced = IntegerGaussianSum(9, 3, 5, 2), IntegerGaussianSum(9, 3, 5, 2, replace=True)
    assert (silent.relation, replaced.relation) == (Relation.SILENCED, Relation.REPLACED)
    assert mismatch(silent, Unit.client()) is not None
    assert mismatch(silent, Unit.client(zero_out=True)) is None
    sampled = silent.sampled(0.1) * 10
    assert isinstance(sampled, Repeated)
    assert isinstance(sampled.of, Sampled)
    assert sampled.relation is Relation.SILENCED
    assert accounting.epsilon(sampled, 1e-6).upper < accounting.epsilon(silent * 10, 1e-6).upper
    with pytest.raises(InvalidLoss):
        replaced.sampled(0.1)
    with pytest.raises(InvalidLoss):
        silent + GaussianNoise(1).sampled(0.1)
