"""What one silo computes: sums of clipped gradients over lots of its rows, with the noise that it adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

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

SumOfLot: TypeAlias = Callable[[], Integers]
Waiting: TypeAlias = Callable[[SumOfLot], Integers | None]
"""Computes a sum, and gives None where it failed or was not ready in time."""


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


def compute_now(work: SumOfLot) -> Integers | None:
    """For a simulation, in which nobody looks at the time."""
    return work()


class SiloWorker:
    """A silo's part of a round: given the weights, what it sends.

    `lots_rng` draws the lots. It is a generator of its own where lots are drawn in another thread.
    """

    def __init__(
        self, run: CrossSilo, silo: int, rows: SiloRows, rng: Random, lots_rng: Random | None = None
    ) -> None:
        self._run, self._silo, self._rng = run, silo, rng
        self._lots = SiloLots(run, silo, rows, rng if lots_rng is None else lots_rng)
        self._deviation = run.silo_deviation

    def send_sum(self, weights: Tensor, wait: Waiting = compute_now) -> Integers:
        """One sum with the silo's own noise, in grid units."""
        # Drawn first: what comes after the sum takes the same time whatever the rows are.
        noise = self._draw_noise()
        total = wait(lambda: self._lots.add_up(weights))
        return noise if total is None else noise + total

    def send_move(self, weights: Tensor, wait: Waiting = compute_now) -> Floats:
        """How the silo's weights move in its local steps. Each step is a release of its own: what is computed
        from released sums is released too."""
        run = self._run
        factor = run.local.learning_rate * float(run.grid.step) / run.lot_of(self._silo)
        start: Floats = weights.double().numpy()
        here = start.copy()
        for _ in range(run.local.steps):
            here -= factor * self.send_sum(torch.from_numpy(here).to(weights.dtype), wait)
        return here - start

    def _draw_noise(self) -> Integers:
        size = self._run.dimension
        if not self._deviation:
            return np.zeros(size, np.int64)
        return gaussian(self._deviation).draw(self._rng, size)
