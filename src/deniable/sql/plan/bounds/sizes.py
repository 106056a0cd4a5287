"""What a grouping set measures, by the number of rows of the units behind it.

What a row counts depends on that number alone, so one statement that groups the rows of each unit once holds
both how many units have how many rows, by which a bound is chosen, and all sums under whichever bound is
chosen then."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deniable.process import Original
from deniable.sql.plan.keys import Group
from deniable.sql.plan.measures.measure import Total
from deniable.sql.plan.measures.totals import LeftOut
from deniable.sql.write import contributions
from deniable.sql.write.contributions import Limit

MOST_GROUPS_BY_SIZE = 100
"""So many public groups are asked for by size: the answer has a row for each group and size, and n rows have
fewer than √(2n) different sizes of units."""


@dataclass(frozen=True, eq=False, repr=False)
class Sizes(Original):
    """Sums over the rows of each group whose unit has n rows: their number, then one for each of `measures`.
    It is private data."""

    WAY_OUT = "Release what it measures."

    measures: Sequence[Total]
    sums: Mapping[Group, Sequence[int]]
    """By the keys of a group and n."""
    few: Mapping[int, int] | None = None
    """How many units have n rows, where rows of units at or below the bound stand together under n = 1. All
    of these count in full, and nothing is left out of them."""

    @classmethod
    def of_parts(cls, measures: Sequence[Total], numbers: Mapping[Group, Sequence[int]]) -> Sizes:
        """Of what `contributions.parted` asks for: rows of units at or below the bound are all rows but those
        of units above it."""
        few: dict[int, int] = {}
        sums: dict[Group, Sequence[int]] = {}
        full: dict[Group, list[int]] = {}
        for (*key, size), values in numbers.items():
            if size < 0:
                few[-size] = values[0]
            elif size == 0:
                full[tuple(key)] = list(values)
            else:
                sums[(*key, size)] = values
        for (*key, _), values in sums.items():
            rest = full.get(tuple(key))
            if rest is not None:  # rows of keys that are on no public list are in no group
                full[tuple(key)] = [a - b for a, b in zip(rest, values, strict=True)]
        return cls(measures, sums | {(*key, 1): rest for key, rest in full.items()}, few)

    def units(self, groups: Iterable[Group], edges: Sequence[int]) -> dict[int, int]:
        """How many units have up to so many rows, as `contributions.classes` counts them.

        All n rows of a unit that count are in these groups, so their number by n is n for each unit."""
        public, rows = frozenset(groups), Counter[int]()
        for (*key, size), (count, *_) in self.sums.items():
            if tuple(key) in public and (self.few is None or size > 1):
                rows[size] += count
        units = Counter({size: count // size for size, count in rows.items()})
        units.update(self.few or {})
        classes = Counter[int]()
        for size, count in units.items():
            classes[min(bisect_left(edges, size), len(edges) - 1)] += count
        return dict(classes)

    def totals(self, measure: Total, limit: Limit) -> dict[Group, int]:
        """The sum of a measure under a bound: of what counts, or of what that leaves out."""
        if isinstance(measure, LeftOut):
            place, weight = self._place(measure.counted), contributions.row_excess
        else:
            place, weight = self._place(measure), contributions.row_weight
        totals: dict[Group, int] = {}
        for (*key, size), numbers in self.sums.items():
            group = tuple(key)
            totals[group] = totals.get(group, 0) + weight(limit, size) * numbers[place]
        return totals

    def _place(self, measure: Total) -> int:
        return 1 + self.measures.index(measure)


def summed(totals: Iterable[Total]) -> list[Total]:
    """The measures whose sums of full rows serve all of these."""
    return list(dict.fromkeys(each.counted if isinstance(each, LeftOut) else each for each in totals))
