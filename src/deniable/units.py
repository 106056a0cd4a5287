"""Who is protected: the unit of privacy, and the relation that makes two data sets neighbours.

>>> print(Unit.row())
one row, added or removed
>>> print(Unit.column("patient_id", max_rows=4))
all rows of one patient_id (at most 4 count), added or removed
>>> Unit.row() == Unit.row(replace=True)
False

>>> print(Unit.client(zero_out=True))
one client, silenced but still present

Losses stated for different units never mix in one account.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from numbers import Real
from typing import Any

from deniable import strict_json
from deniable.errors import InvalidParameter


class UnitKind(StrEnum):
    """What one unit is."""

    ROW = "row"
    COLUMN = "column"
    VALUE = "value"
    CLIENT = "client"
    BALL = "ball"


class Relation(StrEnum):
    """What turns a data set into its neighbour."""

    ADDED = "added or removed"
    """One unit more or less."""
    REPLACED = "replaced"
    """One unit in another's place: the number of units is public."""
    SILENCED = "silenced"
    """Zero-out: the unit stays in every sample and adds its own noise, but its contribution is zero."""


@dataclass(frozen=True)
class Unit:
    """Who is protected. Made by `row`, `column`, `value`, `client` or `ball`, and compared by value."""

    kind: UnitKind
    replace: bool = False
    column_name: str | None = None
    max_rows: int | None = None
    p: float | None = None
    radius: float | None = None
    zero_out: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, UnitKind):
            raise InvalidParameter(
                f'Expected a unit made by Unit.row(), Unit.column("patient_id", max_rows=4) or the like, got '
                f"Unit({self.kind!r})."
            )
        if self.replace and self.zero_out:
            raise InvalidParameter(
                "Expected a unit that is replaced or zeroed out, not both: these are two relations."
            )

    @classmethod
    def row(cls, *, replace: bool = False, zero_out: bool = False) -> Unit:
        """One row of a table, added or removed (or replaced by another, or silenced: `zero_out`)."""
        return cls(UnitKind.ROW, bool(replace), zero_out=bool(zero_out) or None)

    @classmethod
    def column(cls, name: str, *, max_rows: int | None = None, replace: bool = False) -> Unit:
        """All rows that share a value of column `name`; at most `max_rows` of them count in an answer."""
        if not isinstance(name, str) or not name:
            raise InvalidParameter(f"Expected the name of a column, got {name!r}.")
        if max_rows is not None and (
            isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1
        ):
            raise InvalidParameter(f"Expected max_rows={max_rows!r} to be a whole number of at least 1.")
        return cls(UnitKind.COLUMN, bool(replace), name, max_rows)

    @classmethod
    def value(cls) -> Unit:
        """The value behind one local report, replaced by any other."""
        return cls(UnitKind.VALUE, replace=True)

    @classmethod
    def client(cls, *, replace: bool = False, zero_out: bool = False) -> Unit:
        """Everything one client of a federation holds. `zero_out`: it may fall silent,
        but still adds its noise."""
        return cls(UnitKind.CLIENT, bool(replace), zero_out=bool(zero_out) or None)

    @classmethod
    def ball(cls, p: float, radius: float) -> Unit:
        """Inputs within `radius` of one another in the ℓp norm (randomized smoothing); p
        = 0 counts changed coordinates."""
        p, radius = _real(p, "p"), _real(radius, "radius")
        if not (p == 0 or p >= 1):
            raise InvalidParameter(
                f"Expected p={p:g} of a norm in [1, ∞], or 0 for the number of changed coordinates."
            )
        if not (radius > 0 and math.isfinite(radius)):
            raise InvalidParameter(f"Expected radius={radius:g} in (0, ∞).")
        return cls(UnitKind.BALL, replace=True, p=p, radius=radius)

    @classmethod
    def parse(cls, text: str, *, replace: bool = False) -> Unit:
        """`row`, `client`, `value`, `column:NAME` or `column:NAME:MAX_ROWS`.

        >>> print(Unit.parse("column:patient_id:4"))
        all rows of one patient_id (at most 4 count), added or removed
        """
        match text.split(":"):
            case ["row"]:
                return cls.row(replace=replace)
            case ["client"]:
                return cls.client(replace=replace)
            case ["value"]:
                return cls.value()
            case ["column", name]:
                return cls.column(name, replace=replace)
            case ["column", name, rows] if rows.isdecimal():
                return cls.column(name, max_rows=int(rows), replace=replace)
        raise InvalidParameter(
            f"Expected unit={text!r} to be row, client, value, column:NAME or column:NAME:MAX_ROWS."
        )

    @property
    def relation(self) -> Relation:
        """What makes two data sets neighbours."""
        if self.replace:
            return Relation.REPLACED
        if self.zero_out:
            return Relation.SILENCED
        return Relation.ADDED

    def falls_in_one_part(self, by: str) -> bool:
        """Whether splitting the table by column `by` keeps all counted rows of each unit in one part."""
        return self.kind is not UnitKind.COLUMN or by == self.column_name or self.max_rows == 1

    def to_dict(self) -> dict[str, Any]:
        """Only what is set, so that a later kind of unit does not change the JSON of an earlier one."""
        entries = {k: v for k, v in asdict(self).items() if v is not None}
        if self.p == math.inf:
            return entries | {"p": "inf"}
        return entries

    @classmethod
    def from_dict(cls, value: object) -> Unit:
        names = {f.name for f in fields(cls)}
        is_known = isinstance(value, dict) and set(value) <= names and isinstance(value.get("kind"), str)
        if not isinstance(value, dict) or not is_known or value["kind"] not in list(UnitKind):
            raise InvalidParameter(f"Expected the JSON of a unit with a kind among {', '.join(UnitKind)}.")
        replace, zero_out = value.get("replace", False), value.get("zero_out", False)
        if not (isinstance(replace, bool) and isinstance(zero_out, bool)):
            raise InvalidParameter(
                f"Expected replace={replace!r} and zero_out={zero_out!r} to be true or false."
            )
        unit = cls._from_fields(value, replace=replace, zero_out=zero_out)
        if not _same(unit.to_dict(), value):
            raise InvalidParameter(
                f"Expected a unit that means what it says; {json.dumps(value)[:200]} has fields without "
                "meaning."
            )
        return unit

    @classmethod
    def _from_fields(cls, v: dict[str, Any], *, replace: bool, zero_out: bool) -> Unit:
        """By the kind; a field that this kind has no use for is passed over."""
        match v["kind"]:
            case UnitKind.ROW:
                return cls.row(replace=replace, zero_out=zero_out)
            case UnitKind.COLUMN:
                return cls.column(v.get("column_name", ""), max_rows=v.get("max_rows"), replace=replace)
            case UnitKind.VALUE:
                return cls.value()
            case UnitKind.CLIENT:
                return cls.client(replace=replace, zero_out=zero_out)
            case _:
                return cls.ball(_norm(v.get("p")), _real(v.get("radius"), "radius"))

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Unit:
        return cls.from_dict(strict_json.parse(text, InvalidParameter, "a unit"))

    def __str__(self) -> str:
        change = {
            Relation.ADDED: "added or removed",
            Relation.REPLACED: "replaced by another",
            Relation.SILENCED: "silenced but still present",
        }[self.relation]
        match self.kind:
            case UnitKind.ROW:
                return f"one row, {change}"
            case UnitKind.COLUMN:
                bound = ""
                if self.max_rows:
                    bound = f" (at most {self.max_rows} count)"
                return f"all rows of one {self.column_name}{bound}, {change}"
            case UnitKind.VALUE:
                return "the value behind one report, replaced by any other"
            case UnitKind.CLIENT:
                return f"one client, {change}"
            case UnitKind.BALL:
                if self.p == 0:
                    return f"an input changed in at most {self.radius:g} coordinates"
                norm = "∞"
                if self.p != math.inf:
                    norm = f"{self.p:g}"
                return f"an input moved by at most {self.radius:g} in the ℓ{norm} norm"


def _real(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameter(f"Expected {name} of a unit to be a number, got a {type(value).__name__}.")
    try:
        return float(value)
    except OverflowError:
        raise InvalidParameter(f"Expected {name} of a unit within the range of doubles.") from None


def _norm(value: object) -> float:
    """The p of a norm in JSON: ∞ is written "inf"."""
    if value == "inf":
        return math.inf
    return _real(value, "p")


def _same(meaning: dict[str, Any], text: dict[str, Any]) -> bool:
    """Equal as JSON: in Python `1 == True == 1.0`, in a text they are three things."""

    def kinds(fields: dict[str, Any]) -> dict[str, tuple[bool, bool]]:
        return {name: (isinstance(value, bool), isinstance(value, str)) for name, value in fields.items()}

    return meaning == text and kinds(meaning) == kinds(text)
