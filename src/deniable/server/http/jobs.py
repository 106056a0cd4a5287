"""Queries whose answers are fetched later. A job tells "running" until it ends: no percentage, no rows,
nothing that data could move; and it ends at a step of the floor, as every answer does.

Any process of the service tells of every job. One whose process has died is told as lost: its answer, if it
was paid and kept, is given to whoever asks the same again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from deniable.curator import Answer
from deniable.errors import DeniableError, NotFound, TooMany
from deniable.server import facts
from deniable.server.asking import Pending
from deniable.server.http.errors import BUG, describe_error
from deniable.server.http.guard import locate_error
from deniable.server.people import store
from deniable.server.people.rights import Caller
from deniable.server.stops import GONE, digest
from deniable.server.traffic import steps

if TYPE_CHECKING:
    from deniable.server.http.door import Door

DAY = 86_400.0
MOST_RUNNING = 20
UNKNOWN = (
    "There is no such job of yours: it never was, or it is older than a day. Pending the same again gives a "
    "kept answer."
)
LOST = {
    "error": "Lost",
    "message": "The job ended with the process that ran it. What was charged stays charged; "
    "asking the same again gives a kept answer, or says which entry was paid.",
}
log = logging.getLogger("deniable.server")


class Jobs:
    """The jobs of a service, each for its own person alone."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._state = door.service.state
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, caller: Caller, asking: Pending, *, arrow: bool) -> str:
        number = secrets.token_urlsafe(16)
        await self._door.run(self._insert_job, number, caller.name)
        self._door.stops.watch(number, asking.cancel)
        await steps.on_loop(lambda: self._launch(number, asking, arrow))
        return number

    async def _launch(self, number: str, asking: Pending, arrow: bool) -> None:
        task = asyncio.ensure_future(self._follow(number, self._begin(asking, arrow)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def look(self, caller: Caller, number: str) -> dict[str, Any]:
        return await self._door.run(self._read, caller.name, number)

    async def stop(self, caller: Caller, number: str) -> None:
        if (await self.look(caller, number))["state"] == "running":
            await self._door.stops.wish(number)

    async def close(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, asking: Pending, arrow: bool) -> asyncio.Task[dict[str, Any]]:
        def to_outcome(answer: Answer) -> dict[str, Any]:
            return {"answer": answer.to_dict(arrow=arrow)}

        return self._door.askings.start(lambda: asking, to_outcome)

    async def _follow(self, number: str, task: asyncio.Task[dict[str, Any]]) -> None:
        outcome: dict[str, Any]
        try:
            state, outcome = "done", await task
        except DeniableError as error:
            status, body = describe_error(error)
            state, outcome = "failed", {"status": status, **body}
        except Exception as error:  # a bug: where it is goes to the log, and nothing of it to the job
            log.error("%s", locate_error(error))
            state, outcome = "failed", {"status": 500, **BUG}
        finally:
            self._door.stops.forget(number)
        await self._door.run(self._end_job, number, state, outcome)

    # ---------------------------------------------------------------------------------------- what is written

    def _insert_job(self, number: str, person: str) -> None:
        now, table = time.time(), store.jobs
        running = (table.c.person == person) & (table.c.state == "running") & (table.c.beat > now - GONE)
        with self._state.writing() as connection:
            connection.execute(table.delete().where(table.c.created < now - DAY))
            count = connection.execute(sa.select(sa.func.count()).select_from(table).where(running)).scalar()
            if count is not None and count >= MOST_RUNNING:
                raise TooMany(
                    f"You have {MOST_RUNNING} jobs running. Nothing was charged. Wait for one of them."
                )
            row = {"id": number, "person": person, "stop": digest(number), "state": "running"}
            connection.execute(table.insert().values(**row, created=now, beat=now))

    def _end_job(self, number: str, state: str, outcome: dict[str, Any]) -> None:
        text = json.dumps(facts.to_json_value(outcome))
        with self._state.writing() as connection:
            here = store.jobs.c.id == number
            connection.execute(store.jobs.update().where(here).values(state=state, outcome=text))

    def _read(self, person: str, number: str) -> dict[str, Any]:
        with self._state.reading() as connection:
            here = (store.jobs.c.id == number) & (store.jobs.c.person == person)
            row = connection.execute(sa.select(store.jobs).where(here)).mappings().first()
        if row is None or row["created"] < time.time() - DAY:
            raise NotFound(UNKNOWN)
        if row["state"] != "running":
            return {"job": number, "state": row["state"], **json.loads(row["outcome"])}
        if row["beat"] < time.time() - GONE:
            return {"job": number, "state": "failed", "status": 503, **LOST}
        return {"job": number, "state": "running"}
