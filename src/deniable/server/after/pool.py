"""The processes of a server that run statements over released tables: a few, kept warm, each for one question
at a time.

Whoever pays has one of them at a time, so that nobody's statements keep others waiting; who asks for more
waits behind herself, and a few of her questions at most. All statements of one question share its seconds.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from deniable.curator.stop import TICK
from deniable.errors import InvalidQuery, Stopped, TooMany
from deniable.server.after.process import Child, ClosedStatement, out_of_time
from deniable.sql.after.closed.connection import Tables
from deniable.sql.after.closed.runs import EMPTY_SECONDS, SECONDS, named, with_distinct_names

FEWEST, MOST = 4, 16
"""Processes of a pool: as many as there are processors, between these."""
WAITING = 8
"""Questions of one payer that wait for a process, at most: each holds a thread of the server."""
PATIENCE = 60.0
"""Seconds that a question waits for a process."""


@dataclass(eq=False)
class _Ticket:
    payer: str


class Pool:
    """Lends processes to questions. None is started before the first question, or `warm`."""

    def __init__(self, size: int | None = None) -> None:
        self.size = size or max(FEWEST, min(MOST, os.cpu_count() or 1))
        self._condition = threading.Condition()
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._payers: set[str] = set()
        self._queue: list[_Ticket] = []
        self._is_closed = False

    def __call__(self, payer: str, is_stopped: Callable[[], bool]) -> QuestionRun:
        """Runs the statements of one question."""
        return QuestionRun(self, payer, is_stopped)

    def warm(self) -> None:
        """Have a process ready before it is asked for."""
        with self._condition:
            if not self._is_closed and not self._idle and len(self._busy) < self.size:
                self._idle.append(Child())

    def close(self) -> None:
        """End all of them, whatever they do."""
        with self._condition:
            self._is_closed = True
            children = [*self._idle, *self._busy]
            self._idle.clear()
            self._condition.notify_all()
        for child in children:
            child.end()

    @contextmanager
    def lend(self, payer: str, is_stopped: Callable[[], bool]) -> Iterator[Child]:
        child = self._take(payer, is_stopped)
        try:
            yield child
        finally:
            with self._condition:
                self._busy.discard(child)
                self._payers.discard(payer)
                if child.alive and not self._is_closed:
                    self._idle.append(child)
                self._condition.notify_all()
            self.warm()

    def _take(self, payer: str, is_stopped: Callable[[], bool]) -> Child:
        ticket = _Ticket(payer)
        end = time.monotonic() + PATIENCE
        with self._condition:
            if sum(each.payer == payer for each in self._queue) >= WAITING:
                raise TooMany(
                    f"{WAITING} questions of yours wait to compute over released numbers. Ask again when "
                    "they are answered."
                )
            self._queue.append(ticket)
            try:
                while not self._is_next(ticket):
                    self._check(is_stopped, end)
                    self._condition.wait(TICK)
                self._check(is_stopped, end)
            finally:
                self._queue.remove(ticket)
            child = self._ready_child()
            self._busy.add(child)
            self._payers.add(payer)
        self.warm()  # for the next question, while this one runs
        return child

    def _is_next(self, ticket: _Ticket) -> bool:
        """Whether it is the first of those who have no process yet, and one is free."""
        if len(self._busy) >= self.size:
            return False
        return next((each for each in self._queue if each.payer not in self._payers), None) is ticket

    def _check(self, is_stopped: Callable[[], bool], end: float) -> None:
        if is_stopped():
            raise Stopped("The query was stopped, as you asked.")
        if self._is_closed or time.monotonic() > end:
            raise TooMany("This server has too much to compute over released numbers. Ask again later.")

    def _ready_child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            child.end()
        return Child()


class QuestionRun:
    """Runs the statements of one question (a `RunClosed`): together they have `SECONDS` of processor time."""

    def __init__(self, pool: Pool, payer: str, is_stopped: Callable[[], bool]) -> None:
        self._pool = pool
        self._payer = payer
        self._is_stopped = is_stopped
        self._left = SECONDS

    def __call__(self, tables: Tables, text: str, *, empty: bool = False) -> pa.Table:
        return with_distinct_names(self._run(named(tables), text, empty=empty))

    def look_up(self, tables: Tables, text: str, setup: Sequence[str]) -> pa.Table:
        """What a catalog says: tables that are named as they are, after statements of ours."""
        return self._run(tables, text, setup=setup, lists=True)

    def _run(
        self,
        tables: Tables,
        text: str,
        *,
        empty: bool = False,
        setup: Sequence[str] = (),
        lists: bool = False,
    ) -> pa.Table:
        has = EMPTY_SECONDS if empty else SECONDS
        seconds = min(self._left, has)
        if seconds <= 0:
            raise InvalidQuery(out_of_time(SECONDS))
        errand = ClosedStatement(tables, text, seconds, has, setup, lists)
        with self._pool.lend(self._payer, self._is_stopped) as child:
            table, cost = child.run(errand, self._is_stopped)
        self._left -= cost
        return table
