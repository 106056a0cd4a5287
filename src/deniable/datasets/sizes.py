"""Sizes of made-up data."""

from __future__ import annotations

from deniable import checks


def at_least(least: int, **sizes: int) -> None:
    """Refuse a size that is too small to mean anything.

    >>> at_least(1, people=0)
    Traceback (most recent call last):
    deniable.errors.InvalidParameter: Expected people=0 to be at least 1.
    """
    for name, value in sizes.items():
        checks.whole(name, value, at_least=least)
