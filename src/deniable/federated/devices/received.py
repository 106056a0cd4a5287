"""What the server makes of replies: the sum of what was sent, as a move of the model before it is divided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

import numpy as np
import torch

from deniable.federated.fedavg import FedAvg
from deniable.federated.noise.encode import Floats, Integers, centre
from deniable.federated.noise.placement import Central, Shared, longest_message, on_grid
from deniable.federated.silos.cross_silo import CrossSilo
from deniable.federated.silos.rounds import finish_sum, move_of_sum, weigh
from deniable.learn.sgd.noise import GradientGrid
from deniable.mechanism import Random

AnyRun: TypeAlias = FedAvg | CrossSilo


class Received(Protocol):
    """The server's half of the wire form of a run."""

    def add_up(self, replies: Mapping[int, bytes], rng: Random) -> Floats:
        """The sum of plain replies; one of another length is left out, as if it had not come."""

    def open_sum(self, total: Integers, seed: bytes) -> Floats:
        """What a secure sum's residues stand for. `seed` is the public rotation of the round."""


def received_of(run: AnyRun) -> Received:
    if isinstance(run, CrossSilo):
        return SiloSums(run)
    return Updates(run)


class Updates:
    """Clipped updates of clients."""

    def __init__(self, run: FedAvg) -> None:
        self._run = run

    def add_up(self, replies: Mapping[int, bytes], rng: Random) -> Floats:
        run = self._run
        grid = GradientGrid(run.shape.clip, run.shape.dimension)
        units = np.zeros(run.shape.dimension, np.int64)
        if isinstance(run.noise, Central):
            for reply in replies.values():
                if len(reply) == 4 * len(units):
                    units += on_grid(np.frombuffer(reply, "<f4").astype(np.float64), grid)
            return grid.noisy(torch.from_numpy(units), run.multiplier, rng).numpy()
        longest = longest_message(grid, run.multiplier)
        for reply in replies.values():
            if len(reply) == 8 * len(units):
                message = np.frombuffer(reply, "<i8").astype(np.int64)
                if float(np.linalg.norm(message.astype(np.float64))) <= longest:
                    units += message
        return units * float(grid.step)

    def open_sum(self, total: Integers, seed: bytes) -> Floats:
        assert isinstance(self._run.noise, Shared)
        encoding = self._run.noise.encoding(self._run.multiplier, self._run.shape, seed)
        return encoding.decode(total)


class SiloSums:
    """Sums of clipped gradients over lots of silos, or how silos' weights moved."""

    def __init__(self, run: CrossSilo) -> None:
        self._run = run

    def add_up(self, replies: Mapping[int, bytes], rng: Random) -> Floats:
        run = self._run
        messages = {silo: reply for silo, reply in replies.items() if len(reply) == 8 * run.dimension}
        if not run.sends_sums:
            moves = {silo: np.frombuffer(reply, "<f8") for silo, reply in messages.items()}
            return weigh(run, {silo: move for silo, move in moves.items() if np.isfinite(move).all()})
        units = np.zeros(run.dimension, np.int64)
        for reply in messages.values():
            units += np.frombuffer(reply, "<i8")
        return move_of_sum(run, finish_sum(run, units, rng))

    def open_sum(self, total: Integers, seed: bytes) -> Floats:
        assert isinstance(self._run.noise, Shared)
        return move_of_sum(self._run, centre(total, self._run.noise.bits))
