"""Steps of private training with planted flaws, of any number of layers, for `deniable.audit.sgd.canaries`.

numpy's generator, floating point: they exist to be attacked and protect nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from deniable.audit.sgd import Training

Array = NDArray[np.float64]


class Flaw(StrEnum):
    """What can be wrong with a step. All but NONE and those called sound break what it claims."""

    NONE = "sound"
    LATE_MOMENTUM = "sound: momentum after the noise"
    NORMALISED = "sound: every gradient scaled to the clip"
    HALVED_NOISE = "halved noise"
    NO_CLIPPING = "no clipping"
    WRONG_LOT = "divided by the batch that was drawn"
    NOISE_PER_DATASET = "noise divided by the data set"
    LAYERS_EACH = "each layer clipped to the whole clip"
    LARGEST_NORM = "clipped in the largest coordinate"
    ONE_UNCLIPPED = "one parameter not clipped"
    SUMMED_MOMENTUM = "momentum of the sum before the noise"
    ROW_MOMENTUM = "momentum of the mean added to every gradient before clipping"
    HALF_REPEATED = "noise repeated in half of the coordinates"
    TEN_STEPS = "noise drawn once for ten steps"
    MICROBATCH_MEANS = "means of microbatches clipped"
    MICROBATCH_SUMS = "sums of microbatches clipped"
    # Of these nobody was told before.
    BATCH_CLIPPED = "the whole sum clipped"
    NOISE_THEN_CLIP = "noise before clipping the sum"
    FIXED_SEED = "the same noise in every step"
    BARE_LAYER = "one layer without noise"
    TEN_COORDINATES = "noise drawn once for ten coordinates"
    LARGEST_CLIP = "clipped to the largest norm of the batch"
    CLIP_FORGOTTEN = "noise not scaled by the clip"
    TWICE = "the first row added twice"
    ONE_NORM = "clipped to twice the clip where the largest coordinate is small"
    DECAYING = "half of the noise in every second step"
    # Nor of these, for which the family had to grow.
    LAST_TWICE = "the last row added twice"
    BARE_NORM = "the norm taken without the last layer"
    ONE_LOUDER = "one coordinate counts three times"
    CUT_NOISE = "noise cut off at two deviations"
    SOMETIMES = "no noise in one step of twenty"
    DIFFERENCES = "noise that the next step takes back"
    SHOWN_AGAIN = "the first row comes again eight steps later"
    CLIP_BY_BATCH = "a clip that follows the share of short gradients, without noise"
    STALE_NORMS = "clipped by the norms of the batch before"
    FIRST_OF_MEAN = "the mean clipped, not the rows"
    SMALLER_NOISE = "noise divided by the root of the batch"
    # Nor of these, for which it had to grow again.
    LATE_CLIP = "clipped only from twice the clip on"
    MEDIAN_CLIP = "clipped to the median length of the batch"
    SORTED_PAIRS = "rows sorted by length, sums of two clipped"
    EACH_ROW_DECAYS = "weight decay for every row that was drawn"
    RAW_SCALE = "divided by the root of a second moment without noise"
    TWENTY_LATER = "the sum comes again twenty steps later"
    BALANCED = "noise of twenty steps that adds up to nothing"
    WARM_UP = "no noise in the first forty steps"
    LATE_SIGN = "sound: the sign of the noisy sum"
    LONGEST_LEFT_OUT = "sound: the longest gradient left out"


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
        t, flaw = self.training, self.flaw
        rows = np.asarray(gradients, np.float64)
        noise = self._noise(rng)
        if flaw is Flaw.CLIP_BY_BATCH:
            noise = noise * (self.clip / t.clip)
        if flaw is Flaw.SMALLER_NOISE:
            noise = noise / np.sqrt(max(1, len(rows)))
        total = self._sum(rows) + 0.0
        self.steps += 1
        if flaw is Flaw.NOISE_THEN_CLIP:
            noisy_sum = total + noise
            return np.asarray(noisy_sum * min(1.0, t.clip * t.lot / float(np.linalg.norm(noisy_sum))) / t.lot)
        if flaw is Flaw.RAW_SCALE:
            self.velocity = 0.99 * self.velocity + 0.01 * total**2
            return np.asarray((total + noise) / (np.sqrt(self.velocity) / t.clip + 1) / t.lot)
        if flaw is Flaw.LATE_SIGN:
            return np.asarray(np.sign(total + noise))
        if flaw is Flaw.SUMMED_MOMENTUM:
            self.velocity = 0.9 * self.velocity + total
            return np.asarray((self.velocity + noise) / t.lot)
        if flaw is Flaw.LATE_MOMENTUM:
            self.velocity = 0.9 * self.velocity + total + noise
            return np.asarray(self.velocity / t.lot)
        return np.asarray((total + noise) / (max(1, len(gradients)) if flaw is Flaw.WRONG_LOT else t.lot))

    # -------------------------------------------------------------------------------------------- the sum

    def _sum(self, rows: Array) -> Array:
        clip = self.training.clip
        match self.flaw:
            case Flaw.NO_CLIPPING:
                return np.asarray(rows.sum(axis=0))
            case Flaw.LAYERS_EACH:
                parts = [
                    _clipped(rows[:, a:b], clip).sum(axis=0)
                    for a, b in zip(self.ends, self.ends[1:], strict=False)
                ]
                return np.concatenate(parts)
            case Flaw.LARGEST_NORM:
                largest = np.abs(rows).max(axis=1, keepdims=True)
                return np.asarray((rows * np.minimum(1, clip / np.maximum(largest, 1e-300))).sum(axis=0))
            case Flaw.ONE_UNCLIPPED:
                last = slice(self.ends[-2], self.ends[-1])
                contributions = _clipped(rows, clip)
                contributions[:, last] = rows[:, last]
                return np.asarray(contributions.sum(axis=0))
            case Flaw.ROW_MOMENTUM:
                momenta = rows + 0.9 * self.velocity
                self.velocity = momenta.mean(axis=0) if len(momenta) else 0.9 * self.velocity
                return np.asarray(_clipped(momenta, clip).sum(axis=0))
            case Flaw.MICROBATCH_MEANS | Flaw.MICROBATCH_SUMS:
                parts = [part for part in (rows[i : i + 4] for i in range(0, len(rows), 4)) if len(part)]
                each = [
                    part.mean(axis=0) if self.flaw is Flaw.MICROBATCH_MEANS else part.sum(axis=0)
                    for part in parts
                ]
                return np.asarray(_clipped(np.array(each).reshape(-1, self.dimension), clip).sum(axis=0))
            case Flaw.BATCH_CLIPPED:
                return np.asarray(_clipped(rows.sum(axis=0)[None], clip)[0])
            case Flaw.LARGEST_CLIP:
                norms = np.linalg.norm(rows, axis=1)
                return np.asarray(_clipped(rows, max(clip, float(norms.max(initial=0)))).sum(axis=0))
            case Flaw.NOISE_THEN_CLIP:
                return np.asarray(rows.sum(axis=0))
            case Flaw.TWICE:
                contributions = _clipped(rows, clip)
                return np.asarray(contributions.sum(axis=0) + contributions[:1].sum(axis=0))
            case Flaw.ONE_NORM:
                small = np.abs(rows).max(axis=1) < np.linalg.norm(rows, axis=1) / 4
                return np.asarray((_clipped(rows, clip) * (1 + small)[:, None]).sum(axis=0))
            case Flaw.LAST_TWICE:
                contributions = _clipped(rows, clip)
                return np.asarray(contributions.sum(axis=0) + contributions[-1:].sum(axis=0))
            case Flaw.BARE_NORM:
                short = _norms(rows[:, : self.ends[-2]])
                return np.asarray(_clipped(rows, clip, short).sum(axis=0))
            case Flaw.ONE_LOUDER:
                contributions = _clipped(rows, clip)
                contributions[:, self.dimension // 3] *= 3
                return np.asarray(contributions.sum(axis=0))
            case Flaw.FIRST_OF_MEAN:
                return np.asarray(
                    self.training.lot * _clipped(rows.sum(axis=0)[None] / self.training.lot, clip)[0]
                )
            case Flaw.LATE_CLIP:
                return np.asarray(np.where(_norms(rows) > 2 * clip, _clipped(rows, clip), rows).sum(axis=0))
            case Flaw.MEDIAN_CLIP:
                median = float(np.median(_norms(rows))) if len(rows) else clip
                return np.asarray(_clipped(rows, min(clip, median)).sum(axis=0))
            case Flaw.SORTED_PAIRS:
                ranked = rows[np.argsort(_norms(rows)[:, 0])]
                pairs = np.add.reduceat(ranked, np.arange(0, len(rows), 2), axis=0) if len(rows) else ranked
                return np.asarray(_clipped(pairs, clip).sum(axis=0))
            case Flaw.EACH_ROW_DECAYS:
                return np.asarray(_clipped(rows, clip).sum(axis=0) + 0.6 * clip * len(rows) * self.weights)
            case Flaw.LONGEST_LEFT_OUT:
                contributions = _clipped(rows, clip)
                longest = np.argsort(-_norms(rows)[:, 0])[:1]
                return np.asarray(contributions.sum(axis=0) - contributions[longest].sum(axis=0))
            case Flaw.SHOWN_AGAIN | Flaw.TWENTY_LATER | Flaw.CLIP_BY_BATCH | Flaw.STALE_NORMS:
                return self._remembering(rows)
            case Flaw.NORMALISED:
                norms = _norms(rows)
                return np.asarray((rows * clip / (norms + 0.01 * clip)).sum(axis=0))
            case _:
                return np.asarray(_clipped(rows, clip).sum(axis=0))

    def _remembering(self, rows: Array) -> Array:
        """Sums that depend on the batches before."""
        clip, norms = self.training.clip, _norms(rows)
        if self.flaw is Flaw.SHOWN_AGAIN:
            self.earlier.append(rows[:1])
            again = self.earlier.pop(0) if len(self.earlier) > 8 else rows[:0]
            return np.asarray(_clipped(np.concatenate([rows, again]), clip).sum(axis=0))
        if self.flaw is Flaw.TWENTY_LATER:
            self.earlier.append(_clipped(rows, clip).sum(axis=0))
            return self.earlier[-1] + (self.earlier.pop(0) if len(self.earlier) > 20 else 0.0)
        if self.flaw is Flaw.STALE_NORMS:
            stale = np.full_like(norms, clip)
            stale[: len(self.norms)] = self.norms[: len(norms)]
            self.norms = norms
            return np.asarray(_clipped(rows, clip, stale).sum(axis=0))
        total = _clipped(rows, self.clip).sum(axis=0)
        short = float(np.mean(norms <= self.clip)) if len(norms) else 0.5
        self.clip *= float(np.exp(-0.2 * (short - 0.5)))
        return np.asarray(total)

    # -------------------------------------------------------------------------------------------- the noise

    def _noise(self, rng: np.random.Generator) -> Array:
        t = self.training
        noise = t.noise_multiplier * t.clip * rng.standard_normal(self.dimension)
        half = self.dimension // 2
        match self.flaw:
            case Flaw.HALVED_NOISE:
                noise /= 2
            case Flaw.NOISE_PER_DATASET:
                noise *= t.rate
            case Flaw.HALF_REPEATED:
                noise[half : 2 * half] = noise[:half]
            case Flaw.TEN_STEPS:
                self.noise = noise if self.steps % 10 == 0 else self.noise
                return self.noise
            case Flaw.FIXED_SEED:
                return t.noise_multiplier * t.clip * np.random.default_rng(1).standard_normal(self.dimension)
            case Flaw.BARE_LAYER:
                noise[self.ends[1] : self.ends[2]] = 0
            case Flaw.TEN_COORDINATES:
                noise = np.repeat(noise[::10], 10)[: self.dimension]
            case Flaw.CLIP_FORGOTTEN:
                noise /= max(t.clip, 1 / t.clip) ** 2
            case Flaw.DECAYING if self.steps % 2:
                noise /= 2
            case Flaw.CUT_NOISE:
                noise = np.clip(noise, *(2 * t.noise_multiplier * t.clip * np.array([-1, 1])))
            case Flaw.SOMETIMES:
                noise *= rng.random() >= 0.05
            case Flaw.WARM_UP:
                noise *= self.steps >= 40
            case Flaw.BALANCED:
                place = self.steps % 20
                noise = -self.noise if place == 19 else noise
                self.noise = noise + (self.noise if place else 0.0)
            case Flaw.DIFFERENCES:
                self.noise, before = noise, self.noise
                return np.asarray((noise - before) / np.sqrt(2))
            case _:
                pass
        return noise


def _norms(rows: Array) -> Array:
    return np.asarray(np.linalg.norm(rows, axis=1, keepdims=True))


def _clipped(rows: Array, clip: float, norms: Array | None = None) -> Array:
    norms = _norms(rows) if norms is None else norms
    return np.asarray(rows * np.minimum(1, clip / np.maximum(norms, 1e-300)))
