"""What the caller says about the data, since it may not be read from it: the bounds of
the features, the classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.loss import Number
from deniable.units import Unit, UnitKind

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Box:
    """Bounds of each feature, and of the length of a row (`norm`) once every feature
    runs from −1 to 1; by default a corner's.

    >>> box = Box.from_bounds((0, 10), features=3)
    >>> round(box.norm ** 2, 6), box.centre([[0, 5, 10]]).round(3).tolist()
    (3.0, [[-0.577, 0.0, 0.577]])
    """

    lower: Floats
    upper: Floats
    norm: float

    @classmethod
    def from_bounds(cls, bounds: Any, features: int, norm: Number | None = None) -> Box:
        """`bounds` is (lower, upper), each a number or one for every feature."""
        if bounds is None:
            raise InvalidParameter(
                "Expected bounds=(lower, upper) of the features: they are public and never read from data. "
                "Nothing was charged."
            )
        if isinstance(bounds, Mapping):  # columns as `learn.columns` encodes them
            longest = math.sqrt(len(bounds)) * (1 + 1e-12)
            return cls.from_bounds((-1, 1), features, longest if norm is None else norm)
        try:
            lower, upper = (
                np.broadcast_to(np.asarray(side, np.float64), (features,)).copy() for side in bounds
            )
        except (TypeError, ValueError):
            raise InvalidParameter(
                f"Expected bounds=(lower, upper), each a number or {features} numbers, got {bounds!r}."
            ) from None
        if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower < upper).all()):
            raise InvalidParameter("Expected finite bounds with lower < upper for every feature.")
        corner = float(np.sqrt(features)) * (1 + 1e-12)
        return cls(lower, upper, corner if norm is None else float(checks.number("norm", norm, above=0)))

    @property
    def middle(self) -> Floats:
        return (self.lower + self.upper) / 2

    @property
    def units(self) -> Floats:
        """What one unit of a centred feature is worth: rows there are at most 1 long, or
        are shortened where they are used."""
        return np.asarray((self.upper - self.lower) / 2 * self.norm)

    def clamp(self, x: Any) -> Floats:
        """Rows inside the box; what is no number is its middle."""
        values = np.asarray(x, np.float64).reshape(-1, len(self.lower))
        return np.clip(np.where(np.isnan(values), self.middle, values), self.lower, self.upper)

    def centre(self, x: Any) -> Floats:
        """Rows as offsets from the middle."""
        return np.asarray((self.clamp(x) - self.middle) / self.units)

    def cells(self, x: Any, bins: int) -> NDArray[np.int64]:
        """Which of `bins` equal parts of its range each value lies in."""
        share = (self.clamp(x) - self.lower) / (self.upper - self.lower)
        return np.clip((share * bins).astype(np.int64), 0, bins - 1)


def readable(data: Any, columns: int) -> NDArray[Any]:
    """Rows of `columns` numbers, whatever the data are: a cell that is no number is NaN,
    and so is a row of another length.

    Each cell is read for itself. Were a table refused for one cell, that cell would
    decide whether there is a release.

    >>> readable([[1, 2], [3, "Ann"], [4]], 2).tolist()
    [[1.0, 2.0], [3.0, nan], [nan, nan]]
    """
    try:
        table = np.asarray(data)
        if table.dtype.kind in "biuf" and table.ndim and math.prod(table.shape[1:]) == columns:
            return table.reshape(len(table), columns)
    except Exception:  # rows of several lengths
        pass
    try:
        rows = data if isinstance(data, list | tuple) else np.asarray(data, object)
        return np.array([_cells(row, columns) for row in rows], np.float64).reshape(-1, columns)
    except Exception:  # no rows at all
        return np.empty((0, columns))


def _cells(row: Any, columns: int) -> list[float]:
    try:
        cells = np.ravel(np.asarray(row, object)).tolist()
    except Exception:  # this row steers it, and reads as numbers that are none
        cells = []
    return [_cell(value) for value in cells] if len(cells) == columns else [math.nan] * columns


def _cell(value: Any) -> float:
    try:
        return float(value)
    except Exception:  # this value steers it, and reads as no number
        return math.nan


def lengths(x: Floats) -> Floats:
    """The norm of each row, added up column by column: its bits do not depend on what rows are around it.

    >>> lengths(np.array([[3.0, 4.0], [0.0, 2.0]])).tolist()
    [5.0, 2.0]
    """
    total = np.zeros(len(x))
    for column in x.T:
        total += column * column
    return np.sqrt(total)


def labels(classes: Sequence[Any] | None) -> NDArray[Any]:
    """The public list of classes, sorted."""
    if classes is None:
        raise InvalidParameter(
            "Expected classes=[…], the list of possible labels: which of them occur is private. Nothing was "
            "charged."
        )
    return np.sort(np.asarray(checks.choices("classes", [_strip_type(c) for c in classes], at_least=2)))


def column(y: Any) -> NDArray[Any]:
    """One value for each row. A list stays what it is, value by value: one array of one type would write all
    of them anew for the sake of one, 0.0 as "0.0" beside a word."""
    if not isinstance(y, list | tuple):
        return np.asarray(y).reshape(-1)
    values = np.empty(len(y), object)
    for i, value in enumerate(y):
        values[i] = _unwrap(value)
    return values


def positions(classes: NDArray[Any], y: Any) -> NDArray[np.int64]:
    """The position of each label in `classes`; −1 for one that is not among them.

    Each label is read for itself: as a value (1.0 and True are 1), else as it is
    written, 1 as "1" or "1.0". So it does not matter that a missing label turns a column
    of whole numbers into floats, or a word all of them into words: were labels read by
    the type of their column, one row would decide whether the others count.

    >>> positions(labels([0, 1]), [0.0, 1, "1", None, "Ann", 2]).tolist()
    [0, 1, 1, -1, -1, -1]
    """
    entries = column(y)
    if {entries.dtype.kind, classes.dtype.kind} <= set("biuf"):
        return _find_numbers(classes, entries)
    pairs = list(enumerate(classes.tolist()))
    values = {value: place for place, value in pairs}
    words = {
        _words(value)[at]: place for at in (1, 0) for place, value in pairs
    }  # as it is written comes last, and wins
    return np.array([_place(value, values, words) for value in entries.tolist()], np.int64)


def one_row(unit: Unit) -> Unit:
    """The unit, if it is a row: the many rows of one person are not bounded by these mechanisms."""
    if unit.kind is not UnitKind.ROW:
        raise InvalidParameter(
            f'Expected the unit of one row, got "{unit}": the rows of one person are not bounded here. '
            "Nothing was charged; use an account of Unit.row()."
        )
    return unit


def _find_numbers(classes: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """The same as `_place`, for numbers among numbers."""
    order = np.argsort(classes)
    at = order[np.clip(np.searchsorted(classes[order], values), 0, len(classes) - 1)]
    return np.where(classes[at] == values, at, -1)


def _place(value: Any, values: dict[Any, int], words: dict[str, int]) -> int:
    try:
        label = _strip_type(_unwrap(value))
        if label in values:
            return values[label]
        as_is, other = _words(label)
        return words.get(as_is, words.get(other, -1))
    except Exception:  # what cannot be compared or written is no class
        return -1


def _words(value: Any) -> tuple[str, str]:
    """How a label may be written, as it is first: a whole number has a point in a column
    with gaps, and none in one without."""
    text = str(value)
    if isinstance(value, float) and value.is_integer():
        return text, str(int(value))
    return (text, text.removesuffix(".0")) if isinstance(value, str) else (text, f"{text}.0")


def _unwrap(value: Any) -> Any:
    """What a row of one value holds."""
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else value


def _strip_type(value: Any) -> Any:
    """A value without the dress that the type of its column gave it."""
    bare = value.item() if isinstance(value, np.generic) else value
    if isinstance(bare, complex) and not bare.imag:
        return bare.real
    return bare.decode() if isinstance(bare, bytes) else bare
