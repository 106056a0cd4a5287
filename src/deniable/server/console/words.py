"""Numbers and kinds as people read them, for templates."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from deniable.numbers import short_down, short_up
from deniable.units import Unit, UnitKind

RELATIONS = {"added or removed": "present or absent", "replaced": "changed into another"}


def epsilon_up(x: Any) -> str:
    """An ε that was spent, rounded up."""
    return short_up(float(x))


def epsilon_down(x: Any) -> str:
    """An ε that is left, rounded down."""
    return short_down(float(x))


def format_delta(x: Any) -> str:
    """A δ.

    >>> format_delta(1e-06), format_delta(0)
    ('1e-6', '0')
    """
    if x:
        return f"{float(x):.3g}".replace("e-0", "e-")
    return "0"


def day(text: str) -> str:
    """A time of the journal to the minute, in UTC.

    >>> day("2026-01-02T03:04:05.678901+00:00")
    '2026-01-02 03:04'
    """
    return text[:16].replace("T", " ")


def moment(seconds: float) -> str:
    """
    >>> moment(0.0)
    '1970-01-01 00:00'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def protects(unit: Unit) -> str:
    """Whom an account protects, in plain words.

    >>> protects(Unit.column("patient_id", max_rows=4))
    'each patient_id with all its rows, of which at most 4 count'
    >>> protects(Unit.row())
    'each single row'
    """
    if unit.kind is UnitKind.COLUMN:
        rows = ""
        if unit.max_rows:
            rows = f", of which at most {unit.max_rows} count"
        return f"each {unit.column_name} with all its rows{rows}"
    if unit.kind is UnitKind.ROW:
        return "each single row"
    return str(unit)


def strength(epsilon: Any) -> str:
    """What an ε means for one person's odds.

    >>> strength(0.5)
    'odds about any one person move by a factor of 1.65 at most'
    """
    if not math.isfinite(float(epsilon)) or float(epsilon) > 20:
        return "so much that nothing is promised to a single person"
    return f"odds about any one person move by a factor of {short_up(math.exp(float(epsilon)), 3)} at most"


FILTERS = {
    "up": epsilon_up,
    "down": epsilon_down,
    "small": format_delta,
    "day": day,
    "moment": moment,
    "protects": protects,
    "strength": strength,
}
