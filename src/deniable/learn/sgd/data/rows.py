"""Private rows as lots of tensors, from the containers that people have.

What a row looks like is declared: by an example, made up or public, or by a container that has one shape and
type for all its rows whatever they hold (tensors, arrays of numbers). It is never read from a row. `forms`
has the rules by which a row is read; rows of different shapes are handed over in groups of one shape each.
What the container as a whole shows (two tensors of different length, an iterable without positions) is the
owner's error and raises `DataError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
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
    default_collate,
    default_convert,
)

from deniable.errors import DataError, InvalidParameter
from deniable.learn.clip.batch import Batch
from deniable.learn.nests import map_parts, take_apart
from deniable.learn.sgd.data import adapters
from deniable.learn.sgd.data.forms import Padded, RowForm, convert, numbers
from deniable.learn.sgd.data.seeds import secret_seeds
from deniable.mechanism import Random
from deniable.randomness import SecureRandom

Positions: TypeAlias = NDArray[np.int64]
Lot: TypeAlias = list[Batch]
"""The rows of one lot, grouped by shape; empty if no row was drawn."""

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
        with self.seeds(rng):
            return [Batch(group.rows) for group in self.read(positions, dtype)]

    def seeds(self, rng: Random | None) -> AbstractContextManager[None]:
        """Around every `read`: what code of others draws there comes from a secret seed."""
        return nullcontext()

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


class InnerRows(Rows):
    """Rows of a container that are drawn in another way than one by one."""

    def __init__(self, data: Any, example: Any, count: int, noun: str) -> None:
        self._inner = rows(data, example)
        if count != len(self._inner):
            raise DataError(f"Expected one {noun} for each row; they differ in number. Nothing was charged.")
        super().__init__(self._inner.example)

    def _form(self, dtype: torch.dtype) -> RowForm:
        return self._inner.form(dtype)

    def seeds(self, rng: Random | None) -> AbstractContextManager[None]:
        return self._inner.seeds(rng)

    def read(self, positions: Positions, dtype: torch.dtype) -> list[RowGroup]:
        return self._inner.read(positions, dtype)


class TensorRows(Rows):
    """Rows along the first axis of tensors in a nest; `example` may say of what types their numbers are."""

    def __init__(self, nest: Any, example: Any = None) -> None:
        self._structure, parts = take_apart(nest)
        if not parts or any(part.ndim == 0 for part in parts) or len({len(part) for part in parts}) > 1:
            raise DataError(adapters.DIFFERENT)
        super().__init__(example)
        self._parts = [part.detach() for part in parts]

    def __len__(self) -> int:
        return len(self._parts[0])

    def read(self, positions: Positions, dtype: torch.dtype) -> list[RowGroup]:
        at, form = torch.from_numpy(positions), self.form(dtype)
        read = [
            convert(numbers(part[at.to(part.device)], dtype).cpu(), kind)
            for part, kind in zip(self._parts, form.dtypes, strict=True)
        ]
        good = torch.stack([fine for _, fine in read]).all(0)
        if not bool(good.all()):
            read = [(values[good], good) for values, _ in read]
        rows = self._structure.build([values for values, _ in read])
        return [RowGroup(rows, np.flatnonzero(good.numpy()))] if len(read[0][0]) else []

    def _form(self, dtype: torch.dtype) -> RowForm:
        own = [torch.zeros(part.shape[1:], dtype=numbers(part[:0], dtype).dtype) for part in self._parts]
        form = RowForm(self._structure, tuple(own))
        if self.example is None:
            return form
        example_form = RowForm.from_row(self.example, dtype)
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
                "Nothing was charged. Read a stream into a list first: DataLoader(list(rows))."
            )
        super().__init__(example)
        self.dataset = dataset

    def seeds(self, rng: Random | None) -> AbstractContextManager[None]:
        return secret_seeds(SecureRandom() if rng is None else rng)

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
        return RowGroup(form.structure.build(map(torch.stack, parts)), places)

    def _form(self, dtype: torch.dtype) -> RowForm:
        if self.example is None:
            raise InvalidParameter(UNDECLARED)
        form = RowForm.from_row(self.example, dtype)
        self._refuse_columns(form.structure.keys)
        return form

    def _refuse_columns(self, columns: tuple[Any, ...] | None) -> None:
        """Raise if no row can be as declared, by the names of columns."""
        names = adapters.column_names(self.dataset)
        if names is None:
            return
        if columns is None:
            raise InvalidParameter(
                f"Expected an example that is a dict: rows of this data have names ({', '.join(names)}). "
                "Nothing was charged."
            )
        if missing := [name for name in columns if name not in names]:
            raise InvalidParameter(
                f"The example has {', '.join(map(repr, missing))}, and the data has no such column, only "
                f"{', '.join(map(repr, names))}: every row would be left out. Nothing was charged."
            )
        if isinstance(self.dataset, adapters.Columns):
            self.dataset.refuse_dates(columns)

    def _row(self, position: int) -> Any:
        try:
            return self.dataset[position]
        except (Exception, SystemExit):  # a row that cannot be read is left out, and None is no row
            return None


def rows(data: Any, example: Any = None) -> Rows:
    """Read a container: tensors or arrays in a pair, a tuple or a dict; two lists; a
    map-style `Dataset`, a `datasets` set of Hugging Face; a `DataLoader` for its data
    set; a frame of pandas or polars, an Arrow table. `example` is a row, made up or public."""
    match data:
        case Rows():
            return data
        case DataLoader():
            return _of_loader(data, example)
        case Dataset():
            tensors = adapters.rows_of_tensors(data)
            return DatasetRows(data, example) if tensors is None else _of_tensors(tensors, example)
        case tuple() | Mapping() | [_, _]:
            if example is None and adapters.may_have_gaps(data):
                raise InvalidParameter(UNDECLARED)
            parts = _of_parts(adapters.positional(_select_columns(data, example)), example)
            if parts is not None:
                return parts
        case _ if adapters.is_frame(data):
            return DatasetRows(adapters.Columns(data), example)
        case _ if _has_positions(data):
            return DatasetRows(adapters.by_position(data), example)
    raise DataError(
        "Expected (inputs, targets) as tensors or arrays, a Dataset, a DataLoader or a frame, got "
        f"{type(data).__name__}. Nothing was charged. A list of rows is given as DataLoader(rows), one "
        "tensor as TensorDataset(tensor)."
    )


def _select_columns(data: Any, example: Any) -> Any:
    """The columns of a dict that the example has: an id of a person is no input."""
    row = example.row if isinstance(example, Padded) else example
    if not isinstance(data, Mapping) or not isinstance(row, Mapping) or not row.keys() <= data.keys():
        return data
    return {name: data[name] for name in row}


def _of_tensors(nest: Any, example: Any) -> Rows:
    return TensorRows(map_parts(adapters.dense, nest), example)


def _of_parts(data: Any, example: Any) -> Rows | None:
    """Arrays of numbers and tensors, or two lists; None for all else."""
    if _is_of_numbers(data):
        return _of_tensors(data, example)
    is_pair = isinstance(data, tuple) and len(data) == 2
    if is_pair and all(hasattr(part, "__len__") and hasattr(part, "__getitem__") for part in data):
        adapters.refuse_sparse(data)
        return DatasetRows(adapters.SideBySide(*data), example)
    return None


def _of_loader(loader: DataLoader[Any], example: Any) -> Rows:
    """The rows of its data set, as a `collate_fn` of its own makes them."""
    refuse_sampler(loader)
    dataset: Any = loader.dataset
    if loader.collate_fn not in (default_collate, default_convert, None):
        own = adapters.Columns(dataset) if adapters.is_frame(dataset) else adapters.by_position(dataset)
        return DatasetRows(adapters.Collated(DatasetRows(own).dataset, loader.collate_fn), example)
    return DatasetRows(dataset, example) if isinstance(dataset, list) else rows(dataset, example)


def refuse_sampler(loader: DataLoader[Any]) -> None:
    """Raise if the loader chooses rows itself: what it would choose is not what is drawn."""
    sampler = getattr(loader.batch_sampler, "sampler", loader.batch_sampler) or loader.sampler
    is_usual = type(sampler) in (RandomSampler, SequentialSampler)
    if not is_usual and not isinstance(loader.dataset, IterableDataset):
        raise DataError(
            f"The loader has a sampler of its own ({type(sampler).__name__}), and lots are drawn by coins "
            "here. Nothing was charged. Give a torch.utils.data.Subset of the rows it chooses, or the data "
            "set."
        )


def to_list(column: Any) -> Any:
    """The values of a list, an array or a column as Python has them: in Arrow's own a missing one is a value
    like others."""
    for name in ("tolist", "to_pylist"):
        if hasattr(column, name):
            return getattr(column, name)()
    return column


def _is_of_numbers(nest: Any) -> bool:
    """Tensors and arrays of numbers in a nest of at least two."""
    _, parts = take_apart(nest)
    return len(parts) > 1 and all(isinstance(part, Tensor) or is_numeric(part) for part in parts)


def _has_positions(data: Any) -> bool:
    """A sequence of rows of a type of its own (`datasets.Dataset`); lists, words and
    tables by name are none."""
    is_plain = isinstance(data, str | bytes | Mapping | list | tuple | Tensor | np.ndarray)
    return not is_plain and hasattr(data, "__len__") and hasattr(data, "__getitem__")


def is_numeric(values: Any) -> bool:
    """An array of numbers: reading it cannot fail for what it holds."""
    return isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
