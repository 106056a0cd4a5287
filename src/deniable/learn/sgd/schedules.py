"""Learning rates as functions of the step (0, 1, 2, …). All of them are public."""

from __future__ import annotations

import math
from collections.abc import Callable

from deniable import checks

Schedule = Callable[[int], float]


def linear(start: float, end: float, over: int) -> Schedule:
    """A rate from `start` to `end` in equal parts over so many steps, then `end` (Abadi et al.
    2016: 0.1 to 0.052 over 10 epochs).

    >>> rate = linear(0.1, 0.05, over=10)
    >>> [round(rate(step), 3) for step in (0, 5, 10, 100)]
    [0.1, 0.075, 0.05, 0.05]
    """
    first, last = float(checks.number("start", start, above=0)), float(checks.number("end", end, at_least=0))
    length = checks.whole("over", over, at_least=1)
    return lambda step: first + (last - first) * min(1.0, step / length)


def cosine(start: float, over: int, end: float = 0.0) -> Schedule:
    """A rate from `start` to `end` along half a cosine over so many steps, then `end`."""
    first, last = float(checks.number("start", start, above=0)), float(checks.number("end", end, at_least=0))
    length = checks.whole("over", over, at_least=1)
    return lambda step: last + (first - last) * (1 + math.cos(math.pi * min(1.0, step / length))) / 2


def constant(value: float) -> Schedule:
    """The same at every step."""
    rate = float(checks.number("learning_rate", value, above=0))
    return lambda step: rate
