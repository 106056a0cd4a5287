"""Ways through a model that end in terms: by closed forms, by vmap(grad), and one example after the other.

Closed forms hold no per-example gradient of a linear layer: `chained` has them for chains of layers, `closed`
for any model whose calls are covered. vmap(grad) holds all gradients, for models that functorch can run; the
last way runs any model, and nothing can mix examples that are never in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.modules import module as torch_module

from deniable.learn.clip.attributes import Attributes
from deniable.learn.clip.batch import Batch
from deniable.learn.clip.closed_forms import bare, chain, cover, held, order, owners, sequences, shared
from deniable.learn.clip.closed_forms.tape import ParameterKey, Tape, Uncovered
from deniable.learn.clip.closed_forms.terms import GradientRows, Term
from deniable.learn.clip.guard import (
    HAS_HOOKS,
    GradientGuard,
    model_guard,
    refuse_kinds,
    refuse_openers,
    refuse_own_backward,
    watch,
    without_saved_hooks,
)
from deniable.learn.clip.known import KNOWN_LOSSES, is_loss_of_rows
from deniable.learn.clip.mapped import Mapped, MappedTape, without_loops
from deniable.learn.clip.objective import Criterion, Objective, Paired, call_model, halves
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

    looked_at: list[bool] = field(default_factory=list)
    """Whether the code was looked through (`refuse_openers`)."""

    @property
    def source(self) -> object:
        """The criterion, or the function of model and batch, as it was given."""
        return self.objective.source

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


class Apart(StrEnum):
    """How it is known that no row bears on another one's gradient in a pass."""

    LAYERS = "proved (layers)"
    VMAP = "proved (vmap)"
    ALONE = "proved (alone)"
    TRIED = "tried"


@torch.no_grad()
def chained(task: Task, batch: Batch) -> Passed:
    """Gradients by closed forms, layer by layer. Raises `Uncovered` when the model is no chain of layers."""
    criterion, x, y = _pair(task, batch)
    _look_through(task)
    refuse_kinds(task.model, batch.rows)
    tape = task.tape(batch)
    links = chain.links(task.model, tape)
    # Autograd sees the criterion alone; the layers go back by their own formulas, which is what saves the
    # graph.
    out = chain.forward(links, x).requires_grad_()
    with torch.enable_grad(), model_guard():
        is_known = is_loss_of_rows(task.source, out, y)
        losses = criterion(out, y) if is_known else _map_pair(criterion, batch, out, y)
    if losses.requires_grad:
        refuse_own_backward(losses)
        chain.backward(links, *torch.autograd.grad(losses, out, batch.shares(losses), allow_unused=True))
    return tape.terms(), batch.of_examples(losses.detach())


def _map_pair(criterion: Criterion, batch: Batch, output: Tensor, target: Any) -> Tensor:
    """A criterion of one's own, for each example by itself."""
    values = vmap(criterion, randomness="different")(batch.split(output), map_parts(batch.split, target))
    return values.flatten(0, 1)


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
    _look_through(task)
    tape = task.tape(batch)
    try:
        losses = _write_tape(task, batch, tape)
        return tape.terms(), batch.of_examples(losses)
    finally:
        # Terms hold tensors of the graph, whose nodes hold the tape: a circle that no collector sees.
        tape.uses.clear()
        tape.saved.clear()


def mapped(task: Task, batch: Batch) -> Passed:
    """Gradients by closed forms, with the code between layers under vmap. Raises `Uncovered` where a gradient
    goes another way, and whatever functorch raises where it cannot follow."""
    _refuse_what_vmap_hides(task)
    refuse_kinds(task.model, batch.rows)
    task.room.begin()
    tape = MappedTape(task.parameters, batch.examples, batch.multiplicity, room=task.room)
    mode = Mapped(tape)

    def over(function: Callable[..., Any], rows: Any) -> Any:
        """A function of one example's rows, for all of them; what it gives has the rows of all."""

        def call(own: Any) -> Any:
            with watch(mode):
                return function(task.model, own)

        return map_parts(
            lambda x: x.flatten(0, 1), vmap(call, randomness="different")(map_parts(batch.split, rows))
        )

    try:
        with torch.enable_grad(), without_saved_hooks(), without_loops():
            objective = task.objective
            if isinstance(objective, Paired) and type(task.source) in KNOWN_LOSSES:
                # A loss of PyTorch's needs no vmap, under which it is written out in slower parts.
                inputs, target = halves(batch.rows)
                output = over(call_model, inputs)
                is_known = is_loss_of_rows(task.source, output, target)
                criterion = objective.criterion
                with watch(GradientGuard()):
                    losses = (
                        criterion(output, target) if is_known else _map_pair(criterion, batch, output, target)
                    )
            else:
                losses = over(objective, batch.rows)
        _go_back(task, batch, mode.anchor, losses)
        return tape.terms(), batch.of_examples(losses.detach())
    finally:
        tape.uses.clear()
        tape.saved.clear()


def _look_through(task: Task) -> None:
    """Look through the code of model and criterion, once."""
    if not task.looked_at:
        refuse_openers(task.model, task.source)
        task.looked_at.append(True)


def _refuse_what_vmap_hides(task: Task) -> None:
    """Hooks of modules on gradients are not called under vmap, and PyTorch has functions that open it."""
    _look_through(task)
    modules = task.model.modules()
    if any(module._backward_hooks or module._backward_pre_hooks for module in modules) or any(
        (torch_module._global_backward_hooks, torch_module._global_backward_pre_hooks)
    ):
        raise Uncovered(HAS_HOOKS)


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
    _refuse_what_vmap_hides(task)
    refuse_kinds(task.model, batch.rows)
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


APART: dict[Pass, Apart] = {
    chained: Apart.LAYERS,
    mapped: Apart.VMAP,
    closed: Apart.TRIED,
    vectorized: Apart.VMAP,
    alone: Apart.ALONE,
}
"""How each way keeps rows apart: by what PyTorch's layers compute (other code in a chain runs under vmap),
since the code runs under vmap, or since rows are never in one batch; `closed` is what was tried on made-up
rows."""
