"""What names a person: ids as plain Python values, which can be compared without asking the code of others.

The id of one row must not decide whether a run fails, since a failure freezes the account and tells of the
row. So nothing of an id's own is kept, neither its hash nor its equality: it becomes a value of Python's own
types, or its row is nobody's.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

MOST_NESTED = 4
"""Tuples in tuples."""


def usable_name(value: Any) -> Hashable:
    """The id as a value that can be compared with any other; None for nobody. Never raises.

    Text, bytes, numbers, dates, UUIDs, tuples of these, and what numpy has for them are names.

    >>> usable_name(np.int64(3)), usable_name(("ward", 3)), usable_name(float("nan")), usable_name([3])
    (3, ('ward', 3), None, None)
    """
    try:
        return _python_value(value, MOST_NESTED)
    except (Exception, SystemExit):  # the value of a row steers it: it is then nobody's row
        return None


def _python_value(value: Any, nested: int) -> Hashable:
    """A value of Python's own type, also for one of a class that is made from it."""
    match value:
        case np.generic():
            inner = value.item()  # a number of more digits than Python's stays one of numpy: it is no name
            return None if isinstance(inner, np.generic) else _python_value(inner, nested)
        case str():
            return str.__str__(value)
        case bytes():
            return bytes.__getitem__(value, slice(None))
        case tuple() if nested:
            parts = tuple(_python_value(part, nested - 1) for part in tuple.__iter__(value))
            return None if any(part is None for part in parts) else parts
        case UUID():
            return UUID(int=value.int)
        case date():
            return _day_or_moment(value)
    return _number(value)


def _number(value: Any) -> int | float | Decimal | None:
    match value:
        case int():
            return int.__int__(value)
        case float():
            number = float.__float__(value)
            return None if np.isnan(number) else number
        case Decimal():
            decimal = Decimal(value)
            return None if decimal.is_nan() else decimal
    return None


def _day_or_moment(value: date) -> Hashable:
    """A moment with a time zone is compared as that of UTC. pandas has nanoseconds, and Python has not."""
    if not isinstance(value, datetime):
        return date(value.year, value.month, value.day)
    own = value if value.tzinfo is None else value.astimezone(UTC)
    day, time = (own.year, own.month, own.day), (own.hour, own.minute, own.second, own.microsecond)
    moment = datetime(*day, *time, tzinfo=None if value.tzinfo is None else UTC)
    nanoseconds = int(getattr(own, "nanosecond", 0))
    return (moment, nanoseconds) if nanoseconds else moment
