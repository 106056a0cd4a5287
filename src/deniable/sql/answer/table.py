"""From released numbers to the answer: outputs, HAVING, ORDER BY and LIMIT, with an interval for every
number.

`COUNT(*) FILTER (…) / COUNT(*)` or `SUM(x) - SUM(y)` depend on several noises at once. What is linear in
noisy numbers, and quotients of that, therefore have an interval of their own, since `joint_noise` knows
how far such noises reach together. Whatever else is written around these pieces is computed from their
intervals (`evaluate`). The pieces follow from the text of the query alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from deniable import checks
from deniable.sql import arrays
from deniable.sql.answer import estimate, evaluate
from deniable.sql.answer.estimate import ALL, INFINITE, Interval, NoisyInteger, RowScope
from deniable.sql.answer.evaluate import Row
from deniable.sql.answer.joint_noise import Ends, LinearForm, quotients, reach
from deniable.sql.floats import held, nearest
from deniable.sql.functions.function import Cell
from deniable.sql.plan.keys import Group
from deniable.sql.plan.measures.grid import Grid
from deniable.sql.plan.measures.measure import Footprint, Measure
from deniable.sql.plan.measures.ranks import Ranks
from deniable.sql.plan.measures.totals import LeftOut
from deniable.sql.plan.noise import Noise
from deniable.sql.plan.quantiles import Rank
from deniable.sql.plan.request import TYPICAL, Expected
from deniable.sql.tree import (
    Aggregate,
    AggregateRef,
    Bounding,
    Call,
    Expr,
    Kind,
    Literal,
    Output,
    Result,
    Statistic,
    Type,
)

if TYPE_CHECKING:
    from deniable.sql.plan.plan import NoisyMeasure, Plan
    from deniable.sql.plan.settled import Settled

_NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
_BEFORE = (Statistic.COUNT, Statistic.COUNT_DISTINCT, Statistic.COUNT_UNITS, Statistic.SUM)


@dataclass(frozen=True)
class Released:
    """One group of the answer: its keys, for each part a noisy integer or a chosen cell, and the cells around
    the latter."""

    set: int
    keys: Group
    numbers: tuple[int, ...]
    brackets: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class GroupReader:
    """Reads released groups, under the bounds that were settled for the run."""

    settled: Settled
    read: dict[tuple[Released, int, float], Cell] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        return self.settled.plan

    @cached_property
    def measures(self) -> Sequence[Measure]:
        return self.plan.measures

    @cached_property
    def footprint(self) -> Footprint:
        return self.settled.footprint

    @cached_property
    def _worths(self) -> Sequence[Fraction]:
        return [measure.worth(self.footprint) for measure in self.measures]

    def pieces(self, of: Expr) -> tuple[Expr, ...]:
        """What of an output has an interval of its own: from the query alone, so asked of a group of
        nothing."""
        return find_pieces(of, lambda a: self._form(a, self._nothing))

    @property
    def _nothing(self) -> Released:
        many = len(self.measures)
        return Released(0, (), (0,) * many, (None,) * many)

    def row(self, group: Released, beta: float, only: frozenset[int] | None = None) -> Row:
        """The aggregates of a group, or only some of them, each with its own interval of failure `beta`."""
        many = range(len(self.plan.query.aggregates))
        cells = (self._cell(a, group, beta) if only is None or a in only else Cell(None) for a in many)
        return Row(group.keys, tuple(cells))

    def cell(self, of: Expr, pieces: Sequence[Expr], group: Released, beta: float) -> Cell:
        """An output of a group: its pieces fail with probability β together, quantiles as the plan says, the
        others alike."""
        aggregates = evaluate.aggregates_in(of)
        rank_count = sum(self._ranked(a) for a in aggregates)
        share = beta * (1 - rank_count / max(1, len(aggregates))) / max(1, len(pieces) - rank_count) or beta
        intervals: dict[Expr, Interval] = {
            piece: bound_piece(piece, lambda a: self._form(a, group), share, self.plan.query.aggregates)
            for piece in pieces
            if not isinstance(piece, AggregateRef)
        }
        return evaluate.evaluate(of, self.row(group, share, aggregates), intervals)

    def left_out(self, of: Expr, cell: Cell, group: Released) -> Fraction | None:
        """How much of a count or a sum, or of what is linear in these, stands for rows that do not count."""
        form = linear_form(of, lambda a: self._form(a, group))
        statistics = {self.plan.query.aggregates[a].statistic for a in evaluate.aggregates_in(of)}
        if form is None or not isinstance(cell.value, Fraction):
            return None
        if not self.plan.tells or not statistics <= {*estimate.TOLD}:
            return None
        return cell.value - (form.counted or form).value

    def _first(self, aggregate: int) -> tuple[int, Measure]:
        position = self.plan.stands[aggregate][0]
        return position, self.measures[position]

    def _ranked(self, aggregate: int) -> bool:
        return isinstance(self._first(aggregate)[1], Ranks)

    def _cell(self, aggregate: int, group: Released, beta: float) -> Cell:
        at = (group, aggregate, beta)
        if at not in self.read:
            self.read[at] = self._computed(aggregate, group, beta)
        return self.read[at]

    def _computed(self, aggregate: int, group: Released, beta: float) -> Cell:
        position, measure = self._first(aggregate)
        grid = self.settled.grids.get(measure)
        if isinstance(measure, Ranks) and grid is not None:
            return _quantile(group.numbers[position], group.brackets[position], grid, measure.level)
        statistic = self.plan.query.aggregates[aggregate].statistic
        return estimate.aggregate(statistic, self._noisy(aggregate, group), grid, beta, self.scope)

    @cached_property
    def scope(self) -> RowScope:
        """How a count of bounded rows stands for all rows."""
        crowd = self.settled.crowd
        if crowd is None or not self.plan.tells:
            return ALL
        hidden = Fraction(0)
        if not self.plan.terms.most_rows:
            hidden = crowd.hidden
        return RowScope(crowd.factor(self.settled.limit.rows), hidden)

    @cached_property
    def _places(self) -> dict[Measure, int]:
        """Where it is told what is left out of a measure."""
        tells_left_out = self.settled.limit.tells
        return {
            m.counted: i for i, m in enumerate(self.measures) if isinstance(m, LeftOut) and tells_left_out
        }

    def single(self, aggregate: int) -> tuple[Fraction, Noise] | None:
        """The one noise that a count or a sum is off by, and what one of it is worth; None where there are
        several, or where rounding, what is left out or what stands for it widens the interval."""
        form = self._form(aggregate, self._nothing)
        if (
            form is None
            or form.slack
            or form.counted is not None
            or self.scope != ALL
            or len(form.terms) != 1
        ):
            return None
        [(worth, noise)] = form.terms.values()
        if isinstance(noise, Noise):
            return (worth, noise)
        return None

    def _form(self, aggregate: int, group: Released) -> LinearForm | None:
        if self._ranked(aggregate):
            return None
        statistic, grid = (
            self.plan.query.aggregates[aggregate].statistic,
            self.settled.grids.get(self._first(aggregate)[1]),
        )
        return estimate.linear(statistic, self._noisy(aggregate, group), grid)

    def _noisy(self, aggregate: int, group: Released) -> list[NoisyInteger]:
        measures = self._measures(group)
        return [self._integer(i, measures[i], group) for i in self.plan.stands[aggregate]]

    def _integer(self, position: int, noisy: NoisyMeasure, group: Released) -> NoisyInteger:
        noise = noisy.noise if isinstance(noisy.noise, Noise) else 0
        beyond = self._places.get(noisy.measure)
        rest = None
        if beyond is not None:
            rest = self._integer(beyond, self._measures(group)[beyond], group)
        return NoisyInteger(group.numbers[position], noise, self._worths[position], position, rest)

    def _measures(self, group: Released) -> Sequence[NoisyMeasure]:
        return self.plan.sets[group.set].measures

    def typical(self, measure: Measure, size: int) -> int:
        """What a measure would be on `size` rows."""
        worth = measure.worth(self.footprint)
        if worth:
            return measure.typical(size / worth, self.settled.grids.get(measure))
        return 0


def _quantile(cell: int, bracket: tuple[int, int] | None, grid: Grid, level: Fraction | None) -> Cell:
    """The chosen cell, between the two around it, if there are any. A least or largest value is a bound of
    the true one by itself."""
    if bracket is None and level not in (0, 1):
        return Cell(grid.origin + grid.unit * cell)
    low, high = bracket or ((cell, grid.high) if level else (0, cell))
    slack = grid.rounding
    bottom, top = grid.lower * grid.scale, grid.upper * grid.scale
    value, under, over = (grid.origin + grid.unit * at for at in (max(low, min(cell, high)), low, high))
    return Cell(value, float(max(bottom, under - slack)), float(min(top, over + slack)))


def _array(cells: Sequence[Cell], of: Type) -> pa.Array:
    return arrays.column([evaluate.written(cell.value, of) for cell in cells], arrow_type(of))


def _ends(cells: Sequence[Cell], column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The intervals of a column, widened to the numbers it shows: a count is rounded to a whole one, which
    may lie outside an interval that ends at the count before."""
    numbers = np.array([math.nan if each is None else float(each) for each in column.to_pylist()], float)
    low, high = (np.array(ends, float) for ends in ([c.low for c in cells], [c.high for c in cells]))
    return np.where(numbers < low, numbers, low), np.where(numbers > high, numbers, high)


