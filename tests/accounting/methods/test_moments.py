"""The 2016 moments accountant."""

from __future__ import annotations

import math

import pytest

from deniable.accounting import renyi
from deniable.accounting.methods.moments import MOMENTS, epsilon, theorem1_constant
from deniable.errors import InvalidParameter
from deniable.loss import Approximate, GaussianNoise, Pure

STEP = GaussianNoise(4).sampled(0.01)


def test_the_figures_of_the_paper() -> None:
    assert round(epsilon(STEP * 10_000, 1e-5), 2) == 1.26
    assert 2.55 <= epsilon(STEP * 40_000, 1e-5) <= 2.58


def test_it_is_the_formula_over_whole_moments() -> None:
    loss = STEP * 10_000
    formula = min((l * renyi.divergence(loss, l + 1) + math.log(1e5)) / l for l in range(1, MOMENTS + 1))
    assert epsilon(loss, 1e-5) == pytest.approx(formula, rel=1e-10)


@pytest.mark.parametrize(
    "loss", [STEP * 100, STEP * 10_000, Pure(0.1) * 50, GaussianNoise(2), GaussianNoise(0.2) * 10]
)
def test_the_renyi_method_is_never_worse(loss: Pure) -> None:
    assert renyi.epsilon(loss, 1e-5) <= epsilon(loss, 1e-5)


def test_failures_are_taken_from_delta() -> None:
    assert epsilon(Approximate(1, 1e-6) * 2, 1e-6) == math.inf
    assert epsilon(Pure(1), 0) == math.inf


def test_the_constant_of_theorem_1() -> None:
    """σ = c₂·q·√(T·ln(1/δ))/ε: about 1.5 by the moments accountant, 1.1 by the tight
    value, for the figure's parameters."""
    assert theorem1_constant(0.01, 4, 10_000, 1e-5) == pytest.approx(1.484, abs=1e-3)
    assert theorem1_constant(0.01, 4, 40_000, 1e-5) == pytest.approx(1.518, abs=1e-3)
    assert theorem1_constant(0.01, 4, 10_000, 1e-5, epsilon=0.9469) == pytest.approx(1.116, abs=1e-3)


@pytest.mark.parametrize("bad", [(0, 4, 1, 1e-5), (0.1, 0, 1, 1e-5), (0.1, 1, 0, 1e-5), (0.1, 1, 1, 0)])
def test_parameters_outside_their_range_are_refused(bad: tuple[float, float, int, float]) -> None:
    with pytest.raises(InvalidParameter, match="Expected rate="):
        theorem1_constant(*bad)
