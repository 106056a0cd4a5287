"""Which released cells a number computed afterwards stands on: that says with which probability its interval
fails.

Every released cell has an interval that fails with probability β by itself. A number computed from m cells
has the interval that interval arithmetic gives it from theirs; if each of the m fails with probability β/m,
that of the number fails with at most β (the union bound). So cells carry intervals at several levels m
(`LEVELS`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Base = tuple[int, str, int]
"""A column of numbers of a released table: the table's index and the column's name. Then 0, or which sum over
its cells: such sums have intervals of their own, no more of them than the table has rows."""

FEW = (1, 2, 4)
MANY_ROWS = 2_000
"""Of larger tables only `FEW` levels are kept: no interval follows for what is computed from all of their
rows."""


@dataclass(frozen=True)
class Reach:
    """The cells that a number stands on: single ones, by their columns, and all cells of some columns.
    `direct`: it is one cell itself, unchanged. `instead` are columns whose cells stand, in other rows of a
    union, for those in `points`."""

    points: tuple[Base, ...] = ()
    columns: frozenset[Base] = frozenset()
    direct: bool = False
    instead: frozenset[Base] = frozenset()

    def __add__(self, other: Reach) -> Reach:
        return Reach(
            self.points + other.points, self.columns | other.columns, False, self.instead | other.instead
        )

    @property
    def computed(self) -> Reach:
        return Reach(self.points, self.columns, False, self.instead)

    @property
    def spread(self) -> Reach:
        """Of what is summed, averaged or compared over many rows."""
        return Reach((), self.bases)

    @property
    def bases(self) -> frozenset[Base]:
        return self.columns | frozenset(self.points) | self.instead

    def alike(self, other: Reach) -> Reach:
        """Of a row that comes from one of two sides."""
        if self.columns or other.columns or len(self.points) != len(other.points):
            return self + other
        return Reach(self.points, frozenset(), self.direct and other.direct, other.bases | self.instead)

    def cells(self, rows: Mapping[int, int]) -> int:
        """How many cells that is, where released tables have so many rows."""
        return sum(base not in self.columns for base in self.points) + sum(
            rows[table] for table, _, _ in self.columns
        )


EXACT = Reach()


def levels(rows: int, columns: int) -> tuple[int, ...]:
    """The levels kept with a table: 1, 2, 4, and on by factors of four until there is one for all of its
    cells twice over."""
    many = list(FEW)
    if rows <= MANY_ROWS:
        while many[-1] < 2 * rows * columns:
            many.append(4 * many[-1])
    return tuple(many)


def level(cells: int, kept: tuple[int, ...]) -> int | None:
    """The first of the levels `kept` that serves so many cells."""
    return next((each for each in sorted(kept) if each >= cells), None)
