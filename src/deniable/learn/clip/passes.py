"""Ways through a model that end in terms: by closed forms, by vmap(grad), and one example after the other.

Closed forms hold no per-example gradient of a linear layer: `chained` has them for chains of layers, `closed`
for any model whose calls are covered. vmap(grad) holds all gradients, for models that functorch can run; the
last way runs any model, and nothing can mix examples that are never in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from deniable.learn.clip.attributes import Attributes
from deniable.learn.clip.batch import Batch
from deniable.learn.clip.closed_forms import bare, chain, cover, held, order, owners, sequences, shared
from deniable.learn.clip.closed_forms.tape import ParameterKey, Tape, Uncovered
from deniable.learn.clip.closed_forms.terms import GradientRows, Term
from deniable.learn.clip.guard import model_guard, refuse_own_backward, without_saved_hooks
from deniable.learn.clip.objective import Objective, Paired
from deniable.learn.clip.rounding import summing, widen
from deniable.learn.clip.workspace import Workspace
from deniable.learn.nests import map_parts

COVERED = {
    **cover.HANDLERS,
    **order.HANDLERS,
    **owners.HANDLERS,
    **shared.HANDLERS,
    **bare.HANDLERS,
    **held.HANDLERS,
    **sequences.HANDLERS,
}


@dataclass(frozen=True)
class Task:
    """A model, its loss for each row of a batch, and its trainable parameters."""

    model: nn.Module
    objective: Objective
    parameters: Mapping[str, nn.Parameter]
    shared_tables: set[str] = field(default_factory=set)
    """Tables that were seen to be looked up for all examples at once (`Cover.is_for_all`)."""
    room: Workspace = field(default_factory=Workspace)

    def losses(self, batch: Batch) -> Tensor:
        return self.objective(self.model, batch.rows)

    def tape(self, batch: Batch) -> Tape:
        """A tape for one pass, which writes to the memory of earlier passes as far as nobody holds it."""
        self.room.begin()
        return Tape(
            self.parameters, batch.examples, batch.multiplicity, for_all=self.shared_tables, room=self.room
        )


Passed = tuple[dict[ParameterKey, Term], Tensor]
"""A term for each parameter that the loss depends on, and the loss of each example."""
Pass = Callable[[Task, Batch], Passed]


@torch.no_grad()
def chained(task: Task, batch: Batch) -> Passed:
    """Gradients by closed forms, layer by layer. Raises `Uncovered` when the model is no chain of layers."""
    criterion, x, y = _pair(task, batch)
    tape = task.tape(batch)
    links = chain.links(task.model, tape)
    # Autograd sees the criterion alone; the layers go back by their own formulas, which is what saves the
    # graph.
    out = chain.forward(links, x).requires_grad_()
    with torch.enable_grad(), model_guard():
        losses = criterion(out, y)
    if losses.requires_grad:
        refuse_own_backward(losses)
        chain.backward(links, *torch.autograd.grad(losses, out, batch.shares(losses), allow_unused=True))
    return tape.terms(), batch.of_examples(losses.detach())


def _pair(task: Task, batch: Batch) -> tuple[Callable[[Any, Any], Tensor], Tensor, Any]:
    rows = batch.rows
    if not (isinstance(task.objective, Paired) and isinstance(rows, tuple) and len(rows) == 2):
        raise Uncovered("the loss is no criterion of one output")
    if not isinstance(rows[0], Tensor):
        raise Uncovered("the model has several inputs")
    return task.objective.criterion, rows[0], rows[1]


def closed(task: Task, batch: Batch) -> Passed:
    """Gradients by closed forms. Raises `Uncovered` when a parameter is used in a way that none of them
    covers."""
    tape = task.tape(batch)
    try:
        losses = _write_tape(task, batch, tape)
        return tape.terms(), batch.of_examples(losses)
    finally:
        # Terms hold tensors of the graph, whose nodes hold the tape: a circle that no collector sees.
        tape.uses.clear()
        tape.saved.clear()


def _write_tape(task: Task, batch: Batch, tape: Tape) -> Tensor:
    """The losses of a pass forward and backward, during which taps write on the tape."""
    constants = [p for p in task.model.parameters() if not p.requires_grad]
    mode = cover.Cover(tape, COVERED, [*task.model.buffers(), *constants])
    with torch.enable_grad(), without_saved_hooks(), mode:
        losses = task.losses(batch)
    _go_back(task, batch, mode.anchor, losses)
    return losses.detach()


def _go_back(task: Task, batch: Batch, anchor: Tensor, losses: Tensor) -> None:
    """Backward, during which taps write on the tape."""
    if not losses.requires_grad:
        return
    refuse_own_backward(losses)
    # The anchor makes taps run backward though their weights are hidden from autograd. A gradient that
    # reaches a parameter nevertheless came by a way that no tap measured, and would be left out of the norm.
    inputs = [anchor, *task.parameters.values()]
    gradients = torch.autograd.grad(losses, inputs, batch.shares(losses), allow_unused=True)
    for name, gradient in zip(task.parameters, gradients[1:], strict=True):
        if gradient is not None:
            raise Uncovered(f"{name} is used outside of the covered functions")


class _Losses(nn.Module):
    """The model inside its loss, so that functorch can put other weights in place of its own."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.model, self.objective = task.model, task.objective

    def forward(self, rows: Any) -> Tensor:
        return self.objective(self.model, rows)


