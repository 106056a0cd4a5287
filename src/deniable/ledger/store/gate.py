"""Where transactions pass, and a fork waits until none is inside.

SQLite counts the locks of a file once for each process, in memory that a forked child inherits.
A child that opens the file anew while a connection of the parent was open at the fork finds a
lock counted that the system never gave it: its own is then not taken, and the parent, closing,
removes the write-ahead log under the child's hands. So nothing of SQLite may be open at a fork:
the parent closes its idle connections before, and opens others when it needs them. A fork in
the middle of a transaction cannot wait for it; there the child is told to keep off.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

PATIENCE = 10.0
"""Seconds that a fork waits for the transactions of other threads."""


class Forkable(Protocol):
    """A database with a gate."""

    gate: Gate

    def before_fork(self, is_alone: bool) -> bool:
        """Close what a child must not inherit; not `is_alone` if a transaction is inside.
        Returns whether nothing is left open."""

    def after_fork_in_child(self, clean: bool | None) -> None:
        """Begin anew; `clean` is what `before_fork` returned, None if it was never called."""


class Gate:
    """Counts the transactions inside, thread by thread."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Make the gate new; also in a child, where nobody but this thread lives on, and locks stay
        as they were at the fork."""
        self._turn = threading.Condition(threading.Lock())
        self._visitors: dict[int, int] = {}
        self._is_closed = False

    def enter(self) -> None:
        thread = threading.get_ident()
        with self._turn:
            while self._is_closed and thread not in self._visitors:
                self._turn.wait()
            self._visitors[thread] = self._visitors.get(thread, 0) + 1

    def leave(self) -> None:
        thread = threading.get_ident()
        with self._turn:
            left = self._visitors.pop(thread, 1) - 1
            if left > 0:
                self._visitors[thread] = left
            if self._is_closed:
                self._turn.notify_all()

    def close(self) -> bool:
        """Let nobody in any more. Returns whether nobody is inside, after some waiting."""
        with self._turn:
            self._is_closed = True
            if threading.get_ident() in self._visitors:
                return False  # the one who forks: it would wait for itself
            return self._turn.wait_for(lambda: not self._visitors, PATIENCE)

    def open(self) -> None:
        with self._turn:
            self._is_closed = False
            self._turn.notify_all()


_GATED: weakref.WeakSet[Forkable] = weakref.WeakSet()


def register(store: Forkable) -> None:
    """From now on `store` is told of every fork."""
    _GATED.add(store)


class _Fork:
    """One fork under way."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.closed_stores: dict[Forkable, bool] = {}

    def before_fork(self) -> None:
        self.lock.acquire()
        for store in list(_GATED):
            self.closed_stores[store] = False
            self.closed_stores[store] = store.before_fork(store.gate.close())

    def after_in_parent(self) -> None:
        for store in self.closed_stores:
            store.gate.open()
        self.closed_stores = {}
        self.lock.release()

    def after_in_child(self) -> None:
        self.lock = threading.Lock()
        shut, self.closed_stores = self.closed_stores, {}
        for store in list(_GATED):
            store.gate.renew()
            store.after_fork_in_child(shut.get(store))


_fork = _Fork()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_fork.before_fork, after_in_parent=_fork.after_in_parent, after_in_child=_fork.after_in_child
    )
