"""One round after another: draw a cohort, let each client train alone, add up with noise, move the model.

Only the noisy sum leaves a round; all after it is post-processing.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deniable.errors import DataError
from deniable.federated import progress
from deniable.federated.data.clients import Clients, Indices
from deniable.federated.noise.encode import Floats, norm_of
from deniable.federated.noise.placement import Correlated, as_floats
from deniable.federated.simulation import move
from deniable.federated.train import Pupil, Trainers, local_training, parameters_of
from deniable.federated.train.recipe import flat
from deniable.mechanism import Random

if TYPE_CHECKING:
    from deniable.federated.fedavg import FedAvg


@dataclass
class RoundHistory:
    """What happened in each round, from public parameters and released values alone: safe to show."""

    clip: list[float] = field(default_factory=list)
    update_norm: list[float] = field(default_factory=list)
    score: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Federated:
    """What a run releases: the model, how it came about, and after how many rounds."""

    model: nn.Module
    history: RoundHistory
    rounds: int


class Rounds:
    """A model in federated training. `taken` rounds have been begun."""

    def __init__(self, run: FedAvg, data: Clients, rng: Random) -> None:
        self.run, self.data, self.rng = run, data, rng
        self.model = copy.deepcopy(run.model)
        self.optimizer = run.new_optimizer(self.model)
        self.history = RoundHistory()
        self.count = 0
        self._training = Trainers(run.model, run.criterion, run.how.workers)
        self.bound = run.start_clip
        self._sum = run.noise.summing(run.multiplier, run.shape, rng)
        self._visits: NDArray[np.uint32] = np.zeros(len(data), np.uint32)

    def step(self) -> None:
        """One round. Never raises for what a client holds."""
        self.count += 1
        cohort = self._cohort()
        speakers = self._speakers(cohort)
        total = self._sum(self._client_updates(speakers), len(cohort) - len(speakers))
        self.history.clip.append(self.bound)
        if total is None:  # too few answered: nothing was opened, and nothing moves
            self.history.update_norm.append(0.0)
        else:
            mean = torch.from_numpy(self.receive(total) / self.run.denominator)
            move(self.optimizer, self.model, mean)
            self.history.update_norm.append(float(mean.norm()))
        if self.run.how.evaluate is not None:
            self.history.score.append(float(self.run.how.evaluate(self.model)))

    def receive(self, total: Floats) -> Floats:
        """The noisy sum of updates; with an adaptive clip the last coordinate moves the
        bound of the next round."""
        update, self.bound = unframe_sum(self.run, total, self.bound)
        return update

    def _cohort(self) -> Indices:
        """Every client by its own coin, each at most once a round, and no more often than declared."""
        if isinstance(self.run.noise, Correlated):
            return np.arange((self.count - 1) % self.run.noise.apart, len(self.data), self.run.noise.apart)
        cohort: Indices = self.rng.poisson_sample(len(self.data), self.run.cohorts.rate)
        if self.run.participations is not None:
            cohort = cohort[self._visits[cohort] < self.run.participations]
        self._visits[cohort] += 1
        return cohort

    def _speakers(self, cohort: Indices) -> Indices:
        """Those whose own coin lets them add their update; the others send noise alone."""
        if self.run.coins == 1:
            return cohort
        return cohort[self.rng.poisson_sample(len(cohort), self.run.coins)]

    def _client_updates(self, cohort: Indices) -> Iterator[Floats]:
        """What each client sends, before noise."""
        start = flat(parameters_of(self.model))
        seed = int(self.rng.uniform_integers(2**62))
        # Clients of like size train side by side; the order of a sum of integers does not matter.
        clients = sorted((int(client) for client in cohort), key=self.data.size)
        size = GROUP * self.run.how.workers
        for first in range(0, len(clients), size):
            group = clients[first : first + size]
            for client, update in zip(group, self._train(start, group, seed), strict=True):
                yield frame_update(self.run, update, self.bound, self.data.size(client))

    def _train(self, start: Tensor, group: list[int], seed: int) -> list[Tensor | None]:
        """Each client's update; where some cannot be computed together each alone, and
        None for one that fails by itself."""
        try:
            return list(self._training.updates(start, [self._pupil(k, seed) for k in group], self.run.local))
        except Exception:  # steered by what a client holds: it must not show
            if len(group) == 1:
                return [None]
        return [update for client in group for update in self._train(start, [client], seed)]

    def close(self) -> None:
        """Let processes go that train clients."""
        self._training.close()

    def _pupil(self, client: int, seed: int) -> Pupil:
        """Its seed depends on the round and on itself: no other client moves it."""
        x, y = self.data.rows(client)
        dtype = next(self.model.parameters()).dtype
        digest = hashlib.sha256(b"%d/%d" % (seed, client)).digest()
        return Pupil(x.to(dtype) if x.is_floating_point() else x, y, int.from_bytes(digest[:7], "big"))


def rehearse(run: FedAvg, data: Clients) -> None:
    """Whether a client can train at all: on real rows a failure must not show, so that a model of another
    width would be paid for and learn nothing. It is tried on made-up rows, zeros and then ones, which tell of
    shapes and types alone."""
    start, words = flat(parameters_of(run.model)), ""
    for value in (0, 1):
        x, y = data.sample(value)
        pupil = Pupil(x.to(start.dtype) if x.is_floating_point() else x, y, 0)
        try:
            next(iter(local_training(run.model, run.criterion).updates(start, [pupil], run.local)))
        except Exception as error:  # of the model's own code, whatever it raises
            words = f"{type(error).__name__}: {error}"
        else:
            return
    raise DataError(
        f"Expected rows that the model takes and labels that the criterion takes: a step on made-up rows of "
        f"shape {tuple(x.shape[1:])} ended in {words.rstrip('.')}. Nothing was charged."
    )


def frame_update(run: FedAvg, update: Tensor | None, bound: float, rows: int) -> Floats:
    """What a client adds to the sum: its update in units of the clip, clipped, and then weighted by its
    number of rows; with an adaptive clip, and κ or −κ for whether its norm was within it, with the same
    weight.

    A client that is silent adds zeros in every coordinate, the count's among them: one without rows, and one
    whose training failed (None) or ended in what is no number. All that others add has norm at most
    S = √(1 + κ²), so a client that falls silent moves the sum by S, and one that is replaced by 2S. Were κ
    counted for a silent one, (u, −κ) and (0, κ) would lie √(1 + 4κ²) apart (docs/theory/federated.md, F7).
    """
    values = np.full(1, np.nan) if update is None else as_floats(update)
    norm = norm_of(values)
    if not rows or not math.isfinite(norm):
        return np.zeros(run.shape.dimension)
    vector = values / max(norm, bound)
    if run.adaptive is not None:
        flag = run.count_scale(run.multiplier)
        vector = np.append(vector, flag if norm <= bound else -flag)
    return vector * run.privacy.weights.weight(rows)


def unframe_sum(run: FedAvg, total: Floats, bound: float) -> tuple[Floats, float]:
    """The sum of updates, and the clip of the next round."""
    if run.adaptive is None:
        return total * bound, bound
    share = 0.5 + float(total[-1]) / (2 * run.count_scale(run.multiplier) * run.denominator)
    return total[:-1] * bound, run.adaptive.moved(bound, share)


GROUP = 10
"""Clients whose updates a process computes before they are added up."""


def run(training: FedAvg, data: Clients, rng: Random) -> Federated:
    """All rounds, with a bar for whoever watches."""
    rounds = Rounds(training, data, rng)
    with closing(rounds), progress.bar(training) as watch:
        for _ in range(training.rounds):
            rounds.step()
            watch(rounds)
    return Federated(rounds.model, rounds.history, rounds.count)
