"""A classifier for a declared table by `GradientPerturbation`: exact sums and noise, and
a model like any other afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deniable.learn.convex.descent import Descent, GradientPerturbation
from deniable.learn.convex.losses import Floats, Logistic
from deniable.learn.sgd.tables import Table
from deniable.loss import Number


@dataclass(frozen=True)
class LinearTable:
    """Logistic regression on a table's features, scaled to [−1, 1] by their bounds;
    beyond two classes, each against the rest.

    The intercept is a feature like any other: a row is (x, 1)/√(features + 1), which is at most 1 long.
    """

    table: Table

    @property
    def outputs(self) -> int:
        return 1 if len(self.table.classes) == 2 else len(self.table.classes)

    @property
    def length(self) -> float:
        """Of the longest row, rounded up."""
        return float(np.sqrt(len(self.table.features) + 1)) * (1 + 1e-12)

    def run(self, n: int, epsilon: Number, delta: Number, descent: Descent) -> GradientPerturbation:
        """The mechanism, which takes `rows`."""
        features = len(self.table.features) + 1
        return GradientPerturbation(
            Logistic(), features, n, 0.0, epsilon, delta, outputs=self.outputs, descent=descent
        )

    def rows(self, x: Tensor, y: Tensor) -> tuple[Floats, Floats]:
        """What `Table.read` read, as rows with targets of ±1; a row that is to be left out has no target."""
        inputs, classes = x.numpy().astype(np.float64), y.numpy()
        shown = range(1, 2) if self.outputs == 1 else range(self.outputs)
        targets = np.column_stack([np.where(classes == k, 1.0, -1.0) for k in shown])
        targets[~np.isfinite(inputs).all(axis=1)] = np.nan
        return np.hstack([inputs, np.ones((len(inputs), 1))]) / self.length, targets

    def model(self, weights: NDArray[np.float64]) -> nn.Module:
        """The same scores as a layer with one output for each class; of two classes the first has score 0."""
        scaled = torch.from_numpy(weights / self.length).float()
        layer = nn.Linear(len(self.table.features), len(self.table.classes))
        with torch.no_grad():
            for part, values in ((layer.weight, scaled[:, :-1]), (layer.bias, scaled[:, -1])):
                part.zero_()
                part[-len(values) :] = values
        return layer
