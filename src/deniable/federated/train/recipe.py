"""What all ways of training have in common: the recipe, and models as one flat vector."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from deniable import checks


@dataclass(frozen=True)
class Pupil:
    """A client that is trained: its rows, and the seed of the orders in which it sees
    them, its own and nobody else's."""

    x: Tensor
    y: Tensor
    seed: int
    stop: threading.Event | None = None
    """Set by whoever waits no longer: training then ends before its next step."""

    def orders(self, recipe: LocalRecipe) -> list[Tensor]:
        """A fresh order of the rows for every epoch, of which those beyond the recipe's steps are left out.
        Order is no part of any guarantee, so any generator will do."""
        shuffle = torch.Generator().manual_seed(self.seed)
        size, orders, left = recipe.size(len(self.x)), [], recipe.steps
        for _ in range(recipe.epochs):
            order = torch.randperm(len(self.x), generator=shuffle)
            if left is not None:
                order = order[: left * size]
                left -= -(-len(order) // size)
            orders.append(order)
        return orders

    def batches(self, recipe: LocalRecipe) -> Iterator[Tensor]:
        """The rows of each step. Raises `TrainingStopped` once nobody waits for it."""
        for order in self.orders(recipe):
            for rows in torch.split(order, recipe.size(len(self.x))) if len(order) else ():
                self.go_on()
                yield rows

    def go_on(self) -> None:
        if self.stop is not None and self.stop.is_set():
            raise TrainingStopped


class TrainingStopped(Exception):
    """Nobody waits for this client's update any more."""


@dataclass(frozen=True)
class LocalRecipe:
    """How one client trains: `epochs` passes over its rows in batches of `batch` (None: all rows at once).

    `proximal` is FedProx's μ: it pulls the client's weights towards those it was sent (Li et al. 2020). A
    client takes at most `steps` steps in a round, however many rows it has; None is no limit.
    """

    epochs: int = 1
    batch: int | None = 10
    learning_rate: float = 0.1
    proximal: float = 0.0
    steps: int | None = field(default=None, repr=False)  # checkpoints of simulations compare what is printed

    def __post_init__(self) -> None:
        checks.whole("local_epochs", self.epochs, at_least=1)
        if self.batch is not None:
            checks.whole("batch", self.batch, at_least=1)
        checks.number("learning_rate", self.learning_rate, above=0)
        checks.number("proximal", self.proximal, at_least=0)
        if self.steps is not None:
            checks.whole("local_steps", self.steps, at_least=1)

    def size(self, rows: int) -> int:
        """Rows in a batch of a client that has `rows`."""
        if self.batch is None:
            return max(rows, 1)
        return self.batch


class LocalTraining(Protocol):
    """A way to train clients."""

    def updates(self, start: Tensor, pupils: Iterable[Pupil], recipe: LocalRecipe) -> Iterator[Tensor]:
        """For each client, in order, its weights after training less `start`: a flat
        vector; zeros where it has no rows."""


def parameters_of(model: nn.Module) -> list[Tensor]:
    return [p.detach() for p in model.parameters()]


def flat(parameters: Sequence[Tensor]) -> Tensor:
    return torch.cat([p.reshape(-1) for p in parameters])


def unflat(vector: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Views of `vector` in these shapes."""
    parts = torch.split(vector, [math.prod(shape) for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
