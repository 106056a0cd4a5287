"""The noise is Gaussian of the right size, and on a grid the sums are exact."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from mpmath import mp
from scipy import stats
from torch import Tensor

from deniable.learn.clip import Batch
from deniable.learn.sgd import noise
from deniable.learn.sgd.noise import COUNTED, GradientGrid, count_deviation, gaussians, noisy_mean
from deniable.learn.sgd.training import trainer as training
from deniable.learn.sgd.training.trainer import Trainer
from deniable.randomness import SecureRandom, SeededRandom
from tests.learn.sgd.runs import Identity, output, problem, small, trainer

N = 100_000


def accepts(values: Any, deviation: float) -> bool:
    """Whether values may be Gaussian noise of this deviation, at p = 1e-9: by their
    variance and by their distribution."""
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


class Words(SeededRandom):
    """A source that gives these radius words and these angle words."""

    def __init__(self, radius: list[int], angle: list[int]) -> None:
        super().__init__(0)
        self.words = np.array([*radius, *angle], np.int64)

    def raw(self, n: int) -> Any:
        assert n == self.words.nbytes
        return self.words.copy().view(np.uint8)


def test_the_tail_reaches_as_far_as_64_bits_do() -> None:
    drawn = gaussians(Words([0, 1], [0, 0]), 4)
    assert torch.isfinite(drawn).all()
    assert float(drawn[0]) == pytest.approx(math.sqrt(2 * 65 * math.log(2)), rel=1e-12)
    assert float(drawn[1]) == pytest.approx(math.sqrt(126 * math.log(2) - math.log(1.0625)), rel=1e-12)


@pytest.mark.parametrize("by_numpy", [True, False])
def test_each_pair_is_what_its_words_say(monkeypatch: pytest.MonkeyPatch, by_numpy: bool) -> None:
    """Against 60 digits: extreme words, words of every size, and any words; by either library's functions."""
    monkeypatch.setattr(noise, "_BY_NUMPY", by_numpy)
    source = np.random.default_rng(0)
    sizes = [s * (1 << i) + int(source.integers(0, 1 << i)) for i in range(2, 62) for s in (1, -1)]
    radius = [0, 1, -1, 2**63 - 1, -(2**63), 2**62, *sizes, *source.integers(-(2**63), 2**63, 300).tolist()]
    angle = [*reversed(radius)]
    drawn = gaussians(Words(radius, angle), 2 * len(radius)).tolist()
    with mp.workdps(60):
        for i, (k, a) in enumerate(zip(radius, angle, strict=True)):
            r = mp.sqrt(-mp.log(min((mp.mpf(k) ** 2 + mp.mpf(1) / 16) / 2**126, 1)))
            near = 2.0**-50 * (1 + float(r) + 1 / max(float(r), 2.0**-26))
            r *= 1 + mp.mpf(2) ** -49  # by so much the deviation is raised: more than rounding takes away
            assert abs(drawn[i] - r * mp.cospi(mp.mpf(a) / 2**63)) < near
            assert abs(drawn[len(radius) + i] - r * mp.sinpi(mp.mpf(a) / 2**63)) < near


def test_beyond_four_deviations_lie_as_many_as_should() -> None:
    """Two million numbers: 127 are expected there, and a tail that ends early or is heavier shows."""
    drawn = gaussians(SeededRandom(6), 2_000_000).abs()
    for bound in (3.0, 4.0, 4.5):
        count, share = int((drawn > bound).sum()), 2 * stats.norm.sf(bound)
        assert stats.binomtest(count, len(drawn), share).pvalue > 1e-9


def test_noise_and_sum_are_added_in_double_precision_and_rounded_once() -> None:
    total = torch.randn(70_001, generator=torch.Generator().manual_seed(0))
    drawn = gaussians(SeededRandom(8), len(total))
    assert int((drawn.float().double() == drawn).sum()) == 0
    found = noisy_mean(total.clone(), 1.0, 8.0, SeededRandom(8))
    assert torch.equal(found, (total.double() + drawn).float() / 8)
    assert not torch.equal(found, (total + drawn.float()) / 8)


