"""A plan at work: statements to the engine, exact integers back. What is told of them is `release`'s."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

import pyarrow as pa

from deniable.mechanism import Random
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.engines import Engine, Statement
from deniable.sql.plan import statistics
from deniable.sql.plan.keys import Group, Selection
from deniable.sql.plan.private_bounds import MOST_ROWS, RowBound, ValueBounds
from deniable.sql.plan.statistics import Grid, Measure, Part
from deniable.sql.tree import Column, Expr, Kind, Query, Type
from deniable.sql.write import expressions, prepared, summed
from deniable.sql.write.contributions import Limit
from deniable.sql.write.statements import Writer

_SUMS = (Measure.COUNT, Measure.SUM, Measure.SQUARE)


class Plan(Protocol):
    """What a run reads of a plan (`sql.plan.Plan`)."""

    @property
    def query(self) -> Query: ...
    @property
    def parts(self) -> tuple[Part, ...]: ...
    @property
    def selections(self) -> tuple[Selection | None, ...]: ...
    @property
    def row_bound(self) -> RowBound | None: ...
    @property
    def value_bounds(self) -> tuple[ValueBounds, ...]: ...
    def grid(self, part: Part, bounds: tuple[Fraction, Fraction]) -> Grid: ...
    def bounded(self, rows: int) -> Limit: ...


@dataclass(frozen=True)
class Run:
    """One run of a plan in one dialect; `limit` and `grids` are settled first, privately where they are not declared."""

    plan: Plan
    dialect: Dialect
    limit: Limit
    grids: Mapping[Part, Grid]
    salt: str

    @property
    def writer(self) -> Writer:
        return Writer(self.plan.query, self.limit, self.dialect)

    def statements(self) -> tuple[Statement, ...]:
        return (*self._beforehand(), *(s for i in range(len(self.plan.query.sets)) for s in self._of_set(i)))

    def _beforehand(self) -> Iterator[Statement]:
        if self.plan.row_bound is not None:
            yield self.writer.rows_per_unit()
        for bounds in self.plan.value_bounds:
            yield self.writer.magnitudes(bounds.part)

    def _of_set(self, index: int) -> Iterator[Statement]:
        group = self.plan.query.sets[index]
        if self.plan.selections[index] is not None:
            yield self.writer.keys(group, self.salt)
        if self._sums:
            yield self.writer.sums(group, self._sums, self.grids)
        for part in self.plan.parts:
            if part.measure not in _SUMS:
                yield self._alone(group, part)

    @property
    def _sums(self) -> list[Part]:
        return [part for part in self.plan.parts if part.measure in _SUMS]

    def _alone(self, group: Sequence[int], part: Part) -> Statement:
        match part.measure:
            case Measure.UNITS:
                return self.writer.units(group, part)
            case Measure.DISTINCT:
                return self.writer.distinct(group, part, self.salt)
            case _:
                return self.writer.ranks(group, part, self.grids[part])

    # -------------------------------------------------------------------------------------------- integers

    def settled(self, engine: Engine, rng: Random) -> tuple[Run, dict[str, tuple[float, float]]]:
        """With the bounds that are found privately: first on rows, then, with rows weighed, on values."""
        run, found = self, {}
        if self.plan.row_bound is not None:
            classes = {int(c): int(n) for c, n in _lines(engine.run(self.writer.rows_per_unit())) if c is not None}
            run = replace(run, limit=self.plan.bounded(self.plan.row_bound(classes, rng=rng)))
        for bounds in self.plan.value_bounds:
            cells = {
                int(c): _whole(n) for c, n in _lines(engine.run(run.writer.magnitudes(bounds.part))) if c is not None
            }
            pair = bounds(cells, rng=rng)
            scale = statistics.scale_of(bounds.part.of)
            pair = pair[0] * scale, pair[1] * scale
            found[_text(bounds.part.of)] = (float(pair[0]), float(pair[1]))
            run = replace(run, grids={part: run._regrid(part, bounds.part, pair) for part in run.grids})
        return run, found

    def _regrid(self, part: Part, found: Part, pair: tuple[Fraction, Fraction]) -> Grid:
        same = part.bounds is None and (part.of, part.where) == (found.of, found.where)
        return self.plan.grid(part, pair) if same else self.grids[part]

    def exactly(self, index: int, engine: Engine) -> list[dict[Group, Any]]:
        """Each part of a grouping set before noise: for each group that has rows an integer, or the weights in cells."""
        group = self.plan.query.sets[index]
        types = [self.plan.query.keys[i].of.type for i in group]
        sums = _numbers(engine.run(self._totals(group, engine)), types) if self._sums else {}
        found: list[dict[Group, Any]] = []
        for part in self.plan.parts:
            if part.measure in _SUMS:
                at = self._sums.index(part)
                found.append({key: numbers[at] for key, numbers in sums.items()})
            elif part.measure is Measure.RANKS:
                found.append(_histograms(engine.run(self._alone(group, part)), types))
            else:
                alone, factor = _numbers(engine.run(self._alone(group, part)), types), self._factor(part)
                found.append({key: numbers[0] * factor for key, numbers in alone.items()})
        return found

    def _totals(self, group: Sequence[int], engine: Engine) -> Statement:
        """From what `prepare` has summed already, where that answers."""
        query, parts = self.plan.query, self._sums
        summary = engine.summaries.get(prepared.table(query.relation) or "") if self.limit.stored else None
        if summary is None:
            return replace(self.writer, present=self._present(engine)).sums(group, parts, self.grids)
        short = summed.summed(query, group, parts, self.grids, summary, self.dialect)
        known = summed.whole(query, parts, self.grids, summary)
        return short or replace(self.writer, present=known, inside=known).sums(group, parts, self.grids)

    def _present(self, engine: Engine) -> frozenset[Part]:
        """Weighted counts of columns that by the engine's own word hold no NULL: all rows are counted, which is faster. (Were
        it wrong, a count would be of other rows of the same people: its sensitivity rests on weights alone.)"""
        relation = self.plan.query.relation
        table = prepared.table(relation)
        counts = [part for part in self._sums if part.measure is Measure.COUNT]
        names = {part: name for part in counts if (name := prepared.source(relation, part.of)) is not None}
        if table is None or not names or not self.limit.by_unit:
            return frozenset()
        found = engine.present(table, tuple(dict.fromkeys(names.values())))
        return frozenset(part for part, name in names.items() if name in found)

    def supports(self, index: int, engine: Engine) -> dict[Group, int]:
        """How many units count for each private key of a grouping set."""
        group = self.plan.query.sets[index]
        types = [self.plan.query.keys[i].of.type for i in group]
        # Where the unit is a row that may arrive several times, this many arrivals count as one.
        times = 1 if self.limit.by_unit else self.limit.rows
        counts = _numbers(engine.run(self.writer.keys(group, self.salt)), types)
        return {key: numbers[0] // times for key, numbers in counts.items()}

    def _factor(self, part: Part) -> int:
        """Different values under a private contribution bound are counted in units of which the most a person has is fixed."""
        private = part.measure is Measure.DISTINCT and self.plan.row_bound is not None
        return MOST_ROWS // self.limit.rows if private else 1


# ------------------------------------------------------------------------------------------------ what engines return


def _lines(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _whole(value: Any) -> int:
    """A sum as text or number; the sum of nothing is 0."""
    return 0 if value is None else int(value)


def _key(value: Any, type_: Type) -> Any:
    """A key as the schema means it: decimals come as numbers of 10^-scale, timestamps without a zone."""
    if value is None:
        return None
    if type_.kind is Kind.DECIMAL:
        return Decimal(int(value)).scaleb(-type_.scale)
    return value.replace(tzinfo=None) if type_.kind is Kind.TIMESTAMP else value


def _numbers(table: pa.Table, types: Sequence[Type]) -> dict[Group, list[int]]:
    """The numbers of each group. (Keys that become equal, as 0.0 and −0.0 do, are added up.)"""
    found: dict[Group, list[int]] = {}
    for line in _lines(table):
        key = tuple(map(_key, line, types))
        numbers = [_whole(value) for value in line[len(types) :]]
        found[key] = [a + b for a, b in zip(found[key], numbers, strict=True)] if key in found else numbers
    return found


def _histograms(table: pa.Table, types: Sequence[Type]) -> dict[Group, dict[int, int]]:
    found: dict[Group, dict[int, int]] = {}
    for line in _lines(table):
        cells = found.setdefault(tuple(map(_key, line, types)), {})
        cell = int(line[len(types)])
        cells[cell] = cells.get(cell, 0) + _whole(line[len(types) + 1])
    return found


def _text(of: Expr | None) -> str:
    return of.name if isinstance(of, Column) else expressions.expression(of, Dialect.DUCKDB) if of is not None else ""
