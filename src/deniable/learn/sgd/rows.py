"""Private rows as lots of tensors. What only a row can show never raises: a failure steered by one row would be a release.

The rules, each of which looks at one row alone, so that it keeps neighbouring data sets neighbours:

- a row of a `Dataset` that cannot be read, or is no pair of an input and a target, is left out;
- rows of different shapes or types are handed over in groups of one shape and type each;
- a row with a NaN or an infinity in input or target is left out;
- floating-point inputs and targets are converted to the model's precision, integers to 64 bits.

What the container as a whole shows (two tensors of different length, an iterable without positions) is the owner's error and
raises `DataError`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from deniable.errors import DataError

Pair: TypeAlias = tuple[Tensor, Tensor]
Lot: TypeAlias = list[Pair]
"""The rows of one lot, grouped by shape and type; empty if no row was drawn."""


class Rows(ABC):
    """Rows that can be drawn by position."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, positions: NDArray[np.int64], dtype: torch.dtype) -> Lot:
        """The rows at `positions` by the rules above, floating-point numbers as `dtype`."""

    @abstractmethod
    def template(self, dtype: torch.dtype) -> Pair | None:
        """Two rows of zeros of the shape and type of the rows, for the owner's checks; None if there is no row to tell."""


class TensorRows(Rows):
    """Rows along the first axis of two tensors."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
            raise DataError(  # without numbers: how many rows there are is private
                "Expected inputs and targets with one row for each example; they differ in number, or one of them has no axis."
            )
        self.x, self.y = x.detach(), y.detach()

    def __len__(self) -> int:
        return len(self.x)

    def take(self, positions: NDArray[np.int64], dtype: torch.dtype) -> Lot:
        at = torch.from_numpy(positions)
        return _finite(_plain(self.x[at], dtype), _plain(self.y[at], dtype))

    def template(self, dtype: torch.dtype) -> Pair:
        shapes = ((2, *self.x.shape[1:]), (2, *self.y.shape[1:]))
        return (
            torch.zeros(shapes[0], dtype=_plain(self.x[:0], dtype).dtype),
            torch.zeros(shapes[1], dtype=_plain(self.y[:0], dtype).dtype),
        )


class DatasetRows(Rows):
    """Rows of a map-style `Dataset`, read one by one."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
            raise DataError("Expected a data set with positions and a length: a Poisson sample draws rows by position.")
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def take(self, positions: NDArray[np.int64], dtype: torch.dtype) -> Lot:
        groups: dict[tuple[object, ...], list[Pair]] = {}
        for position in positions.tolist():
            row = self._row(position, dtype)
            if row is not None:
                groups.setdefault(_signature(row), []).append(row)
        lots = [_finite(torch.stack([x for x, _ in g]), torch.stack([y for _, y in g])) for g in groups.values()]
        return [pair for lot in lots for pair in lot]

    def template(self, dtype: torch.dtype) -> Pair | None:
        rows = (self._row(i, dtype) for i in range(len(self)))
        first = next((row for row in rows if row is not None), None)
        return None if first is None else (_two_zeros(first[0]), _two_zeros(first[1]))

    def _row(self, position: int, dtype: torch.dtype) -> Pair | None:
        try:
            x, y = self.dataset[position]
            return _plain(torch.as_tensor(x), dtype), _plain(torch.as_tensor(y), dtype)
        except Exception:  # a row that cannot be read is left out
            return None


def rows(data: Any) -> Rows:
    """Read a container: (inputs, targets) as tensors or arrays, a map-style `Dataset`, or a `DataLoader` for its data set."""
    match data:
        case Rows():
            return data
        case DataLoader():
            return rows(data.dataset)
        case TensorDataset() if len(data.tensors) == 2:
            return TensorRows(*data.tensors)
        case Dataset():
            return DatasetRows(data)
        case (x, y):
            return TensorRows(_tensor(x), _tensor(y))
        case _:
            raise DataError(
                f"Expected (inputs, targets) as tensors or arrays, a Dataset or a DataLoader, got {type(data).__name__}."
            )


def speaks_for_itself(data: Any) -> bool:
    """Whether shape and type are the container's own, whatever the rows hold."""
    match data:
        case DataLoader():
            return speaks_for_itself(data.dataset)
        case TensorDataset():
            return len(data.tensors) == 2
        case (x, y):
            return all(isinstance(part, Tensor) or is_numeric(part) for part in (x, y))
        case _:
            return isinstance(data, TensorRows)


def is_numeric(values: Any) -> bool:
    """An array of numbers: reading it cannot fail for what it holds."""
    return isinstance(values, np.ndarray) and values.dtype.kind in "biuf"


def _tensor(values: Any) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise DataError(
            f"Expected a tensor or an array of numbers, got {type(values).__name__} that cannot be made one."
        ) from None


def _plain(values: Tensor, dtype: torch.dtype) -> Tensor:
    """In the precision that the model has; complex numbers lose their imaginary part, as `Tensor.to` has it."""
    if values.is_complex():
        values = values.real
    return values.detach().to(dtype if values.is_floating_point() else torch.int64)


def _finite(x: Tensor, y: Tensor) -> Lot:
    """The rows without a NaN or an infinity, as no lot at all if none is left."""
    good = _is_finite(x) & _is_finite(y)
    if not bool(good.all()):
        x, y = x[good], y[good]
    return [(x, y)] if len(x) else []


def _is_finite(values: Tensor) -> Tensor:
    if not values.is_floating_point():
        return torch.ones(len(values), dtype=torch.bool)
    return torch.isfinite(values).reshape(len(values), math.prod(values.shape[1:])).all(dim=1)


def _signature(row: Sequence[Tensor]) -> tuple[object, ...]:
    return tuple((tuple(part.shape), part.dtype) for part in row)


def _two_zeros(row: Tensor) -> Tensor:
    return torch.zeros((2, *row.shape), dtype=row.dtype)
