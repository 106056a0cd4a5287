"""Rounds over silos in one process. Only what silos send, with its noise, leaves a round; all after it is
post-processing."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from deniable.federated.noise.encode import Floats, Integers, centre
from deniable.federated.noise.placement import Central, Shared
from deniable.federated.rounds import Federated, RoundHistory
from deniable.federated.silos.people import keep_declared_silos
from deniable.federated.silos.settings import SiloRows
from deniable.federated.silos.worker import SiloWorker
from deniable.federated.simulation import move
from deniable.federated.train import parameters_of
from deniable.federated.train.recipe import flat
from deniable.mechanism import Random
from deniable.units import UnitKind

if TYPE_CHECKING:
    from deniable.federated.silos.cross_silo import CrossSilo


class SiloRounds:
    """A model in training over silos."""

    def __init__(self, run: CrossSilo, data: Sequence[SiloRows], rng: Random) -> None:
        self.run, self.rng = run, rng
        self.model = copy.deepcopy(run.model)
        self.history = RoundHistory()
        self._optimizer = run.new_optimizer(self.model)
        if run.unit.kind is UnitKind.COLUMN:
            data = keep_declared_silos(data, run.privacy.most_silos)
        self._workers = [SiloWorker(run, silo, rows, rng) for silo, rows in enumerate(data)]

    def step(self) -> None:
        """One round, in which every silo takes part."""
        total = self._add_up()
        mean = torch.from_numpy(total / self.run.denominator)
        move(self._optimizer, self.model, mean)
        self.history.clip.append(float(self.run.privacy.clip))
        self.history.update_norm.append(float(mean.norm()))
        if self.run.how.evaluate is not None:
            self.history.score.append(float(self.run.how.evaluate(self.model)))

    def _add_up(self) -> Floats:
        start = flat(parameters_of(self.model))
        if self.run.sends_sums:
            units = np.sum([worker.send_sum(start) for worker in self._workers], axis=0)
            return move_of_sum(self.run, finish_sum(self.run, units, self.rng))
        moves = [worker.send_move(start) for worker in self._workers]
        return weigh(self.run, dict(enumerate(moves)))


def finish_sum(run: CrossSilo, units: Integers, rng: Random) -> Integers:
    """A sum over silos as everybody sees it: with the noise of a trusted server, or modulo what a secure sum
    counts to."""
    match run.noise:
        case Central():
            return units + run.grid.noise(run.multiplier).draw(rng, run.dimension)
        case Shared() as noise:
            return centre(units, noise.bits)
    return units


def move_of_sum(run: CrossSilo, units: Integers) -> Floats:
    """A noisy sum of gradients as a step against it."""
    return units * (-run.local.learning_rate * float(run.grid.step))


def weigh(run: CrossSilo, moves: dict[int, Floats]) -> Floats:
    """The sum of silos' moves, each times the silo's declared size."""
    total = np.zeros(run.dimension)
    for silo, update in moves.items():
        total += run.silos.sizes[silo] * update
    return total


def run(training: CrossSilo, data: Sequence[SiloRows], rng: Random) -> Federated:
    """All rounds."""
    rounds = SiloRounds(training, data, rng)
    for _ in range(training.rounds):
        rounds.step()
    return Federated(rounds.model, rounds.history, training.rounds)
