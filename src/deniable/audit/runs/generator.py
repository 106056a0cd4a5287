"""The generator that a target's argument `rng` gets: numpy's methods, and those of our own mechanisms."""

from __future__ import annotations

import numpy as np

from deniable.randomness import SeededRandom


# `geometric` and `shuffle` are numpy's.
class AnyRandom(np.random.Generator, SeededRandom):  # type: ignore[misc]
    """A numpy `Generator` which is a `SeededRandom` too, so that either kind of code can use it.

    >>> rng = AnyRandom(7)
    >>> isinstance(rng, np.random.Generator), 0 <= rng.random() < 1, type(rng.discrete_laplace(3))
    (True, True, <class 'int'>)
    """

    def __init__(self, seed: int) -> None:
        np.random.Generator.__init__(self, np.random.PCG64(seed))
        SeededRandom.__init__(self, seed)
