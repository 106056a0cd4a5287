"""A floor and steps of response time: how long an engine works may depend on data, and this hides most of it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from deniable.errors import InvalidParameter


def checked(floor: float) -> float:
    if not (0 <= floor < math.inf):
        raise InvalidParameter(f"Expected floor={floor!r} seconds in [0, ∞).")
    return float(floor)


@contextmanager
def paced(floor: float) -> Iterator[None]:
    """Leave the block only after a whole number of `floor` seconds, whether it ends well or not.

    This narrows what a clock tells to the number of steps; it is no proof. 0 turns it off.
    """
    started = time.monotonic()
    try:
        yield
    finally:
        time.sleep(_rest(time.monotonic() - started, floor))


def _rest(passed: float, floor: float) -> float:
    """Seconds to the next whole step.

    >>> _rest(0.25, 1.0), _rest(1.5, 1.0), _rest(0.25, 0)
    (0.75, 0.5, 0.0)
    """
    return max(1, math.ceil(passed / floor)) * floor - passed if floor else 0.0
