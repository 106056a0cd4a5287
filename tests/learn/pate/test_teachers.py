"""Each teacher learns from its own part alone, whatever the recipe; what cannot vote does not."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from deniable.errors import InvalidParameter, InvalidQuery
from deniable.learn.pate import Estimators, KernelRidge, Networks, OnPool, TeacherRows, teach
from deniable.learn.pate.graph import neighbours
from deniable.learn.pate.teachers.voting import NONE
from tests.learn.pate.worlds import blobs

TEACHERS = 8
POOL, TRUTH = blobs(60, seed=9)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))


def on_pool() -> OnPool:
    return OnPool(KernelRidge(width=10, capacity=60), POOL, neighbours(torch.from_numpy(POOL), 7))


RECIPES = {
    "tree": Estimators(DecisionTreeClassifier(max_features=1)),
    "logistic": Estimators(LogisticRegression()),
    "kernel": KernelRidge(width=10, capacity=60),
    "stacked": Networks(network, capacity=60, steps=30, learning_rate=0.05, together=3),
    "in turn": Networks(network, capacity=60, steps=30, learning_rate=0.05, together=1),
    "pool": on_pool(),
}
recipes = pytest.mark.parametrize("name", RECIPES)


def split(rows: int = 240, seed: int = 0) -> list[TeacherRows]:
    x, y = blobs(rows, seed=seed)
    return [TeacherRows(x[t::TEACHERS], y[t::TEACHERS]) for t in range(TEACHERS)]


def question(name: str) -> Any:
    return np.arange(len(POOL)) if name == "pool" else POOL


def labels(name: str, parts: list[TeacherRows]) -> np.ndarray[Any, Any]:
    voter = RECIPES[name].fit(parts, 3)
    return voter.labels(voter.check(question(name)))


@recipes
def test_teachers_learn(name: str) -> None:
    assert (labels(name, split()) == TRUTH[:, None]).mean() > 0.75


@recipes
def test_a_changed_part_changes_its_own_teacher_alone(name: str) -> None:
    """The others' votes stay bit for bit, also where the changed part is larger, absurd or empty."""
    parts = split()
    before = labels(name, parts)
    x, y = blobs(55, seed=5)
    for other in (
        TeacherRows(1e6 * x, (y + 1) % 3),
        TeacherRows(x[:0], y[:0]),
        TeacherRows(np.full_like(x, 3e38), y),
    ):
        after = labels(name, [*parts[:2], other, *parts[3:]])
        kept = np.delete(np.arange(TEACHERS), 2)
        assert (before[:, kept] == after[:, kept]).all()
    assert (before[:, 2] != labels(name, [*parts[:2], TeacherRows(x, (y + 1) % 3), *parts[3:]])[:, 2]).any()


@recipes
def test_teachers_are_the_same_whatever_was_drawn_before(name: str) -> None:
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    first = labels(name, split())
    np.random.seed(2)  # noqa: NPY002
    torch.manual_seed(2)
    state, words = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    assert (labels(name, split()) == first).all()
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), words)


@recipes
def test_a_teacher_without_rows_does_not_vote(name: str) -> None:
    parts = split()
    parts[4] = TeacherRows(parts[4].x[:0], parts[4].y[:0])
    said = labels(name, parts)
    assert (said[:, 4] == NONE).all()
    assert (np.delete(said, 4, axis=1) != NONE).all()


def test_an_estimator_that_fails_does_not_vote_and_does_not_raise() -> None:
    parts = split()
    parts[1] = TeacherRows(parts[1].x, np.zeros_like(parts[1].y))  # one class: logistic regression refuses
    voter = Estimators(LogisticRegression()).fit(parts, 3)
    assert (voter.labels(POOL)[:, 1] == NONE).all()


@dataclass
class Wild:
    """Answers what is no class, or fails, depending on what it learnt."""

    mean: float = 0.0

    def fit(self, x: Any, y: Any) -> None:
        self.mean = float(x.mean())

    def predict(self, x: Any) -> Any:
        if self.mean > 50:
            raise RuntimeError("one row did it")
        return np.full(len(x), self.mean)


def test_what_is_no_class_is_no_vote() -> None:
    x, y = np.ones((4, 3), np.float32), np.zeros(4, np.int64)
    said = Estimators(Wild()).fit([TeacherRows(v * x, y) for v in (1, 0.5, 7, -1, 100)], 3).labels(POOL)
    assert said[0].tolist() == [1, NONE, NONE, NONE, NONE]


@dataclass
class Global:
    """Draws its answer from numpy's global generator, as many older estimators do."""

    drawn: int = 0

    def fit(self, x: Any, y: Any) -> None:
        self.drawn = int(np.random.random(len(x))[-1] * 1e6)  # noqa: NPY002 - the point of it

    def predict(self, x: Any) -> Any:
        return np.full(len(x), self.drawn % 3)


