"""One step of private training with one flaw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deniable.audit.bench.steps.flaws import Flaw
from deniable.audit.bench.steps.noise import TWISTS
from deniable.audit.bench.steps.sums import SUMS, honest
from deniable.audit.sgd import Training
from deniable.audit.statistics import Array


class FlawedStep:
    """A step over parameters of several layers; `layers` are their sizes."""

    def __init__(
        self, training: Training, flaw: Flaw = Flaw.NONE, layers: Sequence[int] = (300, 30, 150, 10)
    ) -> None:
        self.training, self.flaw, self.layers = training, flaw, tuple(layers)
        self.dimension = sum(layers)
        self.ends = np.cumsum([0, *layers])
        self.velocity = np.zeros(self.dimension)
        self.noise = np.zeros(self.dimension)
        self.weights = np.random.default_rng(0).choice([-1.0, 1.0], self.dimension) / np.sqrt(self.dimension)
        self.norms = np.full((1, 1), training.clip)
        self.earlier: list[Array] = []
        self.clip = training.clip
        self.steps = 0

    def __call__(self, gradients: Array, rng: np.random.Generator) -> Array:
        rows = np.asarray(gradients, np.float64)
        noise = self._noise(rng, len(rows))
        total = SUMS.get(self.flaw, honest)(self, rows) + 0.0
        self.steps += 1
        return np.asarray(self._release(total, noise, len(rows)))

    def _noise(self, rng: np.random.Generator, rows: int) -> Array:
        t = self.training
        noise = t.noise_multiplier * t.clip * rng.standard_normal(self.dimension)
        if self.flaw in TWISTS:
            return TWISTS[self.flaw](self, noise, rng)
        if self.flaw is Flaw.CLIP_BY_BATCH:
            return noise * (self.clip / t.clip)
        if self.flaw is Flaw.EMPTY_SKIPPED:
            return noise * bool(rows)
        if self.flaw is Flaw.SMALLER_NOISE:
            return np.asarray(noise / np.sqrt(max(1, rows)))
        return noise

    def _release(self, total: Array, noise: Array, rows: int) -> Array:
        t, noisy_sum = self.training, total + noise
        match self.flaw:
            case Flaw.NOISE_THEN_CLIP:
                return noisy_sum * min(1.0, t.clip * t.lot / float(np.linalg.norm(noisy_sum))) / t.lot
            case Flaw.RAW_SCALE:
                self.velocity = 0.99 * self.velocity + 0.01 * total**2
                return noisy_sum / (np.sqrt(self.velocity) / t.clip + 1) / t.lot
            case Flaw.LATE_SIGN:
                return np.sign(noisy_sum)
            case Flaw.SUMMED_MOMENTUM:
                self.velocity = 0.9 * self.velocity + total
                return (self.velocity + noise) / t.lot
            case Flaw.LATE_MOMENTUM:
                self.velocity = 0.9 * self.velocity + noisy_sum
                return self.velocity / t.lot
            case Flaw.WRONG_LOT:
                return noisy_sum / max(1, rows)
            case _:
                return noisy_sum / t.lot
