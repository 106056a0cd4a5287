"""A student learns from few labels and many public examples; the digits' recipe runs
from images to a student."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from deniable.accounting import epsilon
from deniable.accounting.filters import Filter
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.learn.pate import Student, digits, graph
from deniable.ledger import Ledger
from deniable.plots import pate as plots
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.learn.pate.worlds import blobs

DIGITS = load_digits()


def scans() -> NDArray[np.uint8]:
    """scikit-learn's 1,797 digits of 8 × 8 on 28 × 28 bytes, each pixel 3 × 3."""
    large = np.kron(DIGITS.images * 255 / 16, np.ones((3, 3)))
    return np.pad(large, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)


def test_few_labels_spread_to_all() -> None:
    x, y = blobs(300)
    points = torch.from_numpy(x)
    near = graph.neighbours(points)
    asked = graph.medoids(points, 12)
    taught = Student(classes=3, width=10).fit(points, near, asked, y[asked].tolist())
    held, truth = blobs(300, seed=1)
    assert (taught.labels == y).mean() > 0.97
    assert (taught.predict(torch.from_numpy(held)) == truth).mean() > 0.97


def test_labels_are_corrected_by_the_fit_without_them() -> None:
    """The closed form is what fitting anew without each example gives; bought labels stay, also a wrong
    one."""
    x, y = blobs(60)
    x = (0.3 * x).astype(np.float32)  # classes that overlap, and a kernel that knows little of its neighbours
    points, near = torch.from_numpy(x), graph.neighbours(torch.from_numpy(x), 7)
    asked = np.arange(0, 60, 4)
    said = np.where(asked == 8, (y[asked] + 1) % 3, y[asked])
    before, after = (
        Student(3, width=0.5, ridge=0.05, rounds=rounds).fit(points, near, asked, said.tolist()).labels
        for rounds in (0, 1)
    )
    kernel = np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 0.5).astype(np.float64)
    fresh = np.empty(60, np.int64)
    for i in range(60):
        rest = np.delete(np.arange(60), i)
        weights = np.linalg.solve(
            kernel[np.ix_(rest, rest)] + 0.05 * np.eye(59), np.eye(3)[before[rest]] - 1 / 3
        )
        fresh[i] = (kernel[i, rest] @ weights).argmax()
    others = np.setdiff1d(np.arange(60), asked)
    assert (after[others] == fresh[others]).all()
    assert (after[asked] == said).all()
    assert (fresh[asked] != said).any()
    assert (fresh[others] != before[others]).any()


def test_questions_without_an_answer_are_passed_over() -> None:
    x, y = blobs(300)
    points = torch.from_numpy(x)
    asked = graph.medoids(points, 20)
    labels = [None if i % 2 else int(y[a]) for i, a in enumerate(asked)]
    taught = Student(classes=3, width=10).fit(points, graph.neighbours(points), asked, labels)
    assert (taught.labels == y).mean() > 0.95


def test_medoids_are_different_points_and_the_same_each_time() -> None:
    points = torch.from_numpy(blobs(200)[0])
    found = graph.medoids(points, 30)
    assert len(set(found.tolist())) == len(found) <= 30
    assert (found == graph.medoids(points, 30)).all()


@pytest.mark.parametrize(
    ("asked", "labels", "text"),
    [
        ([1, 2], [0], "a label for each of 2 examples"),
        ([1, 2], [None, None], "at least one label"),
        ([1, 300], [0, 1], r"indices in \[0, 300\)"),
        ([1, 2], [0, 3], r"labels in \[0, 3\)"),
    ],
)
def test_a_student_refuses_what_it_cannot_learn_from(asked: Any, labels: Any, text: str) -> None:
    points = torch.from_numpy(blobs(300)[0])
    with pytest.raises(InvalidParameter, match=text):
        Student(classes=3, width=10).fit(points, graph.neighbours(points), asked, labels)


def test_from_images_to_a_student_within_the_budget() -> None:
    features, labels = digits.describe(scans()), DIGITS.target.astype(np.int64)
    assert features.shape == (1797, 3969)
    private, pool, held = np.arange(900), np.arange(900, 1500), np.arange(1500, 1797)
    public = digits.Public.from_features(features[pool])
    ensemble = public.teach(features[private], labels[private], records=900, teachers=20)
    ledger = Ledger.open("sqlite://", analyst="student")
    account = ledger.create("labels", Unit.row(), limit=Budget(40, 1e-5), filter=Filter.basic)
    bought = digits.buy(account, ensemble, public, 40, 1e-5)
    assert epsilon(bought.aggregator.loss, 1e-5).upper <= 40
    assert account.remaining().epsilon < 0.1
    student = public.learn(bought.asked, bought.labels)
    assert (public.predict(student, features[held]) == labels[held]).mean() > 0.85


def test_features_are_each_images_own() -> None:
    """What costs no privacy must not look at other images: not a bit changes when
    records before it are gone."""
    some = scans()[:400]
    whole = digits.describe(some)
    view = digits.Components.from_public(whole)
    for gone in (1, 3, 130):
        rest = digits.describe(some[gone:])
        assert torch.equal(whole[gone:], rest)
        assert torch.equal(view.points(whole, 0.25)[gone:], view.points(rest, 0.25))
    for few in (0, 1, 7, 8, 100):
        assert torch.equal(view.points(whole, 0.25)[:few], view.points(whole[:few], 0.25))
    other = digits.describe(np.concatenate([some[:1], 255 - some[1:]]))
    assert torch.equal(whole[:1], other[:1])


def test_a_seeded_recipe_is_not_private() -> None:
    features, labels = digits.describe(scans()[:500]), DIGITS.target[:500].astype(np.int64)
    public = digits.Public.from_features(features[:300])
    ensemble = public.teach(features[300:], labels[300:], records=200, teachers=4, rng=SeededRandom(1))
    assert not ensemble.private


def test_too_few_public_images_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="more than 200 public examples, got 50"):
        digits.Public.from_features(torch.zeros(50, 3969))


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    path = plots.accuracy(
        {"ours": [(0.5, [0.9, 0.95]), (2, [0.97, 0.98, 0.985])]},
        {"2017": (2.04, 0.98)},
        title="PATE",
        path=tmp_path / "a.png",
    )
    assert path.stat().st_size > 5000
