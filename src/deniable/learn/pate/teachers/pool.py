"""Teachers that use public examples without labels too: what they say is smoothed over a public graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.errors import InvalidParameter, InvalidQuery
from deniable.learn.pate.graph import Floats, Graph, spread
from deniable.learn.pate.teachers.voting import Labels, Scores, TeacherRows, Voter, largest


class Scorer(Voter, Protocol):
    """A voter whose teachers have scores (examples, teachers, classes)."""

    def scores(self, question: NDArray[Any]) -> Scores: ...


class ScoringRecipe(Protocol):
    def fit(self, parts: Sequence[TeacherRows], classes: int) -> Scorer: ...


@dataclass(frozen=True, eq=False)
class OnPool:
    """Teachers of `recipe` whose scores on the public `pool` are smoothed along its
    `graph`; a question is indices of the pool.

    Guarantee: a teacher's smoothed scores are a function of its own scores and of public
               data, so a unit still touches one teacher.
    Assumes:   pool and graph are public.
    Reference: label spreading, Zhou et al. 2004.

    `sharpness` multiplies the scores before the softmax; `share` and `steps` are those of `spread`.
    """

    recipe: ScoringRecipe
    pool: Floats
    graph: Graph
    sharpness: float = 5.0
    share: float = 0.8
    steps: int = 10

    def __post_init__(self) -> None:
        checks.number("sharpness", self.sharpness, above=0)
        checks.number("share", self.share, above=0, below=1)
        checks.whole("steps", self.steps, at_least=1)
        if self.graph.shape != (len(self.pool),) * 2:
            raise InvalidParameter(f"Expected a graph over the {len(self.pool)} examples of the pool.")

    def fit(self, parts: Sequence[TeacherRows], classes: int) -> FittedPool:
        raw = self.recipe.fit(parts, classes).scores(self.pool)
        smooth = spread(
            self.graph,
            _softmax(self.sharpness * raw).reshape(len(raw), -1),
            share=self.share,
            steps=self.steps,
        )
        return FittedPool(largest(smooth.reshape(raw.shape)))


@dataclass(frozen=True, eq=False)
class FittedPool:
    """What each teacher says about each example of the pool."""

    votes: Labels

    def check(self, question: Any) -> NDArray[Any]:
        try:
            places = np.atleast_1d(np.asarray(question))
        except (TypeError, ValueError):
            raise InvalidQuery(
                "Expected whole numbers, the indices of public examples. Nothing was asked."
            ) from None
        good = places.ndim == 1 and len(places) and places.dtype.kind in "iu"
        if not (good and places.min() >= 0 and places.max() < len(self.votes)):
            raise InvalidQuery(
                f"Expected indices of public examples in [0, {len(self.votes)}). Nothing was asked."
            )
        return places

    def labels(self, question: NDArray[Any]) -> Labels:
        return np.asarray(self.votes[question])


def _softmax(scores: Scores) -> Scores:
    """Over classes; a teacher with a score that is not finite stays without any."""
    grown = np.exp(scores - scores.max(axis=2, keepdims=True))
    return np.asarray(grown / grown.sum(axis=2, keepdims=True), np.float32)
