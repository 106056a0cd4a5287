"""What each aggregate stands on, and how it is made from that, with its interval. Pure post-processing.

An aggregate stands on a few measures: COUNT on a count, SUM on a sum, AVG on both, VAR on a count, a sum and
a sum of squares. A measure is taken once, however many aggregates stand on it.

The interval holds the aggregate without noise (of clamped values and bounded contributions) with probability
1 − β: counts and sums by the law of their noise, quotients by Fieller's argument (`joint_noise`), variances
by a union of two or three of these. Where it is told what the bound on a unit's rows leaves out, the
intervals of counts, sums and averages hold the aggregate of up to M rows of a unit, and the numbers are
estimates of that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from deniable.sql import floats
from deniable.sql.answer.joint_noise import Bound, Ends, LinearForm, quotients
from deniable.sql.floats import nearest
from deniable.sql.functions.function import Cell
from deniable.sql.plan.measures.distinct import Distinct
from deniable.sql.plan.measures.grid import Bounds, Grid
from deniable.sql.plan.measures.measure import Measure
from deniable.sql.plan.measures.ranks import Ranks
from deniable.sql.plan.measures.totals import Count, LeftOut, Square, Sum
from deniable.sql.plan.measures.units import Units
from deniable.sql.tree import Aggregate, Expr, Query, Statistic

ROUNDED_ROWS = 10**8
"""Rounding moves a sum by half a grid unit per row at most; the ± of a sum of floats allows for this many
rows of a group."""

INFINITE = (-math.inf, math.inf)

Interval = tuple[float, float]


_SPREADS = (Statistic.VARIANCE, Statistic.VARIANCE_POP, Statistic.STDDEV, Statistic.STDDEV_POP)
_LEVELS = {Statistic.MIN: Fraction(0), Statistic.MAX: Fraction(1)}
_MOST_CARRIED = 4.0
TOLD = (Statistic.COUNT, Statistic.SUM, Statistic.AVG)
"""The aggregates of which it can be told what the bound on a unit's rows leaves out."""
_TOLD_USE = 1 / 25
"""Of a measure's use: by √u, what it leaves out gets a fifth of its ε (by u^⅔, an eighth of its ρ)."""


# ----------------------------------------------------------------------------------- what aggregates stand on


@dataclass(frozen=True)
class Footing:
    """The measures of a query, those that each aggregate stands on (by position), and the use of each
    measure.

    A use is how much the measure's error weighs in the errors shown (`plan.allocation`): of an average's ±
    the count brings
    |mean − centre|/(half the width), a half where the mean lies midway to a bound, beside the sum; a centred
    sum carries centre/(half the width) counts."""

    measures: tuple[Measure, ...]
    positions: tuple[tuple[int, ...], ...]
    uses: tuple[float, ...]


def standing(query: Query, *, told: bool = False) -> Footing:
    """With what the bound on a unit's rows leaves out of counts, sums and averages, where that is `told`."""
    beside_count = (Statistic.COUNT, Statistic.AVG, *_SPREADS)
    count_targets = {_counted(a) for a in query.aggregates if a.statistic in beside_count}
    uses: dict[Measure, float] = {}
    stands: list[tuple[Measure, ...]] = []
    for aggregate in query.aggregates:
        needs = _needs(aggregate, _counted(aggregate) in count_targets)
        for measure, use in needs:
            uses[measure] = uses.get(measure, 0.0) + use
        stands.append(tuple(measure for measure, _ in needs))
    if told:
        uses |= _left_out(query, stands, uses)
    places = {measure: i for i, measure in enumerate(uses)}
    positions = tuple(tuple(places[measure] for measure in each) for each in stands)
    return Footing(tuple(uses), positions, tuple(uses.values()))


