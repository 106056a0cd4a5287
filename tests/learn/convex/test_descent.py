"""DP-SGD for linear models: a row's part by brute force in integers, the noise from
three sides, the ε computed two ways."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

from deniable import accounting
from deniable.accounting.methods.gaussian import hockey_stick
from deniable.errors import InvalidParameter
from deniable.learn.bounded import lengths
from deniable.learn.convex import (
    Descent,
    GradientPerturbation,
    HuberHinge,
    HuberResidual,
    Logistic,
    MarginLoss,
    ObjectivePerturbation,
    OutputPerturbation,
)
from deniable.learn.convex.descent import BLOCK, LONGEST, ROW, SLOPE, WEIGHT, _on_grid, _scores, _whole_rows
from deniable.learn.convex.fit import rows
from deniable.randomness import SeededRandom
from deniable.units import Unit

LOSSES = [Logistic(), HuberHinge(0.3), HuberResidual(0.7)]
MOST = int(ROW * SLOPE)


class Silent(SeededRandom):
    """No noise: what the mechanism would add it to."""

    def discrete_gaussian(self, sigma, size=None):  # type: ignore[no-untyped-def, override]
        return 0 if size is None else np.zeros(size, np.int64)


def world(
    seed: int, n: int = 12, d: int = 3, outputs: int = 1
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows of any length, targets, weights: some of them hostile."""
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, d)) * np.exp(g.normal(size=(n, 1)) * 3)
    w = _on_grid(g.normal(size=(outputs, d)) * math.exp(g.normal() * 4))
    return x, np.sign(g.normal(size=(n, outputs))), w


def made(
    loss: MarginLoss, *, n: int = 100, d: int = 3, outputs: int = 1, **more: Any
) -> GradientPerturbation:
    return GradientPerturbation(loss, d, n, 0.0, 1.0, 1e-5, outputs=outputs, descent=Descent(**more))


def summed(run: GradientPerturbation, w: NDArray[Any], x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.int64]:
    kept, targets = rows((x, y), run.features, run.outputs, residual=run.loss_function.residual)
    return run.sums(w, _whole_rows(kept), np.ascontiguousarray(targets.T))


# ------------------------------------------------------------------------------------------------ a row's part


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    outputs=st.integers(1, 4),
    clip=st.sampled_from([1e-9, 0.05, 0.5, 1.0, 30.0]),
    scale=st.sampled_from([1.0, 1e-300, 1e150, 1e308]),
)
def test_a_row_taken_away_takes_exactly_its_own_part_and_no_more_than_the_clip(
    loss: MarginLoss, seed: int, outputs: int, clip: float, scale: float
) -> None:
    x, y, w = world(seed, outputs=outputs)
    x[0] = np.clip(x[0], -1, 1) * scale
    run = made(loss, outputs=outputs, clip=clip)
    whole = summed(run, w, x, y)
    for i in range(len(x)):
        alone = summed(run, w, x[i : i + 1], y[i : i + 1])
        assert np.array_equal(whole - summed(run, w, np.delete(x, i, 0), np.delete(y, i, 0)), alone)
        assert sum(int(v) ** 2 for v in alone.ravel()) <= MOST**2


def test_the_bound_of_a_row_is_attained() -> None:
    part = summed(made(HuberHinge(), clip=1.0), np.zeros((1, 3)), np.array([[5.0, 0, 0]]), np.array([[1.0]]))
    assert MOST * (1 - 1e-5) < abs(int(part[0, 0])) <= MOST


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_sums_are_those_of_a_naive_loop(loss: MarginLoss, outputs: int) -> None:
    g = np.random.default_rng(0)
    x, y = g.normal(size=(50, 4)), np.sign(g.normal(size=(50, outputs)))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    w, run = _on_grid(g.normal(size=(outputs, 4))), made(loss, d=4, outputs=outputs, clip=0.3)
    naive = np.zeros((outputs, 4))
    for row, target in zip(x, y, strict=True):
        slope = np.array([loss.slope(np.array(w[k] @ row), target[k]) for k in range(outputs)])
        naive += np.outer(slope * min(1.0, 0.3 / max(float(np.linalg.norm(slope)), 1e-300)), row)
    assert np.abs(summed(run, w, x, y) * (0.3 / MOST) - naive).max() < 50 * 2e-4


