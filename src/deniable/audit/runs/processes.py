"""Other processes that run a target: several at once for its runs, or a few to see what
it says when it is started anew."""

from __future__ import annotations

import pickle
import queue
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from deniable.audit.runs import worker
from deniable.audit.runs.worker import Form, receive, send

PROGRAM = Path(worker.__file__).read_text(encoding="utf-8") + "\nserve()\n"
Outputs = tuple[list[Any], list[Any]]


class Failed(Exception):
    """A run in another process failed, or the process did."""


class Worker:
    """One other process that holds a target."""

    def __init__(self, form: Form) -> None:
        # An argument list of our own interpreter and our own text: nothing of it comes from outside.
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._form = form
        self._is_started = False

    def ask(self, task: Sequence[Any]) -> Outputs:
        """What the target puts out in one task (the arguments of `worker.perform` behind the function)."""
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        try:
            if not self._is_started:
                send(into, (sys.path, self._form))
                self._is_started = True
            send(into, task)
            kind, value = receive(out)
        except (OSError, EOFError) as error:
            raise Failed(f"The process of the target ended: {error}") from None
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise Failed(f"The data cannot be sent to another process: {error}") from None
        if kind == "error":
            raise Failed(str(value))
        outputs: Outputs = value
        return outputs

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Pool:
    """Several workers of one target. Tasks are done in any order and given back in theirs."""

    def __init__(self, form: Form, size: int) -> None:
        self._threads = ThreadPoolExecutor(size)
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._workers = [Worker(form) for _ in range(size)]
        for process in self._workers:
            self._free.put(process)

    def map(self, tasks: Sequence[Sequence[Any]]) -> Iterator[Outputs | None]:
        """The outputs of each task; None for one that failed there, to be done here."""
        return self._threads.map(self._run_task, tasks)

    def _run_task(self, task: Sequence[Any]) -> Outputs | None:
        free = self._free.get()
        try:
            return free.ask(task)
        except Failed:
            return None
        finally:
            self._free.put(free)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        for process in self._workers:
            process.close()
