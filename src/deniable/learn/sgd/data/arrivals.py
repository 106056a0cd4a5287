"""Rows that come with the step they arrive at, for runs in the order of arrival."""

from __future__ import annotations

from typing import Any

import numpy as np

from deniable.errors import DataError
from deniable.learn.sgd.data import rows as containers
from deniable.learn.sgd.data.rows import InnerRows, Positions
from deniable.mechanism import Random


class Arrivals:
    """Data whose rows arrive at steps: a container of rows, and for each the step of an epoch (0, 1, …) at
    which it takes part, in the same order.

    When a row arrives is its own affair: it must not depend on other rows (a day counts, a place in a table
    does not: a row more would move all that follow). A row whose step is no step of an epoch is left out.
    """

    def __init__(self, data: Any, steps: Any) -> None:
        if isinstance(steps, str | bytes) or not hasattr(steps, "__len__"):
            raise DataError(
                "Expected the steps of rows as a list, an array or a column. Nothing was charged."
            )
        self.data = data
        self.steps = np.array([_step(value) for value in containers.to_list(steps)], dtype=np.int64)


class ArrivingRows(InnerRows):
    """Rows of a container with the step of each."""

    def __init__(self, arrivals: Arrivals, example: Any = None) -> None:
        super().__init__(arrivals.data, example, len(arrivals.steps), "step")
        self._steps = arrivals.steps

    def __len__(self) -> int:
        return len(self._inner)

    def places(self, length: int, rng: Random) -> Positions:
        return self._steps


def _step(value: Any) -> int:
    """−1 for what is no step. Never raises."""
    try:
        number = int(value)
        return number if number == value and 0 <= number < 1 << 62 else -1
    except Exception:  # a row holds this value: whatever it does, it must not be told
        return -1