def test_blocks_add_up_as_one_would() -> None:
    g = np.random.default_rng(1)
    x, y = g.normal(size=(2 * BLOCK + 7, 2)), np.sign(g.normal(size=(2 * BLOCK + 7, 1)))
    run, w = made(Logistic(), d=2), np.array([[0.5, -0.25]])
    parts = [summed(run, w, x[i::3], y[i::3]) for i in range(3)]
    assert np.array_equal(summed(run, w, x, y), sum(parts))


@given(st.integers(0, 10**6))
def test_the_bits_of_a_row_do_not_depend_on_the_rows_around_it(seed: int) -> None:
    x, y, _ = world(seed, n=37, d=11)
    order = np.random.default_rng(seed).permutation(37)[:19]
    assert np.array_equal(lengths(x)[order], lengths(x[order]))
    assert np.array_equal(rows((x, y), 11)[0][order], rows((x[order], y[order]), 11)[0])


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e12])
def test_scores_are_exact(size: float) -> None:
    x, _, _ = world(4, n=50, d=40)
    whole, w = (
        _whole_rows(rows((x, np.ones(50)), 40)[0]),
        _on_grid(np.random.default_rng(4).normal(size=(2, 40)) * size),
    )
    found = _scores(w, whole)
    for i, k in np.ndindex(50, 2):
        right = sum(int(a) * int(b * WEIGHT) for a, b in zip(whole[i], w[k], strict=True))
        assert int(found[i, k] * ROW * WEIGHT) == right


def test_slopes_are_short_enough_for_their_squares_to_add_up_exactly() -> None:
    table = made(Logistic(), clip=1e-9)._table
    assert np.array_equal(table, np.rint(table))
    assert 8192 * int(np.abs(table).max()) ** 2 <= 2**53


def test_weights_stay_where_scores_are_exact() -> None:
    g = np.random.default_rng(0)
    for size in (1.0, 1e5, 1e12):
        w = _on_grid(g.normal(size=(4, 50)) * size)
        assert np.linalg.norm(w) <= LONGEST
        assert np.array_equal(w * WEIGHT, np.rint(w * WEIGHT))


@pytest.mark.parametrize("made_by", [OutputPerturbation, ObjectivePerturbation, GradientPerturbation])
def test_a_target_that_is_no_class_counts_as_its_sign(made_by: Any) -> None:
    """The slope of a class of 5 would be five times as long as the sensitivity says."""
    x, y = np.eye(3), np.array([1.0, -1.0, 1.0])
    run = made_by(Logistic(), 3, 3, 1.0, 1.0, 1e-5)
    one, other = (run((x, y * by), rng=Silent(0)) for by in (1.0, 5.0))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -1e308])
def test_hostile_rows_do_not_stop_a_run(poison: float) -> None:
    x, y = np.full((6, 3), poison), np.array([1.0, -1.0, np.nan, np.inf, 1e308, -1e308])
    for loss in LOSSES:
        assert np.isfinite(made(loss, steps=3)((x, y), rng=SeededRandom(0))).all()
        assert np.isfinite(made(loss, steps=3)((np.empty((0, 3)), []), rng=SeededRandom(0))).all()


# ------------------------------------------------------------------------------------------------ noise and lots


@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.7, False), (1.3, False)])
def test_noise_has_the_stated_size(factor: float, accepted: bool) -> None:
    run = made(Logistic(), d=20_000, lot=10, clip=0.25)
    drawn = run.noisy(np.zeros((1, 20_000), np.int64), SeededRandom(3)) * factor
    seen = float((drawn**2).sum()) / (run.noise_multiplier * 0.25 / 10) ** 2
    low, high = chi2.ppf([0.5e-9, 1 - 0.5e-9], 20_000)
    assert bool(low <= seen <= high) is accepted


def test_every_step_draws_its_noise_and_its_lot() -> None:
    drawn: list[int] = []

    class Counting(SeededRandom):
        def discrete_gaussian(self, sigma, size=None):  # type: ignore[no-untyped-def, override]
            drawn.append(size or 1)
            return super().discrete_gaussian(sigma, size)

    x, y = np.ones((40, 3)), np.ones(40)
    made(Logistic(), n=40, steps=7, lot=10)((x, y), rng=Counting(0))
    assert drawn == [3, 1] * 7, "a gradient, and the count of usable rows"


