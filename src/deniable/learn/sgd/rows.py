"""Private rows as lots of tensors. What only a row can show never raises: a failure steered by one row would be a release.

The rules, each of which looks at one row alone, so that it keeps neighbouring data sets neighbours:

- a row that cannot be read, or is put together otherwise than declared, is left out;
- a row with a NaN or an infinity in one of its parts is left out;
- floating-point parts are converted to the model's precision, others to whole numbers of 64 bits; a part of the other kind than
  declared (1.0 for 1) is converted where it is the same number, and else its row is left out;
- rows of different shapes are handed over in groups of one shape each.

What a row looks like is declared: by an example, made up or public, or by a container that has one shape and type for all its
rows whatever they hold (tensors, arrays of numbers). It is never read from a row. What the container as a whole shows (two
tensors of different length, an iterable without positions) is the owner's error and raises `DataError`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate, default_convert

from deniable.errors import DataError, InvalidParameter
from deniable.learn.nests import Structure, taken_apart

Batch: TypeAlias = Any
"""Rows of one shape: a nest of tensors with a row for each place of their first axis. Mostly (inputs, targets)."""
Lot: TypeAlias = list[Batch]
"""The rows of one lot, grouped by shape; empty if no row was drawn."""

DIFFERENT = (  # without numbers: how many rows there are is private
    "Expected inputs and targets with one row for each example; they differ in number, or one of them has no axis."
)
UNDECLARED = (
    "Expected example=(input, target), a row that is made up or public: what a row of this data set looks like is not read from "
    "private rows, since a refusal that a row steers is a release. Nothing was charged."
)


@dataclass(frozen=True)
class Form:
    """What a row looks like: how it is put together, and the shape and type of each part."""

    structure: Structure
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]

    @classmethod
    def of(cls, row: Any, dtype: torch.dtype) -> Form:
        """The form of a public row, floating-point parts as `dtype`."""
        structure, parts = taken_apart(row)
        try:
            read = [_part(part, dtype) for part in parts]
        except Exception as error:
            raise InvalidParameter(
                f"Expected an example of tensors, arrays or numbers, one row without a batch axis: {error}. Nothing was charged."
            ) from None
        return cls(structure, tuple(tuple(part.shape) for part in read), tuple(part.dtype for part in read))

    def zeros(self, size: int) -> Batch:
        """So many rows of zeros."""
        each = zip(self.shapes, self.dtypes, strict=True)
        return self.structure.built([torch.zeros((size, *shape), dtype=dtype) for shape, dtype in each])

    def read(self, row: Any, dtype: torch.dtype) -> list[Tensor] | None:
        """The parts of a private row in their declared types; None if it is to be left out. Never raises."""
        try:
            structure, parts = taken_apart(row)
            if structure != self.structure:
                return None
            read = [_declared(_part(p, dtype)[None], kind) for p, kind in zip(parts, self.dtypes, strict=True)]
            return [values[0] for values, _ in read] if all(bool(good[0]) for _, good in read) else None
        except Exception:  # a row that cannot be read is left out
            return None


class Rows(ABC):
    """Rows that can be drawn by position. `example` is a row, made up or public."""

    def __init__(self, example: Any = None) -> None:
        self.example = example
        self._forms: dict[torch.dtype, Form] = {}

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, positions: NDArray[np.int64], dtype: torch.dtype) -> Lot:
        """The rows at `positions` by the rules above, floating-point numbers as `dtype`."""

    def form(self, dtype: torch.dtype) -> Form:
        """What is declared of the rows. Raises `InvalidParameter` if nothing is."""
        if dtype not in self._forms:
            self._forms[dtype] = self._form(dtype)
        return self._forms[dtype]

    @abstractmethod
    def _form(self, dtype: torch.dtype) -> Form: ...


class TensorRows(Rows):
    """Rows along the first axis of two tensors; `example` may say of what types their numbers are."""

    def __init__(self, x: Tensor, y: Tensor, example: Any = None) -> None:
        if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
            raise DataError(DIFFERENT)
        super().__init__(example)
        self.x, self.y = x.detach(), y.detach()

    def __len__(self) -> int:
        return len(self.x)

    def take(self, positions: NDArray[np.int64], dtype: torch.dtype) -> Lot:
        at, form = torch.from_numpy(positions), self.form(dtype)
        parts = [_numbers(self.x[at], dtype), _numbers(self.y[at], dtype)]
        read = [_declared(part, kind) for part, kind in zip(parts, form.dtypes, strict=True)]
        good = read[0][1] & read[1][1]
        x, y = read[0][0], read[1][0]
        if not bool(good.all()):
            x, y = x[good], y[good]
        return [(x, y)] if len(x) else []

    def _form(self, dtype: torch.dtype) -> Form:
        own = [torch.zeros(part.shape[1:], dtype=_numbers(part[:0], dtype).dtype) for part in (self.x, self.y)]
        form = Form.of(tuple(own), dtype)
        if self.example is None:
            return form
        stated = Form.of(self.example, dtype)
        if (stated.structure, stated.shapes) != (form.structure, form.shapes):
            raise InvalidParameter(
                f"The example has parts of the shapes {stated.shapes}, and the tensors have rows of {form.shapes}. Nothing was "
                "charged."
            )
        return stated


class DatasetRows(Rows):
    """Rows of a map-style `Dataset`, or of two lists, read one by one and held against the form of `example`."""

    def __init__(self, dataset: Any, example: Any = None) -> None:
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
            raise DataError(
                "Expected a data set with positions and a length: a Poisson sample draws rows by position. Nothing was charged."
            )
        super().__init__(example)
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def take(self, positions: NDArray[np.int64], dtype: torch.dtype) -> Lot:
        form, groups = self.form(dtype), dict[tuple[torch.Size, ...], list[list[Tensor]]]()
        for position in positions.tolist():
            row = form.read(self._row(position), dtype)
            if row is not None:
                groups.setdefault(tuple(part.shape for part in row), []).append(row)
        return [form.structure.built(map(torch.stack, zip(*group, strict=True))) for group in groups.values()]

    def _form(self, dtype: torch.dtype) -> Form:
        if self.example is None:
            raise InvalidParameter(UNDECLARED)
        return Form.of(self.example, dtype)

    def _row(self, position: int) -> Any:
        try:
            return self.dataset[position]
        except Exception:  # a row that cannot be read is left out, and None is no row
            return None


class _Paired(Dataset[Any]):
    """Two lists side by side."""

    def __init__(self, x: Any, y: Any) -> None:
        if len(x) != len(y):
            raise DataError(DIFFERENT)
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index], self.y[index]


class _Collated(Dataset[Any]):
    """Rows as a loader's own `collate_fn` makes them, each in a batch of its own, so that none bears on another."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset, self.collate = dataset, collate

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        structure, parts = taken_apart(self.collate([self.dataset[index]]))
        if any(len(part) != 1 for part in parts):
            raise DataError("Expected a batch of one row.")  # seen by nobody: the row is left out
        return structure.built([part[0] for part in parts])


