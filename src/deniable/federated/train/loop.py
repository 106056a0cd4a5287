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
    """The plain loop that everybody writes first."""

    model: nn.Module
    criterion: Callable[[Tensor, Tensor], Tensor]

    def updates(self, start: Tensor, pupils: Iterable[Pupil], recipe: LocalRecipe) -> Iterator[Tensor]:
        model = copy.deepcopy(self.model).train()
        origin = unflat(start, [p.shape for p in model.parameters()])
        for pupil in pupils:
            with torch.no_grad():
                for p, value in zip(model.parameters(), origin, strict=True):
                    p.copy_(value)
            self._train(model, origin, pupil, recipe)
            yield flat(parameters_of(model)) - start

    def _train(self, model: nn.Module, received: list[Tensor], pupil: Pupil, recipe: LocalRecipe) -> None:
        if not len(pupil.x):
            return
        for order in pupil.orders(recipe.epochs):
            for batch in torch.split(order, recipe.size(len(pupil.x))):
                loss = self.criterion(model(pupil.x[batch]), pupil.y[batch])
                gradients = torch.autograd.grad(loss, list(model.parameters()))
                step(model, received, gradients, recipe)


@torch.no_grad()
def step(model: nn.Module, received: list[Tensor], gradients: Sequence[Tensor], recipe: LocalRecipe) -> None:
    for p, value, gradient in zip(model.parameters(), received, gradients, strict=True):
        pull = recipe.proximal * (p - value) if recipe.proximal else 0.0
        p.sub_(recipe.learning_rate * (gradient + pull))
