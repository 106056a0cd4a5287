"""Private means and deviations: near the truth, within a sensitivity that holds, from public bounds alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deniable.accounting import epsilon
from deniable.errors import InvalidParameter
from deniable.learn.standardize import NORM, PrivateStandardizer
from deniable.randomness import SeededRandom

LOWER, UPPER = (0.0, -5.0, 10.0), (100.0, 5.0, 11.0)


def rows(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(40, 10, n), rng.uniform(-5, 5, n), rng.normal(10.5, 0.1, n)])


@pytest.mark.parametrize("noise", [{"noise_multiplier": 3}, {"epsilon": 1}])
def test_means_and_deviations_are_near_the_truth(noise: dict[str, float]) -> None:
    data = rows(20_000)
    found = PrivateStandardizer(LOWER, UPPER, n=20_000, **noise)(data, rng=SeededRandom(1))
    assert found.mean == pytest.approx(data.mean(0), rel=0.01, abs=0.02)
    assert found.deviation == pytest.approx(data.std(0), rel=0.03)
    turned = found.transform(data)
    assert turned.mean(0) == pytest.approx(np.zeros(3), abs=0.05)
    assert turned.std(0) == pytest.approx(np.ones(3), abs=0.05)


@pytest.mark.parametrize("value", [-1e300, 0.0, 3.0, 100.0, 1e300, math.nan, math.inf, -math.inf])
def test_no_row_moves_the_sums_by_more_than_the_sensitivity(value: float) -> None:
    made, data = PrivateStandardizer(LOWER, UPPER, n=100, epsilon=1), rows(100)
    moved = (made.sums(np.vstack([data, np.full((1, 3), value)])) - made.sums(data)).numpy()
    assert np.array_equal(moved, np.rint(moved))
    assert np.linalg.norm(moved) <= made._l2
    assert np.abs(moved).sum() <= made.loss.sensitivity  # type: ignore[union-attr]


def test_both_sensitivities_are_attained_at_a_bound() -> None:
    made = PrivateStandardizer((0,), (1,), n=10, epsilon=1)
    moved = made.sums(np.array([[1.0]])).numpy()
    assert moved.tolist() == [NORM, NORM / 2, round(NORM * 0.675 ** (1 / 3))]
    assert np.linalg.norm(moved) == pytest.approx(made._l2, rel=1e-12)
    assert np.abs(moved).sum() == made.loss.sensitivity  # type: ignore[union-attr]


@pytest.mark.parametrize("noise", [{"noise_multiplier": 1}, {"epsilon": 1}])
def test_rounding_near_a_bound_stays_within_the_sensitivity(noise: dict[str, float]) -> None:
    """Every distance from a bound up to some grid units, in steps of a hundredth."""
    made = PrivateStandardizer((-1,), (1,), **noise)
    u = 1 - np.arange(0, 6, 0.01) / NORM
    for value in np.concatenate([u, -u]):
        moved = made.sums(np.array([[value]])).numpy()
        assert np.linalg.norm(moved) <= made._l2
        assert np.abs(moved).sum() <= made._l1


@pytest.mark.parametrize("stated", [None, 18_400, 20_000, 21_600, 40_000])
@pytest.mark.parametrize("noise", [{"noise_multiplier": 3}, {"epsilon": 1}])
def test_a_stated_size_that_is_off_does_not_matter(noise: dict[str, float], stated: int | None) -> None:
    """A column whose values are nearly all at a bound: its variance is the small
    difference of two large means."""
    draw = np.random.default_rng(0)
    losses = np.where(draw.random(20_000) < 0.05, draw.normal(1800, 300, 20_000), 0.0).clip(0, 4356)
    data = np.column_stack([losses, draw.uniform(0, 1, 20_000)])
    found = PrivateStandardizer((0, 0), (4356, 1), stated, **noise)(data, rng=SeededRandom(2))
    assert found.deviation == pytest.approx(data.std(0), rel=0.1)
    assert found.mean == pytest.approx(data.mean(0), rel=0.1)
    assert found.count == pytest.approx(20_000, rel=0.01)


@pytest.mark.parametrize("columns", [1, 4, 30])
def test_the_share_of_the_count_is_about_the_best(columns: int) -> None:
    def error(c: float, gaussian: bool) -> float:
        size = 1.25 * columns + c * c if gaussian else (1.5 * columns + c) ** 2
        return size * (5 + 2.25 / c**2)

    for gaussian, noise in ((True, {"noise_multiplier": 1}), (False, {"epsilon": 1})):
        c = PrivateStandardizer((0,) * columns, (1,) * columns, **noise)._count_units / NORM
        assert error(c, gaussian) <= min(error(c * by, gaussian) for by in (0.8, 0.95, 1.05, 1.25))


def test_noise_is_of_the_stated_size() -> None:
    """On no data the mean is noise over the least count: its spread over many columns is that of the loss."""
    made = PrivateStandardizer((-1,) * 4000, (1,) * 4000, n=10**6, noise_multiplier=2)
    deviation = 2 * math.sqrt(1.25 * 4000 + 0.75 * math.sqrt(4000)) / 10**5
    found = made(np.zeros((0, 4000)), rng=SeededRandom(1)).mean / deviation
    assert abs(np.square(found).mean() - 1) < 6.1 * math.sqrt(2 / 4000)


def test_what_is_no_number_becomes_the_mean() -> None:
    found = PrivateStandardizer(LOWER, UPPER, n=1000, noise_multiplier=1)(rows(1000), rng=SeededRandom(1))
    assert found.transform([[math.nan, 1e9, -1e9]])[0, 0] == 0
    assert np.isfinite(found.transform([[math.nan, 1e9, -1e9]])).all()


def test_a_column_without_spread_is_not_divided_by_nothing() -> None:
    found = PrivateStandardizer((0,), (1,), n=10**6, noise_multiplier=1)(
        np.full((10**6, 1), 0.5), rng=SeededRandom(1)
    )
    assert found.deviation[0] >= 5e-4


def test_the_budget_is_kept_and_used() -> None:
    made = PrivateStandardizer.for_budget(0.7, 1e-6, lower=LOWER, upper=UPPER, n=100)
    assert 0.6999 < epsilon(made.loss, 1e-6).upper <= 0.7
    pure = PrivateStandardizer.for_budget(0.7, 0, lower=LOWER, upper=UPPER, n=100)
    assert epsilon(pure.loss, 0).upper == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("lower", "upper", "n", "message"),
    [
        ((0, 1), (1,), 10, "Expected lower and upper bounds"),
        ((0,), (0,), 10, "Expected lower and upper bounds"),
        ((0,), (math.inf,), 10, "upper=∞"),
        ((0,), (1,), 1, "n=1"),
        ((), (), 10, "something in it"),
    ],
)
def test_bounds_and_n_are_required(
    lower: tuple[float, ...], upper: tuple[float, ...], n: int, message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        PrivateStandardizer(lower, upper, n, noise_multiplier=1)
