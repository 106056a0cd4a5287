"""Clients trained by processes of one thread each, side by side.

Rows and updates travel in shared memory (torch hands tensors over by their files, not by their bytes). A
stack is the same whichever process computes it, so what a run releases does not depend on their number.
"""

from __future__ import annotations

import itertools
import logging
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Self

import torch
import torch.multiprocessing as processes
from torch import Tensor, nn

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.federated.train.convolutional import Convolutional
from deniable.federated.train.loop import Loop
from deniable.federated.train.recipe import LocalRecipe, LocalTraining, Pupil
from deniable.federated.train.stacked import STACK, Stacked

Criterion = Callable[[Tensor, Tensor], Tensor]
log = logging.getLogger("deniable.federated")

_training: LocalTraining | None = None
"""Of a worker process: how it trains."""


def local_training(model: nn.Module, criterion: Criterion, *, alone: bool = False) -> LocalTraining:
    """Stacked for chains of dense layers, without a graph for chains with convolutions, else a loop.

    `alone`: for a device, which has no companions to share a stack with.
    """
    trainer = Stacked.from_model(model, criterion, 1 if alone else STACK)
    return trainer or Convolutional.from_model(model, criterion) or Loop(model, criterion)


class Trainers:
    """A `LocalTraining` by `count` processes; with one it is this process's own. To be closed.

    If a process is gone, this one goes on alone.
    """

    def __init__(self, model: nn.Module, criterion: Criterion, count: int = 1) -> None:
        self.count = checks.whole("workers", count, at_least=1)
        self._local = local_training(model, criterion)
        self._pool: ProcessPoolExecutor | None = None
        if count > 1:
            check_travels(model, criterion)
            context = processes.get_context("spawn")
            self._pool = ProcessPoolExecutor(count, context, _begin, (model, criterion))

    def updates(self, start: Tensor, pupils: Iterable[Pupil], recipe: LocalRecipe) -> Iterator[Tensor]:
        if self._pool is None:
            yield from self._local.updates(start, pupils, recipe)
            return
        weights: Tensor = start.clone().share_memory_()  # type: ignore[no-untyped-call]
        waiting = iter(pupils)
        stacks: deque[tuple[list[Pupil], Future[list[Tensor]] | None]] = deque()
        while True:
            # One stack more than there are processes is under way, so that none waits.
            while len(stacks) <= self.count and (stack := list(itertools.islice(waiting, STACK))):
                stacks.append((stack, self._submit(weights, stack, recipe)))
            if not stacks:
                return
            yield from self._collect(*stacks.popleft(), start, recipe)

    def _submit(self, start: Tensor, stack: list[Pupil], recipe: LocalRecipe) -> Future[list[Tensor]] | None:
        if self._pool is None:
            return None
        try:
            return self._pool.submit(_train, start, stack, recipe)
        except BrokenProcessPool:
            return None

    def _collect(
        self, stack: list[Pupil], future: Future[list[Tensor]] | None, start: Tensor, recipe: LocalRecipe
    ) -> Iterable[Tensor]:
        try:
            if future is not None:
                return future.result()
        except BrokenProcessPool:
            log.warning("A process that trained clients is gone; going on in this process alone.")
            self.close()
        return self._local.updates(start, stack, recipe)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_travels(model: nn.Module, criterion: Criterion) -> None:
    """Whether model and criterion can be sent to another process."""
    try:
        pickle.dumps((model, criterion))
    except (pickle.PicklingError, AttributeError, TypeError):
        raise InvalidParameter(
            "Expected with workers a model and a criterion that can be pickled: classes and functions of a "
            "module, no lambdas. Nothing was run."
        ) from None


def _begin(model: nn.Module, criterion: Criterion) -> None:
    global _training
    torch.set_num_threads(1)
    _training = local_training(model, criterion)


def _train(start: Tensor, stack: list[Pupil], recipe: LocalRecipe) -> list[Tensor]:
    assert _training is not None
    return list(_training.updates(start, stack, recipe))
