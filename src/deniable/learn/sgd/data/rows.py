"""Private rows as lots of tensors, from the containers that people have.

What a row looks like is declared: by an example, made up or public, or by a container that has one shape and
type for all its rows whatever they hold (tensors, arrays of numbers). It is never read from a row. `forms`
has the rules by which a row is read; rows of different shapes are handed over in groups of one shape each.
What the container as a whole shows (two tensors of different length, an iterable without positions) is the
owner's error and raises `DataError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
    default_convert,
)

from deniable.errors import DataError, InvalidParameter
from deniable.learn.clip.batch import Batch
from deniable.learn.nests import mapped, taken_apart
from deniable.learn.sgd.data.forms import RowForm, declared, numbers
from deniable.mechanism import Random

Positions: TypeAlias = NDArray[np.int64]
Lot: TypeAlias = list[Batch]
"""The rows of one lot, grouped by shape; empty if no row was drawn."""

DIFFERENT = (  # without numbers: how many rows there are is private
    "Expected inputs and targets with one row for each example; they differ in number, or one of them has no "
    "axis."
)
UNDECLARED = (
    "Expected example=(input, target), a row that is made up or public: what a row of this data set looks "
    "like is not read from private rows, since a refusal that a row steers is a release. Nothing was charged."
)


@dataclass(frozen=True)
class RowGroup:
    """Rows of one shape that could be read, and which of the positions asked for they are."""

    rows: Any
    places: Positions


class Rows(ABC):
    """Rows that can be drawn by position. `example` is a row, made up or public."""

    def __init__(self, example: Any = None) -> None:
        self.example = example
        self._forms: dict[torch.dtype, RowForm] = {}

    @abstractmethod
    def __len__(self) -> int:
        """How many can be drawn."""

    @abstractmethod
    def read(self, positions: Positions, dtype: torch.dtype) -> list[RowGroup]:
        """The rows at `positions` by the rules of `forms`, floating-point numbers as `dtype`."""

    def take(self, positions: Positions, dtype: torch.dtype, rng: Random | None = None) -> Lot:
        """A lot of what is at these positions."""
        return [Batch(group.rows) for group in self.read(positions, dtype)]

    def places(self, length: int, rng: Random) -> Positions:
        """The step of a pass that each row falls into, by a draw of its own."""
        return rng.uniform_integers(length, len(self))

    def form(self, dtype: torch.dtype) -> RowForm:
        """What is declared of the rows. Raises `InvalidParameter` if nothing is."""
        if dtype not in self._forms:
            self._forms[dtype] = self._form(dtype)
        return self._forms[dtype]

    @abstractmethod
    def _form(self, dtype: torch.dtype) -> RowForm: ...


class TensorRows(Rows):
    """Rows along the first axis of tensors in a nest; `example` may say of what types their numbers are."""

    def __init__(self, nest: Any, example: Any = None) -> None:
        self._structure, parts = taken_apart(nest)
        if not parts or any(part.ndim == 0 for part in parts) or len({len(part) for part in parts}) > 1:
            raise DataError(DIFFERENT)
        super().__init__(example)
        self._parts = [part.detach() for part in parts]

    def __len__(self) -> int:
        return len(self._parts[0])

    def read(self, positions: Positions, dtype: torch.dtype) -> list[RowGroup]:
        at, form = torch.from_numpy(positions), self.form(dtype)
        read = [
            declared(numbers(part[at.to(part.device)], dtype).cpu(), kind)
            for part, kind in zip(self._parts, form.dtypes, strict=True)
        ]
        good = torch.stack([fine for _, fine in read]).all(0)
        if not bool(good.all()):
            read = [(values[good], good) for values, _ in read]
        rows = self._structure.built([values for values, _ in read])
        return [RowGroup(rows, np.flatnonzero(good.numpy()))] if len(read[0][0]) else []

    def _form(self, dtype: torch.dtype) -> RowForm:
        own = [torch.zeros(part.shape[1:], dtype=numbers(part[:0], dtype).dtype) for part in self._parts]
        form = RowForm(self._structure, tuple(own))
        if self.example is None:
            return form
        example_form = RowForm.of(self.example, dtype)
        if (example_form.structure, example_form.shapes) != (form.structure, form.shapes):
            raise InvalidParameter(
                f"The example has parts of the shapes {example_form.shapes}, and the tensors have rows of "
                f"{form.shapes}. Nothing was charged."
            )
        return example_form


class DatasetRows(Rows):
    """Rows of a map-style `Dataset`, or of two lists, read one by one and held against
    the form of `example`."""

    def __init__(self, dataset: Any, example: Any = None) -> None:
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
            raise DataError(
                "Expected a data set with positions and a length: a Poisson sample draws rows by position. "
                "Nothing was charged."
            )
        super().__init__(example)
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, positions: Positions, dtype: torch.dtype) -> list[RowGroup]:
        form, groups = self.form(dtype), dict[tuple[torch.Size, ...], list[tuple[int, list[Tensor]]]]()
        for place, position in enumerate(positions.tolist()):
            row = form.read(self._row(position), dtype)
            if row is not None:
                groups.setdefault(tuple(part.shape for part in row), []).append((place, row))
        return [self._group(form, members) for members in groups.values()]

    @staticmethod
    def _group(form: RowForm, members: list[tuple[int, list[Tensor]]]) -> RowGroup:
        parts = zip(*(row for _, row in members), strict=True)
        places = np.array([place for place, _ in members], dtype=np.int64)
        return RowGroup(form.structure.built(map(torch.stack, parts)), places)

    def _form(self, dtype: torch.dtype) -> RowForm:
        if self.example is None:
            raise InvalidParameter(UNDECLARED)
        return RowForm.of(self.example, dtype)

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
    """Rows as a loader's own `collate_fn` makes them, each in a batch of its own, so
    that none bears on another."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset, self.collate = dataset, collate

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        structure, parts = taken_apart(self.collate([self.dataset[index]]))
        if any(len(part) != 1 for part in parts):
            raise DataError("Expected a batch of one row.")  # seen by nobody: the row is left out
        return structure.built([part[0] for part in parts])


