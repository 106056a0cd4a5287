"""The owner's progress bar: the step, ε so far against what the run may cost, and the
loss on the rows of the last lots.

The loss is not private. It is drawn on a terminal that the process itself writes to, erased at the end, kept
nowhere, and never written into a pipe or a file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from deniable import accounting
from deniable.guarantee import DEFAULT_DELTA
from deniable.learn.sgd.training.trainer import summarize

if TYPE_CHECKING:
    from deniable.learn.sgd.dpsgd import DPSGD
    from deniable.learn.sgd.training.trainer import Trainer, Watch

DELTA = DEFAULT_DELTA
"""Where a run names no δ, ε is shown at this one."""
READINGS = 20
"""So often ε is computed in a run."""


@contextmanager
def bar(run: DPSGD, console: Console | None = None) -> Iterator[Watch]:
    """Something to call after each step. It does nothing unless stderr (or `console`) is
    a terminal and the run wants a bar."""
    screen = Console(stderr=True) if console is None else console
    # Asked of the file itself: a Console calls a pipe a terminal where FORCE_COLOR or TTY_COMPATIBLE says so.
    terminal = sys.stderr.isatty() if console is None else screen.is_terminal
    if not (run.how.progress and terminal):
        yield lambda trainer: None
        return
    delta, steps = float(run.delta or DELTA), run.plan.steps
    limit = (
        accounting.epsilon(run.loss, delta).upper
        if run.privacy.epsilon is None
        else float(run.privacy.epsilon)
    )
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeRemainingColumn(), console=screen, transient=True) as display:
        task, so_far = display.add_task("", total=steps), 0.0

        def watch(trainer: Trainer) -> None:
            nonlocal so_far
            if (trainer.taken - 1) % max(1, steps // READINGS) == 0 or trainer.taken == steps:
                so_far = accounting.epsilon(trainer.used, delta).upper
            loss, rows, left_out = summarize(trainer.readings)
            mean = f"loss {loss / rows:.3f} (yours alone)" if rows else "empty lot"
            text = f"ε {so_far:.3g} of {limit:.3g} · {mean}"
            if left_out:
                text += f" · {left_out} left out"
            display.update(task, completed=trainer.taken, description=text)

        yield watch