def _left_out(
    reader: GroupReader, of: Expr, cells: Sequence[Cell], groups: Sequence[Released]
) -> np.ndarray | None:
    """How much of each cell lies beyond the bounds; None where no cell has such a number."""
    amounts = [reader.left_out(of, cell, group) for cell, group in zip(cells, groups, strict=True)]
    if all(amount is None for amount in amounts):
        return None
    return np.array([held(amount or Fraction(0)) for amount in amounts], float)


def answer(settled: Settled, groups: Sequence[Released]) -> Result:
    """The table that was asked for, and its intervals."""
    query, terms = settled.plan.query, settled.plan.terms
    reader, beta = GroupReader(settled), float(checks.failure(terms.confidence))
    pairs = [(reader.row(group, beta), group) for group in groups]
    behind = {id(row): group for row, group in pairs}
    rows = evaluate.arranged([row for row, _ in pairs], query.having, query.order, query.limit, query.offset)
    groups_in_order = [behind[id(row)] for row in rows]
    table: dict[str, pa.Array] = {}
    low, high, left_out = {}, {}, {}
    for name, output in zip(column_names(query.outputs), query.outputs, strict=True):
        pieces = reader.pieces(output.of)
        cells = [reader.cell(output.of, pieces, group, beta) for group in groups_in_order]
        table[name] = _array(cells, output.of.type)
        if pieces and output.of.type.kind in _NUMBERS:
            low[name], high[name] = _ends(cells, table[name])
            beyond = _left_out(reader, output.of, cells, groups_in_order)
            if beyond is not None:
                left_out[name] = beyond
    bounding = _bounding(settled, beta)
    return Result(pa.table(table), low, high, terms.confidence, dict(settled.bounds), left_out, bounding)


