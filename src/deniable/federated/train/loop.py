"""Any model, one client after the other, with torch's own graph."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from deniable.federated.train.recipe import LocalRecipe, Pupil, flat, parameters_of, unflat

PATIENCE = 0.1
"""Seconds after which a client that waits for torch's generator looks whether anybody still waits for it."""


class SharedGenerator:
    """Torch's own generator, which all threads of a process draw from. One thread has it at a time, for one
    step: whoever needs longer for a step keeps the others waiting no longer than that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        """In a forked child the thread that held the lock is not there to let it go."""
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, pupil: Pupil, state: Tensor) -> Iterator[None]:
        """Inside, torch draws from `state`, which moves on; afterwards its generator is as it was before."""
        lock = self._lock
        while not lock.acquire(timeout=PATIENCE):
            pupil.go_on()
        try:
            with torch.random.fork_rng(devices=()):
                torch.set_rng_state(state)
                yield
                state.copy_(torch.get_rng_state())
        finally:
            lock.release()


_generator = SharedGenerator()


@dataclass(frozen=True)
class Loop:
    """The plain loop that everybody writes first.

    Every client has a copy of the model and of the criterion to itself, and random layers (dropout) draw from
    a stream of its own seed. So neither what a module keeps between two calls nor how many numbers one
    client draws reaches the next one, nor one that is trained at the same time in another thread, and torch's
    own generator is left as it was.
    """

    model: nn.Module
    criterion: Callable[[Tensor, Tensor], Tensor]

    def updates(self, start: Tensor, pupils: Iterable[Pupil], recipe: LocalRecipe) -> Iterator[Tensor]:
        for pupil in pupils:
            model = copy.deepcopy(self.model).train()
            origin = unflat(start, [p.shape for p in model.parameters()])
            with torch.no_grad():
                for p, value in zip(model.parameters(), origin, strict=True):
                    p.copy_(value)
            self._train(model, origin, pupil, recipe)
            yield flat(parameters_of(model)) - start

    def _train(self, model: nn.Module, origin: list[Tensor], pupil: Pupil, recipe: LocalRecipe) -> None:
        if not len(pupil.x):
            return
        criterion = copy.deepcopy(self.criterion)
        stream = torch.Generator().manual_seed(pupil.seed).get_state()
        for batch in pupil.batches(recipe):
            with _generator.lend(pupil, stream):
                loss = criterion(model(pupil.x[batch]), pupil.y[batch])
                gradients = torch.autograd.grad(loss, list(model.parameters()))
            step(model, origin, gradients, recipe)


@torch.no_grad()
def step(model: nn.Module, origin: list[Tensor], gradients: Sequence[Tensor], recipe: LocalRecipe) -> None:
    for p, value, gradient in zip(model.parameters(), origin, gradients, strict=True):
        pull = recipe.proximal * (p - value) if recipe.proximal else 0.0
        p.sub_(recipe.learning_rate * (gradient + pull))
