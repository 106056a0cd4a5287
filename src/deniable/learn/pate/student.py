"""A student that learns from few labels and many public examples. It sees no private
data: all of it is post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.learn.pate.graph import Graph, spread_labels
from deniable.learn.pate.teachers.kernel import similarity
from deniable.learn.pate.teachers.voting import Labels, positive


@dataclass(frozen=True)
class Student:
    """Labels spread over the graph, then corrected by kernel ridge regression that never
    sees the label it corrects.

    1. The few labels spread over the graph of all public examples (`spread_labels`): a label for each.
    2. Kernel ridge regression on all of them; each example is labelled anew by the fit
       without it, which costs nothing: y − w/diag((K + ridge·I)⁻¹) in closed form. The
       bought labels stay. This is done `rounds` times.
    3. The last fit predicts.

    Guarantee: none of its own, and none is needed: its input is public and released.
    Reference: Zhou et al. 2004 (spreading); Allen 1974 (leaving one out in closed form).
    """

    classes: int
    width: float
    ridge: float = 1.0
    rounds: int = 4

    def __post_init__(self) -> None:
        checks.whole("classes", self.classes, at_least=2)
        positive("width", self.width)
        positive("ridge", self.ridge)
        checks.whole("rounds", self.rounds, at_least=0)

    def fit(self, points: Tensor, graph: Graph, asked: Any, labels: Sequence[int | None]) -> Taught:
        """From public `points` (examples, features), their graph, the indices `asked`
        and their labels (None: no answer)."""
        places, answers = _select_answers(asked, labels, len(points), self.classes)
        every: Labels = spread_labels(graph, places, answers, self.classes).argmax(axis=1)
        gram = similarity(points, points, self.width)
        gram.diagonal().add_(self.ridge)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
        for _ in range(self.rounds):
            targets = _targets(every, self.classes)
            without = targets - (inverse @ targets) / inverse.diagonal()[:, None]
            every = without.argmax(dim=1).numpy()
            every[places] = answers
        return Taught(points, inverse @ _targets(every, self.classes), self.width, every)


@dataclass(frozen=True, eq=False)
class Taught:
    """A fitted student. `labels` is what it holds each public example to be."""

    points: Tensor
    weights: Tensor
    width: float
    labels: Labels

    def predict(self, points: Tensor) -> NDArray[np.int64]:
        classes: NDArray[np.int64] = (
            (similarity(points, self.points, self.width) @ self.weights).argmax(dim=1).numpy()
        )
        return classes


def _targets(labels: Labels, classes: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.from_numpy(labels), classes).to(torch.float32) - 1 / classes


def _select_answers(
    indices: Any, labels: Sequence[int | None], count: int, classes: int
) -> tuple[Labels, Labels]:
    """The examples that got a label, and the labels."""
    places = np.asarray(indices, np.int64).reshape(-1)
    if len(places) != len(labels):
        raise InvalidParameter(
            f"Expected a label for each of {len(places)} examples asked about, got {len(labels)}."
        )
    got = np.array([label is not None for label in labels], bool)
    answers = np.array([label for label in labels if label is not None], np.int64)
    if not len(answers):
        raise InvalidParameter("Expected at least one label: a student cannot learn from none.")
    if places.min() < 0 or places.max() >= count or answers.min() < 0 or answers.max() >= classes:
        raise InvalidParameter(f"Expected indices in [0, {count}) and labels in [0, {classes}).")
    return places[got], answers
