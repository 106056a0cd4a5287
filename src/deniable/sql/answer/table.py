"""From released numbers to the answer: outputs, HAVING, ORDER BY and LIMIT, with an interval for every number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from deniable import checks
from deniable.sql.answer import estimate, evaluate, forms
from deniable.sql.answer.estimate import Cell, Interval, Measured
from deniable.sql.answer.evaluate import Row
from deniable.sql.answer.joint_noise import Form
from deniable.sql.floats import held
from deniable.sql.plan.keys import Group
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.private_bounds import MOST_ROWS
from deniable.sql.plan.quantiles import Rank
from deniable.sql.plan.request import TYPICAL, Expected
from deniable.sql.plan.statistics import Grid, Measure, Part
from deniable.sql.tree import AggregateRef, Expr, Kind, Output, Result, Statistic, Type
from deniable.sql.write.contributions import Limit
from deniable.sql.write.weights import ONE

if TYPE_CHECKING:
    from deniable.sql.plan.plan import Plan

_NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
_BEFORE = (Statistic.COUNT, Statistic.COUNT_DISTINCT, Statistic.COUNT_UNITS, Statistic.SUM)


@dataclass(frozen=True)
class Released:
    """One group of the answer: its keys, for each part a noisy integer or a chosen cell, and the cells around the latter."""

    set: int
    keys: Group
    numbers: tuple[int, ...]
    brackets: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class Reader:
    """Reads released groups, under the bounds that were settled for the run."""

    plan: Plan
    limit: Limit
    grids: Mapping[Part, Grid]
    read: dict[tuple[Released, int, float], Cell] = field(default_factory=dict)

    def pieces(self, of: Expr) -> tuple[Expr, ...]:
        """What of an output has an interval of its own: from the query alone, so asked of a group of nothing."""
        nothing = Released(0, (), (0,) * len(self.plan.parts), (None,) * len(self.plan.parts))
        return forms.pieces(of, lambda a: self._form(a, nothing))

    def row(self, group: Released, beta: float, only: frozenset[int] | None = None) -> Row:
        """The aggregates of a group, or only some of them, each with its own interval of failure `beta`."""
        many = range(len(self.plan.query.aggregates))
        return Row(
            group.keys, tuple(self._cell(a, group, beta) if only is None or a in only else Cell(None) for a in many)
        )

    def cell(self, of: Expr, pieces: Sequence[Expr], group: Released, beta: float) -> Cell:
        """An output of a group: its pieces fail with probability β together, quantiles as the plan says, the others alike."""
        read = evaluate.aggregates_in(of)
        chosen = sum(self._measure(a) is Measure.RANKS for a in read)
        share = beta * (1 - chosen / max(1, len(read))) / max(1, len(pieces) - chosen) or beta
        known: dict[Expr, Interval] = {
            piece: forms.ends(piece, lambda a: self._form(a, group), share)
            for piece in pieces
            if not isinstance(piece, AggregateRef)
        }
        return evaluate.evaluate(of, self.row(group, share, read), known)

    def _measure(self, aggregate: int) -> Measure:
        return self.plan.parts[self.plan.stands[aggregate][0]].measure

    def _cell(self, aggregate: int, group: Released, beta: float) -> Cell:
        at = (group, aggregate, beta)
        if at not in self.read:
            self.read[at] = self._computed(aggregate, group, beta)
        return self.read[at]

    def _computed(self, aggregate: int, group: Released, beta: float) -> Cell:
        parts, statistic = self.plan.stands[aggregate], self.plan.query.aggregates[aggregate].statistic
        first = self.plan.parts[parts[0]]
        grid = self.grids.get(first)
        if first.measure is Measure.RANKS and grid is not None:
            return self._quantile(parts[0], grid, group)
        return estimate.aggregate(statistic, [self._part(i, group) for i in parts], grid, beta)

    def _form(self, aggregate: int, group: Released) -> Form | None:
        parts = self.plan.stands[aggregate]
        first = self.plan.parts[parts[0]]
        if first.measure is Measure.RANKS:
            return None
        measured = [self._part(i, group) for i in parts]
        return estimate.linear(self.plan.query.aggregates[aggregate].statistic, measured, self.grids.get(first))

    def _quantile(self, part: int, grid: Grid, group: Released) -> Cell:
        """The chosen cell, between the two around it. A least or largest value is a bound of the true one by itself."""
        cell, bracket, least = group.numbers[part], group.brackets[part], self.plan.parts[part].level == 0
        low, high = bracket if bracket is not None else (0, cell) if least else (cell, grid.high)
        slack = Fraction(0) if grid.exact else grid.unit / 2
        bottom, top = grid.lower * grid.scale, grid.upper * grid.scale
        value, under, over = (grid.origin + grid.unit * at for at in (max(low, min(cell, high)), low, high))
        return Cell(value, float(max(bottom, under - slack)), float(min(top, over + slack)))

    def _part(self, index: int, group: Released) -> Measured:
        measure = self.plan.measures[group.set][index]
        noise = measure if isinstance(measure, Noise) else 0
        return Measured(group.numbers[index], noise, self.worth(self.plan.parts[index]), index)

    def worth(self, part: Part) -> Fraction:
        """What one of a part's integers is in rows, units or values."""
        if part.measure is Measure.DISTINCT:
            return Fraction(self.limit.rows, MOST_ROWS) if self.plan.row_bound is not None else Fraction(1)
        return Fraction(1, ONE if part.measure is Measure.UNITS else self.limit.one)

    def typical(self, part: Part, size: int) -> int:
        """What a part would measure on `size` rows whose mean lies midway between the centre and a bound."""
        rows = size / self.worth(part)
        grid = self.grids.get(part)
        if grid is None or part.measure is Measure.RANKS:
            return int(rows)
        middle = Fraction(3 * grid.low + grid.high, 4)
        if part.measure is Measure.SQUARE:
            middle = Fraction((grid.top**2 // 3 >> grid.shift) - grid.square_centre)
        return round(rows * middle)


def answer(
    plan: Plan,
    limit: Limit,
    grids: Mapping[Part, Grid],
    groups: Sequence[Released],
    bounds: dict[str, tuple[float, float]],
) -> Result:
    """The table that was asked for, and its intervals."""
    query, reader, beta = plan.query, Reader(plan, limit, grids), float(checks.failure(plan.terms.confidence))
    pairs = [(reader.row(group, beta), group) for group in groups]
    behind = {id(row): group for row, group in pairs}
    kept = evaluate.arranged([row for row, _ in pairs], query.having, query.order, query.limit, query.offset)
    table: dict[str, pa.Array] = {}
    low, high = {}, {}
    for name, output in zip(_names(query.outputs), query.outputs, strict=True):
        pieces = reader.pieces(output.of)
        cells = [reader.cell(output.of, pieces, behind[id(row)], beta) for row in kept]
        table[name] = pa.array([evaluate.written(c.value, output.of.type) for c in cells], _arrow(output.of.type))
        if pieces and output.of.type.kind in _NUMBERS:
            low[name] = np.array([c.low for c in cells], float)
            high[name] = np.array([c.high for c in cells], float)
    return Result(pa.table(table), low, high, plan.terms.confidence, bounds)


# ------------------------------------------------------------------------------------------------ before the release


def expectations(plan: Plan, confidence: float) -> tuple[Expected, ...]:
    """The ± of each column of aggregates, of the worst grouping set."""
    beta, reader = float(checks.failure(confidence)), Reader(plan, plan.limit, plan.known_grids)
    outputs = list(zip(_names(plan.query.outputs), plan.query.outputs, strict=True))
    return tuple(_expected(reader, name, output, beta) for name, output in outputs if evaluate.aggregates_in(output.of))


def _expected(reader: Reader, name: str, output: Output, beta: float) -> Expected:
    plan, read = reader.plan, evaluate.aggregates_in(output.of)
    parts = frozenset(part for a in read for part in plan.stands[a])
    ranked = any(plan.parts[i].measure is Measure.RANKS for i in parts)
    unknown = plan.row_bound is not None or any(plan.grids[i] is None and plan.parts[i] in reader.grids for i in parts)
    if output.of.type.kind not in _NUMBERS or ranked or unknown:
        return Expected(name, None, ranks=_ranks(reader, output, beta))
    size, pieces = plan.terms.at_least or TYPICAL, reader.pieces(output.of)
    numbers, nothing = tuple(reader.typical(part, size) for part in plan.parts), (None,) * len(plan.parts)
    widths = []
    for index in range(len(plan.query.sets)):
        group = Released(index, (None,) * len(plan.query.keys), numbers, nothing)
        cell = reader.cell(output.of, pieces, group, beta)
        value = held(cell.value) if isinstance(cell.value, Fraction) else math.nan
        widths.append(max(cell.high - value, value - cell.low))
    before = isinstance(output.of, AggregateRef) and plan.query.aggregates[output.of.index].statistic in _BEFORE
    return Expected(name, max(widths), None if before else size)


def _ranks(reader: Reader, output: Output, beta: float) -> float | None:
    """How many rows a quantile's rank may be off, of the worst grouping set; None for what is not one quantile."""
    plan = reader.plan
    if not isinstance(output.of, AggregateRef) or plan.row_bound is not None:
        return None
    part = plan.stands[output.of.index][0]
    ranks = [measures[part] for measures in plan.measures]
    return max((r.rank_error(beta) / reader.limit.one for r in ranks if isinstance(r, Rank)), default=None)


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
    simple: dict[Kind, Any] = {
        Kind.BOOLEAN: pa.bool_(),
        Kind.INTEGER: pa.int64(),
        Kind.FLOAT: pa.float64(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
        Kind.TEXT: pa.string(),
    }
    return pa.decimal128(38, type_.scale) if type_.kind is Kind.DECIMAL else simple[type_.kind]
