"""What a window costs when a process of its own computes it, beside the same in this process.

python -m benchmarks.after
"""

from __future__ import annotations

import tempfile
import time
from itertools import count

from deniable.curator import Curator
from deniable.datasets.visits import visits
from deniable.guarantee import Budget
from deniable.server.after.pool import Pool
from deniable.units import Unit

RUNS = 30
WINDOW = (
    "SELECT diagnosis, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r, "
    "100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM visits WHERE days > {} GROUP BY diagnosis"
)


def median_ms(times: list[float]) -> float:
    return 1000 * sorted(times)[len(times) // 2]


def main() -> None:
    """Both take turns, so that they see the same machine; every question is another one."""
    with tempfile.TemporaryDirectory() as folder:
        curators = [
            Curator.open(
                visits(2000),
                name="visits",
                unit=Unit.column("patient_id", max_rows=4),
                limit=Budget(1000, 1e-6),
                ledger=f"sqlite:///{folder}/{name}.db",
                keys={"diagnosis": sorted(set(visits(2000)["diagnosis"].to_pylist()))},
            )
            for name in ("here", "pool")
        ]
        pool = Pool()
        curators[1].compute_by(pool)
        numbers = count(1)
        times: list[list[float]] = [[], []]
        for _ in range(RUNS + 2):
            text = WINDOW.format(-next(numbers))
            for curator, own in zip(curators, times, strict=True):
                started = time.perf_counter()
                curator.sql(text, epsilon=0.1)
                own.append(time.perf_counter() - started)
        here, there = (median_ms(own[2:]) for own in times)
        print(f"a window, all of its question: {here:.1f} ms in this process, {there:.1f} ms in a pool's")
        print(f"difference {there - here:+.1f} ms, ratio {there / here:.2f}")
        pool.close()
        for curator in curators:
            curator.close()


if __name__ == "__main__":
    main()
