"""A declared table and the exact descent: rows in, a layer out, nothing of a row that is to be left out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deniable.learn.convex import Descent
from deniable.learn.convex.tables import LinearTable
from deniable.learn.sgd.tables import Feature, Table
from deniable.randomness import SeededRandom


def table(*classes: str) -> Table:
    return Table((Feature("age", 0, 100), Feature("stay", 0, 60)), "ward", classes)


@pytest.mark.parametrize("classes", [("a", "b"), ("a", "b", "c")])
def test_the_layer_has_the_scores_of_the_weights(classes: tuple[str, ...]) -> None:
    linear = LinearTable(table(*classes))
    g = np.random.default_rng(0)
    weights, x = g.normal(size=(linear.outputs, 3)), torch.from_numpy(g.uniform(-1, 1, (20, 2))).float()
    rows, _ = linear.rows(x, torch.zeros(20, dtype=torch.int64))
    scores = linear.model(weights)(x).detach().numpy()
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
    model = linear.model(linear.run(3000, 2.0, 1e-5, Descent())(data, rng=SeededRandom(0)))
    right = model(torch.from_numpy(x)).argmax(dim=1).numpy() == y
    assert right.mean() > 0.85
