"""A floor and steps of response time: how long an engine works may depend on data, and this hides most of
it."""

from __future__ import annotations

import math
import time

from deniable.curator.stop import TICK, Stop
from deniable.errors import InvalidParameter

SETTLING = 0.25
"""Seconds that an engine is given to stop. A stopped query ends at the first whole step after them, so that
whether the engine had finished does not show."""


def checked(floor: float) -> float:
    if not (0 <= floor < math.inf):
        raise InvalidParameter(f"Expected floor={floor!r} seconds in [0, ∞).")
    return float(floor)


class Pace:
    """The time of one response: a whole number of `floor` seconds, whether it ends well or not; 0 turns that
    off. This narrows what a clock tells to the number of steps, and is no proof.

    It is given at `end`, for which a thread waits by `wait`, and an event loop by looking at `rest`.
    """

    def __init__(self, floor: float, stop: Stop) -> None:
        self._floor = floor
        self._stop = stop
        self._started = time.monotonic()
        self._least = 0.0
        self._worked: float | None = None

    @property
    def _passed(self) -> float:
        return time.monotonic() - self._started

    @property
    def seconds(self) -> float:
        """What the response takes if its work ends now: all that whoever waits for it learns of its time."""
        return _step(max(self._passed, self._least), self._floor)

    def linger(self, seconds: float) -> None:
        """The response shall take `seconds`, as another one took, unless the wish to stop comes."""
        # Within the last of these steps: the rest of it is waited for in any case.
        self._least = seconds - self._floor / 2

    def worked(self) -> None:
        """The work has ended; from now on there is only waiting."""
        self._worked = self._passed

    @property
    def end(self) -> float:
        """When the response is given, as things stand. A wish to stop that comes while one waits counts from
        when it came."""
        work_time = self._passed if self._worked is None else self._worked
        if self._stop.requested is None:
            return _step(max(work_time, self._least), self._floor)
        stop_time = 0.0
        if self._floor:
            stop_time = self._stop.requested - self._started + SETTLING
        return _step(max(work_time, stop_time), self._floor)

    @property
    def rest(self) -> float:
        """Seconds that are still to be waited for; look again after `TICK`, should the wish to stop come."""
        return self.end - self._passed

    def wait(self) -> None:
        """Sleep to the end."""
        self.worked()
        before: float | None = None
        while (end := self.end) != before:
            before = end
            while (rest := end - self._passed) > 0:
                lingering = self._least > 0 and self._stop.requested is None
                time.sleep(min(rest, TICK) if lingering else rest)
                if not lingering or self._stop.requested is not None:
                    break


def _step(passed: float, floor: float) -> float:
    """The end of the step that has begun.

    >>> _step(0.25, 1.0), _step(1.5, 1.0), _step(0.25, 0)
    (1.0, 2.0, 0.25)
    """
    if floor:
        return max(1, math.ceil(passed / floor)) * floor
    return passed
