"""What is measured: integers per group from which every aggregate is made, and how far one unit moves them.

An aggregate stands on parts: COUNT on a count, SUM on a sum, AVG on both, VAR on a count, a sum and a sum of squares. A
part is measured once, however many aggregates stand on it. Proofs of the sensitivities: docs/theory/curator.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from deniable.errors import InvalidQuery
from deniable.sql.plan.noise import Sensitivity
from deniable.sql.tree import Aggregate, Expr, Kind, Query, Statistic

_FARTHEST = Fraction(2) ** 900
"""Bounds are read up to here, so that no float in a statement overflows."""


class Measure(StrEnum):
    """How a part is computed."""

    COUNT = "count"
    SUM = "sum"
    SQUARE = "sum of squares"
    UNITS = "units"
    DISTINCT = "distinct"
    RANKS = "ranks"


@dataclass(frozen=True)
class Part:
    """One statistic, the same integer or histogram whichever aggregate asks. `centred` sums count from the middle of the
    bounds, which halves their sensitivity where a count is released beside them."""

    measure: Measure
    of: Expr | None
    where: Expr | None
    bounds: tuple[Fraction, Fraction] | None = None
    centred: bool = False
    level: Fraction | None = None


@dataclass(frozen=True)
class Grid:
    """How a value becomes an integer: clamped to [lower, upper], moved by −centre, in steps of `step`.

    All in the engine's own measure, where a decimal is a number of 10^-scale; `scale` is what one of these means. `exact`
    values are integers of step 1 and are not rounded. `low` and `high` are the least and largest integer, at most
    2^(bits − 1) in size.
    """

    lower: Fraction
    upper: Fraction
    centre: Fraction
    step: Fraction
    scale: Fraction
    exact: bool
    low: int
    high: int
    bits: int

    @property
    def top(self) -> int:
        return max(abs(self.low), abs(self.high), 1)

    @property
    def unit(self) -> Fraction:
        """What one grid unit means."""
        return self.step * self.scale

    @property
    def origin(self) -> Fraction:
        """What 0 means."""
        return self.centre * self.scale

    @property
    def shift(self) -> int:
        """Squares are kept below 2^(bits − 1) too: this many of their bits are cut off."""
        return max(0, 2 * self.top.bit_length() - self.bits + 1)

    @property
    def squares(self) -> tuple[int, int]:
        """The least and largest of what squares become: cut, and counted from their middle."""
        return -self.square_centre, (self.top**2 >> self.shift) - self.square_centre

    @property
    def square_centre(self) -> int:
        return (self.top**2 >> self.shift) // 2


def grid(of: Expr, bounds: tuple[Fraction, Fraction], centred: bool | None, bits: int, *, filled: bool = False) -> Grid:
    """The finest grid on which no value passes 2^(bits − 1): the values' own where they are whole numbers and it fits.

    `centred` is None to count from the lower bound. A `filled` grid reaches 2^(bits − 1), for whole numbers too: where noise is
    sized before the bounds are known, a coarser grid would drown in it.
    """
    scale = scale_of(of)
    lower, upper = (max(-_FARTHEST, min(_FARTHEST, bound / scale)) for bound in bounds)
    if of.type.kind is not Kind.FLOAT and not filled:
        low, high = max(math.floor(lower), -(2**61)), min(math.ceil(upper), 2**61)
        high = max(low, high)
        centre = low if centred is None else (low + high) // 2 if centred else 0
        ends = Fraction(low), Fraction(high)
        whole = Grid(*ends, Fraction(centre), Fraction(1), scale, True, low - centre, high - centre, bits)
        if whole.top <= 2 ** (bits - 1):
            return whole
    return _rounded(float(lower), float(max(lower, upper)), centred, bits, scale)


def _rounded(lower: float, upper: float, centred: bool | None, bits: int, scale: Fraction) -> Grid:
    """A power of two as step. `_unit` is what engines compute: each operation is monotone, so the ends bound all values."""
    centre = lower if centred is None else lower / 2 + upper / 2 if centred else 0.0
    width = max(abs(lower - centre), abs(upper - centre), 2.0**-900)
    step = 2.0 ** (math.frexp(width)[1] - bits + 1)
    low, high = _unit(lower, centre, step), _unit(upper, centre, step)
    ends = Fraction(lower), Fraction(upper)
    return Grid(*ends, Fraction(centre), Fraction(step), scale, False, low, high, bits)


def _unit(x: float, centre: float, step: float) -> int:
    return math.floor((x - centre) * (1 / step) + 0.5)


def scale_of(of: Expr | None) -> Fraction:
    """What one of the engine's own units means."""
    if of is None:
        return Fraction(1)
    if of.type.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        raise InvalidQuery(
            f"A {of.type.kind} cannot be summed or ranked. Nothing was run and nothing was charged. "
            "Take a number, for example by CAST or DATE_DIFF."
        )
    return Fraction(1, 10**of.type.scale) if of.type.kind is Kind.DECIMAL else Fraction(1)