def _bounding(settled: Settled, beta: float) -> Bounding | None:
    """What bounding leaves out, as far as it is told."""
    limit, crowd, terms = settled.limit, settled.crowd, settled.plan.terms
    row_bound = settled.plan.row_bound
    if row_bound is not None:
        values = tuple((name, *ends) for name, ends in settled.plan.clamps.items())
        return Bounding(
            limit.rows,
            limit.rows,
            hidden_people=row_bound.hidden_people,
            covers_all=row_bound.covers_all,
            values=values,
        )
    if not settled.plan.tells:
        shows_bound = terms.left_out and terms.most_rows is not None and limit.by_unit
        if shows_bound:
            return Bounding(limit.rows, limit.rows)
        return None
    if crowd is None:
        return Bounding(limit.rows, limit.most)
    people, classes = crowd.over(limit.rows)
    within = reach([(Fraction(1), crowd.noise)] * classes, beta)
    return Bounding(limit.rows, limit.most, max(0, people), math.ceil(within))


# ----------------------------------------------------------------------------------------- before the release


def expectations(plan: Plan, confidence: float) -> tuple[Expected, ...]:
    """The ± of each column of aggregates, of the worst grouping set."""
    beta, reader = float(checks.failure(confidence)), GroupReader(plan.start)
    outputs = list(zip(column_names(plan.query.outputs), plan.query.outputs, strict=True))
    return tuple(
        _expected(reader, name, output, beta) for name, output in outputs if evaluate.aggregates_in(output.of)
    )


