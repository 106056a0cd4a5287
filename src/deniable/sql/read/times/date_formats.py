"""The formats of strftime and to_char, as the one form that `sql.date_formats` knows.

>>> by_strftime("%Y-%m"), by_to_char("FMMonth YYYY")
('%Y-%m', '%B %Y')
"""

from __future__ import annotations

import re

from deniable.sql.date_formats import NAMES, NUMBERS, pieces
from deniable.sql.read.parse import refuse, shown

_FORMAT_LENGTH = 64
_TO_CHAR = {
    "YYYY": "%Y", "IYYY": "%G", "MM": "%m", "DDD": "%j", "DD": "%d", "HH24": "%H", "MI": "%M", "SS": "%S",
    "IW": "%V", "ID": "%u", "Q": "%q", "Month": "%B", "Mon": "%b", "Day": "%A", "Dy": "%a",
    "MONTH": "%^B", "MON": "%^b", "DAY": "%^A", "DY": "%^a",
}  # fmt: skip
_TOKEN = re.compile(
    r'"[^"]*"|FM|' + "|".join(sorted(_TO_CHAR, key=len, reverse=True)) + r"|[A-Za-z]+|.", re.S
)


def by_strftime(given: str) -> str:
    return _checked(given.replace("%F", "%Y-%m-%d").replace("%T", "%H:%M:%S").replace("%h", "%b"), given)


def by_to_char(given: str) -> str:
    """PostgreSQL's patterns; names are not filled up with blanks."""
    parts, bare = [], False
    for token in _TOKEN.findall(given):
        if token == "FM":
            bare = True
            continue
        code = _TO_CHAR.get(token)
        if code is None and token[:1] != '"' and token.isalpha() and token != "T":
            _refuse(token)
        if code is None:
            code = token.strip('"').replace("%", "%%")
        elif bare and f"%-{code[1:]}" in NUMBERS:
            code = f"%-{code[1:]}"
        parts.append(code)
        bare = False
    return _checked("".join(parts), given)


def _checked(form: str, given: str) -> str:
    if len(given) > _FORMAT_LENGTH:
        refuse(f"Expected a format of at most {_FORMAT_LENGTH} characters.")
    for piece in pieces(form):
        if piece[0] == "%" and piece != "%%" and piece not in NUMBERS and piece not in NAMES:
            _refuse(piece)
    return form


def _refuse(code: str) -> None:
    codes = ", ".join([*NUMBERS, *NAMES])
    refuse(f"The format {shown(code)} is not answered.", f"In strftime use {codes}.")
