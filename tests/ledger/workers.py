"""Mechanisms for tests, and what other processes do to a ledger."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from deniable.errors import BudgetExceeded
from deniable.ledger import Ledger
from deniable.ledger.journal import now
from deniable.loss import Composed, Loss, Pure
from deniable.mechanism import Error, Random
from deniable.units import Unit


@dataclass(frozen=True)
class Noisy:
    """Integer noise on the number it is given. Its loss is whatever the test says."""

    loss: Loss
    unit: Unit = field(default_factory=Unit.row)

    def error(self, confidence: float = 0.95) -> Error | None:
        return None

    def __call__(self, data: int, *, rng: Random) -> int:
        return data + rng.discrete_laplace(2)


@dataclass(frozen=True)
class Failing(Noisy):
    """Fails on the data, with a text that gives it away."""

    kind: type[Exception] = ValueError

    def __call__(self, data: Any, *, rng: Random) -> NoReturn:
        raise self.kind(f"The secret is {data}.")


@dataclass(frozen=True)
class Asking:
    """Up to `most` answers of loss `each`."""

    each: Loss
    most: int
    unit: Unit = field(default_factory=Unit.row)

    @property
    def loss(self) -> Loss:
        return self.each * self.most

    def open(self, data: Any, *, rng: Random) -> Talk:
        return Talk(self.each, data, rng)


class Talk:
    """Knows what was asked; fails at what it is told to fail at."""

    def __init__(self, each: Loss, data: Any, rng: Random) -> None:
        self.each, self.data, self.rng, self.asked = each, data, rng, 0

    def ask(self, question: Callable[[Any], int]) -> int:
        self.asked += 1
        return question(self.data) + self.rng.discrete_laplace(2)

    @property
    def used(self) -> Loss:
        return Composed((self.each,) * self.asked)


def key() -> str | None:
    """Where the key is, to be told to processes whose environment is older than this test's."""
    return os.environ.get("DENIABLE_LEDGER_KEY")


def spend(url: str, key: str | None, name: str, epsilon: float, times: int, report: Connection) -> None:
    """Charge `times` times and tell what came of it: entries, refusals, and any other
    error by its type and text."""
    granted, refused, other = [], 0, []
    with Ledger.open(url, key=key) as ledger:
        account = ledger.account(name)
        for _ in range(times):
            try:
                granted.append(account.run(Noisy(Pure(epsilon)), 0).entry)
            except BudgetExceeded:
                refused += 1
            except Exception as error:
                other.append(f"{type(error).__name__}: {error}")
    report.send((granted, refused, other))
    report.close()


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("Nobody lives on after kill -9.")


@dataclass(frozen=True)
class Dying(Noisy):
    """Is killed while it works, or when its value is ready and not yet handed out."""

    late: bool = False

    def __call__(self, data: int, *, rng: Random) -> int:
        return super().__call__(data, rng=rng) if self.late else die()

    @property
    def granularity(self) -> float | None:
        return die() if self.late else None


def run_and_die(url: str, key: str | None, name: str, moment: str, after: int, report: Connection) -> None:
    """Release `after` times, telling each entry at once, and be killed at `moment` of the next run."""
    armed = [False]

    def clock() -> datetime:
        return die() if armed[0] and moment == "inside the transaction" else now()

    with Ledger.open(url, key=key, clock=clock) as ledger:
        if moment in ("before the commit", "between statements"):
            word = "UPDATE" if moment == "between statements" else "commit"
            _die_at(ledger, word, armed)
        account = ledger.account(name)
        report.send("ready")
        for i in range(after + 1):
            armed[0] = i == after
            mechanism = Noisy(Pure(0.001))
            if armed[0] and moment in ("during data", "before return"):
                mechanism = Dying(Pure(0.001), late=moment == "before return")
            data: Any = die if armed[0] and moment == "between charge and data" else 5
            report.send(account.run(mechanism, data).entry)
        while moment == "at random":
            report.send(account.run(Noisy(Pure(0.001)), 5).entry)


def _die_at(ledger: Ledger, word: str, armed: list[bool]) -> None:
    """Kill this process when the database is about to run a statement with this word, or to commit."""
    engine = ledger._journal.store.engine

    class Cursor:
        def __init__(self, cursor: Any) -> None:
            self._cursor = cursor

        def execute(self, text: str, *values: Any) -> Any:
            if armed[0] and word in text:
                die()
            return self._cursor.execute(text, *values)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._cursor, name)

    plain = engine.raw_connection

    def watched() -> Any:
        connection = plain()
        cursor = connection.cursor

        class Watched:
            def cursor(self) -> Cursor:
                return Cursor(cursor())

            def commit(self) -> None:
                if armed[0] and word == "commit":
                    die()
                connection.commit()

            def __getattr__(self, name: str) -> Any:
                return getattr(connection, name)

        return Watched()

    engine.raw_connection = watched  # type: ignore[method-assign]


__all__ = ["Asking", "Dying", "Failing", "Noisy", "Talk", "key", "run_and_die", "spend"]
