"""Many releases at once of the integers behind an answer, on two tables that an audit generated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.mechanism import Random
from deniable.sql.plan.exact import Exact, Integers
from deniable.sql.plan.keys import Group, combinations
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.quantiles import Rank

if TYPE_CHECKING:
    from deniable.sql.plan.plan import Plan

Column = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Draws:
    """Fresh noise on what two tables measure, for each of many runs.

    One column for each group says whether its key was released; one for each part holds the noisy integer,
    less that of the first table and in units of its noise (a map that is the same for both tables, applied to
    the integer that is released), or the cell that was chosen."""

    plan: Plan
    first: Exact
    second: Exact

    def columns(self, table: int, n: int, rng: Random) -> list[Column]:
        """Of `n` runs on the first table (0) or the second (1)."""
        sets = (self.first, self.second)[table].integers()
        return [column for i, integers in enumerate(sets) for column in self._of_set(i, integers, n, rng)]

    def keys(self, index: int) -> list[Group]:
        """All public keys of a grouping set, or every key that either table could release."""
        supports = self.first.integers()[index].supports, self.second.integers()[index].supports
        if supports[0] is None or supports[1] is None:
            query = self.plan.query
            return combinations([query.keys[i] for i in query.sets[index]])
        return sorted({**supports[0], **supports[1]}, key=repr)

    def _of_set(self, index: int, integers: Integers, n: int, rng: Random) -> Iterator[Column]:
        group, origin = self.plan.sets[index], self.first.integers()[index]
        for key in self.keys(index):
            presence = np.ones(n, np.bool_)
            if group.selection is not None:
                chance = group.selection.probability((integers.supports or {}).get(key, 0))
                presence = rng.bernoulli(chance, n) if chance else np.zeros(n, np.bool_)
                yield presence.astype(np.float64)
            for noisy, part, start in zip(group.measures, integers.parts, origin.parts, strict=True):
                yield np.where(presence, _numbers(noisy.noise, part, start, key, n, rng), np.nan)


def _numbers(
    noise: Noise | Rank,
    part: Mapping[Group, Any],
    start: Mapping[Group, Any],
    key: Group,
    n: int,
    rng: Random,
) -> Column:
    if isinstance(noise, Rank):
        cells = part.get(key, {})
        return np.array([noise(cells, rng=rng) for _ in range(n)], np.float64)
    # Whole numbers are added before anything is rounded: what follows sees only the integer that is released.
    noisy = np.array(noise.draw(n, rng), object) + (part.get(key, 0) - start.get(key, 0))
    return np.asarray(noisy.astype(np.float64) / float(Fraction(noise.scale)))
