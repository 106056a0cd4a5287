"""Daily step counts of made-up walkers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deniable.datasets.sizes import at_least


def steps(walkers: int = 2000, days: int = 28, *, seed: int = 0) -> NDArray[np.int64]:
    """Steps of each walker on each day: a personal level, quieter week-ends, and a day's own weather.

    >>> steps(3, 7).shape
    (3, 7)
    """
    at_least(1, walkers=walkers, days=days)
    rng = np.random.default_rng(seed)
    level = rng.lognormal(np.log(7000), 0.45, (walkers, 1))
    week = np.where(np.arange(days) % 7 >= 5, 0.8, 1.05)
    weather = rng.lognormal(0, 0.1, days)
    daily = level * week * weather * rng.lognormal(0, 0.3, (walkers, days))
    return np.asarray(np.rint(daily), np.int64)
