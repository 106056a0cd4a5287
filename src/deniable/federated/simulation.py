"""Federated averaging without noise: a plain function for experiments on public data. It
is never run on an account."""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.federated.data.clients import Clients
from deniable.federated.scaffold import Criterion, MeanUpdate, Scaffold
from deniable.federated.train import LocalRecipe, LocalTraining, Pupil, Trainers, parameters_of
from deniable.federated.train.recipe import flat, unflat

ServerOptimizer: TypeAlias = Callable[[Iterable[nn.Parameter]], Optimizer]

SAVED_EVERY = 20.0
"""CPU seconds between two savings of a simulation."""


@dataclass
class Simulated:
    """The model after the last round, the score after each round in which it was measured, and the CPU
    seconds of all rounds, those before a break among them."""

    model: nn.Module
    scores: dict[int, float] = field(default_factory=dict)
    rounds: int = 0
    seconds: float = 0.0

    def rounds_to(self, target: float) -> float | None:
        """Rounds until the best score so far reaches `target`, by a straight line
        between two measurements; None if never.

        As in McMahan et al. 2017: the curve is made monotone first.
        """
        best, before = 0.0, (0, 0.0)
        for number, score in sorted(self.scores.items()):
            best = max(best, score)
            if best >= target:
                share = (target - before[1]) / (best - before[1])
                return before[0] + share * (number - before[0])
            before = (number, best)
        return None


def simulate(
    model: nn.Module,
    criterion: Criterion,
    data: Clients,
    *,
    share: float = 0.1,
    rounds: int = 100,
    local_epochs: int = 1,
    batch: int | None = 10,
    learning_rate: float = 0.1,
    proximal: float = 0.0,
    scaffold: bool = False,
    server: ServerOptimizer | None = None,
    evaluate: Callable[[nn.Module], float] | None = None,
    every: int = 1,
    target: float | None = None,
    seed: int = 0,
    workers: int = 1,
    watch: Callable[[int, float | None], None] | None = None,
    checkpoint: str | Path | None = None,
) -> Simulated:
    """FedAvg as McMahan et al. 2017 wrote it: max(share · clients, 1) clients a round,
    weights by their numbers of rows.

    The mean over the drawn clients is by n_k over the drawn clients' total (the erratum of the paper's fourth
    version). batch=None with one epoch is FedSGD, one product for all clients of a round. Stops early when
    `target` is reached. `scaffold` takes the drift of local steps back by control variates (Karimireddy et
    al. 2020), with equal weights. `workers` processes train clients side by side, with the same result. With
    `checkpoint`, a file, a simulation that was broken off goes on where it was saved, with the same result.
    """
    recipe = LocalRecipe(local_epochs, batch, learning_rate, proximal)
    checks.whole("rounds", rounds, at_least=1)
    checks.whole("every", every, at_least=1)
    if not isinstance(data, Clients):
        raise InvalidParameter(f"Expected federated.Clients, got {type(data).__name__}.")
    if scaffold and proximal:
        raise InvalidParameter(
            "Expected proximal=0 with scaffold=True: each of them corrects the drift of local steps."
        )
    with Trainers(model, criterion, workers) as training:
        mean: MeanUpdate = Averaging(criterion, training)
        if scaffold:
            mean = Scaffold(model, criterion)
        simulation = PlainRounds(model, data, mean, recipe, share=share, server=server, seed=seed)
        saving = Saving(checkpoint, simulation)
        while simulation.count < rounds and not simulation.has_reached(target):
            begin = time.process_time()
            simulation.step()
            if evaluate is not None and simulation.count % every == 0:
                simulation.scores[simulation.count] = float(evaluate(simulation.model))
            simulation.seconds += time.process_time() - begin
            if watch is not None:
                watch(simulation.count, simulation.scores.get(simulation.count))
            saving.note()
    saving.end()
    return Simulated(simulation.model, simulation.scores, simulation.count, simulation.seconds)


