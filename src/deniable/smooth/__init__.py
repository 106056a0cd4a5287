"""Certified robustness from noise: a classifier's answer that cannot change within a
radius, from the loss tree.

The neighbour is an input moved by at most R (`Unit.ball(p, R)`), the mechanism is noise on that input, and
what the noisy input reveals is a loss: the largest R at which no other class can overtake follows from its
hockey-stick profile. docs/theory/smoothing.md has the proofs, docs/guide/smoothing.md the tour.
"""

from __future__ import annotations

from deniable.accounting.radius import lecture, radii, radius
from deniable.accounting.radius.input_noise import (
    Ablation,
    Gaussian,
    InputNoise,
    IntegerGaussian,
    IntegerLaplace,
    IntegerUniform,
    Laplace,
    Releases,
    Uniform,
)
from deniable.accounting.radius.robustness import RadiusCertificate
from deniable.accounting.radius.votes import Looks
from deniable.smooth.decision import Sampling
from deniable.smooth.mechanism import NoisyInput
from deniable.smooth.planner import fewest_samples, looks_for, needed_probability, samples_for
from deniable.smooth.smoothed import Certified, Smoothed

__all__ = [
    "Ablation",
    "Certified",
    "Gaussian",
    "InputNoise",
    "IntegerGaussian",
    "IntegerLaplace",
    "IntegerUniform",
    "Laplace",
    "Looks",
    "NoisyInput",
    "RadiusCertificate",
    "Releases",
    "Sampling",
    "Smoothed",
    "Uniform",
    "fewest_samples",
    "lecture",
    "looks_for",
    "needed_probability",
    "radii",
    "radius",
    "samples_for",
]
