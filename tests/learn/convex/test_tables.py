"""A declared table and the exact descent: rows in, a layer out, nothing of a row that is to be left out."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import torch

from deniable.accounting import epsilon
from deniable.learn.convex import Descent
from deniable.learn.convex.descent import GradientPerturbation
from deniable.learn.convex.scaled import ScaledRegression, Scaling
from deniable.learn.convex.tables import LinearTable
from deniable.learn.sgd.tables import Feature, Table, WordFeature
from deniable.loss import Composed, GaussianNoise
from deniable.randomness import SeededRandom


def table(*classes: str) -> Table:
    return Table((Feature("age", 0, 100), Feature("stay", 0, 60)), "ward", classes)


@pytest.mark.parametrize("classes", [("a", "b"), ("a", "b", "c")])
def test_the_layer_has_the_scores_of_the_weights(classes: tuple[str, ...]) -> None:
    linear = LinearTable(table(*classes))
    g = np.random.default_rng(0)
    weights, x = g.normal(size=(linear.outputs, 3)), torch.from_numpy(g.uniform(-1, 1, (20, 2))).float()
    rows, _ = linear.unscaled_rows(x, torch.zeros(20, dtype=torch.int64))
    same, layer = linear.build_model(weights)
    assert same == linear.table
    scores = layer(x).detach().numpy()
    assert np.abs(scores[:, -linear.outputs :] - rows @ weights.T).max() < 1e-5
    assert scores.shape == (20, len(classes))
    assert (np.linalg.norm(rows, axis=1) <= 1).all()
    if len(classes) == 2:
        assert (scores[:, 0] == 0).all()


def test_a_row_that_is_to_be_left_out_has_no_target() -> None:
    x, y = torch.tensor([[0.5, 0.5], [float("nan"), 0.5], [0.0, 0.0]]), torch.tensor([1, 1, 0])
    _, targets = LinearTable(table("a", "b")).rows(x, y)
    assert np.array_equal(targets.ravel(), [1, np.nan, -1], equal_nan=True)
    _, three = LinearTable(table("a", "b", "c")).rows(x, y)
    assert np.array_equal(three[0], [-1, 1, -1])
    assert np.isnan(three[1]).all()


def test_it_learns_three_classes() -> None:
    g = np.random.default_rng(0)
    x = g.uniform(-1, 1, (3000, 2)).astype(np.float32)
    y = (x @ np.array([[1.0, -1, 0], [0, 0.5, -1]])).argmax(axis=1)
    linear = LinearTable(table("a", "b", "c"))
    data = linear.rows(torch.from_numpy(x), torch.from_numpy(y))
    run = linear.run(3000, 2.0, 1e-5, Descent())
    assert isinstance(run, ScaledRegression)
    value = run(data, rng=SeededRandom(0))
    seen, model = linear.build_model(value)
    columns = pa.table(
        {"age": 50 * (x[:, 0] + 1), "stay": 30 * (x[:, 1] + 1), "ward": np.array(["a", "b", "c"])[y]}
    )
    inputs, places = seen._rows({name: columns.column(name) for name in columns.column_names})
    assert torch.equal(places, torch.from_numpy(y))
    right = model(inputs).argmax(dim=1).numpy() == y
    assert right.mean() > 0.85
    # What the released table makes of a row is what the descent saw of it.
    assert np.abs(run.scale_rows(x, value[0])[:, :2] * linear.length - inputs.numpy()).max() < 1e-5


def test_both_releases_are_paid_for() -> None:
    linear = LinearTable(table("a", "b"))
    run = linear.run(3000, 2.0, 1e-5, Descent(steps=50))
    assert isinstance(run, ScaledRegression)
    assert run.length == 51
    assert run.loss == Composed((GaussianNoise(run.noise_multiplier), run.descent.loss))
    assert run.loss_of(1) == GaussianNoise(run.noise_multiplier)
    cost = epsilon(run.loss, 1e-5)
    assert 1.99 < cost.upper <= 2
    assert isinstance(
        linear.run(30, 0.1, 1e-5, Descent(steps=5)), GradientPerturbation
    )  # too few rows for it


def test_no_row_is_longer_than_one_whatever_its_scaling() -> None:
    linear = LinearTable(Table((Feature("age", 0, 100), WordFeature("job", ("x", "y"))), "ward", ("a", "b")))
    run = linear.run(3000, 2.0, 1e-5, Descent(steps=5))
    assert isinstance(run, ScaledRegression)
    rows = np.array([[1, 1, 0], [-1, 0, 1], [0.3, 0, 0]], np.float32)
    for middle, reach in ((0.0, 1.0), (-0.99, 1e-3), (5.0, 0.1)):
        scaled = run.scale_rows(rows, Scaling(np.array([middle]), np.array([reach])))
        assert np.linalg.norm(scaled, axis=1).max() <= 1


def test_a_run_that_is_saved_goes_on_with_its_scaling() -> None:
    linear = LinearTable(table("a", "b"))
    run = linear.run(3000, 2.0, 1e-5, Descent(steps=6))
    g = np.random.default_rng(0)
    x = torch.from_numpy(g.uniform(-1, 1, (3000, 2)).astype(np.float32))
    data = linear.rows(x, (x[:, 0] > 0).long())
    first = run.walk(SeededRandom(1))
    for _ in range(3):
        first.walk(data)
    second = run.walk(SeededRandom(2))
    second.restore(json.loads(json.dumps(first.state())))
    assert second.taken == 3
    assert second.inner.taken == 2
    assert np.array_equal(second.scaling.middle, first.scaling.middle)
    for _ in range(4):
        second.walk(data)
    assert second.taken == run.length
    lost = run.walk(SeededRandom(3))  # killed in the first step: its scaling is lost, the steps go on
    lost.taken = 1
    lost.walk(data)
    assert lost.inner.taken == 1
    assert np.array_equal(lost.scaling.reach, np.ones(2))
