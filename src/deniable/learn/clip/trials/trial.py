"""Whether the gradients of rows in a batch are those of the rows alone, at the sizes that a run has.

A model may treat rows apart in every loss and still mix them on the way back: a `Function` with a backward
pass of its own, a hook on an activation. And it may do so only in large batches, after many calls, or once
its weights have moved. So the trial is on made-up rows, at sizes of the run, with values near and far from 0,
and is repeated at random steps with the weights of that step, which are releases. Private rows are never
tried: what is found on them would be steered by them.

Not caught: code that mixes rows only for inputs that no trial draws, or that knows when it is tried. One row
at a time (`alone`) needs no trust in the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from deniable.learn.clip.batch import Batch
from deniable.learn.clip.passes import Pass, Task, alone
from deniable.learn.clip.trials.generated import WIDE, Draw, drawn, exchanged, made_batch, with_targets_of
from deniable.learn.clip.trials.probe import (
    DRAWS,
    LARGE,
    close,
    forked,
    own_gradient,
    restored,
    row_gradients,
    still,
)


def same_alone(task: Task, run: Pass, like: Batch, sizes: Iterable[int], seed: int = 0) -> bool:
    """Whether `run` gives rows of the shapes and types of `like` the gradients that they have alone.

    A near-tie of a maximum may go two ways by rounding; only what differs in every draw is a difference.
    """
    if run is alone:
        return True
    with restored(task.model), forked(like), still(task.model):
        return all(
            any(_agrees(task, run, like, size, seed + draw) for draw in range(DRAWS)) for size in sizes
        )


def _agrees(task: Task, run: Pass, like: Batch, size: int, seed: int) -> bool:
    try:
        own, draw = made_batch(task, like, size, seed)
        picks = sorted({0, own.examples // 2, own.examples - 1})
        right = {i: row_gradients(task, own, i) for i in picks}
        return all(_unmoved(task, run, own, others, right) for others in _others(task, own, draw, seed))
    except (Exception, SystemExit):  # what fails on made-up rows is not trusted
        return False


def _others(task: Task, own: Batch, draw: Draw, seed: int) -> list[Batch]:
    """Batches of other rows, near and far from 0; the targets are those of `own`, which the model takes."""
    # Two spreads at each size, for time; losses are tried with all of them (`probe`).
    spreads = WIDE[::2] if own.examples <= LARGE else WIDE[1::2]
    far = [drawn(task, own, own.examples, seed + 1000, draw, wide) for wide in spreads]
    return [own, *(with_targets_of(task, own, others) for others in far)]


def _unmoved(
    task: Task, run: Pass, own: Batch, others: Batch, right: Mapping[int, Mapping[str, Tensor]]
) -> bool:
    """Whether the rows of `right` have among `others` the gradients that they have alone, which it holds."""
    try:
        outcome = run(task, exchanged(own, others, list(right)))
    except Exception:
        if others is own:
            raise
        return True  # the model takes no such numbers
    for i, parts in right.items():
        size = max(float(part.abs().max()) for part in parts.values())
        for name, part in parts.items():
            if not close(own_gradient(task, outcome, name, i), part, scale=size):
                return False
    return True
