"""Several processes of one service, on a ledger in PostgreSQL: each listens at the same doors, and whichever
is free takes the next connection.

The parent opens no data. It starts the processes, starts another where one has died, and ends them all with
itself; a process whose parent has died ends too.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

from deniable.server.run import Doors, Listeners
from deniable.server.service import Service
from deniable.server.settings import Settings

PAUSE = 1.0
"""Seconds before a process that died is started anew: one that cannot start shall not spin."""
PATIENCE = 150.0
SWITCH_SECONDS = 0.0005
"""How long a thread that computes keeps the others waiting: the event loop needs its turn soon."""
COLLECT = (5_000, 10, 10)
"""A look through all objects stops every thread, and one large text makes hundreds of thousands of them. So
there is one look for each half million, instead of several for each text."""
log = logging.getLogger("deniable.server")


class Workers:
    """The processes of a service."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._context = multiprocessing.get_context("spawn")
        self._listeners = Listeners.open(settings)
        self._stopping = threading.Event()
        self._processes: list[BaseProcess] = []

    @property
    def describe_addresses(self) -> str:
        return self._listeners.describe_addresses(self._settings)

    def serve(self, ready: Callable[[Workers], None]) -> None:
        """Until `stop`."""
        try:
            self._processes = [self._start_process() for _ in range(self._settings.workers)]
            ready(self)
            while not self._stopping.is_set():
                wait([process.sentinel for process in self._processes], timeout=0.5)
                self._processes = [self._alive(process) for process in self._processes]
        finally:
            self._end()

    def _start_process(self) -> BaseProcess:
        process = self._context.Process(target=work, args=(self._settings, self._listeners))
        process.start()
        return process

    def _alive(self, process: BaseProcess) -> BaseProcess:
        if process.is_alive() or self._stopping.is_set():
            return process
        log.error("A process of the service ended with the code %s; another is started.", process.exitcode)
        self._stopping.wait(PAUSE)
        if self._stopping.is_set():
            return process
        return self._start_process()

    def _end(self) -> None:
        for process in self._processes:
            process.terminate()  # a wish: what is being asked is finished
        end = time.monotonic() + PATIENCE
        for process in self._processes:
            process.join(max(0.1, end - time.monotonic()))
        self._listeners.close()

    def stop(self) -> None:
        """Stop, from a signal handler too."""
        self._stopping.set()


def work(settings: Settings, listeners: Listeners) -> None:
    """One process of the service."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    service = Service(settings)
    try:
        asyncio.run(until_signal(Doors(service, listeners)))
    finally:
        service.close()


async def until_signal(doors: Doors, ready: Callable[[Doors], None] = lambda _: None) -> None:
    """Serve until Ctrl-C, a signal to end, or the end of the parent process."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # what every process holds is not looked through again with each large text
    gc.set_threshold(*COLLECT)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, doors.stop)
    parent = multiprocessing.parent_process()
    if parent is not None:
        loop.add_reader(parent.sentinel, doors.stop)
    doors.service.pool.warm()
    await doors.serve(ready)