def _expected(reader: GroupReader, name: str, output: Output, beta: float) -> Expected:
    plan = reader.plan
    if output.of.type.kind not in _NUMBERS or _waits(reader, output):
        return Expected(name, None, ranks=_ranks(reader, output, beta))
    size, pieces = plan.terms.at_least or TYPICAL, reader.pieces(output.of)
    numbers = tuple(reader.typical(measure, size) for measure in reader.measures)
    groups = [
        Released(i, (None,) * len(plan.query.keys), numbers, (None,) * len(numbers))
        for i in range(len(plan.sets))
    ]
    widest = max(_width(reader.cell(output.of, pieces, group, beta)) for group in groups)
    before = (
        isinstance(output.of, AggregateRef) and plan.query.aggregates[output.of.index].statistic in _BEFORE
    )
    return Expected(name, widest, None if before else size)


def _waits(reader: GroupReader, output: Output) -> bool:
    """Whether how far an output is off is known only afterwards: quantiles, and whatever bounds are found
    for."""
    plan = reader.plan
    positions = {position for a in evaluate.aggregates_in(output.of) for position in plan.stands[a]}
    measures = [plan.sets[0].measures[position] for position in positions]
    if plan.chooses:
        return True
    return any(
        isinstance(noisy.noise, Rank) or (noisy.measure.valued and noisy.grid is None) for noisy in measures
    )


def _width(cell: Cell) -> float:
    value = math.nan
    if isinstance(cell.value, Fraction):
        value = held(cell.value)
    return max(cell.high - value, value - cell.low)


def _ranks(reader: GroupReader, output: Output, beta: float) -> float | None:
    """How many rows a quantile's rank may be off; None where what counts of a unit is chosen privately, and
    for what is not one quantile."""
    if not isinstance(output.of, AggregateRef) or reader.plan.chooses:
        return None
    return rank_error(reader.plan, output.of.index, beta)


def rank_error(plan: Plan, aggregate: int, beta: float) -> float | None:
    """How many rows the rank of a quantile may be off, of the worst grouping set; None for what is none."""
    position = plan.stands[aggregate][0]
    ranks = [group.measures[position].noise for group in plan.sets]
    return max((r.rank_error(beta) / plan.limit.one for r in ranks if isinstance(r, Rank)), default=None)


# -------------------------------------------------------------------------------------------- names and types


def column_names(outputs: Sequence[Output]) -> list[str]:
    """Column names, made different by a number where two are the same."""
    names: list[str] = []
    for output in outputs:
        name, times = output.name, 1
        while name in names:
            times += 1
            name = f"{output.name}_{times}"
        names.append(name)
    return names