def _left_out(
    query: Query, stands: Sequence[Sequence[Measure]], uses: Mapping[Measure, float]
) -> dict[Measure, float]:
    """Of an average it is enough to tell how many rows are left out: they lie between the bounds."""
    pairs = zip(query.aggregates, stands, strict=True)
    candidates = [
        measure for a, measures in pairs if a.statistic in TOLD for measure in _told_of(a, measures)
    ]
    return {
        LeftOut.of_measure(measure): uses[measure] * _TOLD_USE
        for measure in candidates
        if isinstance(measure, Count | Sum)
    }


def _told_of(a: Aggregate, measures: Sequence[Measure]) -> Sequence[Measure]:
    if a.statistic is Statistic.AVG:
        return measures[1:]
    return measures


def _needs(a: Aggregate, counted: bool) -> tuple[tuple[Measure, float], ...]:
    """The measures of an aggregate and their uses; a sum is centred where rows are `counted` beside it."""
    count = Count(*_counted(a))
    total = Sum(a.of, a.where, a.bounds, counted)
    match a.statistic:
        case Statistic.COUNT:
            return ((count, 1.0),)
        case Statistic.COUNT_UNITS:
            return ((Units(None, a.where), 1.0),)
        case Statistic.COUNT_DISTINCT:
            return ((Distinct(a.of, a.where), 1.0),)
        case Statistic.SUM:
            if counted:
                return ((total, 1.0), (count, _carried(a.bounds)))
            return ((total, 1.0),)
        case Statistic.AVG:
            return ((total, 1.0), (count, 0.5))
        case Statistic.MIN | Statistic.MAX | Statistic.QUANTILE:
            return ((Ranks(a.of, a.where, a.bounds, _LEVELS.get(a.statistic, a.level)), 1.0),)
        case _:
            return ((Square(a.of, a.where, a.bounds), 1.0), (total, 0.5), (count, 0.5))


def _counted(a: Aggregate) -> tuple[Expr | None, Expr | None]:
    """Of which values the rows are counted: all rows where a value is never NULL, so that one count
    serves."""
    return None if a.present else a.of, a.where


def _carried(bounds: Bounds | None) -> float:
    if bounds is None or bounds[0] == bounds[1]:
        return 1.0
    return min(_MOST_CARRIED, float(abs(bounds[0] + bounds[1]) / (bounds[1] - bounds[0])))


# ------------------------------------------------------------------------------------------ how they are made


@dataclass(frozen=True)
class NoisyInteger:
    """A noisy integer, its noise (or a number that its error never passes), what one of it is worth in rows
    (or units, or values), and which part it is: the noise of one without a number is its own."""

    noisy: int
    noise: Bound
    worth: Fraction
    part: int | None = None
    left_out: NoisyInteger | None = None

    @property
    def value(self) -> Fraction:
        return self.noisy * self.worth

    @property
    def form(self) -> LinearForm:
        return LinearForm(
            self.value, {id(self) if self.part is None else self.part: (self.worth, self.noise)}
        )

    @property
    def counted(self) -> NoisyInteger:
        """By itself, without what is left out."""
        return replace(self, left_out=None)


def linear(statistic: Statistic, parts: Sequence[NoisyInteger], grid: Grid | None) -> LinearForm | None:
    """A count or a sum in terms of its parts, with what is left out of them if that is told; None for what is
    not linear in them."""
    if grid is not None and statistic is not Statistic.SUM:
        return None
    base = _line(parts, grid)
    if any(part.left_out is None for part in parts):
        return base
    left_out = _line([part.left_out for part in parts if part.left_out is not None], grid)
    return base.beside(left_out, _side(grid))


def _line(parts: Sequence[NoisyInteger], grid: Grid | None) -> LinearForm:
    """A sum is counted from the grid's origin; a centred one needs the count to come back from there."""
    if grid is None:
        return parts[0].form
    unit = parts[0].form.times(grid.unit)
    total = LinearForm(unit.value, unit.terms, ROUNDED_ROWS * grid.rounding)
    if len(parts) < 2:
        return total
    return total.plus(parts[1].form.times(grid.origin))


