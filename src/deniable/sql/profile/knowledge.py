"""What a plan takes from a profile: the bound on rows, and where sums are clamped. All of it is released or
declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from deniable.sql.plan.bounds.values import EXPONENTS
from deniable.sql.plan.noise import IntegerSensitivity, laplace
from deniable.sql.profile.histogram import NoisyCells
from deniable.sql.profile.part import PartKind, PartName
from deniable.sql.profile.rows import RowBound, RowClasses
from deniable.sql.profile.spread import ValueSizes
from deniable.sql.profile.tables import is_one_row, only_table
from deniable.sql.profile.totals import TotalClasses
from deniable.sql.tree import Aggregate, Column, Query, Statistic
from deniable.sql.write import prepared
from deniable.sql.write.contributions import class_edges
from deniable.units import Unit, UnitKind

Known = RowClasses | ValueSizes | TotalClasses

COVERED = (Statistic.COUNT, Statistic.SUM, Statistic.COUNT_UNITS, Statistic.COUNT_DISTINCT)
"""The aggregates that are planned with a bound from the profile; a query with others is planned without."""


def list_parts(query: Query, unit: Unit) -> tuple[PartName, ...]:
    """The parts of the profile that serve a query: of its one table the rows, and the spread of each column
    that is summed as it is. None where the bound on rows is declared, or the profile does not cover it."""
    if not serves(query, unit):
        return ()
    scan = only_table(query.relation)
    if scan is None:
        return ()
    columns = [_summed(query, aggregate) for aggregate in query.aggregates]
    spreads = [PartName(PartKind.SPREAD, scan.table, name) for name in columns if name is not None]
    return tuple(dict.fromkeys([PartName(PartKind.ROWS, scan.table), *spreads]))


def serves(query: Query, unit: Unit) -> bool:
    """Whether queries of this form take their bound on rows from a profile, if there is one."""
    if unit.kind is not UnitKind.COLUMN or unit.max_rows is not None:
        return False
    statistics = {aggregate.statistic for aggregate in query.aggregates}
    return statistics <= {*COVERED} and bool(statistics - {Statistic.COUNT_UNITS})


def _summed(query: Query, aggregate: Aggregate) -> str | None:
    """The column of the table that is summed, where nothing is computed of it."""
    if aggregate.statistic is not Statistic.SUM or not isinstance(aggregate.of, Column):
        return None
    return prepared.source(query.relation, aggregate.of)


@dataclass(frozen=True)
class Knowledge:
    """The parts of a profile that are known."""

    parts: Mapping[PartName, Known] = field(default_factory=dict)

    def assume(self, parts: Iterable[PartName]) -> Knowledge:
        """With parts that are still to be bought, as if they had been: what a question costs for a given ε
        does not depend on what they will say, and its ± does."""
        return Knowledge({**self.parts, **{part: _ASSUMED[part.kind] for part in parts}})

    def bounds_rows(self, query: Query, unit: Unit) -> bool:
        """Whether there is a bound for the query, whatever its noise."""
        return self.bound_rows(query, unit, None, 1) is not None

    def bound_rows(self, query: Query, unit: Unit, noise: float | None, groups: int) -> RowBound | None:
        """The bound for numbers with this noise for each row that counts, None where none is known. Where
        nobody has two rows by the form of the query, it is one row."""
        if not serves(query, unit):
            return None
        if is_one_row(query.relation):
            return RowBound(1, True, 0)
        scan = only_table(query.relation)
        classes = None if scan is None else self.parts.get(PartName(PartKind.ROWS, scan.table))
        if not isinstance(classes, RowClasses):
            return None
        return classes.bound(noise, groups)

    def clamp_sums(self, query: Query) -> tuple[Query, dict[str, tuple[float, float]]]:
        """The query with its sums clamped at the largest values that are seen, and these bounds by column
        where they are not the declared ones."""
        aggregates, changes = [], dict[str, tuple[float, float]]()
        if not self.parts:
            return query, changes
        for aggregate in query.aggregates:
            bounds = self._clamp(query, aggregate)
            if bounds is not None and bounds != aggregate.bounds and isinstance(aggregate.of, Column):
                changes[aggregate.of.name] = (float(bounds[0]), float(bounds[1]))
                aggregate = replace(aggregate, bounds=bounds)
            aggregates.append(aggregate)
        return replace(query, aggregates=tuple(aggregates)), changes

    def _clamp(self, query: Query, aggregate: Aggregate) -> tuple[Fraction, Fraction] | None:
        scan, name = only_table(query.relation), _summed(query, aggregate)
        if scan is None or name is None:
            return None
        spread = self.parts.get(PartName(PartKind.SPREAD, scan.table, name))
        if not isinstance(spread, ValueSizes):
            return None
        return spread.clamp(aggregate.bounds)


NOTHING = Knowledge()
_ONE = laplace(IntegerSensitivity(1, 1), Fraction(1))
_SEEN = NoisyCells((0,) * len(EXPONENTS) + (1000,) + (0,) * len(EXPONENTS), _ONE)
_ASSUMED: Mapping[PartKind, Known] = {
    PartKind.ROWS: RowClasses(class_edges(None), NoisyCells((1000,) + (0,) * 16, _ONE)),
    PartKind.SPREAD: ValueSizes(_SEEN, 1, Fraction(1)),
    PartKind.TOTALS: TotalClasses(_SEEN, Fraction(1)),
}
