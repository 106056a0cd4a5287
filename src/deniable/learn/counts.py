"""Classifiers from noisy counts: naive Bayes, and a tree grown level by level. Learning
from the counts costs nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from deniable import checks
from deniable.learn.bounded import Box, labels, one_row
from deniable.learn.estimator import PrivateClassifier, PrivateEstimator
from deniable.ledger import Account
from deniable.loss import Loss, Number, exact
from deniable.mechanism import Random
from deniable.mechanisms import Gaussian, Laplace
from deniable.mechanisms.classify import NaiveBayes, information_gain
from deniable.mechanisms.grid import root_up
from deniable.numbers import plain
from deniable.units import Unit

Whole = NDArray[np.int64]
Counts = NDArray[Any]


@dataclass(frozen=True)
class CountTables:
    """For each of `features` columns the table of (cell, class) counts, with integer noise.

    Guarantee: (ε, δ)-DP for `unit`, ε-DP with δ = 0: a row is in one cell of each table,
               so the L1 sensitivity is `features` and the L2 sensitivity √features; a
               row replaced is one that goes and one that comes.
    Assumes:   nothing: a row with a cell or a class outside its range is left out.
    Error:     that of the noise, in the worst count.
    Reference: Dwork, McSherry, Nissim, Smith 2006 (histograms).
    """

    features: int
    bins: int
    classes: int
    epsilon: Number
    delta: Number = 0
    unit: Unit = checks.ROW
    noise: Gaussian | Laplace = field(init=False)

    def __post_init__(self) -> None:
        for name in ("features", "bins", "classes"):
            checks.whole(name, getattr(self, name), at_least=1)
        one_row(self.unit)
        object.__setattr__(self, "noise", self._noise())

    def _noise(self) -> Gaussian | Laplace:
        size = self.features * self.bins * self.classes
        change = self.features * (2 if self.unit.replace else 1)
        if not self.delta:
            return Laplace.for_budget(self.epsilon, change, dimension=size, unit=self.unit)
        return Gaussian.for_budget(
            self.epsilon, self.delta, root_up(Fraction(change)), dimension=size, unit=self.unit
        )

    @property
    def loss(self) -> Loss:
        return self.noise.loss

    def error(self, confidence: float = 0.95) -> Any:
        return self.noise.error(confidence)

    def __call__(self, data: tuple[Whole, Whole], *, rng: Random) -> Counts:
        return np.asarray(self.noise(self.count(*data).ravel(), rng=rng)).reshape(
            self.features, self.bins, self.classes
        )

    def count(self, cells: Whole, classes: Whole) -> Whole:
        mask = (classes >= 0) & (classes < self.classes) & ((cells >= 0) & (cells < self.bins)).all(axis=1)
        codes = (np.arange(self.features) * self.bins + cells[mask]) * self.classes + classes[mask, None]
        size = self.features * self.bins * self.classes
        return np.bincount(codes.ravel(), minlength=size).reshape(self.features, self.bins, self.classes)


@dataclass(frozen=True)
class TreeNode:
    """A leaf, or a split: rows whose cell of `feature` is below `cut` go to `below`, the others to
    `above`."""

    label: int
    feature: int = 0
    cut: int = 0
    below: TreeNode | None = None
    above: TreeNode | None = None

    def predict(self, cells: Whole) -> Whole:
        if self.below is None or self.above is None:
            return np.full(len(cells), self.label)
        left = cells[:, self.feature] < self.cut
        out = np.empty(len(cells), np.int64)
        out[left], out[~left] = self.below.predict(cells[left]), self.above.predict(cells[~left])
        return out


@dataclass(frozen=True)
class Growth:
    """A tree of `depth` levels. Each level counts the tables of all its nodes anew, with
    a `depth`-th of ε and δ.

    Guarantee: `tables.loss`, `depth` times: a row is in one node of a level, so the
               nodes' tables together are as sensitive as those of one; the levels are
               chosen one after the other from what was released.
    Error:     none is known before data is seen.
    Reference: Friedman, Schuster 2010.
    """

    tables: CountTables
    depth: int

    def __post_init__(self) -> None:
        checks.whole("depth", self.depth, at_least=1)

    @property
    def loss(self) -> Loss:
        return self.tables.loss * self.depth if self.depth > 1 else self.tables.loss

    @property
    def unit(self) -> Unit:
        return self.tables.unit

    def error(self, confidence: float = 0.95) -> None:
        return None

    def __call__(self, data: tuple[Whole, Whole], *, rng: Random) -> TreeNode:
        return self._grow(*data, self.depth, rng)

    def _grow(self, cells: Whole, classes: Whole, levels: int, rng: Random) -> TreeNode:
        counts = np.maximum(self.tables((cells, classes), rng=rng), 0)
        label = int(counts.sum(axis=(0, 1)).argmax())
        feature, cut, gain = _best(counts)
        if gain <= 0:
            return TreeNode(label)
        left = cells[:, feature] < cut
        if levels == 1:
            sides = (counts[feature, :cut], counts[feature, cut:])
            below, above = (TreeNode(int(side.sum(axis=0).argmax())) for side in sides)
        else:
            below = self._grow(cells[left], classes[left], levels - 1, rng)
            above = self._grow(cells[~left], classes[~left], levels - 1, rng)
        return TreeNode(label, feature, cut, below, above)


def _best(counts: Counts) -> tuple[int, int, float]:
    """The feature and cut of the largest information gain in noisy counts."""
    bins = counts.shape[1]
    gains = np.array(
        [
            [information_gain(np.stack([table[:cut].sum(0), table[cut:].sum(0)])) for cut in range(1, bins)]
            or [0.0]
            for table in counts
        ]
    )
    feature, at = np.unravel_index(int(gains.argmax()), gains.shape)
    return int(feature), int(at) + 1, float(gains.max())


@dataclass(kw_only=True, eq=False, repr=False)
class _Counting(PrivateClassifier, PrivateEstimator):
    """Features in equal cells of their public range, classes from a public list."""

    epsilon: float = 1.0
    delta: float = 0.0
    bounds: Any = None
    classes: Sequence[Any] | None = None
    bins: int = 10
    account: Account | None = None
    random_state: int | None = None

    def _encode(self, X: Any, y: Any) -> tuple[Whole, Whole]:
        x, target = self._rows(X, y)
        self.classes_ = labels(self.classes)
        self.box_ = Box.from_bounds(self.bounds, x.shape[1])
        return self.box_.cells(x, self.bins), self._positions(self.classes_, target)

    def _cells(self, X: Any) -> Whole:
        check_is_fitted(self)
        return self.box_.cells(self._features(X), self.bins)


class PrivateNaiveBayes(_Counting):
    """Naive Bayes from noisy counts of each feature's cells by class.

    Guarantee: (ε, δ)-DP for the account's unit; ε-DP with δ = 0 (`CountTables`).
    Assumes:   bounds and classes are public.
    Reference: Vaidya, Shafiq, Basu, Hong 2013.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Charge, then count."""
        data = self._encode(X, y)
        tables = CountTables(
            data[0].shape[1], self.bins, len(self.classes_), self.epsilon, self.delta, self._unit
        )
        counts = np.maximum(self._run(tables, data), 0)
        self.model_ = NaiveBayes.from_counts(counts.sum(axis=1).mean(axis=0), list(counts))
        return self

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The log-probability of each class, up to the assumption of independent features."""
        cells = self._cells(X)
        joint = self.model_.prior + sum(table[cells[:, i]] for i, table in enumerate(self.model_.features))
        return np.asarray(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Any:
        at = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[at]


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateDecisionTree(_Counting):
    """A decision tree whose every level is chosen from noisy counts (`Growth`).

    Guarantee: (ε, δ)-DP for the account's unit; ε-DP with δ = 0.
    Assumes:   bounds and classes are public.
    Reference: Friedman, Schuster 2010.
    """

    depth: int = 3

    def fit(self, X: Any, y: Any) -> Self:
        """Charge, then grow."""
        data = self._encode(X, y)
        levels = checks.whole("depth", self.depth, at_least=1)
        epsilon, delta = (plain(exact(amount) / levels) for amount in (self.epsilon, self.delta))
        tables = CountTables(data[0].shape[1], self.bins, len(self.classes_), epsilon, delta, self._unit)
        self.tree_ = self._run(Growth(tables, levels), data)
        return self

    def predict(self, X: Any) -> Any:
        cells = self._cells(X)
        return self.classes_[self.tree_.predict(cells)]
