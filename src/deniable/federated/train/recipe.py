"""What all ways of training have in common: the recipe, and models as one flat vector."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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

    def orders(self, epochs: int) -> list[Tensor]:
        """A fresh order of the rows for every epoch. Order is no part of any guarantee,
        so any generator will do."""
        shuffle = torch.Generator().manual_seed(self.seed)
        return [torch.randperm(len(self.x), generator=shuffle) for _ in range(epochs)]


@dataclass(frozen=True)
class LocalRecipe:
    """How one client trains: `epochs` passes over its rows in batches of `batch` (None: all rows at once).

    `proximal` is FedProx's μ: it pulls the client's weights towards those it was sent (Li et al. 2020).
    """

    epochs: int = 1
    batch: int | None = 10
    learning_rate: float = 0.1
    proximal: float = 0.0

    def __post_init__(self) -> None:
        checks.whole("local_epochs", self.epochs, at_least=1)
        if self.batch is not None:
            checks.whole("batch", self.batch, at_least=1)
        checks.number("learning_rate", self.learning_rate, above=0)
        checks.number("proximal", self.proximal, at_least=0)

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