def _side(grid: Grid | None) -> int:
    """The sign of a count or a sum of values between the bounds of a grid, 0 if it may have either."""
    if grid is None or grid.lower >= 0:
        return 1
    return -1 if grid.upper <= 0 else 0


@dataclass(frozen=True)
class RowScope:
    """How what counts stands for all rows: they are more by a `factor`, and by up to a share `hidden` that
    nobody sees."""

    factor: Fraction = Fraction(1)
    hidden: Fraction = Fraction(0)


ALL = RowScope()


def ranged(form: LinearForm, beta: float, side: int = 1, scope: RowScope = ALL) -> Cell:
    """What counts, for all rows; hidden rows are on the `side` of 0 that values are. The interval is widened
    to the number where it does not hold it: the noise of what is told is the larger one, and one large draw
    of it would carry the number away."""
    low, high = form.ends(beta)
    base = form.counted or form
    hidden = abs(base.value) * scope.hidden
    if side <= 0:
        low -= hidden
    if side >= 0:
        high += hidden
    value = base.value * scope.factor
    return Cell(value, nearest(min(low, value)), nearest(max(high, value)))


def mean(part: NoisyInteger, grid: Grid, rows: NoisyInteger, beta: float) -> Cell:
    """The origin plus sum over count. The mean of clamped values lies between the bounds, and where the count
    may be 0 no more is known."""
    if rows.noisy <= 0:
        return Cell(None)
    least, most = grid.lower * grid.scale, grid.upper * grid.scale
    value = max(least, min(most, grid.origin + grid.unit * part.value / rows.value))
    between = Fraction(grid.low), Fraction(grid.high)
    interval = _means if rows.left_out is None else _told
    ends = interval(part, rows, beta, between)
    if ends is None:
        return Cell(value, float(least), float(most))
    slack = grid.rounding
    low, high = grid.origin + grid.unit * ends[0] - slack, grid.origin + grid.unit * ends[1] + slack
    low, high = max(least, min(low, most)), min(most, max(high, least))
    return Cell(max(low, min(high, value)), float(low), float(high))


def _told(part: NoisyInteger, rows: NoisyInteger, beta: float, between: Ends) -> Ends | None:
    """Of all rows up to M of a unit. The mean of what counts, moved towards either bound as far as the rows
    that are left out could move it, if every one of them lay there. And sum over count, both with what is
    left out, where that is told of the sum: two ways, of which each fails with probability β/2."""
    if part.left_out is None:
        pairs = [_moved(part, rows, beta, between)]
    else:
        pairs = [way(part, rows, beta / 2, between) for way in (_moved, _means)]
    intervals = [ends for ends in pairs if ends is not None]
    if not intervals:
        return None
    low, high = max(ends[0] for ends in intervals), min(ends[1] for ends in intervals)
    return min(low, high), max(low, high)


def _moved(part: NoisyInteger, rows: NoisyInteger, beta: float, between: Ends) -> Ends | None:
    """The mean of what counts, moved towards either bound by the largest share of rows that may be left out.

    Their number is at most its upper end, and what counts at least its lower end: noise is symmetric, so a
    reach at 2p is passed on one side with probability p. With the mean itself, β/2, β/4 and β/4."""
    assert rows.left_out is not None
    base, beyond = rows.counted.form, rows.left_out.form
    near = _means(part.counted, rows.counted, beta / 4, between)
    fewest = base.value - base.reach(beta / 2)
    most_beyond = max(Fraction(0), beyond.value + beyond.reach(beta))
    if near is None or fewest <= 0:
        return None
    share = most_beyond / (fewest + most_beyond)
    return near[0] + share * (between[0] - near[0]), near[1] + share * (between[1] - near[1])


def _whole(part: NoisyInteger) -> tuple[LinearForm, LinearForm]:
    """What counts, and that with what is left out."""
    base = part.counted.form
    if part.left_out is None:
        return base, base
    return base, base.plus(part.left_out.form)


