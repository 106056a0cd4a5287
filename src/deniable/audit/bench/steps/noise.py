"""Noise that is not what the claim says, one function for each flaw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from deniable.audit.bench.steps.flaws import Flaw
from deniable.audit.statistics import Array

if TYPE_CHECKING:
    from deniable.audit.bench.steps.step import FlawedStep

Twist = Callable[["FlawedStep", Array, np.random.Generator], Array]
"""A step, the noise it should add, and random numbers → what it adds."""


def halve(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    return noise / 2


def per_dataset(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    return noise * step.training.rate


def repeat_half(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    half = step.dimension // 2
    noise[half : 2 * half] = noise[:half]
    return noise


def ten_steps(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    if step.steps % 10 == 0:
        step.noise = noise
    return step.noise


def fixed_seed(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    deviation = step.training.noise_multiplier * step.training.clip
    return deviation * np.random.default_rng(1).standard_normal(step.dimension)


def bare_layer(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    noise[step.ends[1] : step.ends[2]] = 0
    return noise


def ten_coordinates(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    return np.repeat(noise[::10], 10)[: step.dimension]


def clip_forgotten(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    clip = step.training.clip
    return noise / max(clip, 1 / clip) ** 2


def decaying(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    return noise / (1 + step.steps % 2)


def cut(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    most = 2 * step.training.noise_multiplier * step.training.clip
    return np.clip(noise, -most, most)


def sometimes(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    return noise * (rng.random() >= 0.05)


def warm_up(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    return noise * (step.steps >= 40)


def balance(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    place = step.steps % 20
    if place == 19:
        noise = -step.noise
    step.noise = noise + (step.noise if place else 0.0)
    return noise


def differences(step: FlawedStep, noise: Array, rng: np.random.Generator) -> Array:
    step.noise, before = noise, step.noise
    return np.asarray((noise - before) / np.sqrt(2))


TWISTS: Mapping[Flaw, Twist] = {
    Flaw.HALVED_NOISE: halve,
    Flaw.NOISE_PER_DATASET: per_dataset,
    Flaw.HALF_REPEATED: repeat_half,
    Flaw.TEN_STEPS: ten_steps,
    Flaw.FIXED_SEED: fixed_seed,
    Flaw.BARE_LAYER: bare_layer,
    Flaw.TEN_COORDINATES: ten_coordinates,
    Flaw.CLIP_FORGOTTEN: clip_forgotten,
    Flaw.DECAYING: decaying,
    Flaw.CUT_NOISE: cut,
    Flaw.SOMETIMES: sometimes,
    Flaw.WARM_UP: warm_up,
    Flaw.BALANCED: balance,
    Flaw.DIFFERENCES: differences,
}
"""All others add independent Gaussian noise of the size that is claimed."""
