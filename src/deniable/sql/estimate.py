"""From noisy integers to an aggregate with its interval. Pure post-processing.

The interval holds the aggregate without noise (of clamped values and bounded contributions) whenever every part's noise is
within its radius; the radii are chosen so that this has the stated probability (union bound over the parts).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable.sql.statistics import Grid
from deniable.sql.tree import Statistic

ROUNDED_ROWS = 10**8
"""Rounding moves a sum by half a grid unit per row at most; the ± of a sum of floats allows for this many rows of a group."""

INFINITE = (-math.inf, math.inf)

Interval = tuple[float, float]


@dataclass(frozen=True)
class Cell:
    """A released value, and the interval of what it would be without noise."""

    value: Any
    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True)
class Measured:
    """A noisy integer, how far its noise may reach, and what one of it is worth in rows (or units, or values)."""

    noisy: int
    radius: int
    worth: Fraction

    @property
    def value(self) -> Fraction:
        return self.noisy * self.worth

    @property
    def interval(self) -> tuple[Fraction, Fraction]:
        return (self.noisy - self.radius) * self.worth, (self.noisy + self.radius) * self.worth


def count(part: Measured) -> Cell:
    return Cell(part.value, *map(float, part.interval))


def total(part: Measured, grid: Grid, rows: Measured | None) -> Cell:
    """A sum, counted from the grid's origin; a centred one needs the count to come back from there."""
    low, high = part.interval
    value, slack = part.value * grid.unit, Fraction(0) if grid.exact else ROUNDED_ROWS * grid.unit / 2
    low, high = low * grid.unit - slack, high * grid.unit + slack
    if rows is None or not grid.origin:
        return Cell(value, float(low), float(high))
    ends = [end * grid.origin for end in rows.interval]
    return Cell(value + rows.value * grid.origin, float(low + min(ends)), float(high + max(ends)))


def mean(part: Measured, grid: Grid, rows: Measured) -> Cell:
    """The origin plus sum over count; unbounded where the count may be 0."""
    if rows.noisy <= 0:
        return Cell(None)
    value = grid.origin + grid.unit * part.value / rows.value
    value = max(grid.lower * grid.scale, min(grid.upper * grid.scale, value))
    ratio = _ratio(part.interval, rows.interval)
    if ratio is None:
        return Cell(value)
    slack = Fraction(0) if grid.exact else grid.unit / 2
    # The mean of clamped values lies between the bounds.
    least, most = grid.lower * grid.scale, grid.upper * grid.scale
    low, high = grid.origin + grid.unit * ratio[0] - slack, grid.origin + grid.unit * ratio[1] + slack
    return Cell(value, float(max(least, min(low, most))), float(min(most, max(high, least))))


def spread(square: Measured, part: Measured, rows: Measured, grid: Grid, statistic: Statistic) -> Cell:
    """Variance or deviation: mean square minus squared mean, both counted from the origin."""
    root = statistic in (Statistic.STDDEV, Statistic.STDDEV_POP)
    sample = statistic in (Statistic.VARIANCE, Statistic.STDDEV)
    if rows.noisy <= 0:
        return Cell(None)
    worth, middle = grid.unit**2 * (1 << grid.shift), grid.square_centre
    first, second = grid.unit * part.value / rows.value, worth * (square.value / rows.value + middle)
    most = ((grid.upper - grid.lower) * grid.scale) ** 2 / 4
    value = max(Fraction(0), min(most, second - first**2)) * _corrected(rows.value, sample)
    low, high = _spread_interval(square, part, rows, grid, sample)
    if root:
        return Cell(Fraction(math.sqrt(value)), math.sqrt(low), math.sqrt(high))
    return Cell(value, low, high)


def _spread_interval(square: Measured, part: Measured, rows: Measured, grid: Grid, sample: bool) -> Interval:
    firsts, seconds = _ratio(part.interval, rows.interval), _ratio(square.interval, rows.interval)
    if firsts is None or seconds is None or (sample and rows.interval[0] <= 1):
        return 0.0, math.inf
    cut = 1 if grid.shift else 0
    # A value rounded by half a unit at |u| ≤ top has its square moved by at most top + ¼, its mean by ½.
    slack = Fraction(0) if grid.exact else grid.unit**2 * (grid.top + Fraction(1, 4))
    worth, middle = grid.unit**2 * (1 << grid.shift), grid.square_centre
    means = [grid.unit * end for end in firsts]
    squares = [mean * mean for mean in means]
    least = Fraction(0) if means[0] <= 0 <= means[1] else min(squares)
    low = max(Fraction(0), worth * (seconds[0] + middle) - max(squares) - 2 * slack)
    high = max(low, worth * (seconds[1] + middle + cut) - least + 2 * slack)
    first, last = rows.interval
    return float(low * _corrected(last, sample)), float(high * _corrected(first, sample))


def _corrected(rows: Fraction, sample: bool) -> Fraction:
    """n/(n − 1) of a sample variance; 1 where n is no more than 1."""
    return rows / (rows - 1) if sample and rows > 1 else Fraction(1)


def _ratio(top: tuple[Fraction, Fraction], bottom: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction] | None:
    """All quotients, if the denominator is positive for sure."""
    if bottom[0] <= 0:
        return None
    ends = [a / b for a in top for b in bottom]
    return min(ends), max(ends)


def aggregate(statistic: Statistic, parts: Sequence[Measured], grid: Grid | None) -> Cell:
    """The aggregate that stands on `parts`, in the order of `statistics.parts_of`."""
    if grid is None:
        return count(parts[0])
    match statistic:
        case Statistic.SUM:
            return total(parts[0], grid, parts[1] if len(parts) > 1 else None)
        case Statistic.AVG:
            return mean(parts[0], grid, parts[1])
        case _:
            return spread(parts[0], parts[1], parts[2], grid, statistic)
