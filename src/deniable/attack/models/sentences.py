"""Lines of text to hide a secret in: plays, or sentences made up from a few words."""

from __future__ import annotations

import numpy as np

from deniable.datasets.real import load
from deniable.errors import InvalidParameter

WHO = (
    "the nurse",
    "a doctor",
    "my neighbour",
    "the baker",
    "our teacher",
    "a child",
    "the captain",
    "an old man",
)
DOES = ("sees", "asks", "helps", "forgets", "follows", "paints", "hears", "visits")
WHAT = (
    "a red door",
    "the river",
    "two horses",
    "the long road",
    "a broken clock",
    "the market",
    "her brother",
    "a letter",
)
WHEN = (
    "in spring",
    "at noon",
    "every day",
    "before dawn",
    "once a week",
    "after school",
    "on sunday",
    "at last",
)


def lines(name: str, count: int, *, seed: int = 0) -> list[str]:
    """`count` lines that are not empty.

    >>> len(lines("made-up", 300))
    300
    """
    if count < 100:
        raise InvalidParameter(f"Expected lines={count} to be at least 100.")
    if name == "made-up":
        picks = np.random.default_rng(seed).integers(0, 8, (count, 4))
        return [f"{WHO[a]} {DOES[b]} {WHAT[c]} {WHEN[d]}" for a, b, c, d in picks.tolist()]
    if name != "tiny-shakespeare":
        raise InvalidParameter(f"Expected data={name!r} to be made-up or tiny-shakespeare.")
    texts = [line for line in load("tiny-shakespeare").splitlines() if line.strip()]
    if count > len(texts):
        raise InvalidParameter(f"Expected lines={count} of at most {len(texts):,}, all that there are.")
    return texts[:count]
