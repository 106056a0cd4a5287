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
SENSITIVITY = math.sqrt(2) * NORM * RESIDUAL * (1 + 2.0**-50)
"""|residual|·|(features, 1)| in grid units, rounded up."""


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
    2015), and clipping it to `clip` is clipping |r| to clip/√2.
    """

    steps: int
    learning_rate: float
    clip: float
    momentum: float = 0.9
    final: float = 1.0
    """The learning rate falls in a straight line to this share of what it began with."""

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
        to_gradient = self.clip / (math.sqrt(2) * NORM * RESIDUAL * n)
        for step in range(self.steps):
            sums = (
                exact.noisy(self.sums(model, features, targets), multiplier, SENSITIVITY, rng) * to_gradient
            )
            for at, velocity, by in (
                (model.weights, speed.weights, sums[:, :-1]),
                (model.bias, speed.bias, sums[:, -1]),
            ):
                velocity.mul_(self.momentum).add_(by)
                at.sub_(velocity, alpha=self.rate_at(step))
            each(step + 1, model)
        return model

    def rate_at(self, step: int) -> float:
        return self.learning_rate * (1 + (self.final - 1) * step / max(1, self.steps - 1))

    def sums(self, model: LinearScores, features: Tensor, targets: Tensor) -> Tensor:
        """Σ clipped gradients [classes, features + 1] in grid units: integers in 64-bit floats, exact."""
        total = torch.zeros(targets.shape[1], features.shape[1] + 1, dtype=torch.float64)
        for start in range(0, len(features), BLOCK):
            part, labels = (exact.filled(rows[start : start + BLOCK], BLOCK) for rows in (features, targets))
            scores = integers.scores(part, model.weights / NORM) + model.bias
            residuals = self.residuals(scores, labels.float())
            total[:, :-1] += integers.product(residuals, part)
            total[:, -1] += residuals.double().sum(0) * NORM
        return total

    def residuals(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Clipped residuals in grid units, cut towards 0; checked in integers to be no
        longer than `RESIDUAL`."""
        presence = targets.sum(1, keepdim=True)
        raw = (torch.softmax(scores, 1) - targets) * presence
        scale = RESIDUAL / raw.norm(dim=1, keepdim=True).clamp_min(self.clip / math.sqrt(2))
        levels = (raw * scale).trunc_()
        good = torch.isfinite(scale) & (levels.square().sum(1, keepdim=True) <= RESIDUAL**2)
        return torch.where(good, levels, 0.0)