def excluded(released: torch.Tensor, guess: torch.Tensor) -> int:
    """At how many numbers no noise in single precision, added to this guess of the sum,
    rounds to what was released."""
    added = released.double() - guess.double()
    width = torch.from_numpy(np.spacing(released.abs().numpy())).double()
    return int(((added.float().double() - added).abs() > width / 2).sum())


def test_low_bits_do_not_tell_a_sum_from_its_neighbour() -> None:
    """Mironov's attack: where sum and noise cancel, single precision shows which sum it
    was; its broken twin is found."""
    source = torch.Generator().manual_seed(0)
    total = torch.randn(20_000, generator=source)
    neighbour = total + 1e-3 * torch.randn(20_000, generator=source)
    broken = (total.double() + gaussians(SeededRandom(2), len(total)).float().double()).float()
    assert excluded(broken, total) == 0
    assert excluded(broken, neighbour) > 300
    honest = noisy_mean(total.clone(), 1.0, 1.0, SeededRandom(2))
    right, wrong = excluded(honest, total), excluded(honest, neighbour)
    assert min(right, wrong) > 300
    assert abs(right - wrong) < 6.2 * math.sqrt(right + wrong)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mean_has_noise_of_the_deviation_asked_for_over_the_lot(dtype: torch.dtype) -> None:
    total = torch.full((N,), 3.0, dtype=dtype)
    found = noisy_mean(total, 5.0, 7.0, SeededRandom(9))
    assert found is total
    noise = (found.double() * 7 - 3).numpy()
    assert accepts(noise, 5.0)
    assert not accepts(noise, 0.7 * 5)
    assert not accepts(noise, 1.3 * 5)


@pytest.mark.parametrize("size", [0, 1, 2, 65535, 65537, 65539])
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
    grid = GradientGrid(clip, dimension)
    bound = grid.sensitivity * grid.step
    assert Fraction(clip) < bound < Fraction(clip) * (1 + Fraction(1, 500)) + grid.step
    assert grid.step.numerator == 1 or grid.step.denominator == 1


def test_no_rounded_gradient_is_longer_than_the_sensitivity() -> None:
    """Every coordinate as far from the grid as can be, and of norm exactly the clip:
    exact arithmetic in Python integers."""
    grid = GradientGrid(1.0, 1000)
    start = torch.full((1000,), 1 / math.sqrt(1000))
    for nudge in torch.linspace(0, float(grid.step), 7):
        values = (start - nudge).double()
        rounded = torch.zeros(1000, dtype=torch.int64)
        grid.add(values, rounded)
        exact = sum(Fraction(float(v)) ** 2 for v in values)
        assert sum(int(r) ** 2 for r in rounded) <= grid.sensitivity**2
        assert exact <= 1


@pytest.mark.parametrize("clip", [1e-9, 0.3, 1.0, 1e18])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_rounded_to_the_grid_exactly(clip: float, dtype: torch.dtype) -> None:
    """Beside exact fractions, with halves of a grid unit, subnormal numbers and more than one block."""
    grid = GradientGrid(clip, 70_000)
    torch.manual_seed(0)
    values = torch.randn(70_000).to(dtype) * clip / 300
    halves = torch.arange(-4, 5) * float(grid.step) / 2
    values[:9], values[9:11] = halves.to(dtype), torch.tensor([1e-45, -1e-40]).to(dtype)
    total = torch.arange(70_000)
    grid.add(values, total)
    places = [*range(300), *range(65_500, 65_600), *range(69_900, 70_000)]
    for place in places:
        assert int(total[place]) - place == round(Fraction(float(values[place])) / grid.step)


