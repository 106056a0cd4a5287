"""The parts of a profile by their names, and what share of the allowance each of them costs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

SHARES = {"rows": Fraction(1, 2), "spread": Fraction(1, 16), "totals": Fraction(1, 16)}
"""Of the allowance: half for the classes of rows, a sixteenth for each part of a column."""


class PartKind(StrEnum):
    """People by their rows, values of a column by their size, or people by their totals of a column."""

    ROWS = "rows"
    SPREAD = "spread"
    TOTALS = "totals"


@dataclass(frozen=True, order=True)
class PartName:
    """Which part of which table: the rows of its people, or a column's values or totals.

    >>> str(PartName(PartKind.ROWS, "visits")), str(PartName(PartKind.SPREAD, "visits", "cost"))
    ('rows of visits', 'spread of cost in visits')
    """

    kind: PartKind
    table: str
    column: str | None = None

    def __str__(self) -> str:
        if self.column is None:
            return f"{self.kind} of {self.table}"
        return f"{self.kind} of {self.column} in {self.table}"

    @property
    def share(self) -> Fraction:
        """Of the allowance: a price that is fixed when the account is made."""
        return SHARES[self.kind]
