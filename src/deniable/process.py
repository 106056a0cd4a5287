"""What belongs to one process, and of which there is only one.

A forked child inherits every object of its parent, and with it the right to do everything
once more. What holds a connection, a conversation with data or the state of noise remembers
where it was made (`Home`) and refuses to work elsewhere; what may not be doubled
(`Original`) refuses to be copied and pickled. And a process knows whether it was the person
at the keyboard who stopped what it does (`listening`), or something that data may steer.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, Self, SupportsIndex

from deniable.errors import DeniableError, LedgerError, Uncopyable


class _Birth:
    """One life of a process; the object is another after every fork that Python knows of."""

    def __init__(self) -> None:
        self.pid = os.getpid()


_birth = _Birth()


def _born() -> None:
    global _birth
    _birth = _Birth()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_born)


def strayed() -> bool:
    """Whether this process was forked behind Python's back, by C code that told nobody."""
    return os.getpid() != _birth.pid


class Home:
    """The process in which a thing was made.

    >>> Home().here()
    True

    Both the number of the process and its birth are compared: numbers are used again,
    and C code forks unseen.
    """

    __slots__ = ("_birth", "_pid")

    def __init__(self) -> None:
        self._birth, self._pid = _birth, os.getpid()

    def here(self) -> bool:
        return self._birth is _birth and os.getpid() == self._pid

    def check(self, what: str, way_out: str, error: type[DeniableError] = LedgerError) -> None:
        """Raise in any other process. `what` begins the sentence: "This session";
        `way_out` is one of its own."""
        if not self.here():
            raise error(
                f"{what} belongs to the process that opened it (number {self._pid}); this is process "
                f"{os.getpid()}. Nothing was run and nothing was charged. {way_out}"
            )


class Original:
    """Something of which there is only one: copying and pickling are refused. `WAY_OUT`
    says what to do instead."""

    WAY_OUT = "Open another."

    def __copy__(self) -> Any:
        raise _doubled(self)

    def __deepcopy__(self, memo: Any) -> Any:
        raise _doubled(self)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise _doubled(self)

    def __reduce__(self) -> NoReturn:
        raise _doubled(self)


def _doubled(thing: Original) -> Uncopyable:
    name = type(thing).__name__
    return Uncopyable(
        f"A {name} cannot be copied or pickled: what it may do, it may do once. {thing.WAY_OUT}"
    )


class Conversing(Original):
    """A conversation with data, open in one process: `ask` begins with `stay`, so that neither a copy nor a
    forked child gives a second answer to what was paid for once."""

    WAY_OUT = "Open another session, which is charged for itself."

    def __new__(cls, *_: Any, **__: Any) -> Self:
        conversation = super().__new__(cls)
        conversation._home = Home()
        return conversation

    _home: Home

    def stay(self) -> None:
        self._home.check("This conversation", self.WAY_OUT)


_ABANDONED: list[object] = []


def abandon(thing: object) -> None:
    """Never free `thing`, not even when this process ends: a connection that a child
    inherited must not be closed by it."""
    _ABANDONED.append(thing)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


class Interrupt:
    """Whether the person at the keyboard asked to stop, as our own handler of SIGINT saw it. While it is
    `held`, nobody hears her: what has to be done at once is not interrupted."""

    asked = False
    held = False


@contextmanager
def listening() -> Iterator[Interrupt]:
    """Inside, Ctrl-C is noted before anything is raised. The type of an exception tells
    nothing: any code can raise it.

    Blocks may be nested, and each notes it. Only the main thread hears signals;
    elsewhere nothing is ever noted.
    """
    interrupt, before = Interrupt(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield interrupt
        return

    def noted(number: int, frame: FrameType | None) -> None:
        if not interrupt.held:
            interrupt.asked = True
            before(number, frame)

    signal.signal(signal.SIGINT, noted)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
