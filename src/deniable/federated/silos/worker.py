"""What one silo computes: sums of clipped gradients over lots of its rows, with the noise that it adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from deniable.federated.noise.encode import Floats, Integers
from deniable.federated.silos.settings import SiloRows
from deniable.federated.train.recipe import unflat
from deniable.learn.sgd.clipping import ALL
from deniable.learn.sgd.training.trainer import Trainer
from deniable.mechanism import Random
from deniable.mechanisms.integer_noise import gaussian

if TYPE_CHECKING:
    from deniable.federated.silos.cross_silo import CrossSilo


class SiloLots:
    """Draws lots of a silo's rows and adds up their clipped gradients, in whole grid units."""

    def __init__(self, run: CrossSilo, silo: int, rows: SiloRows, rng: Random) -> None:
        inner = run.of_silo(silo)
        self._rows = inner.rows(run.container(rows))
        inner.check(self._rows)
        self._trainer = Trainer.with_copy(inner, rng)

    def add_up(self, weights: Tensor) -> Integers:
        """The sum over a new lot at these weights. Never raises for what a row holds."""
        trainer = self._trainer
        parameters = list(trainer.model.parameters())
        with torch.no_grad():
            for p, part in zip(parameters, unflat(weights, [p.shape for p in parameters]), strict=True):
                p.copy_(part)
        lot = trainer.draw(self._rows)
        units: Integers = trainer.clip_lot(lot).total[ALL].numpy()
        return units


class SiloWorker:
    """A silo's part of a round: given the weights, what it sends."""

    def __init__(self, run: CrossSilo, silo: int, rows: SiloRows, rng: Random) -> None:
        self._run, self._silo, self._rng = run, silo, rng
        self._lots = SiloLots(run, silo, rows, rng)
        self._deviation = run.silo_deviation

    def send_sum(self, weights: Tensor) -> Integers:
        """One sum with the silo's own noise, in grid units. It is always the sum of the whole lot: leaving a
        lot out, say because it came late, would hang on one row and move the sum by all the others."""
        # Drawn first: what comes after the sum takes the same time whatever the rows are.
        noise = self._draw_noise()
        return noise + self._lots.add_up(weights)

    def send_move(self, weights: Tensor) -> Floats:
        """How the silo's weights move in its local steps. Each step is a release of its own: what is computed
        from released sums is released too."""
        run = self._run
        factor = run.local.learning_rate * float(run.grid.step) / run.lot_of(self._silo)
        start: Floats = weights.double().numpy()
        here = start.copy()
        for _ in range(run.local.steps):
            here -= factor * self.send_sum(torch.from_numpy(here).to(weights.dtype))
        return here - start

    def _draw_noise(self) -> Integers:
        size = self._run.dimension
        if not self._deviation:
            return np.zeros(size, np.int64)
        return gaussian(self._deviation).draw(self._rng, size)
