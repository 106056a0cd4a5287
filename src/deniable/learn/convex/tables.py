"""A classifier for a declared table by `GradientPerturbation`: exact sums and noise, and
a model like any other afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deniable.learn.convex.descent import Descent, GradientPerturbation
from deniable.learn.convex.losses import Floats, Logistic
from deniable.learn.convex.scaled import ScaledRegression, ScaledWeights, Scaling, scaling_noise
from deniable.learn.sgd.tables import Feature, Table
from deniable.loss import GaussianNoise, Number


@dataclass(frozen=True)
class LinearTable:
    """Logistic regression on a table's inputs; beyond two classes, each against the rest.

    The intercept is an input like any other. A row has numbers within [−1, 1], at most one word of each
    column of words, and the 1 of the intercept: over √(features + 1) it is at most 1 long. Numbers are scaled
    by their noisy means and deviations first, where there are rows enough for that.
    """

    table: Table

    @property
    def outputs(self) -> int:
        return 1 if len(self.table.classes) == 2 else len(self.table.classes)

    @property
    def length(self) -> float:
        """The length of the longest row, rounded up."""
        return float(np.sqrt(len(self.table.features) + 1)) * (1 + 1e-12)

    def run(
        self, n: int, epsilon: Number, delta: Number, descent: Descent
    ) -> ScaledRegression | GradientPerturbation:
        """The mechanism, which takes `rows`."""
        noise = scaling_noise(epsilon, delta, len(self.table.numbers), n)
        run = GradientPerturbation(
            Logistic(), self.table.inputs + 1, n, 0.0, epsilon, delta, outputs=self.outputs, descent=descent,
            spent=None if noise is None else GaussianNoise(noise),
        )  # fmt: skip
        return run if noise is None else ScaledRegression(self.table.numbers, self.length, noise, run)

    def rows(self, x: Tensor, y: Tensor) -> tuple[Floats, Floats]:
        """What `Table.read` read, with targets of ±1; a row that is to be left out has no target."""
        classes = y.numpy()
        indices = range(1, 2) if self.outputs == 1 else range(self.outputs)
        targets = np.column_stack([np.where(classes == k, 1.0, -1.0) for k in indices])
        targets[~np.isfinite(x.numpy()).all(axis=1)] = np.nan
        return x.numpy(), targets

    def unscaled_rows(self, x: Tensor, y: Tensor) -> tuple[Floats, Floats]:
        """The same as a descent without scaling takes it."""
        inputs, targets = self.rows(x, y)
        return np.hstack([inputs, np.ones((len(inputs), 1))]) / self.length, targets

    def build_model(self, value: Any) -> tuple[Table, nn.Module]:
        """What was released, as a table with the bounds that its numbers are scaled by, and a layer with one
        output for each class; of two classes the first has score 0."""
        if isinstance(value, ScaledWeights):
            return self._narrow_bounds(value.scaling), self._layer(value.weights)
        return self.table, self._layer(value)

    def _narrow_bounds(self, scaling: Scaling) -> Table:
        """u in [−1, 1] by the old bounds is (u − middle)/reach by the new ones."""
        ends = iter(zip(scaling.middle - scaling.reach, scaling.middle + scaling.reach, strict=True))
        features = []
        for feature in self.table.features:
            if isinstance(feature, Feature):
                low, high = next(ends)
                half = (feature.high - feature.low) / 2
                middle = feature.low + half
                feature = Feature(feature.name, float(middle + half * low), float(middle + half * high))
            features.append(feature)
        return replace(self.table, features=tuple(features))

    def _layer(self, weights: NDArray[np.float64]) -> nn.Module:
        coefficients = torch.from_numpy(weights / self.length).float()
        layer = nn.Linear(self.table.inputs, len(self.table.classes))
        with torch.no_grad():
            for part, values in ((layer.weight, coefficients[:, :-1]), (layer.bias, coefficients[:, -1])):
                part.zero_()
                part[-len(values) :] = values
        return layer
