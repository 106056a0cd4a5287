"""The sum of values between bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from deniable.errors import InvalidQuery
from deniable.sql.engines import Summary
from deniable.sql.plan.measures.grid import Bounds, Grid
from deniable.sql.plan.measures.grid import grid as finest
from deniable.sql.plan.measures.measure import Footprint, Measure, StoredTerms, Total
from deniable.sql.plan.noise import IntegerSensitivity
from deniable.sql.tree import Expr
from deniable.sql.write.statements import Writer


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
