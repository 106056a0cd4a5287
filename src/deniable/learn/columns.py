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


def encode(columns: Mapping[str, Any], frame: Any) -> Floats:
    """The rows of a pandas or polars frame, an arrow table or a dict of columns.

    >>> encode({"age": (0, 100), "job": ["clerk", "nurse"]}, {"age": [25, 100], "job": ["nurse", "king"]})
    array([[-0.5,  0. ,  1. ],
           [ 1. ,  0. ,  0. ]])
    """
    names = list(getattr(frame, "column_names", getattr(frame, "columns", frame)))
    if missing := [name for name in columns if name not in names]:
        raise InvalidParameter(
            f"Expected a frame with the declared columns; it has no {', '.join(map(repr, missing))}. Nothing "
            "was charged."
        )
    return np.hstack([_inputs(name, terms, _values(frame[name])) for name, terms in columns.items()])


def _inputs(name: str, terms: Any, values: list[Any]) -> Floats:
    if not isinstance(terms, Sequence | np.ndarray) or isinstance(terms, str) or len(terms) < 2:
        raise InvalidParameter(
            f"Expected (low, high) or a list of words for the column {name!r}, got {terms!r}. Nothing was "
            "charged."
        )
    if _are_bounds(terms):
        box = Box.from_bounds((terms[0], terms[1]), 1)
        return np.asarray((box.clamp(readable(values, 1)) - box.middle) / ((box.upper - box.lower) / 2))
    words = np.array([str(word).strip() for word in terms])
    places = positions(words, [value.strip() if isinstance(value, str) else value for value in values])
    return np.asarray(places[:, None] == np.arange(len(words)), np.float64)


def _are_bounds(terms: Any) -> bool:
    return len(terms) == 2 and all(isinstance(value, int | float) for value in terms)


def _values(column: Any) -> list[Any]:
    return list(column.to_pylist() if hasattr(column, "to_pylist") else column)
