"""Whether the gradients of rows in a batch are those of the rows alone, at the sizes that a run has.

A model may treat rows apart in every loss and still mix them on the way back: a `Function` with a backward
pass of its own, a hook on an activation. And it may do so only in large batches, after many calls, or once
its weights have moved. So the trial is on made-up rows, at sizes of the run, with values near and far from 0,
and is repeated, in small, at random steps with the weights of that step, which are releases. Private rows are
never tried: what is found on them would be steered by them.

Not caught: code that mixes rows only for inputs that no trial draws, or that knows when it is tried. One row
at a time (`alone`) needs no trust in the model.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from itertools import islice

from torch import Tensor

from deniable.learn.clip.batch import Batch
from deniable.learn.clip.passes import Pass, Passed, Task
from deniable.learn.clip.trials.generated import (
    WIDE,
    Draw,
    draw_batch,
    exchange,
    made_batch,
    odd_rows,
    with_targets_of,
)
from deniable.learn.clip.trials.probe import (
    DRAWS,
    LARGE,
    batches_for,
    close,
    fork_generators,
    largest,
    model_backup,
    no_dropout,
    own_gradient,
    row_gradients,
)

ODD_STEP = 4
"""One of so many batches of odd rows is tried at each turn, for time."""


def is_same_alone(task: Task, run: Pass, sample: Batch, sizes: Iterable[int]) -> bool:
    """Whether `run` gives rows of the shapes and types of `sample` the gradients that they have alone.

    A near-tie of a maximum may go two ways by rounding; only what differs in every draw is a difference.
    """
    tries = [(size, turn) for size in sizes for turn in range(batches_for(size))]
    with model_backup(task.model), fork_generators(sample), no_dropout(task.model):
        return all(
            any(_agrees(task, run, sample, size, turn, DRAWS * turn + draw) for draw in range(DRAWS))
            for size, turn in tries
        )


def _agrees(task: Task, run: Pass, sample: Batch, size: int, turn: int, seed: int) -> bool:
    """Of the first, a middle and the last row, among rows near and far from 0 and some that no draw has."""
    try:
        own, draw = made_batch(task, sample, size, seed)
        picks = {0, size // 2, size - 1}
        # Two spreads at each turn, for time; losses are tried with all of them (`probe`).
        spreads = WIDE[::2] if size <= LARGE and turn % 2 == 0 else WIDE[1::2]
        far = (_make_company(task, own, draw, seed, wide) for wide in spreads)
        # Losses are tried among all odd rows too, and code that acts on gradients alone goes one by one.
        odd = islice(odd_rows(task, own, draw), turn % ODD_STEP, None, ODD_STEP)
        return all(_is_unmoved(task, run, own, others, picks) for others in itertools.chain((own,), far, odd))
    except (Exception, SystemExit):  # what fails on made-up rows is not trusted
        return False


def is_still_alone(task: Task, run: Pass, sample: Batch, size: int, seed: int) -> bool:
    """The same in the middle of a run, at about the price of a step: two rows, the first or the last among
    them, in one batch of others. The seed decides which rows, and how far from 0 the others are."""
    chance = random.Random(seed)
    # Two rows cost about a step. Which ones is drawn anew each time: in time every place is looked at.
    picks = {chance.choice((0, size - 1)), chance.randrange(size)}
    wide = chance.choice((None, *WIDE))
    with model_backup(task.model), fork_generators(sample), no_dropout(task.model):
        return any(_agrees_again(task, run, sample, size, seed + draw, picks, wide) for draw in range(DRAWS))


def _agrees_again(
    task: Task, run: Pass, sample: Batch, size: int, seed: int, picks: set[int], deviation: float | None
) -> bool:
    try:
        # How rows are made up is settled on one row, which is cheap, and then used for all.
        _, draw = made_batch(task, sample, 1, seed)
        own = draw_batch(task, sample, size, seed, draw)
        others = own if deviation is None else _make_company(task, own, draw, seed, deviation)
        return _is_unmoved(task, run, own, others, picks)
    except (Exception, SystemExit):  # what fails on made-up rows is not trusted
        return False


def _make_company(task: Task, base: Batch, draw: Draw, seed: int, deviation: float) -> Batch:
    """A batch of other rows of this spread; the targets are those of `base`, which the model takes."""
    return with_targets_of(task, base, draw_batch(task, base, base.examples, seed + 1000, draw, deviation))


def _is_unmoved(task: Task, run: Pass, base: Batch, company: Batch, picks: set[int]) -> bool:
    """Whether these rows have among `company` the gradients that they have alone, of which one row's
    at a time is held."""
    rows = sorted(picks)
    batch = exchange(base, company, rows)
    try:
        run(task, batch)  # almost every pass of a run has one before it, which may have left something behind
        outcome = run(task, batch)
    except Exception:  # made-up rows: no private row steers it
        if company is base:
            raise
        run(task, base)  # raises unless it was those numbers that the model does not take
        return True
    return all(_same_row(task, outcome, i, row_gradients(task, base, i)) for i in rows)


def _same_row(task: Task, outcome: Passed, i: int, right: Mapping[str, Tensor]) -> bool:
    # Measured by the largest number of the whole gradient: parameters that hardly move would fail by
    # rounding.
    size = max(largest(part) for part in right.values())
    return all(close(own_gradient(task, outcome, name, i), part, scale=size) for name, part in right.items())
