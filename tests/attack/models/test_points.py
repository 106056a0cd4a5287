"""Support vectors and medians are people's own values."""

from __future__ import annotations

import numpy as np
import pytest

from deniable.attack import points
from deniable.errors import InvalidParameter
from deniable.randomness import SeededRandom

RNG = np.random.default_rng(5)
LABELS = np.where(RNG.random(120) < 0.5, -1, 1)
ROWS = RNG.normal(LABELS[:, None], 0.7, (120, 2))


def test_the_machine_classifies_and_meets_the_conditions_of_an_optimum() -> None:
    machine = points.support_vectors(ROWS, LABELS, cost=1.0, gamma=0.5)
    assert (machine.decide(ROWS) == LABELS).mean() > 0.9
    margin = LABELS * (points._kernel(ROWS, machine.vectors, 0.5) @ machine.weights)
    kept = points.standing_in(machine.vectors, ROWS)
    weight = np.zeros(len(ROWS))
    weight[kept] = np.abs(machine.weights)
    assert weight.max() == 1
    # Karush, Kuhn, Tucker: no weight where the margin is above 1, full weight where it is below.
    assert (margin[weight == 0] >= 1 - 1e-3).all()
    assert (margin[weight > 1 - 1e-6] <= 1 + 1e-3).all()
    free = (weight > 1e-6) & (weight < 1 - 1e-6)
    assert np.abs(margin[free] - 1).max() < 1e-3


def test_only_labels_of_two_kinds_are_learnt() -> None:
    with pytest.raises(InvalidParameter, match="−1 and 1"):
        points.support_vectors(ROWS, np.abs(LABELS) - 1)


def test_support_vectors_are_training_rows_value_for_value() -> None:
    machine = points.support_vectors(ROWS, LABELS)
    found = points.attack(machine.vectors, ROWS, release="x")
    assert found.right == len(machine.vectors) > 10
    assert points.attack(machine.vectors + 1e-12, ROWS, release="x").right == 0


def test_medians_are_somebodys_value() -> None:
    values = np.array([5, 1, 9, 7])
    groups = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1]], np.uint8)
    assert points.medians(values, groups).tolist() == [5, 5, 7]


def test_exact_releases_show_rows_and_protected_ones_do_not() -> None:
    vectors, means = points.compare_vectors(rng=SeededRandom(1))
    exact, paid = points.compare_medians(rng=SeededRandom(1))
    assert vectors.share > 0.1
    assert means.right == 0
    assert exact.share > 0.2
    assert paid.right <= 1
    assert "10 medians from an account" in paid.release


def test_protected_means_lie_near_the_true_ones() -> None:
    rows = np.clip(ROWS / 6 + 0.5, 0, 1)
    means = points.class_means(rows, LABELS, 50.0, SeededRandom(1))
    truth = np.array([rows[c == LABELS].mean(axis=0) for c in (-1, 1)])
    assert np.abs(means - truth).max() < 0.02
