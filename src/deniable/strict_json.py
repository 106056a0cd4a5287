"""JSON from strangers: a certificate, a journal's line, a unit. One reading or none.

Python's own reader takes the last of two equal keys, `NaN`, and numbers of any length.
Two readers could then see two meanings in one text, and a short text could keep a reader
busy for hours. Here each of these is refused with a sentence.

>>> parse('{"a": 1, "a": 2}', InvalidParameter, "a unit")
Traceback (most recent call last):
    ...
deniable.errors.InvalidParameter: Expected the JSON of a unit, but the key "a" stands twice in one object.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from deniable.errors import DeniableError, InvalidParameter

__all__ = ["LONGEST", "MOST_DIGITS", "InvalidParameter", "parse", "plain", "rational", "shown"]

LONGEST = 16_000_000
"""Characters of one text."""
MOST_DIGITS = 1000
"""Digits of one number: far more than any loss needs, and few enough that arithmetic with them stays
quick."""


class _Unreadable(ValueError):
    """Why a text has no single meaning."""


def parse(text: str | bytes, error: type[DeniableError], what: str) -> Any:
    """The value of `text`; raises `error` with the reason where it has none, or more than one."""
    if not isinstance(text, str | bytes | bytearray):
        raise error(f"Expected the JSON of {what} as text, got {type(text).__name__}.")
    if len(text) > LONGEST:
        raise error(
            f"Expected the JSON of {what}, but the text is longer than {LONGEST:,} characters. It was not "
            "read."
        )
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
        )
    except RecursionError:
        raise error(f"Expected the JSON of {what}, but the text is nested too deeply.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise error(
            f"Expected the JSON of {what}, but the text is not JSON and cannot be read: {problem}."
        ) from None
    except _Unreadable as problem:
        raise error(f"Expected the JSON of {what}, but {problem}.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise _Unreadable(f'the key "{twice[:60]}" stands twice in one object')
    return value


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise _Unreadable(f"a number has {len(digits):,} digits, over the {MOST_DIGITS:,} that are read")
    return int(digits)


def _number(digits: str) -> float:
    if len(digits) > MOST_DIGITS:
        raise _Unreadable(f"a number has {len(digits):,} digits, over the {MOST_DIGITS:,} that are read")
    value = float(digits)
    if not math.isfinite(value) or (value == 0 and re.match("-?0*[.]?0*[1-9]", digits)):
        raise _Unreadable(f"the number {digits[:60]} is beyond the range of doubles")
    return value


def _constant(text: str) -> float:
    raise _Unreadable(f"{text} is no number in JSON")


_RATIONAL = re.compile(
    rf"-?(0|[1-9][0-9]{{0,{MOST_DIGITS - 1}}})(/[1-9][0-9]{{0,{MOST_DIGITS - 1}}})?", re.ASCII
)


def rational(text: object, error: type[DeniableError], name: str) -> Fraction:
    """A fraction as `str` writes it, in lowest terms, and no other spelling
    ("1e999999999" would take for ever).

    >>> rational("10/3", InvalidParameter, "epsilon")
    Fraction(10, 3)
    """
    if not isinstance(text, str) or not _RATIONAL.fullmatch(text):
        raise error(f"Expected {name}={shown(text)} to be a number or a fraction like 10/3.")
    top, _, bottom = text.partition("/")
    value = Fraction(int(top), int(bottom or 1))
    if value.denominator != int(bottom or 1):
        raise error(f"Expected {name}={shown(text)} in lowest terms.")
    return value


def plain(value: Any) -> Any:
    """A value that JSON can hold: it has no ∞, no arrays, no dates, and only text for keys.

    >>> plain({"bound": math.inf, 1: (date(2024, 3, 1), Decimal("0.5"))})
    {'bound': 'inf', '1': ['2024-03-01', 0.5]}
    """
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case Decimal():
            return plain(float(value))
        case date():
            return value.isoformat()
        case Path():
            return str(value)
    for way in ("tolist", "to_pydict"):  # arrays of numpy, columns and tables of Arrow
        if hasattr(value, way):
            return plain(getattr(value, way)())
    return value


def shown(value: object) -> str:
    """A wrong value as it may stand in a sentence: never longer than the sentence, never
    with thousands of digits."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python writes no int of over 4300 digits
        return f"a {type(value).__name__}"
    if len(text) <= 200:
        return text
    return f"{text[:200]}…"
