"""Small worlds for the tests of PATE: labelled points, teachers that can be counted, and
votes given by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidQuery
from deniable.learn.pate.teachers.voting import Ensemble, Labels, TeacherRows
from deniable.units import Unit


def blobs(rows: int, classes: int = 3, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Points about `classes` corners, and which corner."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    corners = 4 * np.eye(classes)
    return (corners[y] + rng.normal(size=(rows, classes))).astype(np.float32), y


@dataclass(frozen=True)
class Given:
    """A voter whose votes are written down: a question is the number of a row of `said`
    (examples, teachers)."""

    said: Labels

    def check(self, question: Any) -> NDArray[Any]:
        places = np.atleast_1d(np.asarray(question))
        if places.dtype.kind not in "iu" or places.min() < 0 or places.max() >= len(self.said):
            raise InvalidQuery("Expected the number of a question. Nothing was asked.")
        return places

    def labels(self, question: NDArray[Any]) -> Labels:
        return np.asarray(self.said[question])


def given(counts: Sequence[Sequence[int]], *, private: bool = True, unit: Unit | None = None) -> Ensemble:
    """An ensemble with these counts (questions, classes); each question has as many votes as the first."""
    said = np.stack([np.repeat(np.arange(len(row)), row) for row in counts])
    return Ensemble(Given(said), said.shape[1], len(counts[0]), unit or Unit.row(), private)


@dataclass
class Spy:
    """A recipe that keeps the parts it was given and votes with each teacher's number of
    rows, modulo the classes."""

    parts: Sequence[TeacherRows] = ()

    def fit(self, parts: Sequence[TeacherRows], classes: int) -> Given:
        self.parts = list(parts)
        return Given(np.array([[len(part.y) % classes for part in parts]]))
