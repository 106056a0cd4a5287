"""The sum of squares of values between bounds, for variances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from deniable.sql.plan.measures.grid import Bounds, Grid
from deniable.sql.plan.measures.measure import Footprint, Measure, Total
from deniable.sql.plan.measures.sum import summed, unknown, value_grid
from deniable.sql.plan.noise import IntegerSensitivity
from deniable.sql.write.statements import Writer


@final
@dataclass(frozen=True)
class Square(Total):
    """Squares of values counted from the middle of the bounds, cut to the bits of the grid and counted from
    their own middle."""

    valued: ClassVar[bool] = True

    def grid(self, bits: int, found: Bounds | None = None) -> Grid | None:
        return value_grid(self.of, self.bounds, found, bits, centred=True)

    def sensitivity(self, footprint: Footprint, *, single: bool, bits: int) -> IntegerSensitivity:
        grid = self.grid(bits)
        ends = unknown(bits) if grid is None else grid.squares
        return summed(footprint.limit.total, *ends, replace=footprint.replace, single=single)

    def total(self, writer: Writer, grid: Grid | None, weight: str, beside: Sequence[Measure]) -> str:
        assert grid is not None
        return writer.weighted_sum(self, self.square(writer, grid, beside), weight, beside)

    def square(self, writer: Writer, grid: Grid, beside: Sequence[Measure]) -> str:
        unit = writer.unit(self, grid, beside)
        square = f"(({unit}) * ({unit}))"
        cut = square
        if grid.shift:
            cut = writer.quotient(square, 1 << grid.shift)
        return f"{cut} - {grid.square_centre}"

    def typical(self, rows: Fraction, grid: Grid | None) -> int:
        """Of values that are spread evenly: the mean of their squares is a third of the largest."""
        if grid is None:
            return int(rows)
        return round(rows * ((grid.top**2 // 3 >> grid.shift) - grid.square_centre))
