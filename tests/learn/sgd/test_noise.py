"""The noise is Gaussian of the right size, and on a grid the sums are exact."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from deniable.learn.sgd.noise import Grid, gaussians
from deniable.randomness import SecureRandom, SeededRandom
from tests.learn.sgd.runs import Identity, output, problem, small, trainer

N = 100_000


def accepts(values: Any, deviation: float) -> bool:
    """Whether values may be Gaussian noise of this deviation, at p = 1e-9: by their variance and by their distribution."""
    scaled = np.asarray(values) / deviation
    low, high = (stats.chi2.ppf(p, len(scaled)) for p in (1e-9, 1 - 1e-9))
    return bool(low < np.sum(scaled**2) < high) and stats.kstest(scaled, "norm").pvalue > 1e-9


def test_gaussians_have_the_right_law_and_no_other_scale() -> None:
    drawn = gaussians(SeededRandom(3), N).numpy()
    assert accepts(drawn, 1.0)
    assert not accepts(drawn, 0.7)
    assert not accepts(drawn, 1.3)


def test_both_numbers_of_a_pair_and_neighbouring_chunks_are_independent() -> None:
    drawn = gaussians(SeededRandom(4), 4 * 32768).numpy()
    for lag in (1, 32768, 65536):
        r = np.corrcoef(drawn[:-lag], drawn[lag:])[0, 1]
        assert abs(r) < 6.2 / math.sqrt(len(drawn) - lag)
        squares = np.corrcoef(drawn[:-lag] ** 2, drawn[lag:] ** 2)[0, 1]
        assert abs(squares) < 6.2 / math.sqrt(len(drawn) - lag)


def test_the_tail_reaches_as_far_as_53_bits_do() -> None:
    class Least(SeededRandom):
        """All bits zero: the least radius word and the angle 0."""

        def raw(self, n: int) -> Any:
            return np.zeros(n, np.uint8)

    assert float(gaussians(Least(0), 2)[0]) == pytest.approx(math.sqrt(2 * 53 * math.log(2)))
    assert torch.isfinite(gaussians(Least(0), 2)).all()


@pytest.mark.parametrize("size", [0, 1, 2, 65535, 65537])
def test_any_number_of_them_is_drawn(size: int) -> None:
    drawn = gaussians(SecureRandom(), size)
    assert drawn.shape == (size,)
    assert drawn.dtype == torch.float64
    assert len(torch.unique(drawn)) == size


def test_another_source_of_randomness_gives_the_same_law() -> None:
    class Plain:
        """Not one of our generators: only what the protocol asks for."""

        private = False

        def uniform_integers(self, bound: int, size: int) -> Any:
            return np.random.default_rng(5).integers(0, bound, size)

    assert accepts(gaussians(Plain(), N).numpy(), 1.0)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ on a grid


@pytest.mark.parametrize("dimension", [1, 7, 1000, 10**6])
@pytest.mark.parametrize("clip", [0.3, 1.0, 1e-5, 77.0])
def test_rounding_costs_less_than_a_thousandth_of_the_sensitivity(dimension: int, clip: float) -> None:
    grid = Grid(clip, dimension)
    bound = grid.sensitivity * grid.step
    assert Fraction(clip) < bound < Fraction(clip) * (1 + Fraction(1, 500)) + grid.step
    assert grid.step.numerator == 1 or grid.step.denominator == 1


def test_no_rounded_gradient_is_longer_than_the_sensitivity() -> None:
    """Every coordinate as far from the grid as can be, and of norm exactly the clip: exact arithmetic in Python integers."""
    grid = Grid(1.0, 1000)
    start = torch.full((1000,), 1 / math.sqrt(1000))
    for nudge in torch.linspace(0, float(grid.step), 7):
        values = (start - nudge).double()
        rounded = grid.rounded(values)
        exact = sum(Fraction(float(v)) ** 2 for v in values)
        assert sum(int(r) ** 2 for r in rounded) <= grid.sensitivity**2
        assert exact <= 1


def test_a_sum_on_the_grid_is_the_sum_of_its_rows_to_the_last_bit() -> None:
    x, y = problem(40)
    t = trainer(small(grid=True))
    whole = t.clipped([(x, y)]).total["all"]
    rows = [t.clipped([(x[i : i + 1], y[i : i + 1])]).total["all"] for i in range(40)]
    assert whole.dtype == torch.int64
    assert torch.equal(whole, sum(rows[1:], rows[0]))
    assert torch.equal(whole, t.clipped([(x.flip(0), y.flip(0))]).total["all"])


def test_the_noise_on_the_grid_is_integer_noise_of_the_stated_size() -> None:
    run = small(Identity(20_000).double(), output, grid=True, noise_multiplier=0.7, lot=30)
    t = trainer(run)
    t.taken = 1
    released = t.release(t.clipped([]))["line.weight"][0] * run.plan.lot
    loss = run.grids["all"].loss(0.7)
    units = released.numpy() / float(run.grids["all"].step)
    assert np.abs(units - np.round(units)).max() < 1e-6
    assert accepts(units, float(loss.sigma))
    assert not accepts(units, 0.7 * float(loss.sigma))
    assert not accepts(units, 1.3 * float(loss.sigma))
    assert loss.sigma >= 0.7 * loss.sensitivity  # type: ignore[operator]
    assert run.loss.of.of == loss  # type: ignore[attr-defined]
