"""Ranks of values: the weights in the cells of a grid, of which a quantile is chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

import pyarrow as pa

from deniable.errors import InvalidQuery
from deniable.sql.engines import Statement
from deniable.sql.plan.keys import Group
from deniable.sql.plan.measures.grid import Bounds, Grid
from deniable.sql.plan.measures.grid import grid as finest
from deniable.sql.plan.measures.measure import Footprint, Measure, read_histograms
from deniable.sql.plan.noise import Family, Noise
from deniable.sql.plan.quantiles import CELL_BITS, CELLS, Rank
from deniable.sql.tree import Call, Expr, Type
from deniable.sql.write.statements import Writer

TIME_BITS = 27
"""Of days each is a cell: years 1 to 9999 have 2^21.8. Of seconds a cell is 2^13 of them, two hours.
The choice pays for cells with a logarithm only, and draws from runs of empty ones at once. Nobody says
beforehand where times lie, and 4,096 cells would be of three years each."""


def _counts_time(of: Expr) -> bool:
    """Whether a value is how many days or seconds lie between a date and another."""
    return isinstance(of, Call) and of.op == "date_diff"


@final
@dataclass(frozen=True)
class Ranks(Measure):
    """The weights of rows in the cells between the bounds, at most 2^12, of dates 2^22; `level` is 0 for the
    least value, 1 for the largest."""

    valued: ClassVar[bool] = True

    level: Fraction | None = None

    def grid(self, bits: int, found: Bounds | None = None) -> Grid | None:
        """Cells count from the lower bound; how fine they are does not depend on noise."""
        if self.of is None:
            raise InvalidQuery("A sum needs a value to sum.")
        bounds = self.bounds or found
        if bounds is None:
            return None
        return finest(self.of, bounds, None, TIME_BITS if _counts_time(self.of) else CELL_BITS)

    def sensitivity(self, footprint: Footprint, *, single: bool, bits: int) -> None:
        """A choice has its own. What cannot be ranked is refused here."""
        self.grid(bits, (Fraction(0), Fraction(1)))

    def noise(
        self, amount: Fraction, family: Family, footprint: Footprint, *, single: bool, bits: int
    ) -> Noise | Rank:
        grid = self.grid(bits)
        cells = CELLS
        if grid is not None:
            cells = grid.high + 1
        # A choice of range ε is ε²/8-zCDP (Cesar, Rogers 2021); the root is rounded down.
        root = Fraction(math.isqrt(math.floor(8 * amount * 10**24)), 10**12)
        epsilon = amount if family is Family.LAPLACE else root
        return Rank(self.level or Fraction(0), epsilon, footprint.limit.total, cells, footprint.replace)

    def statement(self, writer: Writer, group: Sequence[int], grid: Grid | None, salt: str) -> Statement:
        assert grid is not None
        source, weight = writer.weighted(group, [self])
        return writer.histogram(group, writer.unit(self, grid, [self]), self, source, weight)

    def read(self, table: pa.Table, types: Sequence[Type], footprint: Footprint) -> Mapping[Group, Any]:
        return read_histograms(table, types)
