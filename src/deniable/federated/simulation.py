"""Federated averaging without noise: a plain function for experiments on public data. It
is never run on an account."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

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


@dataclass
class Simulated:
    """The model after the last round, and the score after each round in which it was measured."""

    model: nn.Module
    scores: dict[int, float] = field(default_factory=dict)

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
    server: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None,
    evaluate: Callable[[nn.Module], float] | None = None,
    every: int = 1,
    target: float | None = None,
    seed: int = 0,
    workers: int = 1,
    watch: Callable[[int, float | None], None] | None = None,
) -> Simulated:
    """FedAvg as McMahan et al. 2017 wrote it: max(share · clients, 1) clients a round,
    weights by their numbers of rows.

    The mean over the drawn clients is by n_k over the drawn clients' total (the erratum of the paper's fourth
    version). batch=None with one epoch is FedSGD, one product for all clients of a round. Stops early when
    `target` is reached. `scaffold` takes the drift of local steps back by control variates (Karimireddy et
    al. 2020), with equal weights. `workers` processes train clients side by side, with the same result.
    """
    recipe = LocalRecipe(local_epochs, batch, learning_rate, proximal)
    size = max(round(checks.number("share", share, at_least=0) * len(data)), 1)
    if size > len(data) or every < 1:
        raise InvalidParameter(f"Expected share={share} in [0, 1] and every={every} of at least 1.")
    rng = np.random.default_rng(seed)
    current = copy.deepcopy(model)
    optimizer = SGD(current.parameters(), lr=1.0) if server is None else server(current.parameters())
    if scaffold and proximal:
        raise InvalidParameter(
            "Expected proximal=0 with scaffold=True: each of them corrects the drift of local steps."
        )
    result = Simulated(current)
    with Trainers(model, criterion, workers) as training:
        mean: MeanUpdate = Scaffold(model, criterion) if scaffold else Averaging(criterion, training)
        for number in range(1, checks.whole("rounds", rounds, at_least=1) + 1):
            cohort = [int(k) for k in rng.choice(len(data), size, replace=False)]
            move(optimizer, current, mean(current, data, cohort, recipe, rng))
            if evaluate is not None and number % every == 0:
                result.scores[number] = float(evaluate(current))
            if watch is not None:
                watch(number, result.scores.get(number))
            if target is not None and result.scores.get(number, 0.0) >= target:
                break
    return result


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
