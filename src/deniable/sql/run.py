"""A plan at work: statements to the engine, exact integers back, noise, and the answer with its intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from deniable.mechanism import Random
from deniable.mechanisms import checks
from deniable.sql import estimate, post, render, statistics
from deniable.sql.dialects import Dialect
from deniable.sql.discover import MOST_ROWS, RowBound, ValueBounds
from deniable.sql.engines import Engine, Statement
from deniable.sql.estimate import Cell, Measured
from deniable.sql.keys import Group, Selection, combinations
from deniable.sql.limit import ONE, Limit
from deniable.sql.noise import Noise
from deniable.sql.post import Row
from deniable.sql.quantiles import Rank
from deniable.sql.statements import Writer
from deniable.sql.statistics import Grid, Measure, Part
from deniable.sql.terms import TYPICAL, Expected, Terms
from deniable.sql.tree import AggregateRef, Column, Expr, Kind, Output, Query, Result, Statistic, Type

_SUMS = (Measure.COUNT, Measure.SUM, Measure.SQUARE)
_NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
_BEFORE = (Statistic.COUNT, Statistic.COUNT_DISTINCT, Statistic.COUNT_UNITS, Statistic.SUM)


class Plan(Protocol):
    """What a run reads of a plan (`sql.plan.Plan`)."""

    @property
    def query(self) -> Query: ...
    @property
    def terms(self) -> Terms: ...
    @property
    def limit(self) -> Limit: ...
    @property
    def parts(self) -> tuple[Part, ...]: ...
    @property
    def stands(self) -> tuple[tuple[int, ...], ...]: ...
    @property
    def grids(self) -> tuple[Grid | None, ...]: ...
    @property
    def known_grids(self) -> dict[Part, Grid]: ...
    @property
    def measures(self) -> tuple[tuple[Noise | Rank, ...], ...]: ...
    @property
    def selections(self) -> tuple[Selection | None, ...]: ...
    @property
    def row_bound(self) -> RowBound | None: ...
    @property
    def value_bounds(self) -> tuple[ValueBounds, ...]: ...
    def grid(self, part: Part, bounds: tuple[Fraction, Fraction]) -> Grid: ...
    def bounded(self, rows: int) -> Limit: ...


@dataclass(frozen=True)
class Released:
    """One group of the answer: its keys, and for each part a noisy integer or a chosen cell."""

    set: int
    keys: Group
    numbers: tuple[int, ...]


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

    # -------------------------------------------------------------------------------------------- release

    def release(self, engine: Engine, rng: Random) -> Result:
        settled, bounds = self._settled(engine, rng)
        groups = [row for i in range(len(self.plan.query.sets)) for row in settled.release_set(i, engine, rng)]
        return settled.answer(groups, bounds)

    def _settled(self, engine: Engine, rng: Random) -> tuple[Run, dict[str, tuple[float, float]]]:
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

    def release_set(self, index: int, engine: Engine, rng: Random) -> list[Released]:
        """The groups of one grouping set: which ones, then every part with its noise."""
        group, selection = self.plan.query.sets[index], self.plan.selections[index]
        if selection is None:
            keys = combinations([self.plan.query.keys[i] for i in group])
        else:
            keys = selection(self.supports(index, engine), rng=rng)
        pairs = zip(self.plan.measures[index], self.exactly(index, engine), strict=True)
        columns = [_noisy(measure, found, keys, rng) for measure, found in pairs]
        numbers = zip(*columns, strict=True) if columns else (() for _ in keys)
        return [Released(index, self._spread(group, key), each) for key, each in zip(keys, numbers, strict=True)]

    def _spread(self, group: Sequence[int], key: Group) -> Group:
        """The keys of a group at their positions in the query, None for those that are summed over."""
        found = dict(zip(group, key, strict=True))
        return tuple(found.get(i) for i in range(len(self.plan.query.keys)))

    def exactly(self, index: int, engine: Engine) -> list[dict[Group, Any]]:
        """Each part of a grouping set before noise: for each group that has rows an integer, or the weights in cells."""
        group = self.plan.query.sets[index]
        types = [self.plan.query.keys[i].of.type for i in group]
        sums = _numbers(engine.run(self.writer.sums(group, self._sums, self.grids)), types) if self._sums else {}
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

    def _worth(self, part: Part) -> Fraction:
        if part.measure is Measure.DISTINCT:
            return Fraction(1, self._factor(part))
        return Fraction(1, ONE if part.measure is Measure.UNITS else self.limit.one)

    # -------------------------------------------------------------------------------------------- answer

    def answer(self, groups: Sequence[Released], bounds: dict[str, tuple[float, float]]) -> Result:
        """Outputs, HAVING, ORDER BY and LIMIT on the released numbers, with an interval for every number."""
        query, confidence = self.plan.query, self.plan.terms.confidence
        beta = float(checks.failure(confidence))
        pairs = [(self.row(group, beta), group) for group in groups]
        behind = {id(row): group for row, group in pairs}
        kept = post.arranged([row for row, _ in pairs], query.having, query.order, query.limit, query.offset)
        table: dict[str, pa.Array] = {}
        low, high = {}, {}
        for name, output in zip(_names(query.outputs), query.outputs, strict=True):
            share = beta / max(1, len(self.parts_in(output.of)))
            cells = [post.evaluate(output.of, self.row(behind[id(row)], share)) for row in kept]
            table[name] = pa.array([post.written(c.value, output.of.type) for c in cells], _arrow(output.of.type))
            if post.aggregates_in(output.of) and output.of.type.kind in _NUMBERS:
                low[name] = np.array([c.low for c in cells], float)
                high[name] = np.array([c.high for c in cells], float)
        return Result(pa.table(table), low, high, confidence, bounds)

    def parts_in(self, of: Expr) -> frozenset[int]:
        return frozenset(part for a in post.aggregates_in(of) for part in self.plan.stands[a])

    def row(self, group: Released, beta: float) -> Row:
        """The aggregates of a group, each part's noise within its radius but with probability `beta`."""
        return Row(group.keys, tuple(self._cell(a, group, beta) for a in range(len(self.plan.query.aggregates))))

    def _cell(self, aggregate: int, group: Released, beta: float) -> Cell:
        indexes, statistic = self.plan.stands[aggregate], self.plan.query.aggregates[aggregate].statistic
        first = self.plan.parts[indexes[0]]
        grid = self.grids.get(first)
        if first.measure is Measure.RANKS and grid is not None:
            value = grid.origin + grid.unit * group.numbers[indexes[0]]
            return Cell(value, float(grid.lower * grid.scale), float(grid.upper * grid.scale))
        return estimate.aggregate(statistic, [self._part(i, group, beta) for i in indexes], grid)

    def _part(self, index: int, group: Released, beta: float) -> Measured:
        measure = self.plan.measures[group.set][index]
        radius = measure.within(beta) if isinstance(measure, Noise) else 0
        return Measured(group.numbers[index], radius, self._worth(self.plan.parts[index]))

    def typical(self, part: Part, size: int) -> int:
        """What a part would measure on `size` rows whose mean lies midway between the centre and a bound."""
        rows = size / self._worth(part)
        grid = self.grids.get(part)
        if grid is None or part.measure is Measure.RANKS:
            return int(rows)
        middle = Fraction(3 * grid.low + grid.high, 4)
        if part.measure is Measure.SQUARE:
            middle = Fraction((grid.top**2 // 3 >> grid.shift) - grid.square_centre)
        return round(rows * middle)


def _noisy(measure: Noise | Rank, found: Mapping[Group, Any], keys: Sequence[Group], rng: Random) -> list[int]:
    """One number for each key; a group without rows is measured as all others are."""
    if isinstance(measure, Rank):
        return [measure(found.get(key, {}), rng=rng) for key in keys]
    return [found.get(key, 0) + noise for key, noise in zip(keys, measure.draw(len(keys), rng), strict=True)]


# ------------------------------------------------------------------------------------------------ before the release


def expectations(plan: Plan, confidence: float) -> tuple[Expected, ...]:
    """The ± of each column of aggregates, of the worst grouping set."""
    beta = float(checks.failure(confidence))
    run = Run(plan, Dialect.DUCKDB, plan.limit, plan.known_grids, "0")
    outputs = list(zip(_names(plan.query.outputs), plan.query.outputs, strict=True))
    return tuple(_expected(run, name, output, beta) for name, output in outputs if post.aggregates_in(output.of))


def _expected(run: Run, name: str, output: Output, beta: float) -> Expected:
    plan = run.plan
    read = [plan.query.aggregates[a] for a in post.aggregates_in(output.of)]
    ranked = any(plan.parts[i].measure is Measure.RANKS for i in run.parts_in(output.of))
    unknown = plan.row_bound is not None or any(
        plan.grids[i] is None and plan.parts[i] in run.grids for i in run.parts_in(output.of)
    )
    if output.of.type.kind not in _NUMBERS or ranked or unknown:
        return Expected(name, None, ranks=_ranks(run, output, beta))
    size, share = plan.terms.at_least or TYPICAL, beta / len(run.parts_in(output.of))
    widths = []
    for index in range(len(plan.query.sets)):
        group = Released(index, (None,) * len(plan.query.keys), tuple(run.typical(part, size) for part in plan.parts))
        cell = post.evaluate(output.of, run.row(group, share))
        value = float(cell.value) if isinstance(cell.value, Fraction) else math.nan
        widths.append(max(cell.high - value, value - cell.low))
    before = isinstance(output.of, AggregateRef) and all(a.statistic in _BEFORE for a in read)
    return Expected(name, max(widths), None if before else size)


def _ranks(run: Run, output: Output, beta: float) -> float | None:
    """How many rows a quantile's rank may be off, of the worst grouping set; None for what is not one quantile."""
    if not isinstance(output.of, AggregateRef) or run.plan.row_bound is not None:
        return None
    part = run.plan.stands[output.of.index][0]
    ranks = [measures[part] for measures in run.plan.measures]
    return max((r.rank_error(beta) / run.limit.one for r in ranks if isinstance(r, Rank)), default=None)


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


# ------------------------------------------------------------------------------------------------ names and types


def _names(outputs: Sequence[Output]) -> list[str]:
    """Column names, made different by a number where two are the same."""
    names: list[str] = []
    for output in outputs:
        name, times = output.name, 1
        while name in names:
            times += 1
            name = f"{output.name}_{times}"
        names.append(name)
    return names


def _arrow(type_: Type) -> pa.DataType:
    match type_.kind:
        case Kind.DECIMAL:
            return pa.decimal128(38, type_.scale)
        case Kind.BOOLEAN:
            return pa.bool_()
        case Kind.INTEGER:
            return pa.int64()
        case Kind.FLOAT:
            return pa.float64()
        case Kind.DATE:
            return pa.date32()
        case Kind.TIMESTAMP:
            return pa.timestamp("us")
        case _:
            return pa.string()


def _text(of: Expr | None) -> str:
    return of.name if isinstance(of, Column) else render.expression(of, Dialect.DUCKDB) if of is not None else ""
