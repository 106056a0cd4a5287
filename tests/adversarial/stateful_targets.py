"""Targets with state of their own, in a module that another process can begin anew.
Noise is of ε = 1, on whole numbers."""

from __future__ import annotations

import math
import time

import numpy as np

SEEDED = np.random.default_rng(42)
OWN = np.random.default_rng()
MEMORY: dict[object, int] = {}
CALLS = [0]
P = 1 - math.exp(-1)
WIDE = 1 - math.exp(-1 / 1000)
"""For noise of which no two draws are alike: ε = 1 for data that differ by 1,000."""


def noise(rng: np.random.Generator, p: float = WIDE) -> int:
    return int(rng.geometric(p) - rng.geometric(p))


def exactly_one(data: int) -> int:
    """ε = 1 and not less, from a generator that every import begins again."""
    return data + noise(SEEDED, P)


def slow(data: int) -> int:
    time.sleep(3e-4)
    return exactly_one(data)


def remembered(data: int) -> int:
    """One answer for each data set, kept for ever: ε = 1 for whoever asks."""
    if data not in MEMORY:
        MEMORY[data] = data + noise(OWN)
    return MEMORY[data]


def remembered_noise(data: int) -> int:
    return data + MEMORY.setdefault("noise", noise(OWN))


def beside(data: int) -> tuple[int, int]:
    """A fresh answer beside one that is remembered."""
    return data + noise(OWN), remembered(data)


def renewed(data: int) -> int:
    """New noise every 500 calls."""
    if CALLS[0] % 500 == 0:
        MEMORY["renewed"] = noise(OWN)
    CALLS[0] += 1
    return data + MEMORY["renewed"]


def in_turn(data: int) -> int:
    """Noise from a table of 100, one after the other."""
    CALLS[0] += 1
    return data + TABLE[CALLS[0] % len(TABLE)]


def picked(data: int) -> int:
    """Noise from a table of 20, by chance: no order shows it."""
    return data + int(OWN.choice(TABLE[:20]))


TABLE = [noise(OWN) for _ in range(100)]


def by_the_second(data: int) -> int:
    return data + noise(np.random.default_rng(int(time.time())))


def drifting(data: int) -> int:
    """Noise that moves slowly and never comes back to a value."""
    MEMORY["drift"] = int(0.99 * MEMORY.get("drift", 0)) + noise(OWN)
    return data + 1000 * MEMORY["drift"] + int(OWN.integers(1000))


def without_noise(data: int) -> int:
    return data


def fixed_seed(data: int) -> int:
    return data + noise(np.random.default_rng(7))


def remembered_from_a_fixed_seed(data: int) -> int:
    """What every start draws alike protects nobody."""
    return data + MEMORY.setdefault("fixed", noise(np.random.default_rng(7)))


def forget() -> None:
    MEMORY.clear()
    CALLS[0] = 0