@functools.cache
def noisy_counts(grid: bool) -> Any:
    """3000 counts of seven usable rows, less the seven."""
    t = Trainer.with_copy(small(Identity(3), output, noise_multiplier=1.5, grid=grid), SeededRandom(4))
    t.taken = 1
    return np.array([t._noisy_count(7, 1.5) for _ in range(3000)]) - 7


@pytest.mark.sampled(2)
@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("factor", [0.7, 1.0, 1.3])
def test_the_count_of_usable_rows_has_the_noise_that_its_place_in_the_sum_asks_for(
    grid: bool, factor: float
) -> None:
    """A row adds the clip/32 to that coordinate: noise of 32·z rows, and a little more for both together."""
    spread = (noisy_counts(grid) ** 2).sum() / (factor * 32 * 1.5 * math.sqrt(1 + 2.0**-10)) ** 2
    low, high = stats.chi2.ppf([1e-9, 1 - 1e-9], 3000)
    assert (low < spread < high) == (factor == 1.0)


@pytest.mark.parametrize("grid", [False, True])
def test_gradient_and_count_together_are_one_release(grid: bool) -> None:
    """The longest that a row can be, in deviations of the noise that is drawn: never above 1/z."""
    run = small(Identity(5), output, noise_multiplier=1.5, grid=grid, clip=0.3)
    if grid:
        whole = run.grids["all"]
        assert math.hypot(whole._largest, whole.weight) <= whole.sensitivity
        assert run.loss.of.of == whole.loss(1.5)
    else:
        gradient, count = 1 / (1.5 * COUNTED), 1 / count_deviation(1.5)
        assert math.hypot(gradient, count) <= 1 / 1.5 * (1 + 1e-15)


def test_gradients_are_drawn_with_noise_that_leaves_room_for_the_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1/2000 more than z·C, too little for any statistic: the deviation that is asked for is looked at."""
    deviations: list[float] = []

    def recorded(total: Tensor, deviation: float, lot: float, rng: Any) -> Tensor:
        deviations.append(deviation)
        return noisy_mean(total, deviation, lot, rng)

    monkeypatch.setattr(training, "noisy_mean", recorded)
    t = trainer(small(Identity(5), output, noise_multiplier=1.5, clip=0.3))
    t.taken = 1
    t.release(t.clip_lot([]))
    assert deviations[0] >= 1.5 * 0.3 * COUNTED
    assert math.hypot(0.3 / deviations[0], 1 / count_deviation(1.5)) <= 1 / 1.5


def test_a_sum_on_the_grid_is_the_sum_of_its_rows_to_the_last_bit() -> None:
    x, y = problem(40)
    t = trainer(small(grid=True))
    whole = t.clip_lot([Batch((x, y))]).total["all"]
    rows = [t.clip_lot([Batch((x[i : i + 1], y[i : i + 1]))]).total["all"] for i in range(40)]
    assert whole.dtype == torch.int64
    assert torch.equal(whole, sum(rows[1:], rows[0]))
    assert torch.equal(whole, t.clip_lot([Batch((x.flip(0), y.flip(0)))]).total["all"])


def test_the_noise_on_the_grid_is_integer_noise_of_the_stated_size() -> None:
    run = small(Identity(20_000).double(), output, grid=True, noise_multiplier=0.7, lot=30)
    t = trainer(run)
    t.taken = 1
    released = t.release(t.clip_lot([]))["line.weight"][0] * run.plan.lot
    loss = run.grids["all"].loss(0.7)
    units = released.numpy() / float(run.grids["all"].step)
    assert np.abs(units - np.round(units)).max() < 1e-6
    assert accepts(units, float(loss.sigma))
    assert not accepts(units, 0.7 * float(loss.sigma))
    assert not accepts(units, 1.3 * float(loss.sigma))
    assert loss.sigma >= 0.7 * loss.sensitivity  # type: ignore[operator]
    assert run.loss.of.of == loss  # type: ignore[attr-defined]
