"""Noisy counts over public categories: histograms, contingency tables, and what naive
Bayes and decision trees need."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.loss import DiscreteLaplaceNoise, Number
from deniable.mechanism import Error, Random
from deniable.mechanisms import grid, sensitivity
from deniable.mechanisms.laplace import Laplace
from deniable.units import Unit

_MOST_CELLS = 2**24


@dataclass(frozen=True)
class NoisyCounts:
    """Count rows in every cell of every table, with integer Laplace noise of `scale` on each count.

    `domains` are the public values of each column; a table is a tuple of columns (by position), one cell for
    each combination of their values. Without `tables` there is one table of all columns.

    Guarantee: `sensitivity.histogram` over the scale, for `unit`: a row counts in one cell of each table.
    Assumes:   the data are rows, one value per column (one value, if there is one column). A row counts in a
               table if all its values there are in the domains; what is missing or unknown counts nowhere.
    Error:     of the worst of all cells: see `Laplace`.
    Reference: Dwork, McSherry, Nissim, Smith 2006, §4; Blum, Dwork, McSherry, Nissim
               2005 for classifiers from counts.

    >>> from deniable.randomness import SeededRandom
    >>> weather = NoisyCounts((("sun", "rain"), ("yes", "no")), scale=1)
    >>> weather.loss, weather([("sun", "yes")] * 50, rng=SeededRandom(1))[0].shape
    (DiscreteLaplaceNoise(scale=1, sensitivity=1), (2, 2))
    """

    domains: tuple[tuple[Any, ...], ...]
    scale: Number
    tables: tuple[tuple[int, ...], ...] = ()
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        columns = tuple(checks.choices("domain", domain) for domain in checks.listed("domains", self.domains))
        tables = tuple(self.tables) or (tuple(range(len(columns))),)
        object.__setattr__(self, "domains", columns)
        object.__setattr__(self, "tables", tuple(self._table(table, len(columns)) for table in tables))
        object.__setattr__(self, "scale", checks.number("scale", self.scale, above=0))
        checks.rows_of(checks.unit(self.unit))
        if self._cells > _MOST_CELLS:
            raise InvalidParameter(
                f"Expected at most 2^24 cells, got {self._cells:,}. Take fewer columns in a table."
            )

    @staticmethod
    def _table(table: Any, columns: int) -> tuple[int, ...]:
        positions = checks.choices("table", table)
        if not all(isinstance(c, int) and 0 <= c < columns for c in positions):
            raise InvalidParameter(
                f"Expected table={positions} to name columns by position, 0 to {columns - 1}."
            )
        return positions

    @classmethod
    def for_budget(
        cls,
        epsilon: Number,
        domains: tuple[tuple[Any, ...], ...],
        tables: tuple[tuple[int, ...], ...] = (),
        *,
        unit: Unit = checks.ROW,
    ) -> NoisyCounts:
        """The least noise that is ε-DP for all tables together."""
        template = cls(domains, 1, tables, unit)
        return cls(domains, Laplace.for_budget(epsilon, template.loss.sensitivity).scale, tables, unit)

    @property
    def loss(self) -> DiscreteLaplaceNoise:
        return self._noise.loss

    def error(self, confidence: float = 0.95) -> Error:
        return self._noise.error(confidence)

    def __call__(self, data: Any, *, rng: Random) -> tuple[grid.Whole, ...]:
        counts = self._counts(data)
        # One vector for all tables: one noise, whose sensitivity is that of all of them together.
        noisy = self._noise(np.concatenate([c.ravel() for c in counts]), rng=rng)
        parts = np.split(noisy, np.cumsum([c.size for c in counts])[:-1])
        return tuple(part.reshape(c.shape) for part, c in zip(parts, counts, strict=True))

    def _counts(self, data: Any) -> list[grid.Whole]:
        places = [{value: i for i, value in enumerate(domain)} for domain in self.domains]
        counts = [np.zeros(self._shape(table), np.int64) for table in self.tables]
        for row in data if isinstance(data, Iterable) else ():
            at = [
                _place(place, value) for place, value in zip(places, _values(row, len(places)), strict=True)
            ]
            for count, table in zip(counts, self.tables, strict=True):
                cell = tuple(at[c] for c in table)
                # A value outside its domain is in no cell, so it moves nothing.
                if None not in cell:
                    count[cell] += 1
        return counts

    def _shape(self, table: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(len(self.domains[c]) for c in table)

    @property
    def _cells(self) -> int:
        return sum(math.prod(self._shape(table)) for table in self.tables)

    @cached_property
    def _noise(self) -> Laplace:
        change = sensitivity.histogram(self.unit, tables=len(self.tables))
        return Laplace(self.scale, int(change.l1), dimension=self._cells, unit=self.unit)


def _values(row: Any, columns: int) -> list[Any]:
    """Exactly `columns` values of a row; what is missing is None, which is in no domain
    that does not list it."""
    values = list(row) if isinstance(row, tuple | list | np.ndarray) else [row]
    return (values + [_Missing] * columns)[:columns]


class _Missing:
    """Equal to no value of a domain."""


def _place(places: dict[Any, int], value: Any) -> int | None:
    try:
        return places.get(value)
    except TypeError:  # not hashable, so in no domain
        return None
