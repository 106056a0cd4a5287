"""SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (…), the clause of the big warehouses: a text that says its own
price.

Taken: `epsilon`, `delta`, `max_groups_contributed`. Compared with what the owner declared, and refused where
it says otherwise: `privacy_unit_column`, `max_rows_contributed`. Everything else is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sqlglot
from sqlglot.errors import TokenError

from deniable.sql.read.names import fold
from deniable.sql.read.parse import MAX_BYTES
from deniable.sql.refusals import refuse, shown
from deniable.units import Unit, UnitKind

_NUMBER = re.compile(r"(\d{1,20}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,3})?")
_NUMBERS = ("epsilon", "delta")
_COUNTS = ("max_groups_contributed", "max_rows_contributed")
_OTHERS = {
    "min_privacy_units_per_group": "Groups appear by a threshold that the query's δ gives; leave it out.",
    "group_selection_strategy": (
        "Public keys are those that the owner declares, all others appear by a threshold; leave it out."
    ),
}


@dataclass(frozen=True)
class PrivacyClause:
    """What a text says about its own privacy; None where it does not."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    privacy_unit_column: str | None = None
    max_groups_contributed: int | None = None
    max_rows_contributed: int | None = None

    def check(self, unit: Unit) -> None:
        """Refuse what contradicts the owner's declaration."""
        unit_column = self.privacy_unit_column
        column = None
        if unit.kind is UnitKind.COLUMN:
            column = str(unit.column_name)
        if unit_column is not None and (column is None or fold(unit_column) != fold(column)):
            owner_unit = "a row"
            if column is not None:
                owner_unit = f"the column {shown(column)}"
            refuse(
                f"The text names {shown(unit_column)} as the unit of privacy, and the owner declared "
                f"{owner_unit}.",
                "Leave privacy_unit_column out, or name that.",
            )
        rows = self.max_rows_contributed
        if rows is not None and rows != unit.max_rows:
            refuse(
                f"The text bounds the rows of a unit by {rows}, and the owner by {unit.max_rows}.",
                "Leave max_rows_contributed out.",
            )

    @property
    def terms(self) -> dict[str, Any]:
        """The terms of a query that it states."""
        options = {"epsilon": self.epsilon, "delta": self.delta, "max_groups": self.max_groups_contributed}
        return {name: value for name, value in options.items() if value is not None}


NOTHING = PrivacyClause()


def without_clause(text: str) -> tuple[str, PrivacyClause]:
    """The text without its clauses, which become spaces, and what they say.

    >>> query = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = .5) COUNT(*) FROM t"
    >>> text, clause = without_clause(query)
    >>> " ".join(text.split()), clause.epsilon
    ('SELECT COUNT(*) FROM t', Fraction(1, 2))
    """
    if "differential_privacy" not in text.lower() or len(text) > MAX_BYTES:
        return text, NOTHING
    try:
        tokens = sqlglot.tokenize(text, read="duckdb")
    except TokenError:
        return text, NOTHING  # the reader of queries says what is wrong with it
    words = [token.text.upper() for token in tokens]
    clauses: list[PrivacyClause] = []
    for at in range(len(words) - 3):
        if words[at : at + 3] == ["SELECT", "WITH", "DIFFERENTIAL_PRIVACY"]:
            last, clause = _clause(tokens, words, at + 3)
            first, end = tokens[at + 1].start, tokens[last].end
            text = text[:first] + " " * (end + 1 - first) + text[end + 1 :]
            clauses.append(clause)
    if len(set(clauses)) > 1:
        refuse(
            "The clauses WITH DIFFERENTIAL_PRIVACY of a text say different things.", "Write one, at its top."
        )
    return text, clauses[0] if clauses else NOTHING


def _clause(tokens: list[Any], words: list[str], at: int) -> tuple[int, PrivacyClause]:
    """The position of the closing bracket, and what stands before it."""
    if words[at : at + 2] != ["OPTIONS", "("] or ")" not in words[at:]:
        refuse("WITH DIFFERENTIAL_PRIVACY needs its options.", "Write OPTIONS (epsilon = 0.5).")
    last = words.index(")", at)
    options: dict[str, Any] = {}
    start = at + 2
    for end in [i for i in range(start, last + 1) if words[i] == "," or i == last]:
        if end > start:
            name, value = _option(tokens[start:end])
            if name in options:
                refuse(f"The option {name} stands twice.", "Write it once.")
            options[name] = value
        start = end + 1
    return last, PrivacyClause(**options)


def _option(tokens: list[Any]) -> tuple[str, Any]:
    name = tokens[0].text.lower()
    if name in _OTHERS:
        refuse(f"The option {name} is not answered.", _OTHERS[name])
    if name not in PrivacyClause.__dataclass_fields__ or len(tokens) < 3 or tokens[1].text != "=":
        options = ", ".join(PrivacyClause.__dataclass_fields__)
        refuse(
            f"The option {shown(name)} is not known, or has no value.",
            f"Write one of {options}, like epsilon = 0.5.",
        )
    value = "".join(token.text for token in tokens[2:])
    if name in _NUMBERS:
        if _NUMBER.fullmatch(value) is None:
            refuse(f"The option {name} expects a number, got {shown(value)}.", f"Write {name} = 0.5.")
        return name, Fraction(value)
    if name in _COUNTS:
        if not value.isdecimal() or not 1 <= int(value[:12]) <= 1 << 40:
            refuse(f"The option {name} expects a whole number from 1, got {shown(value)}.")
        return name, int(value)
    return name, value
