"""How what a device adds becomes what it sends: numbers for a trusted server, integers with noise for
others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from deniable.federated.fedavg import FedAvg
from deniable.federated.noise.encode import Encoding, Floats, Integers
from deniable.federated.noise.placement import Central, Shared, bound_norm, on_grid
from deniable.learn.sgd.noise import GradientGrid
from deniable.mechanisms.integer_noise import gaussian
from deniable.randomness import SecureRandom

Sent: TypeAlias = Floats | Integers


@dataclass(frozen=True)
class SentFrame:
    """The grid of one round, and the noise on it. `rotation` is the public seed of a secure sum's round."""

    run: FedAvg
    rotation: bytes = b""

    @cached_property
    def _grid(self) -> Encoding | GradientGrid | None:
        shape = self.run.shape
        match self.run.noise:
            case Central():
                return None
            case Shared() as noise:
                return noise.encoding(self.run.multiplier, shape, self.rotation)
        return GradientGrid(shape.clip, shape.dimension)

    def lay_out(self, update: Floats, coins: np.random.Generator) -> Sent:
        """A clipped update, on the grid with its norm checked in integers; its rounding may take several
        draws of `coins`."""
        match self._grid:
            case None:
                return bound_norm(update, self.run.shape.clip)
            case Encoding() as encoding:
                return encoding.encode(update, coins)
            case grid:
                return on_grid(update, grid)

    def silence(self) -> Sent:
        """What a client adds that says nothing."""
        match self._grid:
            case None:
                return np.zeros(self.run.shape.dimension)
            case Encoding() as encoding:
                return np.zeros(encoding.length, np.int64)
        return np.zeros(self.run.shape.dimension, np.int64)

    def noise(self, rng: SecureRandom) -> Sent:
        """The device's own noise: none for a trusted server, a share of it in a secure sum, else all."""
        multiplier, silence = self.run.multiplier, self.silence()
        match self.run.noise, self._grid:
            case Shared() as noise, Encoding() as encoding:
                sigma = noise.share(multiplier, encoding)
            case _, GradientGrid() as grid:
                sigma = float(grid.loss(multiplier).sigma)
            case _:
                return silence
        return gaussian(sigma).draw(rng, len(silence))

    def to_bytes(self, vector: Sent) -> bytes:
        return vector.astype("<f4" if self._grid is None else "<i8").tobytes()
