"""What a matrix mechanism costs: one Gaussian release, or, banded and on a cyclic sample, one for each
turn."""

from __future__ import annotations

import math

import numpy as np

from deniable import checks
from deniable.accounting.matrices.families import BufferedToeplitz, Toeplitz
from deniable.accounting.matrices.participation import Encoder, Participation, sensitivity
from deniable.loss import GaussianNoise, Loss, Number
from deniable.units import Relation

_DOWN = 1 - 2.0**-40


def loss(
    encoder: Encoder,
    participation: Participation,
    *,
    sigma: float,
    clip: float = 1.0,
    relation: Relation = Relation.ADDED,
) -> GaussianNoise:
    """C·G + Z, Z of deviation `sigma`, every contribution clipped to `clip`: all rows
    together are one Gaussian release.

    Guarantee: for contributions chosen adaptively, and a pattern that may be chosen
               adaptively too (docs/theory/matrices.md).
    Reference: Denisov, McMahan, Rush, Smith, Thakurta 2022, Theorem 2.1.
    A replaced unit moves twice as far.
    """
    checks.positive(sigma=sigma, clip=clip)
    distance = sensitivity(encoder, participation) * clip * (2 if relation is Relation.REPLACED else 1)
    return GaussianNoise(sigma / distance * _DOWN)


def cyclic_loss(
    encoder: Toeplitz | BufferedToeplitz, *, rate: Number, sigma: float, clip: float = 1.0
) -> Loss:
    """A banded encoder of b bands on a cyclic Poisson sample: step t draws, at `rate`,
    from the (t mod b)-th part of the units.

    The parts are fixed beforehand, a unit's own by a draw or hash of its own; stated for
    a unit that is added or removed.
    Guarantee: at most ⌈steps/b⌉ sampled Gaussian releases. Reference: Choquette-Choo et al. 2023, Theorem 4.
    """
    if isinstance(encoder, BufferedToeplitz):
        encoder = encoder.toeplitz
    checks.positive(sigma=sigma, clip=clip)
    turns = math.ceil(encoder.steps / encoder.bands)
    column = float(np.linalg.norm(encoder.coefficients)) * (1 + 2.0**-40)
    return GaussianNoise(sigma / (column * clip) * _DOWN).sampled(rate) * turns
