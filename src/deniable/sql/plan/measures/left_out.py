"""What the bound on a unit's rows leaves out of a count or a sum, up to a second, larger bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

from deniable.sql.plan.measures.grid import Bounds, Grid
from deniable.sql.plan.measures.measure import Footprint, Measure, Total
from deniable.sql.plan.noise import IntegerSensitivity
from deniable.sql.write.contributions import TOTAL
from deniable.sql.write.statements import Writer


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
