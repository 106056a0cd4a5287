"""A request runs in threads, and waits in the event loop.

A coroutine is advanced in a thread from one wait to the next: between two waits it may parse, draw, encode
and read files for as long as it takes. Only what it waits for is awaited by the event loop, and no thread is
held meanwhile. So the loop's own thread reads bytes, sends bytes and waits, and nothing that somebody sends
can keep it busy for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Run = Callable[..., Awaitable[Any]]
"""Runs a call in a thread."""


def in_loop() -> bool:
    """Whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class LoopWait(Generic[T]):
    """What a coroutine in a thread waits for. It is made and awaited in the event loop."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self.make = make

    def __await__(self) -> Generator[LoopWait[T], T, T]:
        outcome: T = yield self
        return outcome


async def on_loop(make: Callable[[], Awaitable[T]]) -> T:
    """Await in the event loop what `make` makes, from there or from a thread."""
    if in_loop():
        return await make()
    outcome: T = await LoopWait(make)
    return outcome


async def drive(run: Run, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, each of its steps in a thread."""
    step: Callable[[], Any] = partial(coroutine.send, None)
    try:
        while True:
            at_end, value = await run(_advance, step)
            if at_end:
                outcome: T = value
                return outcome
            try:
                step = partial(coroutine.send, await value.make())
            except Exception as error:  # it is the coroutine's to handle, whatever it is
                step = partial(coroutine.throw, error)
    finally:
        with suppress(ValueError):  # a thread is still in its last step, and ends it
            coroutine.close()


def _advance(step: Callable[[], Any]) -> tuple[bool, Any]:
    """Whether the coroutine has ended, and its value or what it waits for."""
    try:
        wait = step()
    except StopIteration as end:
        return True, end.value
    if not isinstance(wait, LoopWait):
        raise RuntimeError("A step that runs in a thread waits for the event loop by `on_loop` alone.")
    return False, wait
