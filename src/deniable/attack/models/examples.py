"""Public example data as rows of small numbers with labels, for attacks on models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from deniable.datasets.real import FileTable, load
from deniable.errors import InvalidParameter

Rows: TypeAlias = tuple[NDArray[np.float32], NDArray[np.int64]]

NAMES = ("digits", "location30", "adult", "census-kdd", "mnist")


def rows(name: str, size: int | None = None, *, seed: int = 0) -> Rows:
    """`size` rows of a data set, drawn at random: features of size about 1, labels from 0."""
    readers: dict[str, Callable[[], Rows]] = {
        "digits": _digits,
        "location30": _location,
        "adult": _adult,
        "census-kdd": _census,
        "mnist": _mnist,
    }
    if name not in readers:
        raise InvalidParameter(f"Expected data={name!r} to be one of {', '.join(NAMES)}.")
    x, y = readers[name]()
    if size is not None and not 100 <= size <= len(y):
        raise InvalidParameter(f"Expected rows={size} between 100 and {len(y)}, the size of {name}.")
    picks = np.random.default_rng(seed).permutation(len(y))[: size or len(y)]
    return np.ascontiguousarray(x[picks], np.float32), y[picks].astype(np.int64)


def _digits() -> Rows:
    x, y = load_digits(return_X_y=True)
    return (x / 16).astype(np.float32), y


def _location() -> Rows:
    data = load("location30")
    return data.features.astype(np.float32), data.labels


def _mnist() -> Rows:
    data = load("mnist")
    return (data.images.reshape(len(data.images), -1) / 255).astype(np.float32), data.labels


def _adult() -> Rows:
    """Income above 50,000 is the label."""
    return encode_table(load("adult"), ">50K")


def _census() -> Rows:
    """The same as Adult, five years later; the weight of a row in the sample says nothing of the person."""
    return encode_table(load("census-kdd"), "50000+", omit=("instance_weight",))


def encode_table(data: FileTable, label: str, omit: Sequence[str] = ()) -> Rows:
    """Numbers scaled to their largest value, words as one column each; 1 where the
    target holds the text `label`."""
    columns = [name for name in data.table.column_names if name not in (data.target, *omit)]
    x = np.hstack([_encode_column(data.table[name]) for name in columns])
    return x.astype(np.float32), np.array(
        [label in str(v) for v in data.table[data.target].to_pylist()], np.int64
    )


def _encode_column(column: pa.ChunkedArray) -> NDArray[np.float32]:
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        values = column.to_numpy().astype(np.float64)
        return np.asarray(values / max(np.abs(values).max(), 1.0), np.float32)[:, None]
    codes = pc.dictionary_encode(column).combine_chunks().indices.to_numpy()
    return np.asarray(np.eye(int(codes.max()) + 1, dtype=np.float32)[codes])
