"""One question on its way: charged and run in a thread, waited for outside of it, kept before it is given.

The floor of response times is slept through by nobody: a thread is used while there is work, and the event
loop waits between the two halves. A client that has gone meanwhile changes nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from deniable.curator import Answer, Curator
from deniable.curator.inquiry import Reply
from deniable.curator.question import Question
from deniable.curator.stop import TICK
from deniable.errors import AlreadyPaid, BudgetExceeded, DeniableError
from deniable.ledger.requests import lost_answer, paid_once
from deniable.server.purse import CHARGED, Hold, Purse, Purses


class Turns:
    """One at a time for one question of one account: who comes second gets the answer that the first has paid
    for."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._keys: set[str] = set()

    def take(self, key: str, *, wait: bool) -> bool:
        with self._lock:
            while key in self._keys:
                if not wait:
                    return False
                self._lock.wait()
            self._keys.add(key)
            return True

    def give(self, key: str) -> None:
        with self._lock:
            self._keys.discard(key)
            self._lock.notify_all()


class Pending:
    """A question, who pays for it, and the key that it is paid once by. `begin` and `finish` run in
    threads."""

    def __init__(
        self,
        curator: Curator,
        question: Question,
        *,
        question_id: str,
        body: str,
        make_key: Callable[[], str],
        note_lost: Callable[[], None],
        purses: Purses,
        purse: Purse | None,
        turns: Turns,
    ) -> None:
        self._inquiry = curator.inquire(question)
        self._account = curator.account.name
        self._ledger = curator.ledger
        self._key = ""
        self._question_id, self._body = question_id, body
        self._make_key, self._note_lost = make_key, note_lost
        self._purses, self._purse = purses, purse
        self._turns = turns
        self._hold: Hold | None = None
        self._reply: Reply | None = None

    def enter(self, *, wait: bool = False) -> bool:
        """Take the turn of this question; False where somebody has it, and one should try again."""
        return self._turns.take(self._question_id, wait=wait)

    def begin(self) -> Answer | None:
        """Charge and run. The answer, where nothing is to be waited for."""
        try:
            if self._purses.has_caps:
                self._hold = self._purses.take(self._inquiry.preview(), self._account, self._purse)
            self._key = self._make_key()
            with paid_once(self._key, self._body):
                self._reply = self._inquiry.reply()
        except BaseException:  # it goes on as it is; the turn is given back whoever or whatever ended it
            self._turns.give(self._question_id)
            raise
        if self.rest <= 0:
            return self.finish()
        return None

    @property
    def rest(self) -> float:
        """Seconds until the answer may be given, as things stand."""
        if self._reply is None:
            return 0.0
        return self._reply.pace.rest

    def finish(self) -> Answer:
        """Keep the answer, and give it."""
        assert self._reply is not None
        try:
            return self._give(self._reply)
        except DeniableError as error:
            if self._hold is not None and not isinstance(error, CHARGED):
                self._hold.undo()
            if isinstance(error, AlreadyPaid):
                self._note_lost()
            raise
        finally:
            self._turns.give(self._question_id)

    def _give(self, reply: Reply) -> Answer:
        """A request that was paid, by whatever is now the last of the budget, is told as paid, and not as
        refused."""
        try:
            return reply.give()
        except BudgetExceeded:
            entry = self._ledger.paid(self._key)
            if entry is None:
                raise
        raise lost_answer(entry)

    def cancel(self) -> None:
        """Stop it, from any thread. What was charged stays charged."""
        self._inquiry.cancel()

    def answer(self) -> Answer:
        """All of it in this thread."""
        self.enter(wait=True)
        answer = self.begin()
        if answer is None:
            assert self._reply is not None
            self._reply.pace.wait()
            answer = self.finish()
        return answer


Run = Callable[..., Awaitable[Any]]
"""Runs a call in a thread."""
T = TypeVar("T")


class Pendings:
    """Questions on their way in this event loop. Each is brought to its end, whoever waits for it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, make: Callable[[], Pending], finish: Callable[[Answer], T]) -> asyncio.Task[T]:
        """What `finish` makes of the answer to the question that `make` makes. Both are called in threads,
        beside the work itself: each change of threads costs as much as a look into the ledger."""
        task = asyncio.ensure_future(self._answer(make, finish))
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return task

    async def answer(self, make: Callable[[], Pending], finish: Callable[[Answer], T]) -> T:
        return await asyncio.shield(self.start(make, finish))

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # looked at: nothing is logged of it

    async def _answer(self, make: Callable[[], Pending], finish: Callable[[Answer], T]) -> T:
        pendings: list[Pending] = []

        def begin() -> tuple[bool, list[T]]:
            """Whether it was its turn, and the outcome, where nothing is to be waited for."""
            pendings[:] = pendings or [make()]
            if not pendings[0].enter():
                return False, []
            answer = pendings[0].begin()
            return True, [] if answer is None else [finish(answer)]

        while not (turn := await self._run(begin))[0]:
            await asyncio.sleep(TICK)
        if turn[1]:
            outcome: T = turn[1][0]
            return outcome
        while (rest := pendings[0].rest) > 0:
            await asyncio.sleep(min(rest, TICK))
        outcome = await self._run(lambda: finish(pendings[0].finish()))
        return outcome

    async def close(self) -> None:
        """Until each has ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
