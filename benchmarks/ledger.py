"""The ledger: charges per second beside bare commits, the cost of a long history, and OpenDP's filter.

    python benchmarks/ledger.py [folder]     a folder on the disk to be measured; writes its table into docs/benchmarks.md

A charge and a bare commit are measured in turn, on two SQLite files with the same
settings (WAL, synchronous=FULL): the bare commit inserts one row as long as a journal
entry. What fsync itself costs here is printed: on a disk that answers before it has
written, the commit costs less than Python does, and the ratio says little.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from _report import write_section
from deniable.accounting.filters import Filter
from deniable.errors import BudgetExceeded
from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger
from deniable.loss import Loss, Pure
from deniable.mechanism import Random
from deniable.units import Unit

PAIRS, ROUNDS = 1500, 12
WARM = 1200
"""Commits after which SQLite has reached the size of its log and overwrites it, as it does from then on."""
LONG = 100_000
SMALL = Pure(1e-6)


@dataclass(frozen=True)
class Nothing:
    """A mechanism that costs nothing to run, so that the charge is all that is measured."""

    loss: Loss = SMALL
    unit: Unit = field(default_factory=Unit.row)

    def error(self, confidence: float = 0.95) -> None:
        return None

    def __call__(self, data: int, *, rng: Random) -> int:
        return 0


def fsync(folder: Path) -> float:
    """Seconds for one page to be written over and synced."""
    with (folder / "fsync").open("wb", buffering=0) as file:
        file.write(b"x" * 4096 * 64)
        os.fsync(file.fileno())
        times = []
        for i in range(200):
            start = time.perf_counter()
            file.seek(4096 * (i % 64))
            file.write(b"y" * 4096)
            os.fsync(file.fileno())
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def bare(folder: Path, entry: str) -> Callable[[], None]:
    """A commit of one row with the ledger's settings."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "fullfsync=ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("CREATE TABLE rows (seq INTEGER PRIMARY KEY, text TEXT)")

    def commit() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows (text) VALUES (?)", (entry,))
        connection.execute("COMMIT")

    return commit


def seconds(act: Callable[[], Any], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        act()
    return (time.perf_counter() - start) / times


def throughput(folder: Path, account: Account, entry: str) -> tuple[float, float]:
    """Mean seconds of a bare commit and of a charge, one after the other in turn, so
    that both meet the same disk."""
    commit = bare(folder, entry)
    charge = lambda: account.run(Nothing(), 0)  # noqa: E731
    seconds(commit, WARM)
    seconds(charge, WARM)
    pairs = [(seconds(commit, 1), seconds(charge, 1)) for _ in range(PAIRS)]
    return statistics.fmean(p[0] for p in pairs), statistics.fmean(p[1] for p in pairs)


def lengths(folder: Path) -> tuple[float, float]:
    """CPU seconds of a charge after 10 entries and after LONG, in turn: the least of
    many batches, on two ledgers."""
    short, long = (Ledger.open(f"sqlite:///{folder}/{name}.db") for name in ("short", "long"))
    accounts = [ledger.create("visits", Unit.row(), limit=Budget(10)) for ledger in (short, long)]
    synchronous(long, "OFF")  # only while the history is made
    for _ in range(LONG):
        accounts[1].run(Nothing(), 0)
    synchronous(long, "FULL")
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS * 4):
        for i, account in enumerate(accounts):
            start = time.process_time()
            for _ in range(5):
                account.run(Nothing(), 0)
            best[i] = min(best[i], (time.process_time() - start) / 5)
        accounts[0] = fresh(short, folder)
    return best[0], best[1]


def synchronous(ledger: Ledger, mode: str) -> None:
    connection = ledger._journal.store.engine.raw_connection()
    connection.cursor().execute(f"PRAGMA synchronous={mode}")
    connection.close()


def fresh(ledger: Ledger, folder: Path) -> Account:
    """A ledger whose history is short again."""
    ledger.close()
    for file in folder.glob("short.db*"):
        file.unlink()
    account = Ledger.open(f"sqlite:///{folder}/short.db").create("visits", Unit.row(), limit=Budget(10))
    for _ in range(10):
        account.run(Nothing(), 0)
    return account


def ours_in_memory(times: int) -> float:
    """CPU seconds for as many charges as OpenDP's filter is asked, without a disk, as OpenDP has none."""
    account = Ledger.open("sqlite://").create("visits", Unit.row(), limit=Budget(10))
    start = time.process_time()
    for _ in range(times):
        account.run(Nothing(), 0)
    return time.process_time() - start


def filter_alone(times: int) -> float:
    limit = Filter.of(Budget(10))
    spent, price = limit.nothing, limit.charge(SMALL)
    start = time.process_time()
    for _ in range(times):
        spent += price
        if not limit.admits(spent):
            raise BudgetExceeded("over", asked=0, spent=0, total=0, limit=0)
    return time.process_time() - start


