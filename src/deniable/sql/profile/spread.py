"""How large the values of a column are, by powers of two; and where a sum of them is clamped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.engines import Statement
from deniable.sql.plan.bounds.values import EXPONENTS, ValueBounds
from deniable.sql.plan.measures.grid import scale_of
from deniable.sql.plan.measures.totals import Sum, counted
from deniable.sql.plan.noise import IntegerSensitivity
from deniable.sql.profile.histogram import NoisyCells
from deniable.sql.profile.mechanism import ProfileMechanism
from deniable.sql.tree import Column
from deniable.sql.types import INTEGER

Bounds = tuple[Fraction, Fraction]


@final
@dataclass(frozen=True)
class ValueSpread(ProfileMechanism):
    """Values of a column by signed powers of two. A row weighs 1/n of its person, so a person counts as one.

    Guarantee: `epsilon`-DP for `unit`: the weights of a unit are not negative and sum to at most TOTAL over
               all cells, whatever its rows are (1 where the unit is a row).
    Assumes:   the engine computes the statement exactly.
    Error:     each cell by itself is off by the noise; an empty value is in no cell.
    """

    column: Column = Column("", INTEGER)

    @property
    def sensitivity(self) -> IntegerSensitivity:
        return counted(self.limit.total, replace=self.unit.replace, single=False)

    @property
    def cells(self) -> Sequence[int]:
        return range(-len(EXPONENTS), len(EXPONENTS) + 1)

    def statement(self, dialect: Dialect) -> Statement:
        return ValueBounds(Sum(self.column), self.noise).statement(self.writer(dialect))

    def read(self, cells: NoisyCells) -> ValueSizes:
        return ValueSizes(cells, self.limit.total, scale_of(self.column))


@dataclass(frozen=True)
class ValueSizes:
    """Noisy weights of the values of a column by their size: in the middle 0, above it [2^e, 2^(e + 1)),
    below it the same of negative values. A person weighs `one`; a value of 1 means `scale`."""

    cells: NoisyCells
    one: int
    scale: Fraction

    @property
    def people(self) -> tuple[float, ...]:
        """Of each cell, about: a person whose values are in two cells is in both by their shares."""
        return tuple(size / self.one for size in self.cells.sizes)

    def largest(self) -> Fraction | None:
        """One power of two above the cell of the largest values, of either sign, that stands out of the
        noise: what a sum is clamped to. None where no cell stands out."""
        middle = len(self.cells.sizes) // 2
        sides = self.cells.sizes[middle:], self.cells.sizes[middle::-1]
        ends = [replace(self.cells, sizes=side).last_seen() for side in sides]
        last = max((cell for cell in ends if cell is not None), default=None)
        if last is None:
            return None
        return Fraction(2) ** (EXPONENTS[max(last, 1) - 1] + 2) * self.scale

    def clamp(self, bounds: Bounds | None) -> Bounds | None:
        """Where a sum is clamped: at the largest values that the spread shows, inside declared bounds. None
        where neither says it."""
        most = self.largest()
        if most is None:
            return bounds
        low, high = bounds or (-most, most)
        return min(max(low, -most), most), max(min(high, most), -most)

    def to_dict(self) -> dict[str, Any]:
        return {"one": self.one, "unit": str(self.scale), **self.cells.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ValueSizes:
        return cls(NoisyCells.from_dict(content), int(content["one"]), Fraction(content["unit"]))
