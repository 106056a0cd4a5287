"""Exact unlearning: every row is in one shard, every shard has its model, and to forget is to train that one
model anew.

Each row chooses its shard by a draw of its own, so where the others are says nothing of those who left: after
forgetting, shards and models have the same law as if the forgotten had never been there. (Equal shards would
not do: one row less moves others.)

That is for requests which do not depend on the models. Whoever asks after seeing them, for those whose shard
answers in some way, leaves behind shards that are no longer random: exactness is lost (Gupta et al. 2021).
Publish the models under a guarantee against that. Reference: Bourtoule et al. 2021 (SISA)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.mechanism import Random
from deniable.randomness import SecureRandom

Predict: TypeAlias = Callable[[Any], Any]
Train: TypeAlias = Callable[[Any, Any], Predict]
"""Rows and labels → how the trained model answers: scores of each class, (rows, classes). Called with no rows
as well."""


@dataclass(frozen=True)
class Shards:
    """Models of `shard`s of rows, and which rows are left. A value: to forget makes a new one."""

    train: Train
    x: Any
    y: Any
    shard: NDArray[np.int64]
    present: NDArray[np.bool_]
    models: tuple[Predict, ...]

    @classmethod
    def fit(cls, train: Train, x: Any, y: Any, *, shards: int = 10, rng: Random | None = None) -> Shards:
        """Deal the rows out and train a model on each shard. `rng` is for tests: it decides who shares a
        shard."""
        if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
            raise InvalidParameter(
                f"Expected shards={shards!r} to be a whole number, 1 or more. Nothing was trained."
            )
        if len(x) != len(y):
            raise InvalidParameter(
                f"Expected a label for each row, got {len(x):,} rows and {len(y):,} labels."
            )
        dealt = (SecureRandom() if rng is None else rng).uniform_integers(shards, len(y))
        present = np.ones(len(y), np.bool_)
        models = tuple(train(x[dealt == k], y[dealt == k]) for k in range(shards))
        return cls(train, x, y, np.asarray(dealt, np.int64), present, models)

    def forget(self, places: Iterable[int]) -> Shards:
        """The model without the rows at these places: only their shards are trained anew."""
        rows = np.unique(np.asarray(list(places), np.int64))
        if len(rows) and not (rows[0] >= 0 and rows[-1] < len(self.y)):
            raise InvalidParameter(f"Expected places from 0 to {len(self.y) - 1}. Nothing was forgotten.")
        present = self.present.copy()
        present[rows] = False
        shards = set(self.shard[rows[self.present[rows]]].tolist())
        models = tuple(
            self._train(k, present) if k in shards else model for k, model in enumerate(self.models)
        )
        return Shards(self.train, self.x, self.y, self.shard, present, models)

    def _train(self, shard: int, present: NDArray[np.bool_]) -> Predict:
        rows = np.flatnonzero((self.shard == shard) & present)
        return self.train(self.x[rows], self.y[rows])

    def predict(self, x: Any) -> NDArray[np.float64]:
        """The mean of the models' scores."""
        return np.asarray(np.mean([np.asarray(model(x), np.float64) for model in self.models], axis=0))
