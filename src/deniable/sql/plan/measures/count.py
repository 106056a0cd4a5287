"""How many rows count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from deniable.sql.engines import Summary
from deniable.sql.plan.measures.grid import Grid
from deniable.sql.plan.measures.measure import Footprint, Measure, StoredTerms, Total
from deniable.sql.plan.noise import IntegerSensitivity
from deniable.sql.write.contributions import WEIGHT
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
