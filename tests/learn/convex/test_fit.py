"""Output and objective perturbation: sensitivities by brute force, the objective's
guarantee by integrating its density."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable import accounting
from deniable.errors import InvalidParameter
from deniable.learn.convex import (
    HuberHinge,
    HuberResidual,
    Logistic,
    MarginLoss,
    ObjectivePerturbation,
    OutputPerturbation,
)
from deniable.learn.convex.fit import largest_mu, rows
from deniable.learn.convex.solve import RidgeObjective, minimise
from deniable.randomness import SeededRandom
from deniable.units import Unit

LOSSES = [Logistic(), HuberHinge(0.3), HuberResidual(0.7)]


class Silent(SeededRandom):
    """No noise: what the mechanism would add it to."""

    def discrete_gaussian(self, sigma, size=None):  # type: ignore[no-untyped-def, override]
        return 0 if size is None else np.zeros(size, np.int64)

    discrete_laplace = discrete_gaussian  # type: ignore[assignment]


def data(seed: int, n: int = 40, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True), np.sign(g.normal(size=n))


@pytest.mark.parametrize("loss", LOSSES)
def test_slope_and_curvature_are_the_derivatives_and_within_their_bounds(loss: MarginLoss) -> None:
    s, h = np.linspace(-3, 3, 601) + 1e-4, 1e-6
    for y in (-1.0, 1.0):
        t = np.full_like(s, y)
        slope = (loss.value(s + h, t) - loss.value(s - h, t)) / (2 * h)
        curvature = (loss.slope(s + h, t) - loss.slope(s - h, t)) / (2 * h)
        assert np.abs(loss.slope(s, t) - slope).max() < 1e-6
        assert np.abs(loss.curvature(s, t) - curvature).max() < 1e-3
        assert np.abs(loss.slope(s, t)).max() <= loss.lipschitz
        assert loss.curvature(s, t).max() <= loss.smoothness


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), ridge=st.floats(0.01, 10))
def test_one_row_moves_the_minimiser_by_at_most_its_sensitivity(
    loss: MarginLoss, seed: int, ridge: float
) -> None:
    x, y = data(seed)
    whole = minimise(RidgeObjective(loss, x, y, ridge, np.zeros(3)), 1e-9)
    moved = max(
        float(
            np.linalg.norm(
                whole
                - minimise(
                    RidgeObjective(loss, np.delete(x, i, 0), np.delete(y, i), ridge, np.zeros(3)), 1e-9
                )
            )
        )
        for i in range(8)
    )
    assert moved <= loss.lipschitz / ridge + 1e-6


def test_the_bound_on_the_minimiser_is_attained() -> None:
    x, y = np.array([[1.0]]), np.array([-1000.0])
    loss = HuberResidual(1.0)
    w = minimise(RidgeObjective(loss, x, y, 1e-2, np.zeros(1)), 1e-9)
    assert abs(float(w[0])) == pytest.approx(loss.lipschitz / 1e-2, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_solver_keeps_its_promise_with_and_without_newton(
    loss: MarginLoss, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = data(1, 200, 5)
    objective = RidgeObjective(loss, x, y, 0.05, np.zeros(5))
    by_newton = minimise(objective, 1e-8)
    monkeypatch.setattr("deniable.learn.convex.solve._DENSE", 0)
    by_nesterov = minimise(objective, 1e-8)
    assert np.linalg.norm(objective.gradient(by_newton)) <= 1e-8
    assert np.linalg.norm(by_newton - by_nesterov) <= 2 * 1e-8 / 0.05


def test_a_tolerance_out_of_reach_is_not_passed_over() -> None:
    x, y = data(1)
    with pytest.raises(ArithmeticError):
        minimise(RidgeObjective(Logistic(), x, y, 1.0, np.zeros(3)), 1e-30)


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("replace", [False, True])
def test_output_noise_covers_what_neighbours_differ_by(delta: float, replace: bool) -> None:
    loss, (x, y) = Logistic(), data(3)
    run = OutputPerturbation(loss, 3, 40, 1e-2, 1.0, delta, Unit.row(replace=replace))
    here = run((x, y), rng=Silent(0))
    there = (
        run((np.vstack([x[1:], -x[:1]]), y), rng=Silent(0)) if replace else run((x[1:], y[1:]), rng=Silent(0))
    )
    sensitivity = float(run.noise.sensitivity) / (1 if delta else math.sqrt(3))
    assert np.linalg.norm(here - there) <= sensitivity + 2 * math.sqrt(3) * float(run.noise.granularity)
    assert sensitivity == pytest.approx((2 if replace else 1) / 0.4, rel=1e-3)
    assert accounting.epsilon(run.loss, delta or 0).upper <= 1.0 + 1e-9


def divergence(run: ObjectivePerturbation, with_row: tuple, without: tuple, epsilon: float) -> float:
    """max over both directions of ∫(p − e^ε q)₊ for one coefficient, from the density of
    the minimiser itself."""
    w = np.linspace(-80, 80, 400_001)

    def density(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        s = np.outer(w, x[:, 0])
        b = -(run.loss_function.slope(s, y) * x[:, 0]).sum(1) - run.ridge * w
        slope = (run.loss_function.curvature(s, y) * x[:, 0] ** 2).sum(1) + run.ridge
        z = b / run.scale
        law = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) if run.delta else np.exp(-np.abs(z)) / 2
        return law / run.scale * slope

    p, q = density(*with_row), density(*without)
    assert p.sum() * (w[1] - w[0]) == pytest.approx(
        1, abs=1e-3
    )  # a kink in the curvature costs the sum a cell
    step = w[1] - w[0]
    return max(
        float(np.clip(p - math.exp(epsilon) * q, 0, None).sum() * step),
        float(np.clip(q - math.exp(epsilon) * p, 0, None).sum() * step),
    )


@pytest.mark.sampled
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (0.5, 1e-3), (2.0, 0.05)])
def test_the_objective_keeps_its_guarantee_by_its_own_density(
    loss: MarginLoss, epsilon: float, delta: float
) -> None:
    run = ObjectivePerturbation(loss, 1, 1, 0.1, epsilon, delta)
    x, y = np.array([[1.0], [-1.0], [0.4]]), np.array([1.0, 1.0, -1.0])
    spent = 0.99 * epsilon, 0.99 * delta
    for i in range(3):
        found = divergence(run, (x, y), (np.delete(x, i, 0), np.delete(y, i)), spent[0])
        assert found <= spent[1]
        assert divergence(run, (x, y), (np.delete(x, i, 0), np.delete(y, i)), spent[0] / 4) > found


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)])
def test_the_pure_objective_keeps_its_guarantee_by_its_own_density(loss: MarginLoss) -> None:
    run = ObjectivePerturbation(loss, 1, 1, 0.1, 1.0)
    x, y = np.array([[1.0], [-1.0]]), np.array([1.0, 1.0])
    assert divergence(run, (x, y), (x[1:], y[1:]), 0.99) <= 1e-9
    assert divergence(run, (x, y), (x[1:], y[1:]), 0.3) > 1e-4


def test_with_less_noise_the_density_shows_it() -> None:
    run = ObjectivePerturbation(Logistic(), 1, 1, 0.1, 1.0, 1e-2)
    x, y = np.array([[1.0], [-1.0]]), np.array([1.0, 1.0])

    class Halved(ObjectivePerturbation):
        @property
        def scale(self) -> float:
            return run.scale / 3

    weak = Halved(Logistic(), 1, 1, 0.1, 1.0, 1e-2)
    assert divergence(weak, (x, y), (x[1:], y[1:]), 0.99) > 0.99e-2


@given(st.floats(0.05, 5), st.floats(1e-10, 0.2))
def test_largest_mu_inverts_the_gaussian_profile_from_below(epsilon: float, delta: float) -> None:
    mu = largest_mu(epsilon, delta)
    from_above = accounting.gaussian.hockey_stick(mu * 1.001, epsilon)
    assert accounting.gaussian.hockey_stick(mu, epsilon) <= delta < from_above * 1.01


@pytest.mark.parametrize("run", [OutputPerturbation, ObjectivePerturbation])
@pytest.mark.parametrize("delta", [0, 1e-5])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_whole_loss_is_within_what_was_asked(run: type, delta: float, outputs: int) -> None:
    mechanism = run(Logistic(), 4, 1000, 1e-3, 1.0, delta, outputs=outputs)
    assert accounting.epsilon(mechanism.loss, delta * (1 + 1e-9)).upper <= 1.0 + 1e-9


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf, 3e300, 1e308])
def test_no_row_can_move_more_than_a_row_or_make_it_fail(poison: float) -> None:
    x, y = data(5)
    bad = x.copy()
    bad[0] = poison
    read, _ = rows((bad, y), 3)
    assert np.isfinite(read).all()
    assert np.linalg.norm(read, axis=1).max() <= 1
    assert np.array_equal(read[1:], rows((x, y), 3)[0][1:])
    for kind in (OutputPerturbation, ObjectivePerturbation):
        assert np.isfinite(kind(Logistic(), 3, 40, 1e-2, 1.0, 1e-6)((bad, y), rng=SeededRandom(1))).all()


def test_no_rows_at_all_still_give_a_model() -> None:
    none = np.zeros((0, 3)), np.zeros(0)
    assert OutputPerturbation(Logistic(), 3, 40, 1e-2, 1.0, 1e-6)(none, rng=SeededRandom(1)).shape == (1, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unit": Unit.column("id", max_rows=2)}, "unit of one row"),
        ({"n": 0}, "n=0"),
        ({"alpha": 0.0}, "alpha"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
    ],
)
def test_wrong_parameters_raise_before_data(change: dict[str, object], words: str) -> None:
    for kind in (OutputPerturbation, ObjectivePerturbation):
        with pytest.raises(InvalidParameter, match=words):
            kind(
                **(
                    {"loss_function": Logistic(), "features": 2, "n": 10, "alpha": 1e-2, "epsilon": 1.0}
                    | change
                )
            )


def test_objective_perturbation_refuses_replaced_rows_with_the_way_out() -> None:
    with pytest.raises(InvalidParameter, match="method='output'"):
        ObjectivePerturbation(Logistic(), 2, 10, 1e-2, 1.0, 1e-5, Unit.row(replace=True))