class _Frame(Dataset[Any]):
    """The rows of a pandas or polars frame, each a dict by column."""

    def __init__(self, frame: Any) -> None:
        self.columns = {str(name): frame[name].to_numpy() for name in frame.columns}
        self.length = len(frame)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return {name: values[index] for name, values in self.columns.items()}


def rows(data: Any, example: Any = None) -> Rows:
    """Read a container: tensors or arrays in a pair, a tuple or a dict; two lists; a
    map-style `Dataset`, a `datasets` set of Hugging Face; a `DataLoader` for its data
    set; a pandas or polars frame. `example` is a row, made up or public."""
    match data:
        case Rows():
            return data
        case DataLoader():
            return _of_loader(data, example)
        case TensorDataset():
            return TensorRows(data.tensors, example)
        case Dataset():
            return DatasetRows(data, example)
        case tuple() | Mapping() | [Tensor() | np.ndarray(), Tensor() | np.ndarray()] if _is_of_numbers(data):
            return TensorRows(mapped(torch.as_tensor, data), example)
        case (x, y) if all(hasattr(part, "__len__") and hasattr(part, "__getitem__") for part in (x, y)):
            return DatasetRows(_Paired(x, y), example)
        case _ if _is_frame(data):
            return DatasetRows(_Frame(data), example)
        case _ if _has_positions(data):
            return DatasetRows(data, example)
        case _:
            raise DataError(
                "Expected (inputs, targets) as tensors or arrays, a Dataset, a DataLoader or a frame, got "
                f"{type(data).__name__}. Nothing was charged. A list of rows is given as DataLoader(rows)."
            )


def _of_loader(loader: DataLoader[Any], example: Any) -> Rows:
    """The rows of its data set, as a `collate_fn` of its own makes them."""
    dataset: Any = loader.dataset
    sampler = getattr(loader.batch_sampler, "sampler", loader.batch_sampler) or loader.sampler
    if not isinstance(dataset, IterableDataset) and type(sampler) not in (RandomSampler, SequentialSampler):
        raise DataError(
            f"The loader has a sampler of its own ({type(sampler).__name__}), and lots are drawn by coins "
            "here. Nothing was charged. Give a torch.utils.data.Subset of the rows it chooses, or the data "
            "set."
        )
    if loader.collate_fn not in (default_collate, default_convert, None):
        return DatasetRows(_Collated(DatasetRows(dataset).dataset, loader.collate_fn), example)
    return DatasetRows(dataset, example) if isinstance(dataset, list) else rows(dataset, example)


def listed(column: Any) -> Any:
    """The values of a list, an array or a column as Python has them: in Arrow's own a missing one is a value
    like others."""
    for name in ("tolist", "to_pylist"):
        if hasattr(column, name):
            return getattr(column, name)()
    return column


def _is_of_numbers(nest: Any) -> bool:
    """Tensors and arrays of numbers in a nest of at least two."""
    _, parts = taken_apart(nest)
    return len(parts) > 1 and all(isinstance(part, Tensor) or is_numeric(part) for part in parts)


def _is_frame(data: Any) -> bool:
    """pandas, polars and what is like them, by their type: nothing of what they hold is read."""
    return type(data).__module__.split(".")[0] in ("pandas", "polars") and type(data).__name__ == "DataFrame"


def _has_positions(data: Any) -> bool:
    """A sequence of rows of a type of its own (`datasets.Dataset`); lists, words and
    tables by name are none."""
    is_plain = isinstance(data, str | bytes | Mapping | list | tuple | Tensor | np.ndarray)
    return not is_plain and hasattr(data, "__len__") and hasattr(data, "__getitem__")


def is_numeric(values: Any) -> bool:
    """An array of numbers: reading it cannot fail for what it holds."""
    return isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
