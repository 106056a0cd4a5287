"""Start a target anew, in processes of its own, to see whether it says the same again.

Within one process an exact answer, a seed used again and an answer that is remembered
leave the same record. After a new start the first two say the same, the third says
something else, unless its noise happens to fall alike every time.
"""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from typing import Any

import numpy as np

from deniable.audit.rules.tables import Rows
from deniable.audit.runs.carry import OURS, form_of
from deniable.audit.runs.independence import Constant, recurs
from deniable.audit.runs.pairs import Pair
from deniable.audit.runs.processes import Failed, Worker
from deniable.audit.runs.target import Batched, Called, Target, encode, matrix
from deniable.audit.runs.worker import RNG, Form

STARTS = 8
"""Noise of ε = 1 on whole numbers falls on one of them with probability ½ at most, so on
the same in all starts once in 300."""
APART = 0.3
"""Seconds between two starts at least, so that together they outlast a generator that is
seeded by the second."""
FEWEST, LONGEST = 3, 10.0
"""Where a start takes long, so many are enough once so many seconds have passed."""
CALLS = 4
"""Runs on each neighbour after each start."""
COULD_NOT = (
    "It could not be started anew to see whether it then says the same: give it as module:name, and let it "
    "hold no state."
)
MAY_REMEMBER = (
    "It goes on between runs and cannot be started anew from here: its answer may be one that it keeps."
)
SAID_ELSE = "Started anew in a process of its own it says something else."


def explain_no_restart(target: Target) -> str | None:
    """A sentence about why a target cannot be started anew from here; None if it can, or need not be."""
    if getattr(getattr(target, "function", None), "remembers", False):
        return MAY_REMEMBER
    if _is_ours(target) or _form(target) is not None:
        return None
    return COULD_NOT


def repeats(target: Target, pair: Pair, constants: Sequence[Constant]) -> str | None:
    """A sentence about why what never changes may be noise that is used again; None if
    new starts say the same.

    Our own classes keep no answers, and are not started.
    """
    if not constants:
        return None
    if getattr(getattr(target, "function", None), "remembers", False):
        return MAY_REMEMBER
    if _is_ours(target):
        return None
    form = _form(target)
    if form is None:
        return COULD_NOT
    first = clock.monotonic()
    for start in range(STARTS):
        begun = clock.monotonic()
        if start >= FEWEST and begun - first > LONGEST:
            break
        try:
            outputs = _run_start(form, target, pair, start)
        except Failed:
            return COULD_NOT
        if not recurs(constants, *outputs):
            return SAID_ELSE
        clock.sleep(max(0.0, APART - (clock.monotonic() - begun)))
    return None


def started_anew(target: Target, pair: Pair, trials: int, seed: int) -> tuple[Rows, Rows] | None:
    """Outputs on both neighbours, by a fair coin, of a target with noise of its own
    after a new start; None if it has none."""
    if not isinstance(target, Called) or target.pass_rng is not None or _is_ours(target):
        return None
    form = _form(target)
    if form is None:
        return None
    coins = np.random.default_rng([seed, trials]).integers(2, size=trials).tolist()
    worker = Worker(form)
    try:
        outputs = worker.ask((None, (pair.first, pair.second), coins, coins, True))
    except Failed:
        return None
    finally:
        worker.close()
    return _rows(outputs[0], target), _rows(outputs[1], target)


def _is_ours(target: Target) -> bool:
    function = getattr(target, "function", None)
    owner = getattr(function, "__self__", function)
    return type(owner).__module__.startswith(OURS)


def _form(target: Target) -> Form | None:
    if isinstance(target, Batched):
        # Each start draws a small batch: draw(data, n, rng).
        many = form_of(CALLS, has_seed=True)
        form = form_of(target.function, has_seed=True)
        return None if form is None else ("partial", form, [], [("n", many)])
    return (
        form_of(target.function, has_seed=target.pass_rng is not None) if isinstance(target, Called) else None
    )


def _run_start(form: Form, target: Target, pair: Pair, start: int) -> tuple[Rows, Rows]:
    """The outputs on both neighbours of one start; the neighbour that comes first
    changes from start to start."""
    worker = Worker(form)
    order = [start % 2, 1 - start % 2] * (CALLS if isinstance(target, Called) else 1)
    source = target.pass_rng if isinstance(target, Called) else RNG
    try:
        seeds = np.random.default_rng([start, 1]).integers(2**32, size=len(order)).tolist()
        outputs = worker.ask((source, (pair.first, pair.second), order, seeds, True))
    finally:
        worker.close()
    return _rows(outputs[0], target), _rows(outputs[1], target)


def _rows(outputs: list[Any], target: Target) -> Rows:
    return encode(outputs, target.columns) if isinstance(target, Called) else matrix(np.concatenate(outputs))
