"""Sparse ratings with dates: many items, few rated by any one user, a long tail of rare ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.datasets.sizes import at_least


@dataclass(frozen=True)
class Ratings:
    """`stars[u, i]` is 1 to 5, or 0 where user u did not rate item i; `days[u, i]` is
    the day, 0 where there is none."""

    stars: NDArray[np.int8]
    days: NDArray[np.int16]

    @property
    def users(self) -> int:
        return len(self.stars)

    @property
    def support(self) -> NDArray[np.int64]:
        """How many users rated each item."""
        return np.asarray(np.count_nonzero(self.stars, axis=0), np.int64)


def ratings(
    users: int = 1000, items: int = 800, *, per_user: int = 30, days: int = 2000, seed: int = 0
) -> Ratings:
    """About `per_user` ratings per user; item i is taken with weight 1/(i + 10), a long tail.

    >>> ratings(10, 50).stars.shape
    (10, 50)
    """
    at_least(1, users=users, items=items, per_user=per_user, days=days)
    rng = np.random.default_rng(seed)
    weights = 1 / (np.arange(items) + 10.0)
    odds = np.minimum(per_user * weights / weights.sum(), 0.95)
    mask = rng.random((users, items)) < odds
    stars = np.where(mask, rng.choice(np.arange(1, 6), (users, items), p=(0.05, 0.1, 0.25, 0.35, 0.25)), 0)
    when = np.where(mask, rng.integers(1, days + 1, (users, items)), 0)
    return Ratings(stars.astype(np.int8), when.astype(np.int16))