def rows(data: Any, example: Any = None) -> Rows:
    """Read a container: (inputs, targets) as tensors, arrays or lists, a map-style `Dataset`, or a `DataLoader` for its data
    set. `example` is a row, made up or public."""
    match data:
        case Rows():
            return data
        case DataLoader() if data.collate_fn not in (default_collate, default_convert, None):
            return DatasetRows(_Collated(DatasetRows(data.dataset).dataset, data.collate_fn), example)
        case DataLoader():
            return rows(data.dataset, example)
        case TensorDataset() if len(data.tensors) == 2:
            return TensorRows(*data.tensors, example)
        case Dataset():
            return DatasetRows(data, example)
        case (x, y) if all(isinstance(part, Tensor) or is_numeric(part) for part in (x, y)):
            return TensorRows(torch.as_tensor(x), torch.as_tensor(y), example)
        case (x, y) if all(hasattr(part, "__len__") and hasattr(part, "__getitem__") for part in (x, y)):
            return DatasetRows(_Paired(x, y), example)
        case _:
            raise DataError(
                f"Expected (inputs, targets) as tensors or arrays, a Dataset or a DataLoader, got {type(data).__name__}."
            )


def is_numeric(values: Any) -> bool:
    """An array of numbers: reading it cannot fail for what it holds."""
    return isinstance(values, np.ndarray) and values.dtype.kind in "biuf"


def _part(value: Any, dtype: torch.dtype) -> Tensor:
    """One part of a row as a plain tensor on the CPU, so that nothing later can fail on what kind it is."""
    read = torch.as_tensor(value).detach()
    if read.is_quantized:
        read = read.dequantize()
    dense = read if read.layout is torch.strided else read.to_dense()
    return _numbers(dense.as_subclass(Tensor).cpu(), dtype).clone()


def _numbers(values: Tensor, dtype: torch.dtype) -> Tensor:
    """In the precision that the model has; complex numbers lose their imaginary part, as `Tensor.to` has it."""
    if values.is_complex():
        values = values.real
    return values.detach().to(dtype if values.is_floating_point() else torch.int64)


def _declared(values: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Rows of numbers in their declared type, and which rows are finite and are the same numbers in it."""
    good = _each(torch.isfinite(values)) if values.is_floating_point() else torch.ones(len(values), dtype=torch.bool)
    if values.dtype is kind:
        return values, good
    changed = torch.where(good.reshape(-1, *[1] * (values.ndim - 1)), values, 0).to(kind)
    return changed, good & _each(changed.to(values.dtype) == values)


def _each(values: Tensor) -> Tensor:
    """Whether all of a row's entries are true."""
    return values.reshape(len(values), math.prod(values.shape[1:])).all(dim=1)
