"""Sums over weighted rows: how many count, the sum of values between bounds and of their squares (for
variances), and what the bound on a unit's rows leaves out of a count or a sum, up to a second, larger
bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, final

from deniable.errors import InvalidQuery
from deniable.sql.engines import Summary
from deniable.sql.plan.measures.grid import Bounds, Grid
from deniable.sql.plan.measures.grid import grid as finest
from deniable.sql.plan.measures.measure import Footprint, Measure, StoredTerms, Total
from deniable.sql.plan.noise import IntegerSensitivity
from deniable.sql.tree import Expr
from deniable.sql.write.contributions import TOTAL, WEIGHT
from deniable.sql.write.statements import Writer


@final
@dataclass(frozen=True)
class Count(Total):
    """Rows, each by its weight; of a value, those where it is not NULL."""

    def sensitivity(self, footprint: Footprint, *, single: bool, bits: int) -> IntegerSensitivity:
        return counted(footprint.limit.total, replace=footprint.replace, single=single)

    def total(self, writer: Writer, grid: Grid | None, weight: str, beside: Sequence[Measure]) -> str:
        """A row of weight 1 is counted, which is faster than summed."""
        condition = " AND ".join(writer.met(self, beside))
        if weight != "1":
            if condition:
                weight = f"CASE WHEN {condition} THEN {weight} END"
            return writer.sum(weight)
        if self.where is not None:
            return f"COUNT(CASE WHEN {condition} THEN 1 END)"
        if self.of is None:
            return "COUNT(*)"
        return f"COUNT({writer.value(self, beside)})"

    def stored(self, column: str | None, grid: Grid | None, summary: Summary) -> StoredTerms | None:
        if self.of is None:
            return ((WEIGHT, 1),)
        if column is None or column not in summary.bounds:
            return None
        return ((summary.count(column), 1),)

    def untouched(self, grid: Grid | None, bounds: tuple[int, int]) -> bool:
        """A value is not clamped to be counted."""
        return True


def counted(total: int, *, replace: bool, single: bool) -> IntegerSensitivity:
    """Non-negative weights that sum to at most `total` for one unit, over all groups.

    Coming or going moves the vector by at most `total` in L1 and L2. Replaced, a − b with a, b ≥ 0: 2·total
    in L1, √2·total in L2; in a single group |a − b| ≤ total."""
    many = 2 if replace and not single else 1
    return IntegerSensitivity(total * many, total * total * many)


@final
@dataclass(frozen=True)
class Sum(Total):
    """Values on their grid, each times its row's weight. `centred` sums count from the middle of the bounds,
    which halves their sensitivity where a count is released beside them."""

    valued: ClassVar[bool] = True

    centred: bool = False

    def grid(self, bits: int, found: Bounds | None = None) -> Grid | None:
        return value_grid(self.of, self.bounds, found, bits, centred=self.centred)

    def sensitivity(self, footprint: Footprint, *, single: bool, bits: int) -> IntegerSensitivity:
        grid = self.grid(bits)
        ends = unknown(bits) if grid is None else (grid.low, grid.high)
        return summed(footprint.limit.total, *ends, replace=footprint.replace, single=single)

    def total(self, writer: Writer, grid: Grid | None, weight: str, beside: Sequence[Measure]) -> str:
        """NULL values make NULL products, which sums leave out."""
        assert grid is not None
        return writer.weighted_sum(self, writer.unit(self, grid, beside), weight, beside)

    def stored(self, column: str | None, grid: Grid | None, summary: Summary) -> StoredTerms | None:
        """Stored sums count from the lower bound l, these from the centre c: Σ w·(v − c) = Σ w·(v − l) + (l −
        c)·Σ w."""
        if column is None or column not in summary.bounds or grid is None:
            return None
        if not grid.clamps_to(summary.bounds[column]):
            return None
        below = summary.bounds[column][0] - int(grid.centre)
        return ((summary.sum(column), 1), (summary.count(column), below))

    def typical(self, rows: Fraction, grid: Grid | None) -> int:
        """Of rows whose mean lies midway between the centre and a bound."""
        if grid is None:
            return int(rows)
        return round(rows * Fraction(3 * grid.low + grid.high, 4))


def value_grid(
    of: Expr | None, bounds: Bounds | None, found: Bounds | None, bits: int, *, centred: bool
) -> Grid | None:
    """Of declared bounds as fine as the values; of `found` ones as fine as the noise was sized for, whole
    numbers too."""
    if of is None:
        raise InvalidQuery("A sum needs a value to sum.")
    if bounds is not None:
        return finest(of, bounds, centred, bits)
    if found is None:
        return None
    return finest(of, found, centred, bits, filled=True)


def unknown(bits: int) -> tuple[int, int]:
    """The integers that a grid of `bits` may hold, where bounds are found later."""
    return -(1 << (bits - 1)), 1 << (bits - 1)


def summed(total: int, low: int, high: int, *, replace: bool, single: bool) -> IntegerSensitivity:
    """Weights that sum to at most `total`, times integers in [low, high]."""
    top = max(abs(low), abs(high), 1)
    if not replace:
        return IntegerSensitivity(total * top, (total * top) ** 2)
    span = max(high, 0) - min(low, 0) or 1
    if single:
        return IntegerSensitivity(total * span, (total * span) ** 2)
    # Of one sign, old and new rows lie in one orthant: ‖a − b‖² ≤ ‖a‖² + ‖b‖². Else they may point apart, and
    # the norms add.
    one_sign = low >= 0 or high <= 0
    return IntegerSensitivity(2 * total * top, (2 if one_sign else 4) * (total * top) ** 2)


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


@final
@dataclass(frozen=True)
class LeftOut(Total):
    """The same count or sum as `measure`, of other weights: for a unit with n rows of which m count each row
    weighs (min(n, M) − m)⁺/n, in units of (M − m)/TOTAL rows.

    All rows of a unit then weigh at most TOTAL whatever m and M are, so that noise and loss are known before
    these are chosen. Of measure and what it leaves out together, a unit counts for up to M rows."""

    measure: Total | None = None

    @classmethod
    def of_measure(cls, measure: Total) -> LeftOut:
        return cls(measure.of, measure.where, measure.bounds, measure)

    @property
    def counted(self) -> Total:
        assert self.measure is not None
        return self.measure

    def grid(self, bits: int, found: Bounds | None = None) -> Grid | None:
        return self.counted.grid(bits, found)

    def sensitivity(self, footprint: Footprint, *, single: bool, bits: int) -> IntegerSensitivity | None:
        limit = replace(footprint.limit, rows=1, one=TOTAL)
        return self.counted.sensitivity(replace(footprint, limit=limit), single=single, bits=bits)

    def total(self, writer: Writer, grid: Grid | None, weight: str, beside: Sequence[Measure]) -> str:
        """Nothing is asked where nothing is left out."""
        return self.counted.total(writer, grid, writer.excess, beside) if writer.limit.tells else "0"

    def worth(self, footprint: Footprint) -> Fraction:
        limit = footprint.limit
        return Fraction(limit.most - limit.rows, TOTAL) if limit.tells else Fraction(0)

    def typical(self, rows: Fraction, grid: Grid | None) -> int:
        return 0
