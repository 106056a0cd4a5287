"""Views of examples by a caller's own function, which must treat each row for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from deniable.errors import InvalidParameter
from deniable.learn.clip.batch import Batch
from deniable.learn.clip.objective import BatchLoss, halves, inputs_replaced
from deniable.learn.nests import length, map_parts, tensors

Augment = Callable[[Any], Any]
"""From the inputs of some rows to other inputs of those rows."""

ROWS = 9


def inputs(rows: Any, criterion: object) -> Any:
    """What `augment` sees: the inputs, or the whole batch where one function has inputs and targets."""
    return rows if isinstance(criterion, BatchLoss) else halves(rows)[0]


def view_rows(augment: Augment | None, batch: Batch, times: int, criterion: object) -> Batch:
    """`times` views of each row, one after the other."""
    rows, weights = batch.rows, batch.weights
    if times > 1:
        rows = map_parts(lambda part: part.repeat_interleave(times, dim=0), rows)
        weights = None if weights is None else weights.repeat_interleave(times) / times
    if augment is not None:
        own = augment(inputs(rows, criterion))
        rows = own if isinstance(criterion, BatchLoss) else inputs_replaced(rows, own)
    return Batch(rows, batch.multiplicity * times, weights, batch.public)


def refuse_mixing(augment: Augment | None, x: Any) -> None:
    """Raise if a row's view changes with the other rows, torch's generator being at the
    same place; only x's shape is read.

    Mixing rows (mixup, statistics of the batch) would let one row move the gradient of every other one.
    """
    if augment is None:
        return
    for wide in (1.0, 30.0):
        near, far = _generate(x, 0, 1.0), _generate(x, 1, wide)
        for i in (0, ROWS - 1):
            for here, there in zip(tensors(near), tensors(far), strict=True):
                there[i] = here[i]
            _refuse_row(_run_augment(augment, near), _run_augment(augment, far), i)


def _refuse_row(first: Any, second: Any, i: int) -> None:
    if length(first) != ROWS:
        raise InvalidParameter(
            f"Expected augment to give one view for each row, got {length(first)} for {ROWS} rows. Nothing "
            "was charged."
        )
    if any(
        a.shape != b.shape or not torch.equal(a[i], b[i])
        for a, b in zip(tensors(first), tensors(second), strict=True)
    ):
        raise InvalidParameter(
            "The views that augment gives of a row change with the other rows, so no bound on one row's "
            "contribution exists. Nothing was charged. Treat each row by itself, and draw from torch's "
            "default generator."
        )


def _generate(x: Any, seed: int, width: float) -> Any:
    random = torch.Generator().manual_seed(seed)

    def draw(part: Tensor) -> Tensor:
        shape = (ROWS, *part.shape[1:])
        if part.is_floating_point():
            return torch.rand(shape, generator=random, dtype=part.dtype).mul_(width)
        return torch.randint(0, 2, shape, generator=random).to(part.dtype)

    return map_parts(draw, x)


def _run_augment(augment: Augment, x: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            return augment(map_parts(Tensor.clone, x))
        except Exception as error:  # generated rows, so their shape may be quoted
            shapes = " and ".join(str(tuple(part.shape)) for part in tensors(x))
            raise InvalidParameter(
                f"augment fails on generated rows of the shape {shapes}: {error}. Nothing was charged."
            ) from None
