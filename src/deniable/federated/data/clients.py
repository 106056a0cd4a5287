"""Clients as rows with offsets: a million clients cost a million offsets, not a million objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deniable.errors import DataError, InvalidParameter

Indices = NDArray[np.int64]
NOBODY = -1
"""The number of the client of a row that is no client's."""


@dataclass(frozen=True)
class Clients:
    """Rows of many clients. Client k has the rows `order[offsets[k]:offsets[k + 1]]` of `x` and `y`.

    `x` and `y` are arrays, tensors or memory maps; only rows of a drawn client are read.
    What a client holds is private, and so is how much: sizes are read by its own
    training and by weights that cap them, never by a loss or a normaliser.
    """

    x: Any
    y: Any
    order: Indices
    offsets: Indices

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise DataError(f"Expected as many labels as rows, got {len(self.y):,} and {len(self.x):,}.")
        steps = np.diff(self.offsets)
        if (
            len(self.offsets) < 2
            or self.offsets[0] != 0
            or self.offsets[-1] != len(self.order)
            or (steps < 0).any()
        ):
            raise InvalidParameter("Expected offsets that rise from 0 to the number of ordered rows.")
        if len(self.order) and not 0 <= self.order.min() <= self.order.max() < len(self.x):
            raise InvalidParameter("Expected an order of rows that exist.")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def size(self, client: int) -> int:
        return int(self.offsets[client + 1] - self.offsets[client])

    def rows(self, client: int) -> tuple[Tensor, Tensor]:
        """What one client holds."""
        where = self.order[self.offsets[client] : self.offsets[client + 1]]
        return _tensor(self.x, where), _tensor(self.y, where)

    def sample(self, value: int) -> tuple[Tensor, Tensor]:
        """Two made-up rows of the shape and type of a client's, all `value`, and labels 0. No row is read."""
        empty = np.zeros(0, np.int64)
        try:
            x, y = _tensor(self.x, empty), _tensor(self.y, empty)
        except TypeError:
            raise DataError("Expected rows and labels that are numbers. Nothing was run.") from None
        return x.new_full((2, *x.shape[1:]), value), y.new_zeros((2, *y.shape[1:]))

    @classmethod
    def by_owner(cls, x: Any, y: Any, owner: Any, *, owners: Any = None) -> Clients:
        """Rows by natural user: `owner` names the client of each row, by numbers or words.

        `owners` declares all clients, those without rows too, each once. Where clients add noise or take
        turns by number, name them: a client that falls silent then keeps its place, as the guarantee has it,
        and the numbers of the others do not move. A row whose owner is None or NaN is nobody's, and left out.
        """
        if len(owner) != len(x):
            raise DataError(f"Expected an owner for each row, got {len(owner):,} for {len(x):,} rows.")
        everybody = np.asarray(owner)
        with_owner = _is_named(everybody)
        try:
            names, named_place = np.unique(everybody[with_owner], return_inverse=True)
        except TypeError:
            raise DataError("Expected owners of one kind, all numbers or all words.") from None
        place = np.full(len(everybody), NOBODY)
        place[with_owner] = named_place
        count = len(names)
        if owners is not None:
            ids = np.unique(np.asarray(owners))
            if len(ids) != len(owners) or not np.isin(names, ids).all():
                raise DataError("Expected owners to name every client once, and every owner of a row.")
            place[with_owner], count = np.searchsorted(ids, names)[named_place], len(ids)
        return cls.by_place(x, y, place, count)

    @classmethod
    def by_place(cls, x: Any, y: Any, place: Indices, count: int) -> Clients:
        """Rows by the number of their client, of `count`; those of `NOBODY` are left out."""
        rows = np.flatnonzero(place != NOBODY).astype(np.int64)
        order = rows[np.argsort(place[rows], kind="stable")]
        sizes = np.bincount(place[rows], minlength=count)
        return cls(x, y, order, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    @classmethod
    def of_parts(cls, x: Any, y: Any, parts: Sequence[Indices]) -> Clients:
        """Rows by lists of their numbers, one list a client."""
        sizes = [len(part) for part in parts]
        order = np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)
        return cls(x, y, order, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    @classmethod
    def from_dataset(cls, dataset: Any, owner: Any) -> Clients:
        """A torch set of (row, label) pairs, with the client of each: its items are read once and kept as
        tensors."""
        pairs = [dataset[i] for i in range(len(dataset))]
        if not pairs:
            raise DataError("Expected a set with at least one row.")
        try:
            x = torch.stack([torch.as_tensor(x) for x, _ in pairs])
            y = torch.stack([torch.as_tensor(y) for _, y in pairs])
        except (TypeError, ValueError, RuntimeError):
            raise DataError(
                "Expected a set of pairs (row, label) that are numbers, all rows of one shape."
            ) from None
        return cls.by_owner(x, y, owner)

    @classmethod
    def from_parquet(cls, path: str | Path, *, user: str, label: str, features: Sequence[str]) -> Clients:
        """Numbers from a parquet file: the columns `features` and `label`, and in `user` whose row it is.

        A row that names nobody, and one with a value missing, is left out; a client all of whose rows are
        left out stays a client. Types are those of the file's columns, whatever values are missing.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path, columns=[user, label, *features])
        except (OSError, KeyError, ValueError) as error:
            raise DataError(f"The file {path} cannot be read as clients: {error}.") from error
        for name in (label, *features):
            kind = table.schema.field(name).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
                raise DataError(f"Expected numbers in the column {name!r} of {path}, got {kind}.")
        place, count = places(table[user])
        for name in (label, *features):
            place[table[name].is_null().to_numpy()] = NOBODY
        with np.errstate(over="ignore"):  # a number too large for single precision is none, without a word
            columns = [_fill_gaps(table[name]).astype(np.float32) for name in features]
        return cls.by_place(np.stack(columns, 1), _fill_gaps(table[label]), place, count)


def places(names: Any) -> tuple[Indices, int]:
    """For each name of an Arrow column the number of its client, in the order of names, and how many clients
    there are."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        if pa.types.is_dictionary(names.type):  # its parts may number words differently, and hold nulls
            names = names.cast(names.type.value_type)
        codes = names.dictionary_encode().combine_chunks()
        rank = compute.rank(codes.dictionary, tiebreaker="first").to_numpy().astype(np.int64) - 1
    except pa.ArrowNotImplementedError:
        raise DataError(
            f"Expected words, numbers or dates in the column that names clients, got {names.type}."
        ) from None
    numbers: Indices = np.full(len(names), NOBODY)
    with_name = codes.is_valid().to_numpy(zero_copy_only=False)
    numbers[with_name] = rank[codes.indices.drop_null().to_numpy()]
    nobody = codes.dictionary.is_null(nan_is_null=True)
    if pa.types.is_string(codes.dictionary.type) or pa.types.is_large_string(codes.dictionary.type):
        nobody = compute.equal(codes.dictionary, "")  # what a CSV file has for nobody
    numbers[np.isin(numbers, rank[nobody.to_numpy(zero_copy_only=False)])] = NOBODY
    return numbers, len(rank)


def places_on(names: Any, roster: Sequence[str]) -> Indices:
    """For each name of an Arrow column the number of its client on the roster; `NOBODY` for one that is not
    on it. Numbers and dates are compared as they are written; blanks around a name do not count."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        words = names.cast(names.type.value_type) if pa.types.is_dictionary(names.type) else names
        texts = compute.utf8_trim_whitespace(words.cast(pa.large_string()))
        numbers = compute.index_in(texts, value_set=pa.array(roster, pa.large_string()))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise DataError(
            f"Expected words, numbers or dates in the column that names clients, got {names.type}."
        ) from None
    where: Indices = numbers.fill_null(NOBODY).to_numpy().astype(np.int64)
    return where


def _is_named(owner: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of these are somebody: neither None nor NaN."""
    if owner.dtype != object:
        is_equal_to_itself: NDArray[np.bool_] = owner == owner
        return is_equal_to_itself
    return np.array([_is_somebody(name) for name in owner], bool)


def _is_somebody(name: Any) -> bool:
    try:
        return name is not None and bool(name == name)
    except Exception:  # the NA of pandas, or an id of one row whose comparison raises: it must not show
        return False


def _fill_gaps(column: Any) -> NDArray[Any]:
    """An Arrow column of numbers in its own type: what is missing is 0, so that one row without a value does
    not change the type, and with it the training, of everybody."""
    values: NDArray[Any] = column.fill_null(False if str(column.type) == "bool" else 0).to_numpy()
    if values.dtype == bool:
        return values.astype(np.int64)
    return values


def _tensor(source: Any, indices: Indices) -> Tensor:
    if isinstance(source, Tensor):
        return source[torch.from_numpy(indices)]
    return torch.from_numpy(np.ascontiguousarray(source[indices]))
