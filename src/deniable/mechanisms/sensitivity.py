"""How far one unit can move an answer, so that nobody derives Δ by hand.

Each function takes the unit and public bounds, and gives a `Sensitivity` in L1 (for
Laplace noise) and L2 (for Gaussian noise). A unit brings one row (`Unit.row`,
`Unit.value`) or up to `max_rows` (`Unit.column`). Roots are rounded up.

>>> count(Unit.row(), queries=3)
Sensitivity(l1=3, l2=1.7320508075688774)
>>> histogram(Unit.row()), histogram(Unit.row(replace=True))
(Sensitivity(l1=1, l2=1), Sensitivity(l1=2, l2=1.4142135623730951))
>>> sum(-5, 10, Unit.column("patient_id", max_rows=4))
Sensitivity(l1=40, l2=40)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from deniable import checks
from deniable.loss import Number, exact
from deniable.mechanisms import grid
from deniable.numbers import plain
from deniable.units import Unit, UnitKind


@dataclass(frozen=True)
class Sensitivity:
    """The largest distance between answers on neighbouring data."""

    l1: Number
    l2: Number


def count(unit: Unit, *, queries: int = 1) -> Sensitivity:
    """`queries` counts over one table: each moves by one unit's rows at most, and a row
    may be in all of them.

    Replacing a unit moves a count no further, from all its rows to none. Δ₁ = k, Δ₂ = √k for one row.
    """
    rows, k = checks.rows_of(unit), checks.whole("queries", queries, at_least=1)
    # k counts that each move by `rows`: √(k·rows²) in L2, rounded up.
    return Sensitivity(rows * k, grid.root_up(Fraction(rows * rows * k)))


def sum(lower: Number, upper: Number, unit: Unit, *, filtered: bool = False) -> Sensitivity:
    """A sum of rows clamped to [lower, upper] (as `grid.clamped_sum` does).

    Adding or removing a unit moves it by max(|lower|, |upper|) per row. Replacing one row that counts either
    way moves it by upper − lower; if it may count for nothing (`filtered=True`, and always for a column,
    which may have fewer rows), by max(upper, 0) − min(lower, 0) per row.

    >>> sum(20, 60, Unit.row(replace=True)), sum(20, 60, Unit.row(replace=True), filtered=True)
    (Sensitivity(l1=40, l2=40), Sensitivity(l1=60, l2=60))
    """
    low, high = _bounds(lower, upper)
    rows, may_miss = checks.rows_of(unit), checks.flag("filtered", filtered) or unit.kind is UnitKind.COLUMN
    if not unit.replace:
        change = max(abs(low), abs(high))
    else:
        change = max(high, Fraction(0)) - min(low, Fraction(0)) if may_miss else high - low
    total = plain(change * rows)
    return Sensitivity(total, total)


def mean(lower: Number, upper: Number, rows: int, unit: Unit, *, filtered: bool = False) -> Sensitivity:
    """A sum divided by a public number of `rows`, not by one read from the data: where
    units come and go, n is private.

    >>> mean(0, 100, rows=50, unit=Unit.row(replace=True))
    Sensitivity(l1=2, l2=2)
    """
    change = exact(sum(lower, upper, unit, filtered=filtered).l1)
    share = plain(change / checks.whole("rows", rows, at_least=1))
    return Sensitivity(share, share)


def proportion(rows: int, unit: Unit) -> Sensitivity:
    """A count divided by a public number of `rows`."""
    share = plain(exact(count(unit).l1) / checks.whole("rows", rows, at_least=1))
    return Sensitivity(share, share)


def histogram(unit: Unit, *, tables: int = 1) -> Sensitivity:
    """Counts over disjoint buckets, or `tables` such histograms of the same rows.

    A row that comes or goes moves one bucket by 1. A replaced row moves two, so 2 in L1 and √2 in L2 per
    table. All rows of a unit may lie in one bucket, which is the worst case of L2.
    """
    rows, k = checks.rows_of(unit), checks.whole("tables", tables, at_least=1)
    buckets = 2 if unit.replace else 1
    return Sensitivity(rows * k * buckets, grid.root_up(Fraction(rows * rows * k * buckets)))


def _bounds(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    low = checks.number("lower", lower)
    return exact(low), exact(checks.number("upper", upper, above=float(low)))
