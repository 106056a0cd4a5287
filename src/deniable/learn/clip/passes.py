"""Ways through a model that end in terms: by closed forms, by vmap(grad), and one example after the other.

Closed forms hold no per-example gradient of a linear layer: `chained` has them for chains of layers, `closed` for any model
whose calls are covered. vmap(grad) holds all gradients, for models that functorch can run; the last way runs any model, and
nothing can mix examples that are never in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from deniable.learn.clip import chain, cover, sequences
from deniable.learn.clip.tape import Key, Tape, Uncovered
from deniable.learn.clip.terms import Rows, Term

COVERED = {**cover.HANDLERS, **sequences.HANDLERS}


@dataclass(frozen=True)
class Task:
    """A model, its loss for each row of a batch, its trainable parameters, and how many rows are one example."""

    model: nn.Module
    criterion: Callable[[Tensor, Tensor], Tensor]
    parameters: Mapping[str, nn.Parameter]
    multiplicity: int

    def losses(self, x: Tensor, y: Tensor) -> Tensor:
        return self.criterion(self.model(x), y)

    def split(self, x: Tensor) -> Tensor:
        """(examples, multiplicity, …)."""
        return torch.unflatten(x, 0, (-1, self.multiplicity))

    def averaged(self, losses: Tensor) -> Tensor:
        """The loss of each example, from those of its rows."""
        return losses if self.multiplicity == 1 else self.split(losses).mean(1)


Passed = tuple[dict[Key, Term], Tensor]
"""A term for each parameter that the loss depends on, and the loss of each example."""
Pass = Callable[[Task, Tensor, Tensor], Passed]


@torch.no_grad()
def chained(task: Task, x: Tensor, y: Tensor) -> Passed:
    """By closed forms, layer by layer. Raises `Uncovered` when the model is no chain of layers."""
    tape = Tape(task.parameters, len(x) // task.multiplicity, task.multiplicity)
    links = chain.links(task.model, tape)
    out = chain.forward(links, x).requires_grad_()
    with torch.enable_grad():
        losses = task.criterion(out, y)
    if losses.requires_grad:
        each = torch.full_like(losses, 1 / task.multiplicity)
        chain.back(links, *torch.autograd.grad(losses, out, each, allow_unused=True))
    return tape.terms(), task.averaged(losses.detach())


def closed(task: Task, x: Tensor, y: Tensor) -> Passed:
    """By closed forms. Raises `Uncovered` when a parameter is used in a way that none of them covers."""
    tape = Tape(task.parameters, len(x) // task.multiplicity, task.multiplicity)
    try:
        losses = _written(task, x, y, tape)
        return tape.terms(), task.averaged(losses)
    finally:
        # Terms hold tensors of the graph, whose nodes hold the tape: a circle that no collector sees.
        tape.uses.clear()


def _written(task: Task, x: Tensor, y: Tensor, tape: Tape) -> Tensor:
    """The losses of a pass forward and backward, during which taps write on the tape."""
    mode = cover.Cover(tape, COVERED)
    with torch.enable_grad(), mode:
        losses = task.losses(x, y)
    if losses.requires_grad:
        each = torch.full_like(losses, 1 / task.multiplicity)
        found = torch.autograd.grad(losses, [mode.anchor, *task.parameters.values()], each, allow_unused=True)
        for name, gradient in zip(task.parameters, found[1:], strict=True):
            if gradient is not None:
                raise Uncovered(f"{name} is used outside of the covered functions")
    return losses.detach()


def vectorized(task: Task, x: Tensor, y: Tensor) -> Passed:
    """By vmap(grad) over the examples."""

    def loss(parameters: dict[str, Tensor], own: Tensor, target: Tensor) -> Tensor:
        return task.criterion(functional_call(task.model, parameters, (own,)), target).mean()

    values = {name: p.detach() for name, p in task.parameters.items()}
    over = vmap(grad_and_value(loss), in_dims=(None, 0, 0), randomness="different")
    gradients, losses = over(values, task.split(x), task.split(y))
    return {Key(name): Rows(g.reshape(len(losses), -1)) for name, g in gradients.items()}, losses


def alone(task: Task, x: Tensor, y: Tensor) -> Passed:
    """Each example in a batch of its own."""
    parameters = list(task.parameters.values())
    pairs = list(zip(task.split(x), task.split(y), strict=True))
    rows = [p.detach().new_zeros(len(pairs), p.numel()) for p in parameters]
    losses = []
    for i, (own, target) in enumerate(pairs):
        with torch.enable_grad():
            loss = task.losses(own, target).mean()
        if loss.requires_grad:
            for row, g in zip(rows, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True):
                if g is not None:
                    row[i] = g.reshape(-1)
        losses.append(loss.detach())
    return {Key(name): Rows(g) for name, g in zip(task.parameters, rows, strict=True)}, torch.stack(losses)
