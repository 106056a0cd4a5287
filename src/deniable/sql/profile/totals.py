"""How large people's totals of a column are, by powers of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from deniable.errors import InvalidQuery
from deniable.sql.dialects.dialect import Dialect, whole
from deniable.sql.engines import Statement
from deniable.sql.plan.measures.grid import Grid
from deniable.sql.plan.measures.totals import Sum
from deniable.sql.plan.noise import IntegerSensitivity
from deniable.sql.profile.histogram import NoisyCells
from deniable.sql.profile.mechanism import ProfileMechanism, one_cell
from deniable.sql.tree import Column
from deniable.sql.types import INTEGER
from deniable.sql.write.contributions import VALUE_BITS

POWERS = 62
"""Totals are told apart up to 2^61 grid units; a value is at most 2^30 of them."""


@final
@dataclass(frozen=True)
class PeopleByTotals(ProfileMechanism):
    """People by powers of two of their total Σ|x| of a column, clamped to `bounds` row by row. A person is in
    one cell.

    Guarantee: `epsilon`-DP for `unit`, a person: one unit moves one cell by one, or two if it is replaced.
    Assumes:   the engine computes the statement exactly: totals are sums of integers, the same in any order.
    Error:     each cell by itself is off by the noise; people without a value are in no cell.
    """

    column: Column = Column("", INTEGER)
    bounds: tuple[Fraction, Fraction] = (Fraction(-1), Fraction(1))

    def __post_init__(self) -> None:
        if not self.limit.by_unit:
            raise InvalidQuery(
                "Where each row is a unit, people's totals are their values: the spread has them. Nothing "
                "was run and nothing was charged."
            )

    @property
    def sensitivity(self) -> IntegerSensitivity:
        return one_cell(self.unit)

    @property
    def cells(self) -> Sequence[int]:
        return range(POWERS + 1)

    @property
    def grid(self) -> Grid:
        grid = Sum(self.column, None, self.bounds).grid(VALUE_BITS)
        assert grid is not None
        return grid

    def statement(self, dialect: Dialect) -> Statement:
        """Cell 0 has totals of 0, cell i those above 2^(i − 2) up to 2^(i − 1), the last one all above."""
        writer, measure = self.writer(dialect), Sum(self.column, None, self.bounds)
        q, total, cell = writer.quoted, writer.quoted("_t"), writer.quoted("_cell")
        value = f"ABS({writer.unit(measure, self.grid, [measure])})"
        rows = (
            f"({writer.rows([measure])}) AS {q('_rows')} WHERE {' AND '.join(writer.met(measure, [measure]))}"
        )
        people = f"SELECT {writer.sum(value)} AS {total} FROM {rows} GROUP BY {q('_unit')}"
        steps = [f"WHEN {total} <= {whole(edge)} THEN {i}" for i, edge in enumerate(edges())]
        label = f"CASE {' '.join(steps)} ELSE {POWERS} END AS {cell}"
        labels = f"SELECT {label} FROM ({people}) AS {q('_p')}"
        return Statement((), f"SELECT {cell}, COUNT(*) FROM ({labels}) AS {q('_c')} GROUP BY {cell}")

    def read(self, cells: NoisyCells) -> TotalClasses:
        return TotalClasses(cells, self.grid.unit)


def edges() -> tuple[int, ...]:
    """The largest total of each cell but the last."""
    return (0, *(1 << power for power in range(POWERS - 1)))


@dataclass(frozen=True)
class TotalClasses:
    """Noisy numbers of people by their totals, in steps of `unit`."""

    cells: NoisyCells
    unit: Fraction

    def largest(self) -> Fraction:
        """One power of two above the last cell that stands out of the noise."""
        last = self.cells.last_seen() or 0
        return (1 << min(last, POWERS)) * self.unit

    def to_dict(self) -> dict[str, Any]:
        return {"unit": str(self.unit), **self.cells.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TotalClasses:
        return cls(NoisyCells.from_dict(content), Fraction(content["unit"]))
