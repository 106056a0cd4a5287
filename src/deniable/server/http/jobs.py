"""Queries whose answers are fetched later. A job tells "running" until it ends: no percentage, no rows,
nothing that data could move.

Jobs live in the process that began them; answers are kept by the ledger, so whoever lost a job asks the same
again, for free.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deniable.curator import Answer, Curator
from deniable.errors import DeniableError, NotFound, TooMany
from deniable.server import facts
from deniable.server.http.bodies import QueryBody
from deniable.server.http.errors import told
from deniable.server.people.rights import Caller

if TYPE_CHECKING:
    from deniable.server.http.door import Door

MOST = 1000
MOST_RUNNING = 20
UNKNOWN = "There is no such job of yours: it never was, or it ended with the process. Asking the same again gives a kept answer."


@dataclass
class Job:
    """A query on its way."""

    person: str
    curator: Curator
    task: asyncio.Task[Answer]
    arrow: bool


class Jobs:
    """The jobs of this process, each for its own person alone."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._known: OrderedDict[str, Job] = OrderedDict()

    def start(self, caller: Caller, curator: Curator, name: str, body: QueryBody, key: str | None) -> str:
        running = [job for job in self._known.values() if job.person == caller.name and not job.task.done()]
        if len(running) >= MOST_RUNNING:
            raise TooMany(f"You have {MOST_RUNNING} jobs running. Nothing was charged. Wait for one of them.")
        self._door.service.throttle.hit("requests", caller.name)
        answer = self._door.service.answer
        task = asyncio.ensure_future(self._door.run(answer, caller, curator, name, body.question, key=key))
        task.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # looked at: nothing is logged of it
        number = secrets.token_urlsafe(16)
        self._known[number] = Job(caller.name, curator, task, body.form == "arrow")
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return number

    def look(self, caller: Caller, number: str) -> tuple[int, dict[str, Any]]:
        job = self._find(caller, number)
        if not job.task.done():
            return 200, {"job": number, "state": "running"}
        error = job.task.exception()
        if error is None:
            return 200, {
                "job": number,
                "state": "done",
                "answer": facts.answer(job.task.result(), arrow=job.arrow),
            }
        if not isinstance(error, DeniableError):
            raise error
        return 200, {"job": number, "state": "failed", "status": told(error)[0], **told(error)[1]}

    def stop(self, caller: Caller, number: str) -> None:
        self._find(caller, number).curator.cancel()

    def _find(self, caller: Caller, number: str) -> Job:
        job = self._known.get(number)
        if job is None or job.person != caller.name:
            raise NotFound(UNKNOWN)
        return job
