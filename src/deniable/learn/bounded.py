"""What the caller says about the data, since it may not be read from it: the bounds of the features, the classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.loss import Number
from deniable.mechanisms import checks
from deniable.units import Kind, Unit

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Box:
    """Bounds of each feature, and of the length of a row (`norm`) once every feature runs from −1 to 1; by default a corner's.

    >>> box = Box.of((0, 10), features=3)
    >>> round(box.norm ** 2, 6), box.centred([[0, 5, 10]]).round(3).tolist()
    (3.0, [[-0.577, 0.0, 0.577]])
    """

    lower: Floats
    upper: Floats
    norm: float

    @classmethod
    def of(cls, bounds: Any, features: int, norm: Number | None = None) -> Box:
        """`bounds` is (lower, upper), each a number or one for every feature."""
        if bounds is None:
            raise InvalidParameter(
                "Expected bounds=(lower, upper) of the features: they are public and never read from data. Nothing was charged."
            )
        try:
            lower, upper = (np.broadcast_to(np.asarray(side, np.float64), (features,)).copy() for side in bounds)
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
        """What one unit of a centred feature is worth: rows there are at most 1 long, or are shortened where they are used."""
        return np.asarray((self.upper - self.lower) / 2 * self.norm)

    def clamped(self, x: Any) -> Floats:
        """Rows inside the box; what is no number is its middle."""
        values = np.asarray(x, np.float64).reshape(-1, len(self.lower))
        return np.clip(np.where(np.isnan(values), self.middle, values), self.lower, self.upper)

    def centred(self, x: Any) -> Floats:
        """Rows as offsets from the middle."""
        return np.asarray((self.clamped(x) - self.middle) / self.units)

    def cells(self, x: Any, bins: int) -> NDArray[np.int64]:
        """Which of `bins` equal parts of its range each value lies in."""
        share = (self.clamped(x) - self.lower) / (self.upper - self.lower)
        return np.clip((share * bins).astype(np.int64), 0, bins - 1)


def readable(data: Any, columns: int) -> NDArray[Any]:
    """Rows of `columns` numbers, whatever the data are: a cell that is no number is NaN, and so is a row of another length.

    Each cell is read for itself. Were a table refused for one cell, that cell would decide whether there is a release.

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
        found = data if isinstance(data, list | tuple) else np.asarray(data, object)
        return np.array([_cells(row, columns) for row in found], np.float64).reshape(-1, columns)
    except Exception:  # no rows at all
        return np.empty((0, columns))


def _cells(row: Any, columns: int) -> list[float]:
    try:
        cells = np.ravel(np.asarray(row, object)).tolist()
    except Exception:
        cells = []
    return [_cell(value) for value in cells] if len(cells) == columns else [math.nan] * columns


def _cell(value: Any) -> float:
    try:
        return float(value)
    except Exception:
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
            "Expected classes=[…], the list of possible labels: which of them occur is private. Nothing was charged."
        )
    return np.sort(np.asarray(checks.choices("classes", [_plain(c) for c in classes], at_least=2)))


def positions(classes: NDArray[Any], y: Any) -> NDArray[np.int64]:
    """The position of each label in `classes`; −1 for one that is not among them."""
    given = np.asarray(y).reshape(-1)
    if given.dtype == object:
        given = given.astype(str)
    if given.dtype.kind != classes.dtype.kind and "U" in (given.dtype.kind, classes.dtype.kind):
        given = given.astype(str)
        classes = classes.astype(str)
        order = np.argsort(classes)
        return _found(classes[order], given, order)
    return _found(classes, given, np.arange(len(classes)))


def one_row(unit: Unit) -> Unit:
    """The unit, if it is a row: the many rows of one person are not bounded by these mechanisms."""
    if unit.kind is not Kind.ROW:
        raise InvalidParameter(
            f'Expected the unit of one row, got "{unit}": the rows of one person are not bounded here. Nothing was charged; '
            "use an account of Unit.row()."
        )
    return unit


def _found(classes: NDArray[Any], given: NDArray[Any], names: NDArray[np.int64]) -> NDArray[np.int64]:
    at = np.clip(np.searchsorted(classes, given), 0, len(classes) - 1)
    return np.where(classes[at] == given, names[at], -1)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
