"""An answer at a fixed time: work is done beside, and left at the appointed moment, ready or not.

How long a device trains depends on its rows, and with it when it answers, or whether it answers before the
server stops waiting. So the moment of an answer is fixed when the question comes (docs/theory/federated.md,
F10).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

Result = TypeVar("Result")
Work = Callable[[threading.Event], Result]
"""Is handed an event that is set when nobody waits for it any more, and then ends soon."""


class Clock(Protocol):
    """What a device waits by."""

    def read_time(self) -> float:
        """Seconds from some beginning."""

    def wait(self, until: float, ready: threading.Event) -> None:
        """Return at the moment `until`, whether or not the work was `ready` before."""


class WallClock:
    """The machine's own clock. It does not look whether the work is ready."""

    def read_time(self) -> float:
        return time.monotonic()

    def wait(self, until: float, ready: threading.Event) -> None:
        while (left := until - time.monotonic()) > 0:
            time.sleep(left)


class Untimed:
    """For devices that are simulated in one process, where nobody looks at the time: it waits for the work,
    however long that takes. A real device that waited like this would tell by its time what it holds."""

    def read_time(self) -> float:
        return 0.0

    def wait(self, until: float, ready: threading.Event) -> None:
        ready.wait()


class Workbench(Generic[Result]):
    """Does one piece of work at a time in a thread of its own.

    Work that does not end when it is told to is left alone, and until it ends nothing else is begun: so one
    row that makes a model run for ever costs its client's updates, and nobody sees it in the time of an
    answer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._thread: threading.Thread | None = None

    def result_at(self, moment: float, work: Work[Result]) -> Result | None:
        """What the work made by `moment`, and that is when this returns; None if it was not ready, or
        failed."""
        stop, ready = threading.Event(), threading.Event()
        results: list[Result] = []

        def do() -> None:
            try:
                results.append(work(stop))
            except Exception:  # steered by the device's rows: it must not show
                pass
            finally:
                ready.set()

        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=do, name="deniable-training", daemon=True)
            self._thread.start()
        self._clock.wait(moment, ready)
        stop.set()
        return results[0] if results else None
