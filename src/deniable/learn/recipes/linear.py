"""Softmax regression by full-batch gradient steps with Gaussian noise, in exact sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from deniable.learn.recipes import exact, integers
from deniable.mechanism import Random

NORM, MOST = 1 << 10, 127
"""Grid units in features of length 1, and the largest in one of them: they are kept in 8 bits."""
RESIDUAL = 512
"""Grid units in a residual at the clip."""
BLOCK = 4096
"""Examples summed in 32-bit integers at a time."""


@dataclass(frozen=True)
class LinearScores:
    """Scores features·weightsᵀ + bias of unit features in grid units."""

    weights: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        return features.float() @ (self.weights.T / NORM) + self.bias


@dataclass(frozen=True)
class LinearDescent:
    """`steps` steps of gradient descent with momentum, each on all examples.

    The gradient of an example's cross-entropy is r·(z, 1), r the residual softmax −
    target, so that its norm |r|·√(|z|² + 1) needs no per-example gradients (Goodfellow
    2015), and clipping it to `clip` is clipping |r| to clip/√2; without the intercept it
    is r·z, and |r| is clipped to `clip`.

    >>> [LinearDescent(1, 1.0, 0.1, intercept=each).sensitivity / (NORM * RESIDUAL) for each in (True, False)]
    [1.41421356..., 1.0...]
    """

    steps: int
    learning_rate: float
    clip: float
    momentum: float = 0.9
    final: float = 1.0
    """The learning rate falls in a straight line to this share of what it began with."""
    intercept: bool = True
    """Whether a class has a score of its own beside its weights. It takes as much of the clip as all features
    together, so that noise is √2 times larger; features that are centred, of classes of one size, need
    none."""

    @property
    def reach(self) -> float:
        """|(z, 1)| or |z|, for features z of length 1."""
        return math.sqrt(1 + self.intercept)

    @property
    def sensitivity(self) -> float:
        """|residual|·|(features, 1)| in grid units, rounded up."""
        return self.reach * NORM * RESIDUAL * (1 + 2.0**-50)

    def __call__(
        self,
        features: Tensor,
        targets: Tensor,
        n: int,
        multiplier: float,
        rng: Random,
        each: Callable[[int, LinearScores], None],
    ) -> LinearScores:
        """`features` are `exact.units` of `NORM`; `targets` [n, classes] are one-hot,
        and all 0 for an example left out.

        `each` sees the model after each step: it is released already, and the next step moves it in place.
        """
        model = LinearScores(torch.zeros(targets.shape[1], features.shape[1]), torch.zeros(targets.shape[1]))
        speed = LinearScores(torch.zeros_like(model.weights), torch.zeros_like(model.bias))
        to_gradient = self.clip / (self.reach * NORM * RESIDUAL * n)
        for step in range(self.steps):
            sums = self.sums(model, features, targets)
            gradient = exact.noisy(sums, multiplier, self.sensitivity, rng) * to_gradient
            self._move(model.weights, speed.weights, gradient[:, : features.shape[1]], step)
            if self.intercept:
                self._move(model.bias, speed.bias, gradient[:, -1], step)
            each(step + 1, model)
        return model

    def _move(self, values: Tensor, velocity: Tensor, gradient: Tensor, step: int) -> None:
        velocity.mul_(self.momentum).add_(gradient)
        values.sub_(velocity, alpha=self.rate_at(step))

    def rate_at(self, step: int) -> float:
        return self.learning_rate * (1 + (self.final - 1) * step / max(1, self.steps - 1))

    def sums(self, model: LinearScores, features: Tensor, targets: Tensor) -> Tensor:
        """Σ clipped gradients [classes, features + 1] in grid units: integers in 64-bit floats, exact.

        Without the intercept [classes, features].
        """
        width = features.shape[1]
        total = torch.zeros(targets.shape[1], width + self.intercept, dtype=torch.float64)
        for start in range(0, len(features), BLOCK):
            part, labels = (exact.fill(rows[start : start + BLOCK], BLOCK) for rows in (features, targets))
            scores = integers.scores(part, model.weights / NORM) + model.bias
            residuals = self.residuals(scores, labels.float())
            total[:, :width] += integers.product(residuals, part)
            if self.intercept:
                total[:, -1] += residuals.double().sum(0) * NORM
        return total

    def residuals(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Clipped residuals in grid units, cut towards 0; checked in integers to be no
        longer than `RESIDUAL`."""
        presence = targets.sum(1, keepdim=True)
        raw = (torch.softmax(scores, 1) - targets) * presence
        scale = RESIDUAL / raw.norm(dim=1, keepdim=True).clamp_min(self.clip / self.reach)
        levels = (raw * scale).trunc_()
        good = torch.isfinite(scale) & (levels.square().sum(1, keepdim=True) <= RESIDUAL**2)
        return torch.where(good, levels, 0.0)
