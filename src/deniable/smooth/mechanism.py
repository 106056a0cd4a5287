"""The noise as what it is: a mechanism that releases one input, private for all inputs within a radius."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.accounting.radius.input_noise import InputNoise
from deniable.errors import InvalidParameter
from deniable.loss import Loss
from deniable.mechanism import Random
from deniable.randomness.generator import Generator
from deniable.smooth.draws import noisy_copies
from deniable.units import Unit


@dataclass(frozen=True)
class NoisyInput:
    """One noisy copy of an input: what a smoothed classifier sees.

    Guarantee: `noise.loss_at(radius)` for inputs within `radius` of one another in
               `norm` (left out: the noise's own).
    Assumes:   whole-number inputs under whole-number noise; continuous noise comes near
               the theorem up to rounding.
    Reference: Lecuyer et al. 2019; Cohen, Rosenfeld, Kolter 2019.

    >>> from deniable.accounting.radius.input_noise import Laplace
    >>> private = NoisyInput(Laplace(2), radius=1)
    >>> private.loss, str(private.unit)
    (LaplaceNoise(multiplier=2), 'an input moved by at most 1 in the ℓ1 norm')
    """

    noise: InputNoise
    radius: float
    norm: float | None = None
    dimension: int | None = None

    @property
    def loss(self) -> Loss:
        return self.noise.loss_at(self.radius, self.norm, self.dimension)

    @property
    def unit(self) -> Unit:
        return Unit.ball(self.noise.norm if self.norm is None else self.norm, self.radius)

    def error(self, confidence: float = 0.95) -> None:
        return None

    def __call__(self, data: Any, *, rng: Random) -> NDArray[Any]:
        if not isinstance(rng, Generator):
            raise InvalidParameter(
                f"Expected SecureRandom or SeededRandom, got {type(rng).__name__}. Nothing was drawn."
            )
        copy: NDArray[Any] = noisy_copies(self.noise, np.asarray(data), rng)(1)[0]
        return copy
