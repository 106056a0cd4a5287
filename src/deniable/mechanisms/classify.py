"""Classifiers from noisy counts. They see released numbers only, so they cost nothing more (post-processing).

>>> import numpy as np
>>> label = np.array([40, 60])  # counts of "no", "yes"
>>> outlook = np.array([[30, 10], [10, 50]])  # by outlook ("rain", "sun") and label
>>> NaiveBayes.from_counts(label, [outlook]).predict([1])
1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter

Counts = NDArray[Any]


@dataclass(frozen=True)
class NaiveBayes:
    """ln P(label), and ln P(value | label) for every feature, from counts that noise may have made negative.

    Reference: Vaidya, Shafiq, Basu, Hong 2013.
    """

    prior: NDArray[np.float64]
    features: tuple[NDArray[np.float64], ...]

    @classmethod
    def from_counts(cls, labels: Counts, features: Sequence[Counts], *, smoothing: float = 1.0) -> NaiveBayes:
        """`labels` counts each label, `features[i]` each pair (value, label). Counts
        below 0 are 0; `smoothing` is added."""
        for table in features:
            if table.ndim != 2 or table.shape[1] != len(labels):
                raise InvalidParameter(
                    f"Expected tables of (values, {len(labels)} labels), got the shape {table.shape}."
                )
        return cls(_log_share(labels, smoothing), tuple(_log_share(table, smoothing) for table in features))

    def predict(self, row: Sequence[int]) -> int:
        """The likeliest label of a row of value positions."""
        return int(
            np.argmax(self.prior + sum(table[value] for table, value in zip(self.features, row, strict=True)))
        )


@dataclass(frozen=True)
class DecisionTree:
    """A leaf with a `label`, or a split on column `feature` with a branch for each of its values."""

    label: int
    feature: int | None = None
    branches: tuple[DecisionTree, ...] = ()

    def predict(self, row: Sequence[int]) -> int:
        """The label of a row of value positions."""
        if self.feature is None:
            return self.label
        return self.branches[row[self.feature]].predict(row)


def grow(counts: Counts, *, depth: int, least: float = 1.0) -> DecisionTree:
    """A decision tree by information gain from one contingency table whose last axis is the label.

    A cell set smaller than `least`, which should be a few times the noise, is not split.
    Reference: Friedman, Schuster 2010.
    """
    return _grow(np.maximum(counts, 0).astype(float), tuple(range(counts.ndim - 1)), depth, least)


def information_gain(table: Counts) -> float:
    """The gain in bits of knowing the value in a table of (values, labels).

    >>> information_gain(np.array([[10, 0], [0, 10]]))
    1.0
    """
    t = np.maximum(table, 0).astype(float)
    total = t.sum()
    left = sum(float(part.sum()) * _entropy(part) for part in t)
    if total:
        return _entropy(t.sum(0)) - left / float(total)
    return 0.0


def _grow(counts: NDArray[np.float64], features: tuple[int, ...], depth: int, least: float) -> DecisionTree:
    """`features` are the columns that the axes of `counts`, but the last, stand for."""
    axes = range(counts.ndim - 1)
    label = int(np.argmax(counts.sum(axis=tuple(axes))))
    if depth == 0 or not features or counts.sum() < least:
        return DecisionTree(label)
    gains = [information_gain(counts.sum(axis=tuple(a for a in axes if a != axis))) for axis in axes]
    best = int(np.argmax(gains))
    rest = features[:best] + features[best + 1 :]
    parts = np.moveaxis(counts, best, 0)
    return DecisionTree(label, features[best], tuple(_grow(part, rest, depth - 1, least) for part in parts))


def _entropy(counts: NDArray[np.float64]) -> float:
    shares = counts[counts > 0] / counts.sum() if counts.sum() else counts[:0]
    return float(-(shares * np.log2(shares)).sum()) + 0.0


def _log_share(counts: Counts, smoothing: float) -> NDArray[np.float64]:
    """ln of the share along the first axis."""
    weights = np.maximum(counts, 0) + smoothing
    return np.asarray(np.log(weights / weights.sum(axis=0)))
