"""A plan whose bounds are known: what it asks an engine, and the integers that come back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from deniable.mechanism import Random
from deniable.sql.answer.estimate import TOLD
from deniable.sql.dialects import DUCKDB, Dialect
from deniable.sql.engines import Engine, Statement, Summary
from deniable.sql.plan.bounds.row_classes import AggregateNoise, Classes, Crowd, bounded
from deniable.sql.plan.bounds.sizes import MOST_GROUPS_BY_SIZE, Sizes, summed
from deniable.sql.plan.bounds.values import ValueBounds
from deniable.sql.plan.exact import Exact, Integers
from deniable.sql.plan.keys import Group, combinations
from deniable.sql.plan.measures.grid import Grid, scale_of
from deniable.sql.plan.measures.measure import Footprint, Measure, Total, read_cells, read_numbers
from deniable.sql.plan.measures.totals import Count, LeftOut
from deniable.sql.plan.request import PRIVATE_GROUPS
from deniable.sql.tree import Column, Expr, Statistic, Type
from deniable.sql.types import INTEGER
from deniable.sql.write import prepared, relations
from deniable.sql.write.contributions import MOST_TOLD, Limit
from deniable.sql.write.statements import Writer

if TYPE_CHECKING:
    from deniable.sql.plan.plan import GroupingSet, NoisyMeasure, Plan


@dataclass(frozen=True)
class Settled:
    """A plan with the bound on contributions and the grids that one run uses. `bounds` are those that were
    found privately, by the text of their expression; `crowd` is what is known of the rows of units; `sizes`
    are the integers of each grouping set that were asked for before the bound was known."""

    plan: Plan
    limit: Limit
    grids: Mapping[Measure, Grid]
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    crowd: Crowd | None = None
    sizes: Mapping[tuple[int, ...], Sizes] = field(default_factory=dict, repr=False, compare=False)

    def statements(self, dialect: Dialect, salt: str = "0") -> tuple[Statement, ...]:
        """All that is asked, in order; sums from rows, even where stored ones would serve."""
        sets = self.plan.sets
        return (*self._beforehand(dialect), *(s for each in sets for s in self._of_set(each, dialect, salt)))

    def measure(self, engine: Engine, salt: str) -> Exact:
        """The integers of every grouping set. `salt` keys the hashes that choose which of a unit's values
        count."""
        return Exact(self.public, [self._integers(each, engine, salt) for each in self.plan.sets])

    @property
    def public(self) -> Settled:
        """The same without integers that nobody may see."""
        return replace(self, sizes={})

    @property
    def footprint(self) -> Footprint:
        return replace(self.plan.footprint, limit=self.limit)

    # --------------------------------------------------------------------------------- bounds found privately

    def with_rows(self, engine: Engine, rng: Random) -> Settled:
        """With a contribution bound, where none is declared, and a cap up to which it is told what that
        leaves out."""
        classes, ceiling = self.plan.private_bounds.classes, self.plan.terms.most_rows
        if classes is None:
            return replace(self, limit=replace(self.limit, most=self._cap(self.limit.rows, ceiling or 0)))
        sizes = self.read_sizes(engine)
        # Only these noisy numbers are looked at from here on, so the bound that they choose is post-
        # processing.
        crowd = classes(self._units(classes, sizes, engine), rng=rng)
        # Whatever is chosen, a unit weighs TOTAL: sensitivities were fixed before (`row_classes.bounded`).
        rows = self._bound(crowd) if self.plan.chooses else self.limit.rows
        most = self._cap(rows, crowd.most if ceiling is None else ceiling)
        limit = bounded(self.limit, rows) if self.plan.chooses else self.limit
        return replace(self, limit=replace(limit, most=most), crowd=crowd, sizes=sizes)

    def _units(
        self, classes: Classes, sizes: Mapping[tuple[int, ...], Sizes], engine: Engine
    ) -> Mapping[int, int]:
        """How many units have how many rows: of those that reach the aggregate, or, where weights are stored,
        of the table, as these were made."""
        summary = self._summary(engine)
        if summary is not None:
            return summary.units
        for keys, each in sizes.items():
            return each.units(self._combinations(keys), classes.edges)
        return read_cells(engine.run(classes.statement(self.writer(engine.dialect))))

    def read_sizes(self, engine: Engine) -> dict[tuple[int, ...], Sizes]:
        """Of the grouping sets that can be asked for by the sizes of units."""
        if self._summary(engine) is not None:
            return {}
        sizes, writer, measures = {}, self.writer(engine.dialect), summed(self._totals)
        for group in self.plan.sets:
            if self._by_size(group):
                types = [*(self.plan.query.keys[i].of.type for i in group.keys), INTEGER]
                numbers = read_numbers(engine.run(self._sized(group.keys, writer)), types)
                read = Sizes.of_parts if self._parts(group.keys) else Sizes
                sizes[group.keys] = read(measures, numbers)
        return sizes

    def _by_size(self, group: GroupingSet) -> bool:
        """Whether the unit need not be grouped twice, once for a bound on its rows and once under it. Bounds
        of values come after it, and so do their sums."""
        private, limit = self.plan.private_bounds, self.limit
        if private.classes is None or private.values or not self._totals or not limit.bounded or limit.stored:
            return False
        # Private keys have no list, so nothing bounds how many rows an answer by size would have.
        return group.selection is None and len(self._combinations(group.keys)) <= MOST_GROUPS_BY_SIZE

    def _combinations(self, group: Sequence[int]) -> list[Group]:
        return combinations([self.plan.query.keys[i] for i in group])

    def _summary(self, engine: Engine) -> Summary | None:
        if not self.limit.stored:
            return None
        return engine.summaries.get(prepared.table(self.plan.query.relation) or "")

    def _cap(self, rows: int, most: int) -> int:
        if self.plan.tells:
            return min(max(rows, most), MOST_TOLD)
        return 0

    def _bound(self, crowd: Crowd) -> int:
        """For the least errors of what is counted, summed and averaged, else as many as nearly all units
        have."""
        group, aims = self.plan.sets[0], list(self._aims())
        if not aims:
            return crowd.quantile()
        groups = PRIVATE_GROUPS
        if group.selection is None:
            groups = len(self._combinations(group.keys))
        return crowd.best(aims, groups)

    def _aims(self) -> Iterator[AggregateNoise]:
        """Of the aggregates that add up rows, each by its own noise; of averages where it is told what a
        bound leaves out."""
        plan = self.plan
        measures = plan.sets[0].measures
        for aggregate, stands in zip(plan.query.aggregates, plan.stands, strict=True):
            is_mean = aggregate.statistic is Statistic.AVG
            if aggregate.statistic in TOLD and (plan.tells or not is_mean):
                yield self._aim([measures[position] for position in stands], is_mean)

    def _aim(self, parts: Sequence[NoisyMeasure], is_mean: bool) -> AggregateNoise:
        # A mean is off in halves of its range, a sum in halves of the largest value.
        noise = math.hypot(*(part.per_row / (2 if is_mean and part.grid else 1) for part in parts))
        if not self.plan.tells:
            return AggregateNoise(noise, None, is_mean)
        base = {part.measure for part in parts}
        beyond = [
            each.per_row
            for each in self.plan.sets[0].measures
            if isinstance(each.measure, LeftOut) and each.measure.counted in base
        ]
        return AggregateNoise(noise, math.hypot(*beyond), is_mean)

    def with_values(self, bounds: ValueBounds, engine: Engine, rng: Random) -> Settled:
        """With bounds on the values of one expression; the rows of a unit are weighed as they will be."""
        cells = read_cells(engine.run(bounds.statement(self.writer(engine.dialect))))
        scale = scale_of(bounds.measure.of)
        lower, upper = (end * scale for end in bounds(cells, rng=rng))
        grids = {measure: self._regrid(measure, bounds, (lower, upper)) for measure in self.grids}
        name = _text(bounds.measure.of)
        return replace(self, grids=grids, bounds={**self.bounds, name: (float(lower), float(upper))})

    def _regrid(self, measure: Measure, bounds: ValueBounds, ends: tuple[Fraction, Fraction]) -> Grid:
        grid = None
        if measure.bounds is None and bounds.concerns(measure):
            grid = self.plan.grid(measure, ends)
        return grid or self.grids[measure]

    # -------------------------------------------------------------------------------------------- statements

    def writer(self, dialect: Dialect) -> Writer:
        return Writer(self.plan.query, self.limit, dialect)

    @property
    def _totals(self) -> list[Total]:
        """The measures that one statement serves."""
        return [measure for measure in self.plan.measures if isinstance(measure, Total)]

    def _beforehand(self, dialect: Dialect) -> Iterator[Statement]:
        private, writer = self.plan.private_bounds, self.writer(dialect)
        if private.classes is not None and not any(map(self._by_size, self.plan.sets)):
            yield private.classes.statement(writer)
        for bounds in private.values:
            yield bounds.statement(writer)

    def _of_set(self, group: GroupingSet, dialect: Dialect, salt: str) -> Iterator[Statement]:
        writer = self.writer(dialect)
        if group.selection is not None:
            yield writer.keys(group.keys, salt)
        if self._by_size(group):
            yield self._sized(group.keys, writer)
        elif self._totals:
            yield self._sums(group.keys, writer)
        for measure in self.plan.measures:
            if not isinstance(measure, Total):
                yield measure.statement(writer, group.keys, self.grids.get(measure), salt)

    def _sized(self, group: Sequence[int], writer: Writer) -> Statement:
        """The keys of `group`, the size of a unit, and one sum of full rows for each measure that is one."""
        measures = summed(self._totals)
        sums = [measure.total(writer, self.grids.get(measure), "1", measures) for measure in measures]
        write = writer.parted if self._parts(group) else writer.by_size
        return write(group, measures, sums)

    def _parts(self, group: Sequence[int]) -> bool:
        """Whether rows of units above the bound are summed by size, all others together. What is chosen by
        the sizes is not known here yet."""
        return bool(group) and self.limit.looks_up and not self.plan.chooses

    def _sums(self, group: Sequence[int], writer: Writer) -> Statement:
        """The keys of `group`, then one sum for each measure that is one."""
        return self._sums_of(self._totals, group, writer)

    def _sums_of(self, totals: Sequence[Total], group: Sequence[int], writer: Writer) -> Statement:
        source, weight = writer.weighted(group, totals)
        sums = [measure.total(writer, self.grids.get(measure), weight, totals) for measure in totals]
        return writer.grouped(group, [writer.text(total) for total in sums], source)

    # -------------------------------------------------------------------------------------------- integers

    def _integers(self, group: GroupingSet, engine: Engine, salt: str) -> Integers:
        types = [self.plan.query.keys[i].of.type for i in group.keys]
        supports = None
        if group.selection is not None:
            supports = self._supports(group.keys, types, engine, salt)
        sums = self._read_sums(group.keys, types, engine)
        writer = self.writer(engine.dialect)
        parts: list[Mapping[Group, Any]] = []
        for measure in self.plan.measures:
            if isinstance(measure, Total):
                parts.append(sums[measure])
                continue
            table = engine.run(measure.statement(writer, group.keys, self.grids.get(measure), salt))
            parts.append(measure.read(table, types, self.footprint))
        return Integers(supports, parts)

    def _read_sums(
        self, group: Sequence[int], types: Sequence[Type], engine: Engine
    ) -> dict[Measure, dict[Group, int]]:
        if not self._totals:
            return {}
        sizes = self.sizes.get(tuple(group))
        if sizes is not None:
            return {measure: sizes.totals(measure, self.limit) for measure in self._totals}
        numbers: dict[Measure, dict[Group, int]] = {measure: {} for measure in self._totals}
        for totals, statement in self._shortest(group, engine):
            sums = read_numbers(engine.run(statement), types)
            for i, measure in enumerate(totals):
                numbers[measure] = {key: each[i] for key, each in sums.items()}
        return numbers

    def _shortest(self, group: Sequence[int], engine: Engine) -> Iterator[tuple[list[Total], Statement]]:
        """The sums that are asked for; from what `prepare` has summed already, where that answers. What is
        left out is in no such sum, and not asked where it is nothing."""
        query, writer = self.plan.query, self.writer(engine.dialect)
        totals = [total for total in self._totals if self.limit.tells or not isinstance(total, LeftOut)]
        summary = self._summary(engine)
        if summary is None:
            yield totals, self._sums_of(totals, group, replace(writer, present=self._present(engine)))
            return
        whole_totals = prepared.whole(query, totals, self.grids, summary)
        writer = replace(writer, present=whole_totals, inside=whole_totals)
        base_totals = [total for total in totals if not isinstance(total, LeftOut)]
        short = prepared.summed(query, group, base_totals, self.grids, summary, engine.dialect)
        rest = totals
        if short is not None:
            rest = [total for total in totals if total not in base_totals]
        if short is not None:
            yield base_totals, short
        if rest:
            yield rest, self._sums_of(rest, group, writer)

    def _present(self, engine: Engine) -> frozenset[Measure]:
        """Weighted counts of columns that by the engine's own word hold no NULL: all rows are counted, which
        is faster. (Were it wrong, a count would be of other rows of the same people: its sensitivity rests on
        weights alone.)"""
        relation = self.plan.query.relation
        # Only a column of the table itself has a count of NULLs; an expression may be NULL where it has none.
        table = prepared.table(relation)
        counts = [measure for measure in self._totals if isinstance(measure, Count)]
        names = {
            measure: name for measure in counts if (name := prepared.source(relation, measure.of)) is not None
        }
        if table is None or not names or not self.limit.by_unit:
            return frozenset()
        present = engine.present(table, tuple(dict.fromkeys(names.values())))
        return frozenset(measure for measure, name in names.items() if name in present)

    def _supports(
        self, group: Sequence[int], types: Sequence[Type], engine: Engine, salt: str
    ) -> dict[Group, int]:
        """How many units count for each private key of a grouping set."""
        # Where the unit is a row that may arrive several times, this many arrivals count as one.
        times = 1 if self.limit.by_unit else self.limit.rows
        counts = read_numbers(engine.run(self.writer(engine.dialect).keys(group, salt)), types)
        return {key: numbers[0] // times for key, numbers in counts.items()}


def _text(of: Expr | None) -> str:
    """What a value is called beside the bounds that were found for it."""
    if isinstance(of, Column):
        return of.name
    if of is None:
        return ""
    return relations.expression(of, DUCKDB)
