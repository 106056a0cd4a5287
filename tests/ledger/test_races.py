"""Many processes at one account: never over the limit, nothing lost, no error but the budget's."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from deniable.errors import BudgetExceeded
from deniable.guarantee import Budget
from deniable.ledger import Ledger
from deniable.loss import GaussianNoise, Pure
from deniable.units import Unit
from tests.ledger.workers import Noisy, key, spend

PROCESSES, EACH = 8, 250
Process = Callable[..., Any]


def heard(receiver: Connection) -> tuple[list[str], int, list[str]]:
    try:
        return receiver.recv() if receiver.poll(240) else ([], 0, ["no answer: a deadlock"])
    except EOFError:
        return [], 0, ["the process died"]


def race(crowd: Process, url: str, names: list[str], epsilon: float) -> tuple[list[str], int, list[str]]:
    """Every entry granted, the number of refusals, and whatever else was raised, over all processes."""
    pipes = [multiprocessing.Pipe(duplex=False) for _ in range(PROCESSES)]
    runners = [
        crowd(target=spend, args=(url, key(), names[i % len(names)], epsilon, EACH, pipes[i][1]))
        for i in range(PROCESSES)
    ]
    for runner in runners:
        runner.start()
    for _, sender in pipes:
        sender.close()  # so that a process that dies is heard at once
    results = [heard(receiver) for receiver, _ in pipes]
    for runner in runners:
        runner.join(600)
    return [e for r in results for e in r[0]], sum(r[1] for r in results), [e for r in results for e in r[2]]


def test_eight_processes_spend_one_limit_to_the_last_charge(url: str, crowd: Process) -> None:
    with Ledger.open(url) as ledger:
        account = ledger.create("visits", Unit.row(), limit=Budget(12.345))
        granted, refused, other = race(crowd, url, ["visits"], 0.01)
        assert other == []
        assert len(granted) == len(set(granted)) == 1234  # the limit, to within one charge, none over
        assert len(granted) + refused == PROCESSES * EACH
        assert account.spent().epsilon == 12.34
        journal = {f"{entry.seq}:{entry.mac}" for entry in ledger.history()}
        assert set(granted) <= journal  # none lost
        assert len(journal) == 1 + len(granted)
        assert ledger.verify().ok


def test_parts_racing_under_one_whole_keep_both_limits(url: str, crowd: Process) -> None:
    with Ledger.open(url) as ledger:
        whole = ledger.create("visits", Unit.row(), limit=Budget(9))
        parts = [ledger.create(name, limit=Budget(4), parent="visits") for name in ("a", "b", "c")]
        granted, _, other = race(crowd, url, ["a", "b", "c"], 0.01)
        assert other == []
        assert len(granted) == 900
        assert whole.spent().epsilon == 9
        assert sum(round(100 * part.spent().epsilon) for part in parts) == 900
        assert all(part.spent().epsilon <= 4 for part in parts)
        assert ledger.verify().ok


def test_processes_that_open_a_new_ledger_at_once_agree(tmp_path: Any, crowd: Process) -> None:
    url = f"sqlite:///{tmp_path}/privacy.db"
    pipes = [multiprocessing.Pipe(duplex=False) for _ in range(6)]
    runners = [crowd(target=begin, args=(url, pipe[1])) for pipe in pipes]
    for runner in runners:
        runner.start()
    found = [receiver.recv() for receiver, _ in pipes if receiver.poll(120)]
    for runner in runners:
        runner.join(600)
    assert len(found) == 6
    assert len(set(found)) == 1


def begin(url: str, report: Any) -> None:
    try:
        with Ledger.open(url) as ledger:
            report.send((ledger._journal.id, str(ledger._journal.key)))
    except Exception as error:
        report.send((type(error).__name__, str(error)))


def test_threads_of_one_process_race_as_well(url: str) -> None:
    with Ledger.open(url) as ledger:
        run_threads(ledger)


def test_threads_race_in_memory_too(memory: Ledger) -> None:
    run_threads(memory)


def run_threads(ledger: Ledger) -> None:
    account = ledger.create("visits", Unit.row(), limit=Budget(1))
    granted, other = [], []

    def work() -> None:
        for _ in range(25):
            try:
                granted.append(account.run(Noisy(Pure(0.01)), 5).entry)
            except BudgetExceeded:
                pass
            except Exception as error:
                other.append(repr(error))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert other == []
    assert len(set(granted)) == 100
    assert ledger.verify().ok


def test_the_curve_is_raced_as_safely_as_the_sum(memory: Ledger) -> None:
    account = memory.create("visits", Unit.row(), limit=Budget(1, 1e-6))
    fits = int(account.remaining().rho / (1 / 200))
    for _ in range(fits):
        account.run(Noisy(GaussianNoise(10)), 5)
    assert not account.preview(GaussianNoise(10)).fits
