"""A survey with one sensitive yes/no column, and a label that a model is to predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.datasets.sizes import at_least

SIZES = (6, 8, 5, 7, 2)
COLUMNS = ("age band", "region", "job", "hobby", "smokes")
SMOKES = 4
AGE_BANDS = ("under 20", "20–34", "35–49", "50–64", "65–79", "80 and over")
"""What the values of the first column stand for."""


@dataclass(frozen=True)
class Survey:
    """`rows[:, c]` is a value below `SIZES[c]`; the last column is the sensitive one.
    `labels` is 0 or 1: ill."""

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]


def survey(size: int = 2000, *, seed: int = 0) -> Survey:
    """30 % smoke, whatever else they are; smokers fall ill with 60 %, others with 30 %.

    That smoking harms is a fact about the world: an attack may learn it from anybody's data.

    >>> survey(10).rows.shape
    (10, 5)
    """
    at_least(1, size=size)
    rng = np.random.default_rng(seed)
    traits = [rng.integers(0, values, size) for values in SIZES[:SMOKES]]
    smokes = (rng.random(size) < 0.3).astype(np.int64)
    ill = rng.random(size) < np.where(smokes == 1, 0.6, 0.3)
    return Survey(np.column_stack([*traits, smokes]), ill.astype(np.int64))