def vectorized(task: Task, batch: Batch) -> Passed:
    """Gradients by vmap(grad) over the examples."""
    losses_of = _Losses(task)

    def loss(parameters: dict[str, Tensor], rows: Any, shares: Tensor) -> Tensor:
        losses: Tensor = functional_call(losses_of, parameters, (rows,))
        return (losses * shares).sum()

    values = {f"model.{name}": p.detach() for name, p in task.parameters.items()}
    like = next(iter(values.values()))
    shares = batch.shares(like.new_empty(batch.examples * batch.multiplicity))
    # "different": each example has a mask of dropout of its own, as it would have alone.
    over = vmap(grad_and_value(loss), in_dims=(None, 0, 0), randomness="different")
    with model_guard():
        gradients, losses = over(values, map_parts(batch.split, batch.rows), batch.split(shares))
    rows: dict[ParameterKey, Term] = {
        ParameterKey(name): GradientRows(widen(gradients[f"model.{name}"]).reshape(len(losses), -1))
        for name in task.parameters
    }
    return rows, losses


def alone(task: Task, batch: Batch, attributes: Attributes | None = None) -> Passed:
    """Each example in a batch of its own; the model's `attributes` are put back after each."""
    parameters, examples = list(task.parameters.values()), batch.examples
    rows: dict[int, Tensor] = {}
    losses = []
    for i in range(examples):
        own = batch.part(i, i + 1)
        with torch.enable_grad():
            loss = own.of_examples(task.losses(own)).sum()
        if loss.requires_grad:
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
            _note_row(rows, gradients, i, examples)
        losses.append(loss.detach())
        if attributes is not None:
            attributes.restore()
    return {
        ParameterKey(name): GradientRows(rows[place] if place in rows else _no_rows(p, examples))
        for place, (name, p) in enumerate(task.parameters.items())
    }, torch.stack(losses)


def _note_row(rows: dict[int, Tensor], gradients: tuple[Tensor | None, ...], i: int, examples: int) -> None:
    """Each parameter's gradient as the i-th of its rows; that of a single example is taken as it is."""
    for place, g in enumerate(gradients):
        if g is None:
            continue
        # Norms are bounded for dense rows; a sparse gradient may hold one place twice.
        flat = widen(g.to_dense() if g.is_sparse else g).reshape(1, -1)
        if examples == 1:
            rows[place] = flat
        else:
            if place not in rows:
                rows[place] = _no_rows(g, examples)
            rows[place][i] = flat[0]


def _no_rows(parameter: Tensor, examples: int) -> Tensor:
    return torch.zeros(examples, parameter.numel(), dtype=summing(parameter.dtype), device=parameter.device)
