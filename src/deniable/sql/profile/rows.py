"""How many people have how many rows of a table, by powers of two; and which bound on rows follows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.engines import Statement
from deniable.sql.plan.bounds.row_classes import HALF_WIDTH, AggregateNoise, Crowd
from deniable.sql.plan.noise import IntegerSensitivity
from deniable.sql.profile.histogram import NoisyCells
from deniable.sql.profile.mechanism import ProfileMechanism, one_cell
from deniable.sql.write import contributions

CONFIDENCE = 0.95
"""How often what is said of people whom nobody saw is true."""
AFFORDABLE = 0.5
"""A bound is taken for all rows while the half width it needs is at most this part of a group's rows."""
HIDDEN = 0.5
"""And while the rows that people may have beyond it, as the classes fall, are at most this part of that half
width."""
FALL_UNKNOWN = 0.5
"""Where fewer than three classes stand out, each is taken to fall so much faster than the one before."""


@final
@dataclass(frozen=True)
class PeopleByRows(ProfileMechanism):
    """People by powers of two of their rows: 1, 2, 3–4, 5–8, … A person is in one class.

    Guarantee: `epsilon`-DP for `unit`: one unit moves one class by one, or two if it is replaced.
    Assumes:   the engine computes the statement exactly.
    Error:     each class by itself is off by the noise.
    """

    @property
    def sensitivity(self) -> IntegerSensitivity:
        return one_cell(self.unit)

    @cached_property
    def edges(self) -> tuple[int, ...]:
        return contributions.class_edges(None)

    @property
    def cells(self) -> Sequence[int]:
        return range(len(self.edges))

    def statement(self, dialect: Dialect) -> Statement:
        writer = self.writer(dialect)
        return Statement(
            (), contributions.classes(writer.rows([]), writer.quoted("_unit"), self.edges, dialect)
        )

    def read(self, cells: NoisyCells) -> RowClasses:
        return RowClasses(self.edges, cells)


@dataclass(frozen=True)
class RowBound:
    """How many rows of a person count. Where it `covers_all` rows, nobody was seen to have more, and fewer
    than `hidden_people` people have, with probability CONFIDENCE; else the number is that of people with no
    more. Where `hidden_people` is 0 nobody can have more, by the form of the query, and nothing is said."""

    rows: int
    covers_all: bool
    hidden_people: int

    def __str__(self) -> str:
        """What an answer says of it.

        >>> print(RowBound(64, True, 50))
        People with more than 64 rows count for 64; the profile shows none (fewer than 50, 95 %).
        >>> print(RowBound(64, False, 50))
        Numbers are with nobody above 64 rows: people with more count for 64, and ± does not cover the rest.
        """
        if not self.hidden_people:
            return ""
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        if self.covers_all:
            return (
                f"People with more than {rows} count for {self.rows:,}; the profile shows none (fewer than "
                f"{self.hidden_people:,}, {CONFIDENCE * 100:.0f} %)."
            )
        return (
            f"Numbers are with nobody above {rows}: people with more count for {self.rows:,}, and ± does not "
            "cover the rest."
        )


@dataclass(frozen=True)
class RowClasses:
    """Noisy numbers of people by classes of rows: those above the edge before, up to this one; the last class
    has all who have more. Everything here is computed from them."""

    edges: tuple[int, ...]
    cells: NoisyCells
    crowd: Crowd = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "crowd", Crowd(self.edges, self.cells.sizes, self.cells.noise))

    def classes(self) -> list[tuple[str, int]]:
        """How many people have 1, 2, 3–4, … rows, up to one class above the last that stands out."""
        lows = (1, *(edge + 1 for edge in self.edges))
        pairs = list(zip(lows, self.edges, self.cells.sizes, strict=False))[: self.top + 2]
        return [(f"{low:,}" if low == high else f"{low:,}–{high:,}", size) for low, high, size in pairs]

    @property
    def people(self) -> int:
        """All of them, about."""
        return max(0, sum(self.cells.sizes))

    @property
    def people_within(self) -> int:
        """How far that may be off, with probability CONFIDENCE."""
        everybody = range(len(self.edges))
        most = self.cells.most_in(everybody, 1 - CONFIDENCE)
        return math.ceil(most - min(most, sum(self.cells.sizes)))

    @cached_property
    def top(self) -> int:
        """The last class that stands out of the noise; the first, where none does."""
        return self.cells.last_seen() or 0

    @property
    def most(self) -> int:
        """One class above the last that stands out: the bound under which all rows are taken to count."""
        return self.edges[min(self.top + 1, len(self.edges) - 1)]

    def hidden_people(self, rows: int) -> int:
        """Fewer people than this have more rows, with probability CONFIDENCE."""
        above = range(self._first_above(rows), len(self.edges))
        if not above:
            return 1
        return math.floor(self.cells.most_in(above, 1 - CONFIDENCE)) + 1

    def _first_above(self, rows: int) -> int:
        return sum(edge <= rows for edge in self.edges)

    @cached_property
    def hidden_rows(self) -> float:
        """How many rows people may have beyond `most`, as the classes fall. From each class to the next there
        are `fall` times as many people, and that itself falls as it did between the last that stand out: not
        at all where people follow a power law, fast where hardly anybody has many more rows than others."""
        if self.top + 1 >= len(self.edges):
            return math.inf
        fall, steeper = self._fall
        people, beyond = max(1.0, float(self.cells.sizes[self.top])) * fall, 0.0
        for edge in self.edges[self.top + 2 :]:
            fall *= steeper
            people *= fall
            beyond += people * (0.75 * edge - self.most)  # the middle of a class, from half its edge to it
        return beyond

    @property
    def _fall(self) -> tuple[float, float]:
        """How many times as many people are in the class after the last that stands out, and how that changes
        from class to class. Noise may hide as many people as its scale."""
        last = self.cells.sizes[self.top]
        following = (max(0, self.cells.sizes[self.top + 1]) + self.cells.scale) / max(1.0, float(last))
        before = [float(size) for size in self.cells.sizes[max(0, self.top - 2) : self.top + 1]]
        if len(before) < 3 or min(before) <= 0:
            return min(1.0, following), FALL_UNKNOWN
        first, second = before[1] / before[0], before[2] / before[1]
        steeper = min(1.0, second / first)
        fall = min(1.0, second * steeper, following)
        return fall, steeper

    def bound(self, noise: float | None, groups: int) -> RowBound:
        """The bound for numbers whose noise has this mean size for each row that counts, None where the ±
        itself is what was asked for; in one of so many `groups`."""
        all_rows = RowBound(self.most, True, self.hidden_people(self.most))
        if noise is None:
            return all_rows
        width, group = HALF_WIDTH * noise * self.most, self.crowd.rows / groups
        is_seen = self.cells.last_seen() is not None
        if is_seen and self.hidden_rows <= HIDDEN * width <= HIDDEN * AFFORDABLE * group:
            return all_rows
        rows = min(self.most, self.crowd.best([AggregateNoise(noise, None)], groups))
        return RowBound(rows, False, self.hidden_people(rows))

    def to_dict(self) -> dict[str, Any]:
        return {"edges": list(self.edges), **self.cells.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> RowClasses:
        return cls(tuple(content["edges"]), NoisyCells.from_dict(content))
