"""The fastest way to train clients of a model."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from deniable.federated.train.convolutional import Convolutional
from deniable.federated.train.loop import Loop
from deniable.federated.train.recipe import LocalTraining
from deniable.federated.train.stacked import STACK, Stacked


def local_training(
    model: nn.Module, criterion: Callable[[Tensor, Tensor], Tensor], *, alone: bool = False
) -> LocalTraining:
    """Stacked for chains of dense layers, without a graph for chains with convolutions, else a loop.

    `alone`: for a device, which has no companions to share a stack with.
    """
    trainer = Stacked.of(model, criterion, 1 if alone else STACK)
    return trainer or Convolutional.of(model, criterion) or Loop(model, criterion)