# ------------------------------------------------------------------------------------------------ aggregates to parts

_SPREADS = (Statistic.VARIANCE, Statistic.VARIANCE_POP, Statistic.STDDEV, Statistic.STDDEV_POP)
_LEVELS = {Statistic.MIN: Fraction(0), Statistic.MAX: Fraction(1)}


def parts_of(query: Query) -> tuple[tuple[Part, ...], tuple[tuple[int, ...], ...], tuple[float, ...]]:
    """The parts of a query, those that each aggregate stands on (by position), and the use of each part.

    A use is how much the part's error weighs in the errors shown (`split`): of an average's ± the count brings |mean −
    centre|/(half the width), a half where the mean lies midway to a bound, beside the sum; a centred sum carries
    centre/(half the width) counts.
    """
    counted = {(a.of, a.where) for a in query.aggregates if a.statistic in (Statistic.COUNT, Statistic.AVG, *_SPREADS)}
    uses: dict[Part, float] = {}
    stands: list[tuple[Part, ...]] = []
    for aggregate in query.aggregates:
        needed = _needed(aggregate, (aggregate.of, aggregate.where) in counted)
        for part, use in needed:
            uses[part] = uses.get(part, 0.0) + use
        stands.append(tuple(part for part, _ in needed))
    order = {part: i for i, part in enumerate(uses)}
    return tuple(uses), tuple(tuple(order[part] for part in each) for each in stands), tuple(uses.values())


def _needed(a: Aggregate, counted: bool) -> tuple[tuple[Part, float], ...]:
    count = Part(Measure.COUNT, a.of, a.where)
    total = Part(Measure.SUM, a.of, a.where, a.bounds, counted)
    match a.statistic:
        case Statistic.COUNT:
            return ((count, 1.0),)
        case Statistic.COUNT_UNITS:
            return ((Part(Measure.UNITS, None, a.where), 1.0),)
        case Statistic.COUNT_DISTINCT:
            return ((Part(Measure.DISTINCT, a.of, a.where), 1.0),)
        case Statistic.SUM:
            return ((total, 1.0), (count, _carried(a.bounds))) if counted else ((total, 1.0),)
        case Statistic.AVG:
            return ((total, 1.0), (count, 0.5))
        case Statistic.MIN | Statistic.MAX | Statistic.QUANTILE:
            level = _LEVELS.get(a.statistic, a.level)
            return ((Part(Measure.RANKS, a.of, a.where, a.bounds, level=level), 1.0),)
        case _:
            return ((Part(Measure.SQUARE, a.of, a.where, a.bounds, True), 1.0), (total, 0.5), (count, 0.5))


def _carried(bounds: tuple[Fraction, Fraction] | None) -> float:
    if bounds is None or bounds[0] == bounds[1]:
        return 1.0
    return min(4.0, float(abs(bounds[0] + bounds[1]) / (bounds[1] - bounds[0])))


# ------------------------------------------------------------------------------------------------ sensitivities


def counted(total: int, *, replace: bool, single: bool) -> Sensitivity:
    """Non-negative weights that sum to at most `total` for one unit, over all groups.

    Coming or going moves the vector by at most `total` in L1 and L2. Replaced, a − b with a, b ≥ 0: 2·total in L1,
    √2·total in L2; in a single group |a − b| ≤ total.
    """
    many = replace and not single
    return Sensitivity(total * (2 if many else 1), total * total * (2 if many else 1))


def summed(total: int, low: int, high: int, *, replace: bool, single: bool) -> Sensitivity:
    """Weights that sum to at most `total`, times integers in [low, high]."""
    top = max(abs(low), abs(high), 1)
    if not replace:
        return Sensitivity(total * top, (total * top) ** 2)
    span = max(high, 0) - min(low, 0) or 1
    if single:
        return Sensitivity(total * span, (total * span) ** 2)
    one_sign = low >= 0 or high <= 0
    return Sensitivity(2 * total * top, (2 if one_sign else 4) * (total * top) ** 2)


def present(groups: int, one: int, *, replace: bool, single: bool) -> Sensitivity:
    """One weight per unit and group, `one` each for up to `groups` groups and groups·one in all beyond.

    With n groups the L2 norm is √n·one for n ≤ groups, and at most groups·one/√n beyond: √groups·one at the most.
    """
    groups = 1 if single else groups
    many = 2 if replace and not single else 1
    return Sensitivity(many * groups * one, many * groups * one * one)
