"""Any model, one client after the other, with torch's own graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from deniable.federated.train.recipe import LocalRecipe, Pupil, flat, parameters_of, unflat


@dataclass(frozen=True)
class Loop:
    """The plain loop that everybody writes first.

    Every client has a copy of the model and of the criterion to itself, and random layers (dropout) draw from
    a stream of its own seed. So neither what a module keeps between two calls nor how many numbers one
    client draws reaches the next one, and torch's own generator is left as it was.
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
            with torch.random.fork_rng(devices=()):
                torch.manual_seed(pupil.seed)
                self._train(model, origin, pupil, recipe)
            yield flat(parameters_of(model)) - start

    def _train(self, model: nn.Module, received: list[Tensor], pupil: Pupil, recipe: LocalRecipe) -> None:
        if not len(pupil.x):
            return
        criterion = copy.deepcopy(self.criterion)
        for batch in pupil.batches(recipe):
            loss = criterion(model(pupil.x[batch]), pupil.y[batch])
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            step(model, received, gradients, recipe)


@torch.no_grad()
def step(model: nn.Module, received: list[Tensor], gradients: Sequence[Tensor], recipe: LocalRecipe) -> None:
    for p, value, gradient in zip(model.parameters(), received, gradients, strict=True):
        pull = recipe.proximal * (p - value) if recipe.proximal else 0.0
        p.sub_(recipe.learning_rate * (gradient + pull))