def _means(part: NoisyInteger, rows: NoisyInteger, beta: float, between: Ends) -> Ends | None:
    """Of integers between two bounds, by their noisy sum and count. If no mean is left, the bound that is
    nearest."""
    ends = quotients(_whole(part)[1], _whole(rows)[1], beta, between)
    if ends is None:
        return None
    low, high = (max(between[0], min(between[1], end)) for end in ends)
    return min(low, high), max(low, high)


def spread(
    square: NoisyInteger,
    part: NoisyInteger,
    rows: NoisyInteger,
    grid: Grid,
    statistic: Statistic,
    beta: float,
) -> Cell:
    """Variance or deviation: mean square minus squared mean, both counted from the origin."""
    root = statistic in (Statistic.STDDEV, Statistic.STDDEV_POP)
    sample = statistic in (Statistic.VARIANCE, Statistic.STDDEV)
    if rows.noisy <= 0:
        return Cell(None)
    worth, middle = grid.unit**2 * (1 << grid.shift), grid.square_centre
    first, second = grid.unit * part.value / rows.value, worth * (square.value / rows.value + middle)
    most = ((grid.upper - grid.lower) * grid.scale) ** 2 / 4
    value = max(Fraction(0), min(most, second - first**2)) * _corrected(rows.value, sample)
    ends = _spread_interval(square, part, rows, grid, sample, beta)
    if root:
        value, ends = floats.root(value), ends and (floats.root(ends[0]), floats.root(ends[1]))
    if ends is None:
        return Cell(value, 0.0, math.inf)
    return Cell(value, nearest(ends[0]), nearest(ends[1]))


def _spread_interval(
    square: NoisyInteger, part: NoisyInteger, rows: NoisyInteger, grid: Grid, sample: bool, beta: float
) -> Ends | None:
    """Both moments at once, and the count where it is divided out once more: β in equal shares. None where
    nothing is known."""
    share = beta / (3 if sample else 2)
    firsts = _means(part, rows, share, (Fraction(grid.low), Fraction(grid.high)))
    seconds = _means(square, rows, share, (Fraction(grid.squares[0]), Fraction(grid.squares[1])))
    fewest, most = rows.form.ends(share)
    if firsts is None or seconds is None or (sample and fewest <= 1):
        return None
    cut = 1 if grid.shift else 0
    # A value rounded by half a unit at |u| ≤ top has its square moved by at most top + ¼, its mean by ½.
    slack = Fraction(0)
    if not grid.exact:
        slack = grid.unit**2 * (grid.top + Fraction(1, 4))
    worth, middle = grid.unit**2 * (1 << grid.shift), grid.square_centre
    means = [grid.unit * end for end in firsts]
    squares = [mean * mean for mean in means]
    least = Fraction(0) if means[0] <= 0 <= means[1] else min(squares)
    low = max(Fraction(0), worth * (seconds[0] + middle) - max(squares) - 2 * slack)
    high = max(low, worth * (seconds[1] + middle + cut) - least + 2 * slack)
    return low * _corrected(most, sample), high * _corrected(fewest, sample)


def _corrected(rows: Fraction, sample: bool) -> Fraction:
    """n/(n − 1) of a sample variance; 1 where n is no more than 1."""
    if sample and rows > 1:
        return rows / (rows - 1)
    return Fraction(1)


def aggregate(
    statistic: Statistic,
    parts: Sequence[NoisyInteger],
    grid: Grid | None,
    beta: float,
    scope: RowScope = ALL,
) -> Cell:
    """The aggregate that stands on `parts`, in the order of `_needs`, with its interval of failure `beta`."""
    form = linear(statistic, parts, grid)
    if form is not None:
        return ranged(form, beta, _side(grid), scope if statistic in TOLD else ALL)
    if grid is None:
        return Cell(None)
    if statistic is Statistic.AVG:
        return mean(parts[0], grid, parts[1], beta)
    square, part, rows = (each.counted for each in parts)
    return spread(square, part, rows, grid, statistic, beta)
