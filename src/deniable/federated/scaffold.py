"""SCAFFOLD: local steps whose drift towards a client's own data is taken back by control
variates. For simulations only.

Client k keeps c_k, an estimate of its own gradient; the server keeps c, their mean over all clients. A local
step is y ← y − η(g_k(y) − c_k + c). After K steps from x, c_k becomes c_k − c + (x − y)/(Kη), the mean
gradient that the client met (option II). A client keeps a state between rounds and sends a second vector, so
nothing here is private, and no account runs it.

Reference: Karimireddy, Kale, Mohri, Reddi, Stich, Suresh 2020, Algorithm 1.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from deniable.federated.data.clients import Clients
from deniable.federated.train import LocalRecipe, Pupil, parameters_of
from deniable.federated.train.recipe import flat, unflat

Criterion: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class MeanUpdate(Protocol):
    """How a round's cohort moves the model."""

    def __call__(
        self,
        model: nn.Module,
        data: Clients,
        cohort: list[int],
        recipe: LocalRecipe,
        rng: np.random.Generator,
    ) -> Tensor: ...

    def state(self) -> dict[str, Any]:
        """What is kept from one round to the next."""

    def restore(self, state: dict[str, Any]) -> None: ...


class Scaffold:
    """The mean update of a cohort, with the controls of all clients that took part so far."""

    def __init__(self, model: nn.Module, criterion: Criterion) -> None:
        self._model, self._criterion = copy.deepcopy(model).train(), criterion
        self._server = torch.zeros_like(flat(parameters_of(model)))
        self._controls: dict[int, Tensor] = {}

    def __call__(
        self,
        model: nn.Module,
        data: Clients,
        cohort: list[int],
        recipe: LocalRecipe,
        rng: np.random.Generator,
    ) -> Tensor:
        start = flat(parameters_of(model))
        total, change = torch.zeros_like(start), torch.zeros_like(start)
        for client in cohort:
            own = self._controls.get(client, torch.zeros_like(start))
            pupil = Pupil(*data.rows(client), seed=int(rng.integers(2**62)))
            update, steps = self._train(start, self._server - own, pupil, recipe)
            total += update
            if steps:  # whoever has no rows has met no gradient
                fresh = own - self._server - update / (steps * recipe.learning_rate)
                change += fresh - own
                self._controls[client] = fresh
        self._server += change / len(data)
        return total / len(cohort)

    def state(self) -> dict[str, Any]:
        return {"server": self._server, "own": self._controls}

    def restore(self, state: dict[str, Any]) -> None:
        self._server, self._controls = state["server"], state["own"]

    def _train(
        self, start: Tensor, correction: Tensor, pupil: Pupil, recipe: LocalRecipe
    ) -> tuple[Tensor, int]:
        """How the weights moved, and in how many steps."""
        parameters = list(self._model.parameters())
        shapes = [p.shape for p in parameters]
        with torch.no_grad():
            for p, value in zip(parameters, unflat(start, shapes), strict=True):
                p.copy_(value)
        corrections, steps = unflat(correction, shapes), 0
        for batch in pupil.batches(recipe):
            loss = self._criterion(self._model(pupil.x[batch]), pupil.y[batch])
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for p, gradient, back in zip(parameters, gradients, corrections, strict=True):
                    p.sub_(gradient + back, alpha=recipe.learning_rate)
            steps += 1
        return flat(parameters_of(self._model)) - start, steps
