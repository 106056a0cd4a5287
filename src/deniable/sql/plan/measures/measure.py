"""What a measure is: an integer (or a histogram) of each group, and how far one unit moves it.

Every aggregate stands on a few of these (`answer.estimate`): COUNT on a count, SUM on a sum, AVG on both. A
measure is taken once, however many aggregates stand on it. Its file says how it is written in SQL and read
back, how far one unit moves it, which noise hides that, and what one of its integers is worth. Proofs of the
sensitivities: docs/theory/curator.md."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import pyarrow as pa

from deniable.sql.engines import Statement, Summary
from deniable.sql.plan.keys import Group
from deniable.sql.plan.measures.grid import Bounds, Grid
from deniable.sql.plan.noise import Family, IntegerSensitivity, Noise, gaussian, laplace
from deniable.sql.plan.quantiles import Rank
from deniable.sql.tree import Expr, Kind, Type
from deniable.sql.write.contributions import Limit
from deniable.sql.write.statements import Writer

StoredTerms = tuple[tuple[str, int], ...]
"""Columns that `prepare` stored, each with a whole number that it is taken times."""


@dataclass(frozen=True)
class Footprint:
    """How much of one unit a measure may hold: the limit on its rows and groups, whether a unit may be
    replaced by another, and whether the bound on its rows is chosen privately."""

    limit: Limit
    replace: bool = False
    chosen: bool = False


@dataclass(frozen=True)
class Measure(ABC):
    """Of the values `of` (of rows, where it is None) that meet `where`. `bounds` are those of a value that is
    put on a grid; None where they are to be found privately."""

    valued: ClassVar[bool] = False
    """Whether values are put on a grid, and so need bounds."""

    of: Expr | None = None
    where: Expr | None = None
    bounds: Bounds | None = None

    # -------------------------------------------------------------------------------------------- planning

    @abstractmethod
    def sensitivity(self, footprint: Footprint, *, single: bool, bits: int) -> IntegerSensitivity | None:
        """Over all groups of a grouping set, `single` if there is one group whatever the data; None for a
        choice."""

    def grid(self, bits: int, found: Bounds | None = None) -> Grid | None:
        """How values become integers of `bits`: by their own bounds, or by those that were `found`
        privately."""
        return None

    def noise(
        self, amount: Fraction, family: Family, footprint: Footprint, *, single: bool, bits: int
    ) -> Noise | Rank:
        """The noise that costs `amount`: an ε of Laplace noise, a ρ of Gaussian noise."""
        sensitivity = self.sensitivity(footprint, single=single, bits=bits)
        assert sensitivity is not None
        return (laplace if family is Family.LAPLACE else gaussian)(sensitivity, amount)

    # -------------------------------------------------------------------------------------------- running

    @abstractmethod
    def statement(self, writer: Writer, group: Sequence[int], grid: Grid | None, salt: str) -> Statement:
        """What measures it by itself."""

    def read(self, table: pa.Table, types: Sequence[Type], footprint: Footprint) -> Mapping[Group, Any]:
        """The integers of the groups that have rows, from what the statement returned."""
        return {key: numbers[0] for key, numbers in read_numbers(table, types).items()}

    # -------------------------------------------------------------------------------------------- answering

    def worth(self, footprint: Footprint) -> Fraction:
        """What one of its integers is in rows, units or values."""
        return Fraction(1, footprint.limit.one)

    def typical(self, rows: Fraction, grid: Grid | None) -> int:
        """What it would be on so many rows."""
        return int(rows)


@dataclass(frozen=True)
class Total(Measure):
    """A measure that is one sum over weighted rows, so that a single statement serves several."""

    @abstractmethod
    def total(self, writer: Writer, grid: Grid | None, weight: str, beside: Sequence[Measure]) -> str:
        """The sum, in a statement with the measures `beside`. No sum can overflow: see
        `write.contributions`."""

    def stored(self, column: str | None, grid: Grid | None, summary: Summary) -> StoredTerms | None:
        """The same sum from what `prepare` stored of `column`; None if it is not there."""
        return None

    def untouched(self, grid: Grid | None, bounds: tuple[int, int]) -> bool:
        """Whether values of a column that lie within `bounds` enter as they are."""
        return grid is not None and grid.clamps_to(bounds)

    def statement(self, writer: Writer, group: Sequence[int], grid: Grid | None, salt: str) -> Statement:
        source, weight = writer.weighted(group, [self])
        return writer.grouped(group, [writer.text(self.total(writer, grid, weight, [self]))], source)


# ------------------------------------------------------------------------- what engines return, as integers


def read_numbers(table: pa.Table, types: Sequence[Type]) -> dict[Group, list[int]]:
    """The numbers of each group. (Keys that become equal, as 0.0 and −0.0 do, are added up.)"""
    groups: dict[Group, list[int]] = {}
    for line in _lines(table):
        key = tuple(map(_key, line, types))
        values = [_integer(value) for value in line[len(types) :]]
        if key in groups:
            values = [a + b for a, b in zip(groups[key], values, strict=True)]
        groups[key] = values
    return groups


def read_histograms(table: pa.Table, types: Sequence[Type]) -> dict[Group, dict[int, int]]:
    """The weight in each cell of each group."""
    groups: dict[Group, dict[int, int]] = {}
    for line in _lines(table):
        cells = groups.setdefault(tuple(map(_key, line, types)), {})
        cell = int(line[len(types)])
        cells[cell] = cells.get(cell, 0) + _integer(line[len(types) + 1])
    return groups


def read_cells(table: pa.Table) -> dict[int, int]:
    """The weight in each cell of one histogram; what lies in none is left out."""
    return {int(cell): _integer(weight) for cell, weight in _lines(table) if cell is not None}


def _lines(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _integer(value: Any) -> int:
    """A sum as text or number; the sum of nothing is 0."""
    return 0 if value is None else int(value)


def _key(value: Any, type_: Type) -> Any:
    """A key as the schema means it: decimals come as numbers of 10^-scale, timestamps without a zone."""
    if value is None:
        return None
    if type_.kind is Kind.DECIMAL:
        return Decimal(int(value)).scaleb(-type_.scale)
    if type_.kind is Kind.TIMESTAMP:
        return value.replace(tzinfo=None)
    return value
