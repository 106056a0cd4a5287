"""What is asked of parameters, before any data is opened and anything is charged:
ranges, whole numbers, choices, units."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from deniable.errors import InvalidParameter
from deniable.numbers import Number, exact, plain
from deniable.strict_json import shown
from deniable.units import Unit, UnitKind

ROW = Unit.row()
"""The unit of a mechanism that names none."""


def number(
    name: str, value: Any, *, above: float = -math.inf, at_least: float = -math.inf, below: float = math.inf
) -> Number:
    """`value` as a plain int, float or Fraction inside its range.

    >>> number("epsilon", Fraction(4, 2), above=0)
    2
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameter(f"Expected {name}={value!r} to be a number.")
    number = plain(value)
    if not (math.isfinite(number) and number > above and number >= at_least and number < below):
        left = f"({above:g}" if above >= at_least else f"[{at_least:g}"
        raise InvalidParameter(
            f"Expected {name}={value} in {left}, {below:g}).".replace("inf", "∞").replace("-∞", "−∞")
        )
    return number


def whole(name: str, value: Any, *, at_least: int) -> int:
    """`value` as an int of at least `at_least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidParameter(f"Expected {name}={shown(value)} to be a whole number of at least {at_least}.")
    if value < at_least:
        raise InvalidParameter(f"Expected {name}={value} to be at least {at_least}.")
    return int(value)


def positive(**values: float) -> None:
    """Refuse what is not above 0 and finite.

    >>> positive(clip=1.0, sigma=0)
    Traceback (most recent call last):
    deniable.errors.InvalidParameter: Expected sigma=0 in (0, ∞).
    """
    for name, value in values.items():
        number(name, value, above=0)


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidParameter(f"Expected {name}={value!r} to be True or False.")
    return value


def monotone(value: Any, unit: Unit) -> bool:
    """Scores that all move one way do so when a unit comes or goes; a replaced unit may move them both
    ways."""
    if flag("monotone", value) and unit.replace:
        raise InvalidParameter(
            f'Expected monotone=False for the unit "{unit}": what replaces it may raise other scores.'
        )
    return bool(value)


def unit(value: Any) -> Unit:
    if not isinstance(value, Unit):
        raise InvalidParameter(f"Expected unit={value!r} to be a Unit, for example Unit.row().")
    return value


def rows_of(unit: Unit) -> int:
    """How many rows one unit may bring."""
    if unit.kind is UnitKind.COLUMN and unit.max_rows is not None:
        return unit.max_rows
    if unit.kind in (UnitKind.ROW, UnitKind.VALUE):
        return 1
    raise InvalidParameter(f'Expected a unit with a bounded number of rows, got "{unit}". Give max_rows=.')


def listed(name: str, values: Any) -> tuple[Any, ...]:
    """`values` as a tuple that is not empty."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__") or not tuple(values):
        raise InvalidParameter(f"Expected {name}={values!r} to be a list with something in it.")
    return tuple(values)


def choices(name: str, values: Any, *, at_least: int = 1) -> tuple[Any, ...]:
    """`values` as a tuple of different things: what a mechanism may answer must be known before the data."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise InvalidParameter(f"Expected {name}={values!r} to be a list of possible answers.")
    answers = tuple(values)
    if len(answers) < at_least:
        raise InvalidParameter(f"Expected at least {at_least} in {name}, got {len(answers)}.")
    try:
        different = len(set(answers))
    except TypeError:
        raise InvalidParameter(
            f"Expected {name} to hold values that can be compared (hashable), got a list or dict."
        ) from None
    if different < len(answers):
        raise InvalidParameter(
            f"Expected different values in {name}, but {len(answers) - different} are repeated."
        )
    return answers


def failure(confidence: Any) -> Fraction:
    """1 − confidence, exactly: a confidence of 0.99999 leaves 1/100000."""
    return 1 - exact(number("confidence", confidence, above=0, below=1))
