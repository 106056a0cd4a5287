"""Dates as texts: one form, `%Y-%m`, of numbers and English names, which every engine says alike.

>>> texts("%a", {"dow": range(7)}, 10)[:2], length("%Y-%m")
(('Sun', 'Mon'), 8)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

# Each code: the part of a date, and the digits that it is filled up to with zeros (0: as it is).
NUMBERS: dict[str, tuple[str, int]] = {
    "%Y": ("year", 4), "%m": ("month", 2), "%d": ("day", 2), "%H": ("hour", 2), "%M": ("minute", 2),
    "%S": ("second", 2), "%j": ("doy", 3), "%V": ("week", 2), "%G": ("isoyear", 4), "%q": ("quarter", 0),
    "%u": ("isodow", 0), "%w": ("dow", 0), "%-m": ("month", 0), "%-d": ("day", 0), "%-H": ("hour", 0),
    "%-M": ("minute", 0), "%-j": ("doy", 0),
}  # fmt: skip
NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "%B": ("month", MONTHS),
    "%b": ("month", tuple(name[:3] for name in MONTHS)),
    "%A": ("dow", DAYS),
    "%a": ("dow", tuple(name[:3] for name in DAYS)),
}
NAMES |= {
    code.replace("%", "%^"): (part, tuple(name.upper() for name in names))
    for code, (part, names) in NAMES.items()
}
_CODE = re.compile(r"%[-^]?.|[^%]", re.S)


def pieces(form: str) -> list[str]:
    return _CODE.findall(form)


def parts(form: str) -> set[str]:
    """The parts of a date that a format shows."""
    return {
        (NUMBERS.get(piece) or NAMES[piece])[0]
        for piece in pieces(form)
        if piece in NUMBERS or piece in NAMES
    }


def length(form: str) -> int:
    return sum(max(len(text) for text in _texts(piece, ())) for piece in pieces(form)) or 1


def texts(form: str, values: dict[str, range], most: int) -> tuple[str, ...] | None:
    """All texts of a format, where they are few; `values` are those of each part."""
    shown_parts = sorted(parts(form))
    size = 1
    for part in shown_parts:
        size *= len(values[part]) if part in values else most + 1
    if size > most:
        return None
    spellings: dict[str, None] = {}
    for combination in product(*(values[part] for part in shown_parts)):
        at = dict(zip(shown_parts, combination, strict=True))
        spellings["".join(next(iter(_texts(piece, tuple(at.items())))) for piece in pieces(form))] = None
    return tuple(spellings)


def _texts(piece: str, at: tuple[tuple[str, int], ...]) -> Iterator[str]:
    """The text of a piece for these parts of a date, or the longest."""
    values = dict(at)
    if piece in NUMBERS:
        part, digits = NUMBERS[piece]
        yield str(values.get(part, 10 ** max(digits, 3) - 1)).zfill(digits)
    elif piece in NAMES:
        part, names = NAMES[piece]
        spellings = names
        if part in values:
            spellings = (names[values[part] - (part == "month")],)
        yield from spellings
    else:
        yield piece[0]
