"""The fastest way to train clients of a model."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from deniable.federated.train.convolutional import Convolutional
from deniable.federated.train.loop import Loop
from deniable.federated.train.recipe import LocalTraining
from deniable.federated.train.stacked import Stacked


def local_training(model: nn.Module, criterion: Callable[[Tensor, Tensor], Tensor]) -> LocalTraining:
    """Stacked for chains of dense layers, without a graph for chains with convolutions, else a loop."""
    return Stacked.of(model, criterion) or Convolutional.of(model, criterion) or Loop(model, criterion)
