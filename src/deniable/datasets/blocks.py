"""Census blocks of a handful of people each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from deniable.datasets.sizes import at_least

SEXES = ("F", "M")
GROUPS = ("A", "B", "C")
OLDEST = 89


def blocks(count: int = 20, *, seed: int = 0) -> Any:
    """`count` blocks of 5 to 12 people, as an Arrow table: block, age (0 to 89), sex, group.

    >>> blocks(2).column_names
    ['block', 'age', 'sex', 'group']
    """
    at_least(1, count=count)
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 13, count)
    size = int(sizes.sum())
    return pa.table(
        {
            "block": np.repeat(np.arange(count), sizes),
            "age": rng.integers(0, OLDEST + 1, size),
            "sex": rng.choice(np.array(SEXES), size).tolist(),
            "group": rng.choice(np.array(GROUPS), size, p=(0.6, 0.25, 0.15)).tolist(),
        }
    )
