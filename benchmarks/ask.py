"""What a curator adds to planning: CPU of a preview and of an ask beyond the engine, by
`check` + `plan` in the same run.

python -m benchmarks.ask
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from deniable.curator import Curator
from deniable.datasets.people import DIAGNOSES
from deniable.datasets.visits import visits
from deniable.guarantee import Budget
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.units import Unit

RUNS = 60
QUERIES = {
    "a count": "SELECT COUNT(*) AS n FROM visits WHERE days > {}",
    "count and average by diagnosis": (
        "SELECT diagnosis, COUNT(*) AS n, AVG(days) AS d FROM visits WHERE days > {} GROUP BY diagnosis"
    ),
    "private keys": "SELECT ward, COUNT(*) AS n FROM visits WHERE days > {} GROUP BY ward",
}


def cpu(act: Callable[[], object]) -> float:
    """Milliseconds of this thread's CPU. A plan runs in a thread of its own, so of an ask this is all that is
    not the engine, the noise and the making of the answer."""
    started = time.thread_time()
    act()
    return 1000 * (time.thread_time() - started)


def measured(curator: Curator, text: str, numbers: Iterator[int]) -> dict[str, float]:
    """The median of each, taken in turns, so that all see the same machine; each call with another number."""
    unit, terms = curator.account.unit, Terms(epsilon=0.1, delta=1e-8)
    acts: dict[str, Callable[[str], object]] = {
        "plan": lambda query: plan(check(query, curator.schema, unit), unit, terms),
        "preview": lambda query: curator.preview(query, epsilon=0.1, delta=1e-8),
        "ask": lambda query: curator.sql(query, epsilon=0.1, delta=1e-8),
    }
    times: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(RUNS):
        for name, act in acts.items():
            times[name].append(cpu(partial(act, text.format(next(numbers)))))
    return {name: sorted(each)[RUNS // 2] for name, each in times.items()}


def main() -> None:
    numbers = count(1)
    with (
        tempfile.TemporaryDirectory() as folder,
        Curator.open(
            visits(300),
            name="visits",
            unit=Unit.column("patient_id", max_rows=4),
            limit=Budget(10_000, 1e-4),
            ledger=f"sqlite:///{folder}/privacy.db",
            bounds={"days": (0, 60), "age": (0, 100)},
            keys={"diagnosis": DIAGNOSES},
            threads=1,
        ) as curator,
    ):
        print("| | check + plan, ms | preview ÷ plan | ask beyond the engine ÷ plan |")
        print("|---|---:|---:|---:|")
        for name, text in QUERIES.items():
            found = measured(curator, text, numbers)
            preview, ask = found["preview"] / found["plan"], found["ask"] / found["plan"]
            print(f"| {name} | {found['plan']:.2f} | {preview:.2f} | {ask:.2f} |")


if __name__ == "__main__":
    main()
