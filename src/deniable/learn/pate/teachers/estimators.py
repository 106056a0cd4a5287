"""Teachers that are estimators: anything with `fit(x, y)` and `predict(x)`, one copy each."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.learn.pate.teachers.voting import NONE, Labels, TeacherRows, check_examples


@dataclass(frozen=True)
class Estimators:
    """One copy of `estimator` for each teacher, fitted to its part.

    Guarantee: a teacher depends on its part alone. Its random numbers come from a seed of its own
               (`random_state` and the global generators of numpy, Python and torch are set to the teacher's
               number), so no teacher can shift what another draws.
    Assumes:   the estimator draws from nowhere else and keeps no state outside itself.

    A teacher without rows, or whose `fit` or `predict` fails, does not vote: a failure would be a release.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> Estimators(DecisionTreeClassifier(max_depth=3))
    Estimators(estimator=DecisionTreeClassifier(max_depth=3))
    """

    estimator: Any

    def __post_init__(self) -> None:
        if not all(callable(getattr(self.estimator, method, None)) for method in ("fit", "predict")):
            raise InvalidParameter(
                f"Expected an estimator with fit and predict, got {type(self.estimator).__name__}."
            )

    def fit(self, parts: Sequence[TeacherRows], classes: int) -> FittedEstimators:
        shape = parts[0].x.shape[1:]
        return FittedEstimators(
            [_fit(self.estimator, part, seed) for seed, part in enumerate(parts)], classes, shape
        )


@dataclass(frozen=True)
class FittedEstimators:
    """The copies; None for a teacher that could not be fitted."""

    copies: Sequence[Any]
    classes: int
    shape: tuple[int, ...]

    def check(self, question: Any) -> NDArray[Any]:
        return check_examples(question, self.shape)

    def labels(self, question: NDArray[Any]) -> Labels:
        votes = [_predict(teacher, question, self.classes, seed) for seed, teacher in enumerate(self.copies)]
        return np.stack(votes, axis=1)


def _fit(estimator: Any, part: TeacherRows, seed: int) -> Any:
    if not len(part.y):
        return None
    teacher = copy.deepcopy(estimator)
    try:
        if "random_state" in getattr(teacher, "get_params", dict)():
            teacher.set_params(random_state=seed)
        with _seed_generators(seed):
            teacher.fit(part.x, part.y)
    except Exception:  # what only a teacher's own part can show never raises
        return None
    return teacher


def _predict(estimator: Any, question: NDArray[Any], classes: int, seed: int) -> Labels:
    none = np.full(len(question), NONE, np.int64)
    if estimator is None:
        return none
    try:
        with _seed_generators(seed):
            answers = np.asarray(estimator.predict(question), np.float64).reshape(len(question))
    except Exception:  # a teacher learnt it from its own part: it casts no vote, and nothing is told
        return none
    good = (answers >= 0) & (answers < classes) & (answers == np.floor(answers))
    none[good] = answers[good].astype(np.int64)
    return none


@contextmanager
def _seed_generators(seed: int) -> Iterator[None]:
    """The global generators of numpy, Python and (where it is loaded) torch at a seed,
    and afterwards where they were."""
    before, state = np.random.get_state(), random.getstate()  # noqa: NPY002 - scikit-learn's own
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        with _torch_seeded(seed):
            yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
        random.setstate(state)


@contextmanager
def _torch_seeded(seed: int) -> Iterator[None]:
    """An estimator that draws from torch has loaded it; for the others it is not loaded here."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
