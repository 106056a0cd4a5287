"""How much of its thread's CPU time each callback of an event loop uses, measured on the real loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

MOST_SECONDS = 0.005


@dataclass
class LoopTimes:
    """The callbacks of one loop, the longest of them by name. What the collector of garbage takes is left out: it runs in
    whichever thread allocates at that moment, and depends on all that the process holds."""

    longest: dict[str, float] = field(default_factory=dict)
    count: int = 0
    collecting: float = 0.0

    def note(self, name: str, seconds: float) -> None:
        self.count += 1
        self.longest[name] = max(self.longest.get(name, 0.0), seconds)

    @property
    def worst(self) -> tuple[float, str]:
        return max((seconds, name) for name, seconds in self.longest.items())


@contextmanager
def measured(thread: threading.Thread, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopTimes]:
    """Measure the callbacks that run in a thread."""
    times, run = LoopTimes(), asyncio.Handle._run
    begun = [0.0]

    def collect(phase: str, _: dict[str, Any]) -> None:
        if threading.get_ident() != thread.ident:
            return
        if phase == "start":
            begun[0] = time.thread_time()
        else:
            times.collecting += time.thread_time() - begun[0]

    def timed(handle: asyncio.Handle) -> None:
        if threading.get_ident() != thread.ident:
            run(handle)
            return
        name, before, collecting = repr(handle._callback)[:300], time.thread_time(), times.collecting
        run(handle)
        times.note(name, time.thread_time() - before - (times.collecting - collecting))

    gc.callbacks.append(collect)
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", timed)
        yield times
    gc.callbacks.remove(collect)