@dataclass
class Stated(Global):
    """Draws from its own `random_state`; without one, from the operating system."""

    random_state: int | None = None

    def get_params(self) -> dict[str, Any]:
        return {"random_state": self.random_state}

    def set_params(self, random_state: int) -> None:
        self.random_state = random_state

    def fit(self, x: Any, y: Any) -> None:
        self.drawn = int(np.random.default_rng(self.random_state).integers(1000))


@dataclass
class Torch(Global):
    """Draws from torch's global generator, as torch models behind fit and predict do."""

    def fit(self, x: Any, y: Any) -> None:
        self.drawn = int(torch.rand(len(x))[-1] * 1e6)


@dataclass
class Plain(Global):
    """Draws from Python's global generator."""

    def fit(self, x: Any, y: Any) -> None:
        self.drawn = int([random.random() for _ in x][-1] * 1e6)


@pytest.mark.parametrize("estimator", [Global(), Stated(), Torch(), Plain()])
def test_no_teacher_shifts_what_another_draws(estimator: Any) -> None:
    """With one more row the third teacher draws once more; those after it must not notice."""
    x, y = np.ones((40, 3), np.float32), np.zeros(40, np.int64)
    parts = [TeacherRows(x, y)] * 30
    first, second = (
        Estimators(estimator).fit([*parts[:2], TeacherRows(x[:n], y[:n]), *parts[3:]], 3).labels(POOL[:1])
        for n in (39, 40)
    )
    assert (np.delete(first, 2) == np.delete(second, 2)).all()
    assert len(set(first[0])) == 3


def test_stacked_and_one_by_one_are_the_same_models() -> None:
    stacked, single = (RECIPES[name].fit(split(), 3).scores(POOL) for name in ("stacked", "in turn"))  # type: ignore[union-attr]
    np.testing.assert_allclose(stacked, single, rtol=1e-3, atol=1e-4)


def test_batched_kernel_ridge_is_kernel_ridge() -> None:
    parts = split()
    x, y = parts[3].x.astype(np.float64), 2 * np.eye(3)[parts[3].y] - 1
    kernel = np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 10)
    weights = np.linalg.solve(kernel + 1e-3 * np.eye(len(x)), y)
    expected = np.exp(-((POOL[:, None] - x) ** 2).sum(axis=2) / 10) @ weights
    found = KernelRidge(width=10, capacity=60).fit(parts, 3).scores(POOL)[:, 3]
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_rows_beyond_the_capacity_are_left_out() -> None:
    parts = split()
    short = [TeacherRows(part.x[:20], part.y[:20]) for part in parts]
    first, second = (KernelRidge(width=10, capacity=20).fit(each, 3).scores(POOL) for each in (parts, short))
    assert (first == second).all()


def test_smoothing_over_the_pool_helps_teachers_agree() -> None:
    parts = split(64)
    alone, smooth = KernelRidge(width=10, capacity=60).fit(parts, 3).labels(POOL), labels("pool", parts)
    assert (smooth == TRUTH[:, None]).mean() > (alone == TRUTH[:, None]).mean()


def test_votes_are_counts_of_teachers() -> None:
    x, y = blobs(240)
    ensemble = teach(RECIPES["kernel"], x, y, teachers=TEACHERS, classes=3)
    votes = ensemble.votes(POOL)
    assert votes.shape == (60, 3)
    assert (votes.sum(axis=1) == TEACHERS).all()
    assert (votes.argmax(axis=1) == TRUTH).mean() > 0.9


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "wrong",
    [
        "text",
        [],
        [[1.0, 2.0]],
        [[1.0, 2.0, np.nan]],
        [[[1.0, 2.0, 3.0]]],
        [[1.0], [2.0, 3.0]],
        None,
        [[10**400, 0, 0]],
        [[1e300, 0.0, 0.0]],
    ],
)
@pytest.mark.parametrize("name", ["tree", "kernel", "stacked", "pool"])
def test_a_question_of_another_shape_is_refused_for_what_it_is(name: str, wrong: Any) -> None:
    voter = RECIPES[name].fit(split(), 3)
    with pytest.raises(InvalidQuery, match="Nothing was asked"):
        voter.check(wrong)


def test_indices_outside_the_pool_are_refused() -> None:
    voter = on_pool().fit(split(), 3)
    for wrong in (60, -1, [0.5], [[1, 2]]):
        with pytest.raises(InvalidQuery, match=r"in \[0, 60\)"):
            voter.check(wrong)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Estimators(object()), "with fit and predict"),
        (lambda: KernelRidge(width=0, capacity=3), "Expected width=0"),
        (lambda: KernelRidge(width=1, capacity=0), "Expected capacity=0"),
        (lambda: Networks(network, capacity=9, steps=0), "Expected steps=0"),
        (lambda: OnPool(KernelRidge(1, 1), POOL[:9], on_pool().graph), "graph over the 9 examples"),
        (lambda: neighbours(torch.from_numpy(POOL), 60), "Expected count=60"),
    ],
)
def test_wrong_parameters_are_refused(make: Any, text: str) -> None:
    with pytest.raises(InvalidParameter, match=text):
        make()
