"""What teachers are, seen from outside: a recipe makes a voter of parts of data, and a
voter says one label each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.errors import DataError, InvalidParameter, InvalidQuery
from deniable.learn.bounded import positions
from deniable.learn.pate.teachers import partition
from deniable.mechanism import Random
from deniable.randomness import SecureRandom
from deniable.units import Unit

Labels: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.float32]

NONE = -1
"""The vote of a teacher that has none: it had no data, could not be fitted, or says what is no class."""


@dataclass(frozen=True)
class TeacherRows:
    """The rows of one teacher, in the order of the data."""

    x: NDArray[Any]
    y: Labels


class Voter(Protocol):
    """Fitted teachers. `labels` gives one row for each example and one column for each
    teacher; `NONE` where it has no vote.

    A teacher's column may depend on its own part and on the question, and on nothing else.
    """

    def check(self, question: Any) -> NDArray[Any]:
        """The question as an array of examples; raises `InvalidQuery` for a reason that
        is in the question alone."""

    def labels(self, question: NDArray[Any]) -> Labels: ...


class TeacherRecipe(Protocol):
    """How teachers learn: public, fixed before the data. Each from its own part alone,
    also in what it draws at random."""

    def fit(self, parts: Sequence[TeacherRows], classes: int) -> Voter: ...


@dataclass(frozen=True)
class Ensemble:
    """Teachers that learnt from private data. For the owner: an aggregator is what others may ask.

    `unit` touches one teacher only (see `partition`); `private` is False if a seed drew the parts.
    """

    voter: Voter
    teachers: int
    classes: int
    unit: Unit
    private: bool

    def votes(self, question: Any) -> Labels:
        """For each example the number of teachers that say each class: private data, not a release."""
        labels = self.voter.labels(self.voter.check(question))
        return np.asarray((labels[:, :, None] == np.arange(self.classes)).sum(axis=1))


def teach(
    recipe: TeacherRecipe,
    x: Any,
    y: Any,
    *,
    teachers: int,
    classes: int,
    unit: Unit = checks.ROW,
    people: Sequence[Any] | NDArray[Any] | None = None,
    key: bytes | None = None,
    rng: Random | None = None,
) -> Ensemble:
    """Give each unit to one of `teachers` by its own draw (or by the keyed hash of its
    name), and let them learn.

    Guarantee: data with one unit more or less (or, if drawn, with one replaced) have the
               same teachers but one.
    Assumes:   the recipe keeps its promise; `classes` and `teachers` are public.
    Reference: Papernot et al. 2017; the partition: `deniable.learn.pate.teachers.partition`.

    Rows with a label that is no whole number in [0, classes), or with a feature that is not finite, are left
    out, each for itself. Nothing is released: an account that opens an aggregator on the ensemble (or on a
    function that makes it) does that.
    """
    count, most = checks.whole("teachers", teachers, at_least=1), checks.whole("classes", classes, at_least=2)
    partition.check(checks.unit(unit), key, people)
    source: Random = SecureRandom() if rng is None else rng
    features, labels = _arrays(x, y, most)
    content = None if key is None or people is not None else _content(features, labels)
    teacher = partition.assign(len(features), count, rng=source, key=key, people=people, content=content)
    good = _good(features, labels)
    parts = [_part(features, labels, good & (teacher == t)) for t in range(count)]
    return Ensemble(recipe.fit(parts, most), count, most, unit, source.private or key is not None)


def check_examples(question: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """A question as finite examples of this shape, one or many."""
    try:
        examples = _floats(question)
    except (TypeError, ValueError, OverflowError):
        raise InvalidQuery(f"Expected examples as numbers of shape {shape}. Nothing was asked.") from None
    if examples.shape == shape:
        examples = examples[None]
    if examples.shape[1:] != shape or not len(examples):
        raise InvalidQuery(f"Expected examples of shape {shape}, got {examples.shape}. Nothing was asked.")
    if not np.isfinite(examples).all():
        raise InvalidQuery("Expected finite numbers in the examples. Nothing was asked.")
    return examples


def largest(scores: Scores) -> Labels:
    """Each teacher's label: its largest score, or `NONE` if one of them is not finite."""
    return np.where(np.isfinite(scores).all(axis=2), scores.argmax(axis=2), NONE).astype(np.int64)


def _arrays(x: Any, y: Any, classes: int) -> tuple[NDArray[np.float32], Labels]:
    """Features, and the class of each row; `NONE` for what is no class."""
    try:
        features, labels = _floats(x), positions(np.arange(classes), y)
    except (TypeError, ValueError, OverflowError):
        raise DataError("Expected features as numbers, all rows of one shape.") from None
    if features.ndim < 2 or len(features) != len(labels):
        raise DataError("Expected a table of features with a row for each label. Nothing was taught.")
    return features, labels


def _floats(values: Any) -> NDArray[np.float32]:
    """Single precision; what is too large for it is infinite, and dealt with as such."""
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32)


def _good(x: NDArray[np.float32], y: Labels) -> NDArray[np.bool_]:
    return np.asarray(np.isfinite(x.reshape(len(x), -1)).all(axis=1) & (y != NONE))


def _part(x: NDArray[np.float32], y: Labels, mask: NDArray[np.bool_]) -> TeacherRows:
    return TeacherRows(x[mask], y[mask])


def _content(x: NDArray[np.float32], y: Labels) -> NDArray[np.float64]:
    return np.column_stack([x.reshape(len(x), -1).astype(np.float64), y.astype(np.float64)])


def positive(name: str, value: float) -> float:
    """A finite number above 0, for what is no privacy parameter."""
    return float(checks.number(name, value, above=0))


def require(good: bool, sentence: str) -> None:
    if not good:
        raise InvalidParameter(sentence)
