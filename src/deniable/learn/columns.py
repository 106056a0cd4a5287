"""Frames with words and numbers as tables of numbers, from what is declared of their columns.

`bounds` of an estimator may be a dict of columns: two numbers are the bounds of a column of numbers, any
other list holds all its words. Nothing is read from data. Numbers go from their bounds to [−1, 1]; what is no
number is the middle. A column of words is an input for each word, 1 where a row has it and else 0; another
word is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.learn.bounded import Box, positions, readable

Floats = NDArray[np.float64]


def encoded(columns: Mapping[str, Any], frame: Any) -> Floats:
    """The rows of a pandas or polars frame, an arrow table or a dict of columns.

    >>> encoded({"age": (0, 100), "job": ["clerk", "nurse"]}, {"age": [25, 100], "job": ["nurse", "king"]})
    array([[-0.5,  0. ,  1. ],
           [ 1. ,  0. ,  0. ]])
    """
    names = list(getattr(frame, "column_names", getattr(frame, "columns", frame)))
    if missing := [name for name in columns if name not in names]:
        raise InvalidParameter(
            f"Expected a frame with the declared columns; it has no {', '.join(map(repr, missing))}. Nothing "
            "was charged."
        )
    return np.hstack(
        [_inputs(name, declaration, _values(frame[name])) for name, declaration in columns.items()]
    )


def _inputs(name: str, declared: Any, values: list[Any]) -> Floats:
    if not isinstance(declared, Sequence | np.ndarray) or isinstance(declared, str) or len(declared) < 2:
        raise InvalidParameter(
            f"Expected (low, high) or a list of words for the column {name!r}, got {declared!r}. Nothing was "
            "charged."
        )
    if _are_bounds(declared):
        box = Box.of((declared[0], declared[1]), 1)
        return np.asarray((box.clamped(readable(values, 1)) - box.middle) / ((box.upper - box.lower) / 2))
    words = np.array([str(word).strip() for word in declared])
    places = positions(words, [value.strip() if isinstance(value, str) else value for value in values])
    return np.asarray(places[:, None] == np.arange(len(words)), np.float64)


def _are_bounds(declared: Any) -> bool:
    return len(declared) == 2 and all(isinstance(value, int | float) for value in declared)


def _values(column: Any) -> list[Any]:
    return list(column.to_pylist() if hasattr(column, "to_pylist") else column)
