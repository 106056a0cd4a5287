"""A bar for whoever watches: the round, ε so far, the score on public data, bytes up and
down. Nothing of it is private."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from deniable import accounting
from deniable.guarantee import DEFAULT_DELTA

if TYPE_CHECKING:
    from deniable.federated.fedavg import FedAvg
    from deniable.federated.rounds import Rounds

DELTA = DEFAULT_DELTA
"""Where a run names no δ, ε is shown at this one."""
READINGS = 20
"""So often ε is computed in a run."""


@contextmanager
def bar(run: FedAvg) -> Iterator[Callable[[Rounds], None]]:
    """Something to call after each round. It does nothing unless stderr is a terminal
    and the run wants a bar."""
    if not (run.how.progress and sys.stderr.isatty()):
        yield lambda rounds: None
        return
    columns = (TextColumn("rounds"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as display:
        task, so_far = display.add_task("", total=run.rounds), 0.0

        def watch(rounds: Rounds) -> None:
            nonlocal so_far
            if (rounds.count - 1) % max(1, run.rounds // READINGS) == 0 or rounds.count == run.rounds:
                so_far = accounting.epsilon(
                    run.loss_of(rounds.count), float(run.privacy.delta or DELTA)
                ).upper
            display.update(task, completed=rounds.count, description=describe(run, rounds, so_far))

        yield watch


def describe(run: FedAvg, rounds: Rounds, epsilon: float) -> str:
    """The expected traffic: the real one tells how many clients were drawn."""
    each_way = run.shape.cohort * run.shape.dimension * 4 * rounds.count / 1e6
    score = f" · score {rounds.history.score[-1]:.4g}" if rounds.history.score else ""
    return f"ε {epsilon:.3g}{score} · about {each_way:.3g} MB each way"
