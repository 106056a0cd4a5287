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

    @classmethod
    def by_owner(cls, x: Any, y: Any, owner: Any, *, owners: Any = None) -> Clients:
        """Rows by natural user: `owner` names the client of each row, by numbers or words.

        `owners` declares all clients, those without rows too, each once. Where clients add noise or take
        turns by number, name them: a client that falls silent then keeps its place, as the guarantee has it,
        and the numbers of the others do not move.
        """
        if len(owner) != len(x):
            raise DataError(f"Expected an owner for each row, got {len(owner):,} for {len(x):,} rows.")
        names, place = np.unique(np.asarray(owner), return_inverse=True)
        count = len(names)
        if owners is not None:
            ids = np.unique(np.asarray(owners))
            if len(ids) != len(owners) or not np.isin(names, ids).all():
                raise DataError("Expected owners to name every client once, and every owner of a row.")
            place, count = np.searchsorted(ids, names)[place], len(ids)
        order = np.argsort(place, kind="stable").astype(np.int64)
        sizes = np.bincount(place, minlength=count)
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
        x = torch.stack([torch.as_tensor(x) for x, _ in pairs])
        return cls.by_owner(x, torch.stack([torch.as_tensor(y) for _, y in pairs]), owner)

    @classmethod
    def from_parquet(cls, path: str | Path, *, user: str, label: str, features: Sequence[str]) -> Clients:
        """Numbers from a parquet file: the columns `features` and `label`, and in `user` whose row it is."""
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path, columns=[user, label, *features])
        except (OSError, KeyError, ValueError) as error:
            raise DataError(f"The file {path} cannot be read as clients: {error}.") from error
        columns = [table[name].to_numpy().astype(np.float32) for name in features]
        return cls.by_owner(
            np.stack(columns, 1), table[label].to_numpy(), table[user].to_numpy(zero_copy_only=False)
        )


def _tensor(source: Any, where: Indices) -> Tensor:
    if isinstance(source, Tensor):
        return source[torch.from_numpy(where)]
    return torch.from_numpy(np.ascontiguousarray(source[where]))
