"""How many units are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from deniable.sql.engines import Statement
from deniable.sql.plan.measures.grid import Grid
from deniable.sql.plan.measures.measure import Footprint, Measure
from deniable.sql.plan.noise import IntegerSensitivity
from deniable.sql.write.contributions import ONE, Limit
from deniable.sql.write.statements import Writer


@final
@dataclass(frozen=True)
class Units(Measure):
    """Units, each by a weight that its groups share."""

    def sensitivity(self, footprint: Footprint, *, single: bool, bits: int) -> IntegerSensitivity:
        return present(footprint.limit.groups, ONE, replace=footprint.replace, single=single)

    def statement(self, writer: Writer, group: Sequence[int], grid: Grid | None, salt: str) -> Statement:
        """One row for each unit and group; a unit's weights are by its groups, not by its rows."""
        keys = ", ".join([writer.quoted("_unit"), *writer.key_names(group)])
        pairs = f"SELECT DISTINCT {keys} FROM ({writer.meeting(self)}) AS {writer.quoted('_present')}"
        limit = Limit(True, writer.limit.groups if group else 1, 1, ONE, bounded=writer.limit.bounded)
        source, weight = writer.weighted_by(limit, pairs)
        return writer.grouped(group, [writer.text(writer.sum(weight))], source)

    def worth(self, footprint: Footprint) -> Fraction:
        return Fraction(1, ONE)


def present(groups: int, one: int, *, replace: bool, single: bool) -> IntegerSensitivity:
    """One weight per unit and group, `one` each for up to `groups` groups and groups·one in all beyond.

    With n groups the L2 norm is √n·one for n ≤ groups, and at most groups·one/√n beyond: √groups·one at the
    most."""
    groups = 1 if single else groups
    many = 2 if replace and not single else 1
    return IntegerSensitivity(many * groups * one, many * groups * one * one)
