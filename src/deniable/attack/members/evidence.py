"""What a membership attack sees.

The target's outputs on every row, and the outputs of shadow models on the same rows, of which it knows the
training rows. A row may be asked about in several ways (itself, mirrored, shifted, …): these are the queries,
an axis in front of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp

from deniable.errors import InvalidParameter

Logits: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """Outputs of the target and of shadow models on the rows in question, as logits.

    `target` is (rows, classes), `shadows` (models, rows, classes), `members` (models, rows) says which rows
    each shadow model was trained on, `labels` (rows) are the right classes from 0. With several queries of
    each row the outputs have one axis more, in front of the rows: (queries, rows, classes) and (models,
    queries, rows, classes). `population` marks rows that no model was trained on, for `rmia`; without it
    every row is one of the population.

    Which rows a shadow model was trained on must be drawn independently of the target's: where every row is
    in exactly half of *all* models, counting the shadows tells who is in the target, and a measured attack
    looks better than it is.

    >>> g = np.random.default_rng(0)
    >>> target, shadows, members = g.normal(size=(5, 3)), g.normal(size=(8, 5, 3)), g.random((8, 5)) < 0.5
    >>> seen = Evidence(target, shadows, members, labels=np.zeros(5, int))
    >>> seen.rows, seen.queries
    (5, 1)
    """

    target: Logits
    shadows: Logits
    members: Booleans
    labels: Labels
    population: Booleans | None = None

    def __post_init__(self) -> None:
        target, shadows = np.asarray(self.target), np.asarray(self.shadows)
        members, labels = np.asarray(self.members, np.bool_), np.asarray(self.labels, np.int64)
        target, shadows = (target[None], shadows[:, None]) if target.ndim == 2 else (target, shadows)
        if target.ndim != 3 or shadows.shape[1:] != target.shape:
            raise InvalidParameter(
                "Expected logits of the target as (rows, classes) and of the shadows as (models, rows, "
                f"classes), or both with an axis of queries before the rows, got {np.shape(self.target)} and "
                f"{np.shape(self.shadows)}."
            )
        rows, classes = target.shape[1:]
        if members.shape != (len(shadows), rows) or labels.shape != (rows,):
            raise InvalidParameter(
                f"Expected members of shape {(len(shadows), rows)} and {rows} labels, got {members.shape} "
                f"and {labels.shape}."
            )
        if rows and not (labels.min() >= 0 and labels.max() < classes):
            raise InvalidParameter(
                f"Expected labels from 0 to {classes - 1}, got {labels.min()} to {labels.max()}."
            )
        for name, value in (
            ("target", target),
            ("shadows", shadows),
            ("members", members),
            ("labels", labels),
        ):
            object.__setattr__(self, name, value)

    @property
    def rows(self) -> int:
        return int(self.target.shape[1])

    @property
    def queries(self) -> int:
        return int(self.target.shape[0])

    def target_scaled(self) -> Floats:
        """ln p/(1 − p) of the label: (queries, rows)."""
        return scale_logits(self.target, self.labels)

    def shadows_scaled(self) -> Floats:
        """The same of every shadow model: (models, queries, rows)."""
        return scale_logits(self.shadows, self.labels)

    def target_confidence(self) -> Floats:
        """ln p of the label: (queries, rows)."""
        return log_confidence(self.target, self.labels)

    def shadows_confidence(self) -> Floats:
        return log_confidence(self.shadows, self.labels)


def scale_logits(logits: Any, labels: Labels) -> Floats:
    """ln p/(1 − p) of the label, from logits, so that it does not saturate where p rounds to 1."""
    z = np.asarray(logits, np.float64).copy()
    rows = np.arange(len(labels))
    label = z[..., rows, labels].copy()
    z[..., rows, labels] = -np.inf
    return np.asarray(label - logsumexp(z, axis=-1))


def log_confidence(logits: Any, labels: Labels) -> Floats:
    logs = log_softmax(np.asarray(logits, np.float64), axis=-1)
    return np.asarray(logs[..., np.arange(len(labels)), labels])


def from_probabilities(probabilities: Any) -> Logits:
    """Logits that give these probabilities. A probability of 0 counts as the smallest that single precision
    knows.

    >>> np.round(np.exp(from_probabilities([[0.25, 0.75]])), 3).tolist()
    [[0.25, 0.75]]
    """
    return np.log(np.maximum(np.asarray(probabilities, np.float64), np.finfo(np.float32).tiny)).astype(
        np.float32
    )
