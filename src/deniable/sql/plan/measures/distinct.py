"""How many different values are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import pyarrow as pa

from deniable.sql.engines import Statement
from deniable.sql.plan.keys import Group
from deniable.sql.plan.measures.grid import Grid
from deniable.sql.plan.measures.measure import Footprint, Measure, read_numbers
from deniable.sql.plan.measures.totals import counted
from deniable.sql.plan.noise import IntegerSensitivity
from deniable.sql.tree import Type
from deniable.sql.write.contributions import MOST_ROWS
from deniable.sql.write.statements import Writer


@final
@dataclass(frozen=True)
class Distinct(Measure):
    """Different values, after each unit's values are cut to as many as its rows may be.

    Under a bound r that is chosen privately they are counted in units of r/MOST_ROWS: what one unit brings at
    most is then the same whatever is chosen, and so is the loss."""

    def sensitivity(self, footprint: Footprint, *, single: bool, bits: int) -> IntegerSensitivity:
        most = MOST_ROWS if footprint.chosen else footprint.limit.rows
        return counted(most, replace=footprint.replace, single=single)

    def statement(self, writer: Writer, group: Sequence[int], grid: Grid | None, salt: str) -> Statement:
        values = [*(f"k{i}" for i in group), writer.value_name(self, [self])]
        # Cut before values are made distinct: a value that many have must not shield the other values of one.
        cut = writer.cut(writer.meeting(self), values, writer.limit.rows, salt)
        names = ", ".join(writer.quoted(name) for name in values)
        different = (
            f"(SELECT DISTINCT {names} FROM ({cut}) AS {writer.quoted('_kept')}) AS {writer.quoted('_d')}"
        )
        return writer.grouped(group, ["COUNT(*)"], different)

    def read(self, table: pa.Table, types: Sequence[Type], footprint: Footprint) -> Mapping[Group, int]:
        factor = 1
        if footprint.chosen:
            factor = MOST_ROWS // footprint.limit.rows
        return {key: numbers[0] * factor for key, numbers in read_numbers(table, types).items()}

    def worth(self, footprint: Footprint) -> Fraction:
        if footprint.chosen:
            return Fraction(footprint.limit.rows, MOST_ROWS)
        return Fraction(1)