def arrow_type(type_: Type) -> pa.DataType:
    simple: dict[Kind, Any] = {
        Kind.BOOLEAN: pa.bool_(),
        Kind.INTEGER: pa.int64(),
        Kind.FLOAT: pa.float64(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
        Kind.TEXT: pa.string(),
    }
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(38, type_.scale)
    return simple[type_.kind]


# ------------------------------------------------------------- pieces that have an interval of their own


Known = Callable[[int], LinearForm | None]
"""The form of an aggregate, None where it has none."""


def find_pieces(expr: Expr, known: Known) -> tuple[Expr, ...]:
    """The largest parts of `expr` with an interval of their own, each once; each aggregate is one at the
    least."""
    if not evaluate.aggregates_in(expr):
        return ()
    if (
        isinstance(expr, AggregateRef)
        or linear_form(expr, known) is not None
        or _quotient(expr, known) is not None
    ):
        return (expr,)
    inner = (piece for arg in getattr(expr, "args", ()) for piece in find_pieces(arg, known))
    return tuple(dict.fromkeys(inner))


def bound_piece(expr: Expr, known: Known, beta: float, aggregates: Sequence[Aggregate] = ()) -> Interval:
    """The interval of a piece, of failure `beta`; of these `aggregates` more may be certain."""
    total = linear_form(expr, known)
    pair = _quotient(expr, known)
    try:
        limits = None
        if total is not None:
            limits = total.ends(beta)
        elif pair is not None:
            between = find_certain(expr, aggregates)
            limits = _clip_ends(quotients(*pair, beta, between), between)
        if limits is not None:
            return nearest(limits[0]), nearest(limits[1])
    except ArithmeticError:
        pass  # no interval follows
    return INFINITE


def linear_form(expr: Expr, known: Known) -> LinearForm | None:
    """`expr` as a sum of multiples of noisy numbers, if it is one."""
    match expr:
        case Literal(value=value):
            return _constant(value)
        case AggregateRef(index, _):
            return known(index)
        case Call("cast", (arg,), type_) if type_.kind is Kind.FLOAT:
            return linear_form(arg, known)
        case Call("negate", (arg,), _):
            inner = linear_form(arg, known)
            if inner is None:
                return None
            return inner.times(Fraction(-1))
        case Call("add" | "subtract" | "multiply" | "divide" as op, (left, right), _):
            return _combine(op, linear_form(left, known), linear_form(right, known))
    return None


def _constant(value: object) -> LinearForm | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        return None
    return LinearForm(Fraction(value))


def _combine(op: str, left: LinearForm | None, right: LinearForm | None) -> LinearForm | None:
    if left is None or right is None:
        return None
    match op:
        case "add":
            return left.plus(right)
        case "subtract":
            return left.plus(right.times(Fraction(-1)))
        case "multiply" if left.known or right.known:
            if left.known:
                return right.times(left.value)
            return left.times(right.value)
        case "divide" if right.known and right.value:
            return left.times(1 / right.value)
    return None


def _quotient(expr: Expr, known: Known) -> tuple[LinearForm, LinearForm] | None:
    if not isinstance(expr, Call) or expr.op != "divide":
        return None
    top, bottom = linear_form(expr.args[0], known), linear_form(_nonzero(expr.args[1]), known)
    if top is None or bottom is None or bottom.known:
        return None
    return (top, bottom)


def _nonzero(divisor: Expr) -> Expr:
    """NULLIF(x, 0) is x wherever there is a quotient."""
    match divisor:
        case Call("nullif", (of, Literal(value=0)), _):
            return of
        case Call("cast", (arg,), type_) if type_.kind is Kind.FLOAT:
            return _nonzero(arg)
    return divisor


# -------------------------------------------------------------------------------------------- what is certain


def find_certain(expr: Expr, aggregates: Sequence[Aggregate]) -> Ends | None:
    """Where a quotient lies whatever the rows are: a count of some rows by that of all of them is a share,
    and a sum of values between bounds by a count of no fewer rows lies between those bounds and 0. It is so
    of all rows and of those that count alike."""
    match expr:
        case Call("divide", (top, bottom), _):
            match _strip_cast(_nonzero(bottom)):
                case AggregateRef(index, _) if index < len(aggregates):
                    return _share_of_rows(top, aggregates[index], aggregates)
    return None


def _share_of_rows(top: Expr, rows: Aggregate, aggregates: Sequence[Aggregate]) -> Ends | None:
    match _strip_cast(top):
        case AggregateRef(index, _):
            return _by_rows(aggregates[index], rows)
        case Call("multiply", (Literal(value=factor), of) | (of, Literal(value=factor)), _):
            inner, by = _share_of_rows(of, rows, aggregates), _constant(factor)
            if inner is not None and by is not None:
                return min(by.value * end for end in inner), max(by.value * end for end in inner)
    return None


def _by_rows(part: Aggregate, rows: Aggregate) -> Ends | None:
    if not _is_among(part, rows):
        return None
    if part.statistic is rows.statistic:
        return Fraction(0), Fraction(1)
    if part.statistic is Statistic.SUM and part.bounds is not None:
        return min(Fraction(0), part.bounds[0]), max(Fraction(0), part.bounds[1])
    return None


def _is_among(part: Aggregate, rows: Aggregate) -> bool:
    """Whether every row of `part` is one of the counted `rows`."""
    if rows.statistic is not Statistic.COUNT or rows.of not in (None, part.of):
        return False
    return rows.where in (None, part.where)


def _clip_ends(limits: Ends | None, between: Ends | None) -> Ends | None:
    if limits is None or between is None:
        return limits or between
    low, high = (max(between[0], min(end, between[1])) for end in limits)
    return low, high


def _strip_cast(expr: Expr) -> Expr:
    match expr:
        case Call("cast", (arg,), type_) if type_.kind is Kind.FLOAT:
            return _strip_cast(arg)
    return expr
