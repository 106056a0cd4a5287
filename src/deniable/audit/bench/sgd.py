"""A small model trained by DP-SGD, whole and with planted bugs, for the audits of `deniable.audit.sgd`.

Softmax regression on generated data: small enough for a white-box audit in seconds. numpy's generator,
floating point: it exists to be attacked and protects nobody.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.audit.sgd import Training

Array = NDArray[np.float64]


class Bug(StrEnum):
    """What can be wrong with a step."""

    NONE = "none"
    HALVED_NOISE = "halved noise"
    NO_CLIPPING = "no clipping"
    WRONG_LOT = "wrong lot"
    """Divides by the size of the batch that was drawn instead of the fixed lot."""
    NOISE_PER_DATASET = "noise divided by the data set"
    """Divides the noise by the number of records instead of the lot."""


class TinySgd:
    """A model in training. `step` is what an auditor attacks, `gradients` and `update`
    let her train it meanwhile."""

    def __init__(
        self,
        training: Training,
        bug: Bug = Bug.NONE,
        *,
        features: int = 64,
        classes: int = 10,
        seed: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.training, self.bug = training, bug
        self.people = round(training.lot / training.rate)
        self.label = rng.integers(0, classes, self.people)
        self.data = rng.standard_normal((classes, features))[self.label] + rng.standard_normal(
            (self.people, features)
        )
        self.weights = np.zeros((features, classes))
        self.rng = rng

    @property
    def dimension(self) -> int:
        return int(self.weights.size)

    def gradients(self) -> Array:
        """The gradients of a Poisson sample, one per row."""
        batch = np.flatnonzero(self.rng.random(self.people) < self.training.rate)
        return self.gradients_of(self.data[batch], self.label[batch])

    def gradients_of(self, data: Array, label: NDArray[Any]) -> Array:
        logits = data @ self.weights
        share = np.exp(logits - logits.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        share[np.arange(len(label)), label] -= 1
        return np.asarray((data[:, :, None] * share[:, None, :]).reshape(len(label), -1))

    def step(self, gradients: Array, rng: np.random.Generator) -> Array:
        """Clip, add up, add noise, divide by the lot; or nearly so."""
        t = self.training
        sigma = t.noise_multiplier * t.clip * (0.5 if self.bug is Bug.HALVED_NOISE else 1.0)
        norms = np.linalg.norm(gradients, axis=1)
        factor = (
            np.ones(len(norms))
            if self.bug is Bug.NO_CLIPPING
            else np.minimum(1, t.clip / np.maximum(norms, 1e-12))
        )
        total = factor @ gradients
        noise = sigma * rng.standard_normal(gradients.shape[1])
        match self.bug:
            case Bug.WRONG_LOT:
                return np.asarray((total + noise) / max(1, len(gradients)))
            case Bug.NOISE_PER_DATASET:
                return np.asarray(total / t.lot + noise / self.people)
            case _:
                return np.asarray((total + noise) / t.lot)

    def update(self, release: Array, rate: float = 0.5) -> None:
        self.weights -= rate * release.reshape(self.weights.shape)

    def run_with_canaries(self, canaries: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.bool_]]:
        """One whole run on full batches in which each canary coordinate is in by a fair
        coin; its score is Σ of releases."""
        places = rng.choice(self.dimension, canaries, replace=False)
        inside = rng.random(canaries) < 0.5
        loud = np.zeros((int(inside.sum()), self.dimension))
        loud[np.arange(len(loud)), places[inside]] = 10 * self.training.clip
        scores = np.zeros(canaries)
        for _ in range(self.training.steps):
            own = self.gradients_of(self.data, self.label)
            release = self.step(np.concatenate([own, loud]), rng)
            norms = np.maximum(np.linalg.norm(own, axis=1), 1e-12)
            own_sum = np.minimum(1, self.training.clip / norms) @ own
            scores += release[places] * self.training.lot - own_sum[places]
            self.update(release, 0.1)
        return scores / (self.training.clip * math.sqrt(self.training.steps)), inside
