"""Wishes to stop a query, which may come to another process than the one that runs it.

A process hears of the wishes for its own queries by looking into the common database twice a second, while it
has any; one that it hears itself counts at once. The same look says that its jobs are still alive.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection

import sqlalchemy as sa

from deniable.server.asking import Run
from deniable.server.people import store
from deniable.server.people.store import State

SECONDS = 0.5
GONE = 30.0
"""Seconds after which a job that nobody speaks for has ended with its process."""


class Stops:
    """What runs in this process and can be stopped, by a key that only its client knows."""

    def __init__(self, state: State, run: Run) -> None:
        self._state = state
        self._run = run
        self._acts: dict[str, Callable[[], None]] = {}

    def watch(self, key: str, act: Callable[[], None]) -> None:
        self._acts[digest(key)] = act

    def forget(self, key: str) -> None:
        self._acts.pop(digest(key), None)

    def watches(self, key: str) -> bool:
        """Whether it runs in this process."""
        return digest(key) in self._acts

    async def wish(self, key: str) -> None:
        """Stop what has this key, wherever it runs."""
        name = digest(key)
        if name in self._acts:
            self._acts[name]()
        else:
            await self._run(self._write, name)

    async def serve(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(SECONDS)
            if self._acts:
                for name in await self._run(self._look, tuple(self._acts)):
                    if name in self._acts:
                        self._acts[name]()

    def _write(self, name: str) -> None:
        now = time.time()
        with self._state.writing() as connection:
            connection.execute(store.stops.delete().where(store.stops.c.time < now - GONE))
            if connection.execute(sa.select(store.stops).where(store.stops.c.key == name)).first() is None:
                connection.execute(store.stops.insert().values(key=name, time=now))

    def _look(self, names: Collection[str]) -> list[str]:
        with self._state.reading() as connection:
            mine = sa.select(store.stops.c.key).where(store.stops.c.key.in_(names))
            wishes = [str(row[0]) for row in connection.execute(mine)]
            jobs = sa.select(store.jobs.c.id).where(
                store.jobs.c.stop.in_(names), store.jobs.c.beat < time.time() - GONE / 3
            )
            alive = [str(row[0]) for row in connection.execute(jobs)]
        if wishes or alive:
            with self._state.writing() as connection:
                connection.execute(store.stops.delete().where(store.stops.c.key.in_(wishes)))
                here = store.jobs.c.id.in_(alive)
                connection.execute(store.jobs.update().where(here).values(beat=time.time()))
        return wishes


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
