"""Sizes of made-up data."""

from __future__ import annotations

from deniable.errors import InvalidParameter


def at_least(least: int, **sizes: int) -> None:
    """Refuse a size that is too small to mean anything.

    >>> at_least(1, people=0)
    Traceback (most recent call last):
    deniable.errors.InvalidParameter: Expected people=0 to be a whole number of at least 1.
    """
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidParameter(f"Expected {name}={value!r} to be a whole number of at least {least}.")
