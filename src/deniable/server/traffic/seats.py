"""Shares: how many threads one person or one address has at a time, and how many requests under way.

The threads of a process are shared by everybody. A person has a few of them at a time; her other work waits
for those, in the order in which it came, and not in the way of others. Who is not known yet shares the seats
of her address.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from deniable.errors import TooMany

SHARE = 8
"""One person has at most one in so many of the threads."""
MOST_AT_ONCE = 64
"""Requests of one person or address that are under way at a time."""
seat_owner: ContextVar[str] = ContextVar("seat_owner", default="")
"""Whose request runs. Nobody's work is the service's own, and never waits."""


@contextmanager
def working_for(owner: str) -> Iterator[None]:
    """What runs inside has the owner's seats."""
    token = seat_owner.set(owner)
    try:
        yield
    finally:
        seat_owner.reset(token)


@dataclass
class SeatRow:
    """The seats of one owner: those that are taken, and who waits for one."""

    count: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class Seats:
    """Threads by owner. Used in one event loop."""

    def __init__(self, threads: int) -> None:
        self.share = max(threads // SHARE, 1)
        self._rows: dict[str, SeatRow] = {}
        self._requests: dict[str, int] = {}

    @contextmanager
    def request(self, owner: str) -> Iterator[None]:
        """One request is under way. More than `MOST_AT_ONCE` of one owner are refused before they begin."""
        count = self._requests.get(owner, 0)
        if count >= MOST_AT_ONCE:
            raise TooMany(
                f"You have {MOST_AT_ONCE} requests under way. This one was not begun, and nothing was "
                "charged. Wait for the others, and ask again."
            )
        self._requests[owner] = count + 1
        try:
            with working_for(owner):
                yield
        finally:
            self._requests[owner] -= 1
            if not self._requests[owner]:
                del self._requests[owner]

    async def take(self, owner: str) -> None:
        """Take a seat of the owner's, when one is free. What has begun is never refused here."""
        row = self._rows.setdefault(owner, SeatRow())
        if row.count < self.share:
            row.count += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        row.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give(owner)  # the seat had come already
            raise

    def give(self, owner: str) -> None:
        """Give a seat back: whoever has waited longest has it now."""
        row = self._rows[owner]
        while row.waiting:
            turn = row.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        row.count -= 1
        if not row.count:
            del self._rows[owner]
