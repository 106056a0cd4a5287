"""A plan whose bounds are known: what it asks an engine, and the integers that come back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from deniable.mechanism import Random
from deniable.sql.dialects import DUCKDB, Dialect
from deniable.sql.engines import Engine, Statement
from deniable.sql.plan import reading, statistics
from deniable.sql.plan.exact import Exact, Integers
from deniable.sql.plan.keys import Group
from deniable.sql.plan.private_bounds import MOST_ROWS, ValueBounds
from deniable.sql.plan.statistics import Grid, Measure, Part
from deniable.sql.tree import Column, Expr
from deniable.sql.write import expressions, prepared, summed
from deniable.sql.write.contributions import Limit
from deniable.sql.write.statements import Writer

if TYPE_CHECKING:
    from deniable.sql.plan.plan import Plan

_SUMS = (Measure.COUNT, Measure.SUM, Measure.SQUARE)


@dataclass(frozen=True)
class Settled:
    """A plan with the bound on contributions and the grids that one run uses. `bounds` are those that were found privately,
    by the text of their expression."""

    plan: Plan
    limit: Limit
    grids: Mapping[Part, Grid]
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def statements(self, dialect: Dialect, salt: str = "0") -> tuple[Statement, ...]:
        sets = range(len(self.plan.query.sets))
        return (*self._beforehand(dialect), *(s for i in sets for s in self._of_set(i, dialect, salt)))

    def measure(self, engine: Engine, salt: str) -> Exact:
        """The integers of every grouping set. `salt` keys the hashes that choose which of a unit's values count."""
        return Exact(self, [self._integers(i, engine, salt) for i in range(len(self.plan.query.sets))])

    # -------------------------------------------------------------------------------------------- bounds found privately

    def with_rows(self, engine: Engine, rng: Random) -> Settled:
        """With a contribution bound, where none is declared."""
        if self.plan.row_bound is None:
            return self
        classes = reading.cells(engine.run(self.writer(engine.dialect).rows_per_unit()))
        return replace(self, limit=self.plan.bounded(self.plan.row_bound(classes, rng=rng)))

    def with_values(self, bounds: ValueBounds, engine: Engine, rng: Random) -> Settled:
        """With bounds on the values of one expression; the rows of a unit are weighed as they will be."""
        part = bounds.part
        cells = reading.cells(engine.run(self.writer(engine.dialect).magnitudes(part)))
        scale = statistics.scale_of(part.of)
        lower, upper = (end * scale for end in bounds(cells, rng=rng))
        grids = {each: self._regrid(each, part, (lower, upper)) for each in self.grids}
        return replace(self, grids=grids, bounds={**self.bounds, _text(part.of): (float(lower), float(upper))})

    def _regrid(self, part: Part, bounded: Part, ends: tuple[Fraction, Fraction]) -> Grid:
        same = part.bounds is None and (part.of, part.where) == (bounded.of, bounded.where)
        return self.plan.grid(part, ends) if same else self.grids[part]

    # -------------------------------------------------------------------------------------------- statements

    def writer(self, dialect: Dialect) -> Writer:
        return Writer(self.plan.query, self.limit, dialect)

    def _beforehand(self, dialect: Dialect) -> Iterator[Statement]:
        if self.plan.row_bound is not None:
            yield self.writer(dialect).rows_per_unit()
        for bounds in self.plan.value_bounds:
            yield self.writer(dialect).magnitudes(bounds.part)

    def _of_set(self, index: int, dialect: Dialect, salt: str) -> Iterator[Statement]:
        group, writer = self.plan.query.sets[index], self.writer(dialect)
        if self.plan.selections[index] is not None:
            yield writer.keys(group, salt)
        if self._sums:
            yield writer.sums(group, self._sums, self.grids)
        for part in self.plan.parts:
            if part.measure not in _SUMS:
                yield self._alone(group, part, writer, salt)

    @property
    def _sums(self) -> list[Part]:
        return [part for part in self.plan.parts if part.measure in _SUMS]

    def _alone(self, group: Sequence[int], part: Part, writer: Writer, salt: str) -> Statement:
        match part.measure:
            case Measure.UNITS:
                return writer.units(group, part)
            case Measure.DISTINCT:
                return writer.distinct(group, part, salt)
            case _:
                return writer.ranks(group, part, self.grids[part])

    # -------------------------------------------------------------------------------------------- integers

    def _integers(self, index: int, engine: Engine, salt: str) -> Integers:
        group = self.plan.query.sets[index]
        types = [self.plan.query.keys[i].of.type for i in group]
        supports = None if self.plan.selections[index] is None else self._supports(index, engine, salt)
        sums = reading.numbers(engine.run(self._totals(group, engine)), types) if self._sums else {}
        parts: list[dict[Group, Any]] = []
        for part in self.plan.parts:
            if part.measure in _SUMS:
                at = self._sums.index(part)
                parts.append({key: numbers[at] for key, numbers in sums.items()})
                continue
            table = engine.run(self._alone(group, part, self.writer(engine.dialect), salt))
            if part.measure is Measure.RANKS:
                parts.append(dict(reading.histograms(table, types)))
            else:
                factor = self._factor(part)
                parts.append({key: numbers[0] * factor for key, numbers in reading.numbers(table, types).items()})
        return Integers(supports, parts)

    def _totals(self, group: Sequence[int], engine: Engine) -> Statement:
        """From what `prepare` has summed already, where that answers."""
        query, parts, writer = self.plan.query, self._sums, self.writer(engine.dialect)
        summary = engine.summaries.get(prepared.table(query.relation) or "") if self.limit.stored else None
        if summary is None:
            return replace(writer, present=self._present(engine)).sums(group, parts, self.grids)
        short = summed.summed(query, group, parts, self.grids, summary, engine.dialect)
        known = summed.whole(query, parts, self.grids, summary)
        return short or replace(writer, present=known, inside=known).sums(group, parts, self.grids)

    def _present(self, engine: Engine) -> frozenset[Part]:
        """Weighted counts of columns that by the engine's own word hold no NULL: all rows are counted, which is faster. (Were
        it wrong, a count would be of other rows of the same people: its sensitivity rests on weights alone.)"""
        relation = self.plan.query.relation
        table = prepared.table(relation)
        counts = [part for part in self._sums if part.measure is Measure.COUNT]
        names = {part: name for part in counts if (name := prepared.source(relation, part.of)) is not None}
        if table is None or not names or not self.limit.by_unit:
            return frozenset()
        present = engine.present(table, tuple(dict.fromkeys(names.values())))
        return frozenset(part for part, name in names.items() if name in present)

    def _supports(self, index: int, engine: Engine, salt: str) -> dict[Group, int]:
        """How many units count for each private key of a grouping set."""
        group = self.plan.query.sets[index]
        types = [self.plan.query.keys[i].of.type for i in group]
        # Where the unit is a row that may arrive several times, this many arrivals count as one.
        times = 1 if self.limit.by_unit else self.limit.rows
        counts = reading.numbers(engine.run(self.writer(engine.dialect).keys(group, salt)), types)
        return {key: numbers[0] // times for key, numbers in counts.items()}

    def _factor(self, part: Part) -> int:
        """Different values under a private contribution bound are counted in units of which the most a person has is fixed."""
        private = part.measure is Measure.DISTINCT and self.plan.row_bound is not None
        return MOST_ROWS // self.limit.rows if private else 1


def _text(of: Expr | None) -> str:
    return of.name if isinstance(of, Column) else expressions.expression(of, DUCKDB) if of is not None else ""
