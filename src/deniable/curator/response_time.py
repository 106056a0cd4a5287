"""A floor and steps of response time: how long an engine works may depend on data, and this hides most of
it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
    """The time of one response."""

    def __init__(self, floor: float, stop: Stop) -> None:
        self._floor = floor
        self._stop = stop
        self._started = time.monotonic()

    @property
    def _passed(self) -> float:
        return time.monotonic() - self._started

    @property
    def seconds(self) -> float:
        """What the response takes if it ends now: all that whoever waits for it learns of its time."""
        return _step(self._passed, self._floor)

    def linger(self, seconds: float) -> None:
        """Go on until the response takes `seconds`, as another one took, or until the wish to stop comes."""
        end = (
            seconds - self._floor / 2
        )  # within the last of these steps: the rest of it is waited for in any case
        while self._stop.requested is None and (rest := end - self._passed) > 0:
            time.sleep(min(rest, TICK))

    def wait(self) -> None:
        """Sleep to the end of the step. A wish to stop that comes in the sleep counts from when it came."""
        end = self._sleep(max(self._passed, self._asked()))
        if (asked := self._asked()) > end:
            self._sleep(asked)

    def _asked(self) -> float:
        if self._stop.requested is None or not self._floor:
            return 0.0
        return self._stop.requested - self._started + SETTLING

    def _sleep(self, least: float) -> float:
        end = _step(least, self._floor)
        rest = end - self._passed
        if rest > 0 and self._floor:
            time.sleep(rest)
        return end


@contextmanager
def paced(floor: float, stop: Stop) -> Iterator[Pace]:
    """Leave the block only after a whole number of `floor` seconds, whether it ends well or not.

    This narrows what a clock tells to the number of steps; it is no proof. 0 turns it off.
    """
    pace = Pace(floor, stop)
    try:
        yield pace
    finally:
        pace.wait()


def _step(passed: float, floor: float) -> float:
    """The end of the step that has begun.

    >>> _step(0.25, 1.0), _step(1.5, 1.0), _step(0.25, 0)
    (1.0, 2.0, 0.25)
    """
    return max(1, math.ceil(passed / floor)) * floor if floor else passed