def test_the_normaliser_is_the_stated_lot_and_not_what_was_drawn() -> None:
    x, y = np.ones((1, 1)), np.ones(1)
    small, large = (
        made(HuberHinge(), d=1, n=100, steps=1, learning_rate=1.0)(
            (np.repeat(x, k, 0), np.repeat(y, k)), rng=Silent(0)
        )
        for k in (5, 50)
    )
    assert float(large[0, 0]) == pytest.approx(10 * float(small[0, 0]), rel=1e-3)


def test_a_lot_holds_its_share_of_the_rows() -> None:
    """Without noise, one step moves by the number drawn over the lot: its mean is 1 in
    units of a whole gradient."""
    x, y = np.ones((2000, 1)), np.ones(2000)
    run = made(HuberHinge(), d=1, n=2000, steps=1, lot=100, learning_rate=1.0, clip=1.0)
    moved = [float(run((x, y), rng=Silent(seed))[0, 0]) for seed in range(60)]
    assert np.mean(moved) == pytest.approx(1, abs=6.2 * 0.1 / math.sqrt(60))
    assert 0.05 < np.std(moved) < 0.2


# ------------------------------------------------------------------------------------------------ what it costs


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_full_batches_cost_what_one_gaussian_of_their_root_costs(epsilon: float) -> None:
    run = GradientPerturbation(Logistic(), 3, 1000, 0, epsilon, 1e-5)
    assert 0.99 * epsilon < accounting.epsilon(run.loss, 1e-5).upper <= epsilon
    assert hockey_stick(math.sqrt(run.descent.steps) / run.noise_multiplier, epsilon) <= 1e-5


def test_lots_cost_what_the_peer_says() -> None:
    run = GradientPerturbation(Logistic(), 3, 2000, 0, 1.0, 1e-5, descent=Descent(steps=50, lot=100))
    assert accounting.epsilon(run.loss, 1e-5).upper <= 1.0
    peer = pld.from_gaussian_mechanism(run.noise_multiplier, sampling_prob=0.05, use_connect_dots=True)
    assert 0.98 < peer.self_compose(50).get_epsilon_for_delta(1e-5) < 1.002


def test_huge_budgets_still_get_noise_that_is_proved() -> None:
    run = GradientPerturbation(Logistic(), 3, 10, 0, 1e6, 1e-5, descent=Descent(steps=1))
    assert run.noise_multiplier >= 1 / 30
    assert np.isfinite(run((np.ones((2, 3)), np.ones(2)), rng=SeededRandom(0))).all()


def test_what_is_not_given_follows_from_public_numbers() -> None:
    small, large = (GradientPerturbation(Logistic(), 50, n, 0, 0.1, 1e-5) for n in (400, 10**6))
    assert (small.lot, small.rate) == (400, 1)
    assert large.lot == 65_536
    assert small.learning_rate < large.learning_rate == 2 / 0.25
    assert small.clip == 0.5


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"delta": 0}, r"Expected delta=0 in \(0, 1\) with method='sgd'.*Nothing was charged"),
        ({"unit": Unit.row(replace=True)}, "added or removed, not replaced.*Nothing was run"),
        ({"unit": Unit.column("id", max_rows=2)}, "the unit of one row.*Nothing was charged"),
        ({"descent": Descent(lot=2000)}, r"Expected lot=2000 of at most n=1000.*Nothing was charged"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"epsilon": 1e-6, "delta": 1e-9}, r"ε = 1e-06 is too small for 200 steps.*Nothing was charged"),
        ({"alpha": -1}, "alpha=-1"),
        ({"n": 0}, "n=0"),
    ],
)
def test_wrong_parameters_are_refused_before_any_data(more: dict[str, Any], sentence: str) -> None:
    terms = {"features": 3, "n": 1000, "alpha": 0, "epsilon": 1, "delta": 1e-5} | more
    with pytest.raises(InvalidParameter, match=sentence):
        GradientPerturbation(Logistic(), **terms)


def test_absurd_parameters_cost_the_model_and_nothing_else() -> None:
    run = GradientPerturbation(
        Logistic(), 3, 100, 9e11, 1.0, 1e-5, descent=Descent(steps=30, clip=9e11, learning_rate=9e11)
    )
    assert np.isfinite(run((np.ones((5, 3)), np.ones(5)), rng=SeededRandom(0))).all()


@pytest.mark.parametrize("more", [{"steps": 0}, {"lot": 0}, {"clip": -1.0}, {"learning_rate": math.inf}])
def test_a_descent_that_is_none_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(more))):
        Descent(**more)
