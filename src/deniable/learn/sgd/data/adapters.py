"""What people have rows in, as data sets with positions and as tensors. Nothing that they hold is read here.

A position counts rows from 0. pandas looks labels up instead, and frames and Arrow tables look columns up:
read so, a row would be another person's, or a column of everybody's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset, TensorDataset

from deniable.errors import DataError
from deniable.learn.nests import take_apart

DIFFERENT = (  # without numbers: how many rows there are is private
    "Expected inputs and targets with one row for each example; they differ in number, or one of them has no "
    "axis."
)
FRAMES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch")}
COLUMNS = {("pandas", "Series"), ("polars", "Series"), ("pyarrow", "ChunkedArray")}


class SideBySide(Dataset[Any]):
    """Two lists side by side."""

    def __init__(self, x: Any, y: Any) -> None:
        if len(x) != len(y):
            raise DataError(DIFFERENT)
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index], self.y[index]


class Collated(Dataset[Any]):
    """Rows as a loader's own `collate_fn` makes them, each in a batch of its own, so
    that none bears on another."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset, self.collate = dataset, collate

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        structure, parts = take_apart(self.collate([self.dataset[index]]))
        if any(len(part) != 1 for part in parts):
            raise DataError("Expected a batch of one row.")  # seen by nobody: the row is left out
        return structure.build([part[0] for part in parts])


class Columns(Dataset[Any]):
    """The rows of a frame of pandas or polars or of an Arrow table, each a dict by column."""

    def __init__(self, frame: Any) -> None:
        names = frame.schema.names if _kind(frame)[0] == "pyarrow" else frame.columns
        self.columns = {str(name): np.asarray(by_position(frame[name])) for name in names}
        self.length = len(frame)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return {name: values[index] for name, values in self.columns.items()}

    def refuse_dates(self, names: tuple[Any, ...]) -> None:
        """Refuse dates by the type of a whole column: every row would be left out."""
        for name in names:
            if self.columns[name].dtype.kind in "mM":
                raise DataError(
                    f"The column {name!r} holds dates or times by its type, and rows are numbers and words. "
                    "Nothing was charged. Turn it into numbers first: days since a date that you choose."
                )


def column_names(dataset: Any) -> list[str] | None:
    """What every row has, if the container says so: a frame, or a `datasets` set of Hugging Face unless a
    function makes its rows."""
    if isinstance(dataset, Columns):
        return list(dataset.columns)
    row_format = getattr(dataset, "format", None)
    if not isinstance(row_format, Mapping) or row_format.get("type") == "custom":
        return None
    names = row_format.get("columns")
    return None if names is None else list(names)


def is_frame(data: Any) -> bool:
    """Whether it is a frame, by its type: nothing of what it holds is read."""
    return _kind(data) in FRAMES


def may_have_gaps(data: Any) -> bool:
    """Whether a part of a pair or a dict is a column or a frame in which a row may have no value (Arrow,
    polars, pandas' own types such as Int64). As an array it has another type with such a row than without,
    so its type would tell of a row."""
    parts = data.values() if isinstance(data, Mapping) else data
    return any(may_have_gaps(part) if isinstance(part, tuple) else _has_gaps(part) for part in parts)


def _has_gaps(part: Any) -> bool:
    kind = _kind(part)
    if kind not in FRAMES | COLUMNS:
        return False
    if kind[0] != "pandas":
        return True
    types = part.dtypes if kind in FRAMES else [part.dtype]
    return not all(isinstance(each, np.dtype) for each in types)


def positional(data: Any) -> Any:
    """`by_position` for each part of a tuple, a list or a dict."""
    match data:
        case Mapping():
            return {name: by_position(part) for name, part in data.items()}
        case tuple():
            return tuple(positional(part) if isinstance(part, tuple) else by_position(part) for part in data)
        case _:
            return [by_position(part) for part in data]


def by_position(part: Any) -> Any:
    """A column, or a frame that is one input, as an array whose places are rows; anything else as it is."""
    match _kind(part):
        case ("pyarrow", "Table" | "RecordBatch"):
            return np.stack([np.asarray(column) for column in part.columns], axis=1)
        case ("pyarrow", "ChunkedArray"):
            return np.asarray(part)
        case kind if kind in FRAMES | COLUMNS:
            return part.to_numpy()
    return part


def _kind(data: Any) -> tuple[str, str]:
    return type(data).__module__.split(".")[0], type(data).__name__


def rows_of_tensors(data: Any) -> tuple[Tensor, ...] | None:
    """The tensors of a `TensorDataset`, or of a `Subset` of one; None for all else, and for classes that make
    rows of their own."""
    if isinstance(data, TensorDataset) and type(data).__getitem__ is TensorDataset.__getitem__:
        return data.tensors
    if type(data) is not Subset:
        return None
    inner = rows_of_tensors(data.dataset)
    positions = torch.as_tensor(list(data.indices), dtype=torch.int64)
    return None if inner is None else tuple(part[positions.to(part.device)] for part in inner)


def dense(part: Any) -> Tensor:
    """A tensor or an array of numbers as a tensor that can be drawn from."""
    if isinstance(part, np.ma.MaskedArray):
        raise DataError(
            "Expected arrays without a mask: what it hides would be read. Nothing was charged. Use "
            "array.filled(float('nan')), and such rows are left out."
        )
    if isinstance(part, np.ndarray):
        return _of_array(part)
    if part.layout is not torch.strided:
        raise DataError("Expected dense tensors. Nothing was charged. Use tensor.to_dense().")
    return torch.as_tensor(part)


def _of_array(array: np.ndarray[Any, Any]) -> Tensor:
    """PyTorch takes neither other byte orders and long doubles nor steps backwards."""
    kind = np.dtype(np.float64) if array.dtype == np.longdouble else array.dtype.newbyteorder("=")
    native = array.astype(kind, copy=any(step < 0 for step in array.strides))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")  # nothing is written
        return torch.as_tensor(native)


def refuse_sparse(parts: tuple[Any, ...]) -> None:
    if any(hasattr(part, "toarray") for part in parts):
        raise DataError("Expected dense rows. Nothing was charged. Use matrix.toarray().")