def opendp_filter(times: int) -> float:
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    odometer = dp.c.make_fully_adaptive_composition(*space, dp.zero_concentrated_divergence())
    queryable = dp.c.make_privacy_filter(odometer, d_in=1, d_out=100.0)(5)
    query = dp.m.make_gaussian(*space, scale=100.0)
    start = time.process_time()
    for _ in range(times):
        queryable(query)
    return time.process_time() - start


def racer(url: str, report: Any) -> None:
    granted, refused, other = 0, 0, 0
    with Ledger.open(url) as ledger:
        account = ledger.account("visits")
        for _ in range(250):
            try:
                account.run(Nothing(Pure(0.01)), 0)
                granted += 1
            except BudgetExceeded:
                refused += 1
            except Exception:
                other += 1
    report.send((granted, refused, other))


def race(folder: Path) -> tuple[int, int, int, float]:
    """8 processes × 250 charges against a limit of 1000 of them."""
    url = f"sqlite:///{folder}/race.db"
    with Ledger.open(url) as ledger:
        ledger.create("visits", Unit.row(), limit=Budget(10))
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe(duplex=False) for _ in range(8)]
    runners = [context.Process(target=racer, args=(url, pipe[1])) for pipe in pipes]
    start = time.perf_counter()
    for runner, pipe in zip(runners, pipes, strict=True):
        runner.start()
        pipe[1].close()  # so that a racer that fails is an error here, not a wait
    results = [pipe[0].recv() for pipe in pipes]
    for runner in runners:
        runner.join()
    granted, refused, other = (sum(r[i] for r in results) for i in range(3))
    return granted, refused, other, time.perf_counter() - start


def victim(url: str) -> None:
    with Ledger.open(url) as ledger:
        account = ledger.account("visits")
        while True:
            account.run(Nothing(), 0)


def kills(folder: Path, times: int = 20) -> int:
    """kill -9 at random moments; returns how often the journal verified afterwards. The
    tests kill 350 times."""
    url, good = f"sqlite:///{folder}/kills.db", 0
    with Ledger.open(url) as ledger:
        account = ledger.create("visits", Unit.row(), limit=Budget(10))
        for i in range(times):
            process = multiprocessing.get_context("spawn").Process(target=victim, args=(url,))
            process.start()
            count = ledger.head().count
            while ledger.head().count < count + 20:
                time.sleep(0.001)
            time.sleep(0.0007 * i)
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
            good += ledger.verify().ok and account.run(Nothing(), 0).entry == str(ledger.head())
    return good


def main(folder: Path) -> None:
    entry = "x" * 560  # as long as an entry of the journal, all columns together
    sync = fsync(folder)
    with Ledger.open(f"sqlite:///{folder}/privacy.db") as ledger:
        commit, charge = throughput(folder, ledger.create("visits", Unit.row(), limit=Budget(10)), entry)
    granted, refused, other, wall = race(folder)
    short, long = lengths(folder)
    survived = kills(folder)
    peers = [(n, opendp_filter(n), ours_in_memory(n), filter_alone(n)) for n in (250, 500, 1000, 2000)]
    lines = [
        "## The ledger",
        "",
        f"`python benchmarks/ledger.py`, {datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, Python "
        f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}; one fsync of a page took "
        f"{1e3 * sync:.2f} ms.",
        "",
        "| measured | figure | asked |",
        "|---|---|---|",
        f"| bare commits of one row, same settings | {1 / commit:,.0f}/s | |",
        f"| charges, with journal, seal and account | {1 / charge:,.0f}/s | |",
        f"| charges ÷ bare commits | {commit / charge:.2f} | ≥ 0.50 |",
        f"| CPU of a charge after 10 entries | {1e3 * short:.3f} ms | |",
        f"| CPU of a charge after {LONG:,} entries | {1e3 * long:.3f} ms | |",
        f"| ratio | {long / short:.2f} | ≤ 1.20 |",
        f"| 8 processes × 250 charges of ε = .01 at a limit of ε = 10, {wall:.1f} s | {granted} granted, "
        f"{refused} refused, {other} other errors | 1000 granted, 0 other |",
        f"| kill -9 at random moments, journal good and next charge works | {survived} of 20 | all |",
        "",
        "OpenDP's filter beside ours, CPU seconds for n queries, neither on a disk:",
        "",
        "| n | OpenDP 0.16 filter | our whole ledger in memory | our filter alone |",
        "|---|---|---|---|",
        *(f"| {n} | {a:.3f} | {b:.3f} | {c:.4f} |" for n, a, b, c in peers),
    ]
    print("\n".join(lines))
    write_section("ledger", "\n".join(lines))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as made:
        main(Path(made))
