"""Whether the gradients of rows in a batch are those of the rows alone, at the sizes that a run has.

A model may treat rows apart in every loss and still mix them on the way back: a `Function` with a backward pass of its own, a
hook on an activation. And it may do so only in large batches, after many calls, or once its weights have moved. So the trial is
on made-up rows, at sizes of the run, with values near and far from 0, and is repeated at random steps with the weights of that
step, which are releases. Private rows are never tried: what is found on them would be steered by them.

Not caught: code that mixes rows only for inputs that no trial draws, or that knows when it is tried. One row at a time
(`alone`) needs no trust in the model.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from deniable.learn.clip.passes import Pass, Task, alone
from deniable.learn.clip.probe import (
    DRAWS,
    WIDE,
    close,
    generated,
    gradient,
    made_batch,
    restored,
    row_gradients,
    still,
)

Batch = tuple[Tensor, Tensor]


def same_alone(task: Task, run: Pass, x: Tensor, y: Tensor, sizes: Iterable[int], seed: int = 0) -> bool:
    """Whether `run` gives rows like x and y, of which shapes and types are read, the gradients that they have alone.

    A near-tie of a maximum may go two ways by rounding; only what differs in every draw is a difference.
    """
    if run is alone:
        return True
    with restored(task.model), torch.random.fork_rng(devices=[]), still(task.model):
        return all(any(_agrees(task, run, x, y, size, seed + draw) for draw in range(DRAWS)) for size in sizes)


def _agrees(task: Task, run: Pass, x: Tensor, y: Tensor, size: int, seed: int) -> bool:
    try:
        own = made_batch(task, x, y, size, seed)
        return all(_unmoved(task, run, own, others) for others in _others(task, own, seed))
    except (Exception, SystemExit):  # what fails on made-up rows is not trusted
        return False


def _others(task: Task, own: Batch, seed: int) -> list[Batch]:
    """Batches of other rows, near and far from 0; the targets are those of `own`, which the model takes."""
    size = len(own[0]) // task.multiplicity
    far = [(generated(task, *own, size, seed + 1000, wide)[0], own[1]) for wide in WIDE]
    return [own, *far]


def _unmoved(task: Task, run: Pass, own: Batch, others: Batch) -> bool:
    """Whether the first, the middle and the last row have among `others` the gradients that they have alone."""
    examples = len(own[0]) // task.multiplicity
    picks = sorted({0, examples // 2, examples - 1})
    mixed = tuple(_with(task, a, b, picks) for a, b in zip(own, others, strict=True))
    try:
        found = run(task, *mixed)
    except Exception:
        if others is own:
            raise
        return True  # the model takes no such numbers
    for i in picks:
        right = row_gradients(task, *own, i)
        size = max(float(part.abs().max()) for part in right.values())
        if any(not close(gradient(task, found, name, i), part, scale=size) for name, part in right.items()):
            return False
    return True


def _with(task: Task, own: Tensor, others: Tensor, picks: list[int]) -> Tensor:
    """The rows of `others`, but for the examples `picks`, which are those of `own`."""
    mixed = others.clone()
    for i in picks:
        task.split(mixed)[i] = task.split(own)[i]
    return mixed
