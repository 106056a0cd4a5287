"""One process that runs statements over released tables (`sql/after/closed/child`), seen from the server.

It is started anew with two pipes, a short environment and no other file, so that it has neither the ledger,
nor its key, nor a secret of the operator's. It is never waited for without an end: a watch beside every
statement ends it when its time is over, or when whoever asked has stopped her question.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from deniable.curator.stop import TICK
from deniable.errors import InvalidQuery, LedgerError, Stopped
from deniable.sql.after.closed import messages
from deniable.sql.after.closed.child import MEMORY
from deniable.sql.after.closed.connection import BYTES, SUBJECT, Tables, out_of_memory
from deniable.sql.after.closed.runs import SECONDS, checked

CHILD = "deniable.sql.after.closed.child"
KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""What a Python may need to start at all."""
STARTING = 60.0
"""Seconds until a process has loaded what it needs."""
CLOCK = 30.0
"""Seconds by the clock for one statement: on a busy machine a second of processor time takes longer."""
REPLY = 64 * 1024
"""Bytes of a reply beside its table."""
SAID = 1_000


@dataclass(frozen=True)
class ClosedStatement:
    """A statement over tables, and the seconds that it may use of those that its question `has`. `setup` are
    statements of ours that are run before; `lists` says that its answer may hold lists."""

    tables: Tables
    text: str
    seconds: float = SECONDS
    has: float = SECONDS
    setup: Sequence[str] = ()
    lists: bool = False


def out_of_time(seconds: float) -> str:
    plural = "" if seconds == 1 else "s"
    return f"{SUBJECT} takes longer than {seconds:g} second{plural} of processor time."


class Child:
    """A process that is ready, or will be."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            cwd=os.path.abspath(os.sep),
            close_fds=True,
            start_new_session=True,
        )
        self._ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """At once, whatever it does."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                _close(pipe)
        self._process.wait()

    def run(self, errand: ClosedStatement, is_stopped: Callable[[], bool]) -> tuple[pa.Table, float]:
        """The answer, and the seconds that the process used for it. Where it cannot be had the process is
        ended, but for a refusal in words."""
        if not self._ready:
            self._wait_until_ready(is_stopped)
        with _Watch(self._process, CLOCK, is_stopped) as watch:
            try:
                header, contents = self._exchange(errand)
                seconds, refusal = float(header["seconds"]), header.get("error")
                table = None
                if refusal is None:
                    table = checked(messages.unpacked(contents[0]), lists=errand.lists)
            except (OSError, EOFError, ValueError, LookupError, TypeError, pa.ArrowException):
                self._refuse(errand, watch)
            except InvalidQuery:  # of a table that no process of ours makes
                self.end()
                raise
        if header.get("last"):
            self.end()
        if table is None:
            raise InvalidQuery(str(refusal)[:SAID])
        return table, max(0.0, seconds)

    def _wait_until_ready(self, is_stopped: Callable[[], bool]) -> None:
        with _Watch(self._process, STARTING, is_stopped) as watch:
            try:
                assert self._process.stdout is not None
                messages.read(self._process.stdout, 0, REPLY)
            except (OSError, EOFError, ValueError):
                self.end()
                watch.check_stopped()
                raise LedgerError(
                    "The process that computes over released numbers could not be started. What was charged "
                    "stays charged, and what was released is kept. Tell the operator of this server."
                ) from None
        self._ready = True

    def _exchange(self, errand: ClosedStatement) -> tuple[dict[str, Any], list[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        header = {
            "text": errand.text,
            "names": list(errand.tables),
            "seconds": errand.seconds,
            "setup": list(errand.setup),
            "lists": errand.lists,
        }
        messages.write(
            self._process.stdin, header, [messages.packed(each) for each in errand.tables.values()]
        )
        return messages.read(self._process.stdout, BYTES, REPLY)

    def _refuse(self, errand: ClosedStatement, watch: _Watch) -> NoReturn:
        """It has ended, or said what no such process says: why, as far as can be told."""
        code = self._code()
        self.end()
        watch.check_stopped()
        if watch.is_late:
            raise InvalidQuery(f"{SUBJECT} takes longer than {CLOCK:g} seconds by the clock.") from None
        if code in _OUT_OF_TIME:
            raise InvalidQuery(out_of_time(errand.has)) from None
        raise InvalidQuery(out_of_memory(MEMORY)) from None

    def _code(self) -> int | None:
        """How it ended, where it did so by itself."""
        try:
            return self._process.wait(TICK)
        except subprocess.TimeoutExpired:
            return None


_OUT_OF_TIME = {-int(getattr(signal, "SIGXCPU", 0) or sys.maxsize)}


class _Watch:
    """Ends a process when its time is over, or when it is stopped, so that nobody waits for it in vain."""

    def __init__(
        self, process: subprocess.Popen[bytes], seconds: float, is_stopped: Callable[[], bool]
    ) -> None:
        self._process = process
        self._end = time.monotonic() + seconds
        self._is_stopped = is_stopped
        self._finish = threading.Event()
        self._thread = threading.Thread(target=self._look, name="deniable-watch", daemon=True)
        self.is_late = self.was_stopped = False

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finish.set()

    def _look(self) -> None:
        while not self._finish.wait(TICK):
            self.was_stopped = self._is_stopped()
            self.is_late = time.monotonic() > self._end
            if self.was_stopped or self.is_late:
                self._process.kill()
                return

    def check_stopped(self) -> None:
        if self.was_stopped:
            raise Stopped("The query was stopped, as you asked.") from None


def _environment() -> dict[str, str]:
    """Where modules are found, and one small allocator for all; nothing of the operator's."""
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    places = [os.path.abspath(place) for place in sys.path]
    return environment | {
        "PYTHONPATH": os.pathsep.join(places),
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "1",
        "OMP_NUM_THREADS": "1",
    }


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except OSError:  # what was still to be sent goes nowhere
        return
