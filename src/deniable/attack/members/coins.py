"""Who is a member of which model, and how training is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from deniable.attack.members.evidence import Booleans
from deniable.errors import InvalidParameter

Watch: TypeAlias = Callable[[Iterable[int], str], Iterable[int]]
"""Passes steps on, and may show how far they are."""


def iterate_silently(steps: Iterable[int], _: str) -> Iterable[int]:
    return steps


def coins(models: int, rows: int, seed: int) -> Booleans:
    """Who is a member of which model: each row of each by a fair coin of its own.

    Were every row in exactly half of all models (as in Carlini et al. 2022), the shadows' members would tell
    the target's."""
    if models < 2:
        raise InvalidParameter(f"Expected models={models} to be at least 2.")
    return np.asarray(np.random.default_rng(seed).random((models, rows)) < 0.5)
