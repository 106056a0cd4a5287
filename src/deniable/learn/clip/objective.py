"""What is minimised: one number for each row of a batch, from a criterion or from a
function of model and batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from deniable.errors import InvalidParameter
from deniable.learn.nests import Structure, length, take_apart

Criterion = Callable[[Any, Any], Tensor]
"""From what the model gives and the targets to one loss for each row."""
TARGETS = ("labels", "label")
"""The names under which a row that is a dict has its target."""


class Objective(Protocol):
    """One loss for each row."""

    def __call__(self, model: nn.Module, rows: Any) -> Tensor: ...

    @property
    def source(self) -> object:
        """The function as it was given."""

    def targets(self, structure: Structure, parts: int) -> frozenset[int]:
        """Which parts of a row, by their number, are targets rather than inputs."""


@dataclass(frozen=True)
class BatchLoss:
    """`function(model, batch)` gives one number for each row of a batch, which has the
    structure that rows have.

    >>> BatchLoss(lambda model, batch: (model(batch["x"])[:, 0] - batch["y"]) ** 2)  # doctest: +ELLIPSIS
    BatchLoss(function=...)
    """

    function: Callable[[nn.Module, Any], Tensor]

    def __post_init__(self) -> None:
        _refuse_parameters(self.function)

    def __call__(self, model: nn.Module, rows: Any) -> Tensor:
        return _check_losses(self.function(model, rows), length(rows))

    @property
    def source(self) -> object:
        """The function as it was given."""
        return self.function

    def targets(self, structure: Structure, parts: int) -> frozenset[int]:
        return frozenset()


@dataclass(frozen=True)
class Paired:
    """A criterion of what the model gives for the inputs and of the targets.

    A row is (inputs, target), or a dict whose target is called "labels" or "label". Inputs in a tuple or a
    dict are the model's arguments; where it gives a structure with `logits` (transformers), those are taken.
    """

    criterion: Criterion

    def __call__(self, model: nn.Module, rows: Any) -> Tensor:
        inputs, target = halves(rows)
        return self.criterion(call_model(model, inputs), target)

    @property
    def source(self) -> object:
        """The criterion as it was given."""
        return getattr(self.criterion, "source", self.criterion)

    def targets(self, structure: Structure, parts: int) -> frozenset[int]:
        return frozenset(take_apart(halves(structure.build(range(parts)))[1])[1])


def objective(criterion: Criterion | BatchLoss) -> Objective:
    return criterion if isinstance(criterion, BatchLoss) else Paired(per_row(criterion))


def halves(rows: Any) -> tuple[Any, Any]:
    """Inputs and targets."""
    if isinstance(rows, Mapping):
        names = [name for name in TARGETS if name in rows]
        inputs = {name: part for name, part in rows.items() if name not in names}
        if len(names) == 1 and inputs:
            return inputs, rows[names[0]]
    elif isinstance(rows, tuple) and len(rows) == 2:
        return rows[0], rows[1]
    raise InvalidParameter(
        'Expected rows of two parts, an input and a target, or a dict with "labels". Nothing was charged. '
        "For other rows give BatchLoss(function), where function(model, batch) is one number for each row."
    )


def inputs_replaced(rows: Any, inputs: Any) -> Any:
    """The rows with other inputs."""
    if isinstance(rows, Mapping):
        return {**inputs, **{name: rows[name] for name in TARGETS if name in rows}}
    return inputs, rows[1]


def call_model(model: nn.Module, inputs: Any) -> Any:
    """What the model gives for its arguments."""
    match inputs:
        case Mapping():
            output = model(**inputs)
        case tuple():
            output = model(*inputs)
        case _:
            output = model(inputs)
    return output.logits if not isinstance(output, Tensor) and hasattr(output, "logits") else output


def per_row(criterion: Criterion) -> Criterion:
    """The criterion, giving one loss per row.

    A loss of `torch.nn` is taken with reduction "none" whatever it says; further axes
    (positions of a sequence) are then averaged, or added if it said "sum". Any other
    function must return one loss per row by itself.
    """
    _refuse_parameters(criterion)
    reduction = getattr(criterion, "reduction", None) if isinstance(criterion, nn.Module) else None
    if isinstance(reduction, str):
        criterion = copy.copy(criterion)
        criterion.reduction = "none"  # type: ignore[attr-defined]

    def losses(output: Any, target: Any) -> Tensor:
        values = criterion(output, target)
        if isinstance(reduction, str) and values.dim() > 1:
            values = values.flatten(1).mean(1) if reduction == "mean" else values.flatten(1).sum(1)
        return _check_losses(values, length(target))

    losses.source = criterion  # type: ignore[attr-defined]
    return losses


def _refuse_parameters(criterion: object) -> None:
    if isinstance(criterion, nn.Module) and any(p.requires_grad for p in criterion.parameters()):
        raise InvalidParameter(
            "The criterion has parameters of its own that require gradients; they would be trained without "
            "noise. Move them into the model."
        )


def _check_losses(losses: Any, rows: int) -> Tensor:
    if not isinstance(losses, Tensor) or losses.dim() != 1 or len(losses) != rows:
        shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise InvalidParameter(
            f"Expected one loss per row from the criterion, got the shape {shape} for {rows} rows. "
            'Use reduction="none", and average the other axes.'
        )
    return losses