class PlainRounds:
    """A model in training without noise, after `taken` rounds."""

    def __init__(
        self,
        model: nn.Module,
        data: Clients,
        mean: MeanUpdate,
        recipe: LocalRecipe,
        *,
        share: float,
        server: ServerOptimizer | None,
        seed: int,
    ) -> None:
        self._data, self._mean, self._recipe = data, mean, recipe
        self._size = max(round(checks.number("share", share, at_least=0) * len(data)), 1)
        if self._size > len(data):
            raise InvalidParameter(f"Expected share={share} in [0, 1].")
        self._rng = np.random.default_rng(seed)
        self._seed = seed
        self.model = copy.deepcopy(model)
        self._optimizer: Optimizer = SGD(self.model.parameters(), lr=1.0)
        if server is not None:
            self._optimizer = server(self.model.parameters())
        self.scores: dict[int, float] = {}
        self.count, self.seconds = 0, 0.0

    def step(self) -> None:
        cohort = [int(k) for k in self._rng.choice(len(self._data), self._size, replace=False)]
        move(self._optimizer, self.model, self._mean(self.model, self._data, cohort, self._recipe, self._rng))
        self.count += 1

    def has_reached(self, target: float | None) -> bool:
        return target is not None and self.scores.get(self.count, -math.inf) >= target

    @property
    def terms(self) -> str:
        """What must be the same for one simulation to go on where another stopped."""
        return repr((self._recipe, type(self._mean).__name__, self._size, len(self._data), self._seed))

    def state(self) -> dict[str, Any]:
        return {
            "terms": self.terms,
            "taken": self.count,
            "scores": self.scores,
            "seconds": self.seconds,
            "rng": json.dumps(self._rng.bit_generator.state),
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "mean": self._mean.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        if state.get("terms") != self.terms:
            raise InvalidParameter(
                "Expected the checkpoint of a simulation with the same clients, recipe and seed. "
                "Name another file, or remove this one."
            )
        self.count, self.scores, self.seconds = state["taken"], state["scores"], state["seconds"]
        self._rng.bit_generator.state = json.loads(state["rng"])
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._mean.restore(state["mean"])


class Saving:
    """Saves a simulation now and then, and takes it up where the file has it."""

    def __init__(self, path: str | Path | None, simulation: PlainRounds) -> None:
        self._path, self._simulation = path and Path(path), simulation
        self._last = time.process_time()
        if self._path and self._path.exists():
            simulation.restore(torch.load(self._path, weights_only=True))

    def note(self) -> None:
        """Save, unless it was done a moment ago: a round can be shorter than the saving of it."""
        if self._path and time.process_time() - self._last > SAVED_EVERY:
            self.end()

    def end(self) -> None:
        if not self._path:
            return
        beside = self._path.with_name(self._path.name + ".new")
        torch.save(self._simulation.state(), beside)
        beside.replace(self._path)
        self._last = time.process_time()


class Averaging:
    """FedAvg's mean update, by the clients' numbers of rows."""

    def __init__(self, criterion: Criterion, training: LocalTraining) -> None:
        self._criterion, self._training = criterion, training

    def __call__(
        self,
        model: nn.Module,
        data: Clients,
        cohort: list[int],
        recipe: LocalRecipe,
        rng: np.random.Generator,
    ) -> Tensor:
        if recipe.batch is None and recipe.epochs == 1:
            return -recipe.learning_rate * self._gradient(model, data, cohort)
        clients = sorted(cohort, key=data.size)
        pupils = (Pupil(*data.rows(client), seed=int(rng.integers(2**62))) for client in clients)
        start = flat(parameters_of(model))
        total = torch.zeros_like(start)
        for client, update in zip(clients, self._training.updates(start, pupils, recipe), strict=True):
            total.add_(update, alpha=data.size(client))
        return total / max(sum(map(data.size, cohort)), 1)

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing is kept from one round to the next."""

    def _gradient(self, model: nn.Module, data: Clients, cohort: list[int]) -> Tensor:
        """All clients begin at the same weights, so their mean gradient is that of all their rows
        together."""
        rows = [data.rows(client) for client in cohort]
        loss = self._criterion(model(torch.cat([x for x, _ in rows])), torch.cat([y for _, y in rows]))
        return flat(torch.autograd.grad(loss, list(model.parameters())))


@torch.no_grad()
def move(optimizer: Optimizer, model: nn.Module, mean: Tensor) -> None:
    """The server's optimiser takes the mean update for a gradient that points the other way."""
    parameters = list(model.parameters())
    for p, part in zip(parameters, unflat(mean, [p.shape for p in parameters]), strict=True):
        p.grad = part.neg().to(p.dtype)
    optimizer.step()
    optimizer.zero_grad()
