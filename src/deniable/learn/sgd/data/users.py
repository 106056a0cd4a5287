"""Rows by user: a lot is drawn of users, and what a user's rows say is one example.

Every user enters a lot by her own coin. The mean of the gradients of at most `max_rows` of her rows is
clipped once, so a user moves the sum by at most the clip, however many rows she has: the loss is that of a
run with users for rows. Rows drawn one by one would cost a group of `max_rows` rows instead.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from deniable.errors import DataError
from deniable.learn.clip.batch import Batch
from deniable.learn.nests import map_parts, tensors
from deniable.learn.sgd.data import rows as containers
from deniable.learn.sgd.data.rows import InnerRows, Lot, Positions
from deniable.learn.sgd.data.users_names import usable_name
from deniable.mechanism import Random
from deniable.units import Unit


class Users:
    """Data whose rows belong to users: a container of rows, and the id of the user of
    each, in the same order.

    A row without an id (None, NaN) belongs to nobody and is left out, and so is one whose id is neither
    text, bytes, a number, a date, a UUID nor a tuple of these.

    >>> Users((torch.zeros(4, 2), torch.zeros(4)), ["ann", "bob", "ann", None]).rows
    [array([0, 2]), array([1])]
    """

    def __init__(self, data: Any, ids: Any) -> None:
        self.data, self.rows = data, _rows_of_each(ids)
        self.ids = len(ids)

    def __len__(self) -> int:
        """How many rows: loops of others ask for it."""
        return self.ids

    def collate(self, loader: DataLoader[Any]) -> Users:
        """The same people, with rows as a loader of them makes each."""
        containers.refuse_sampler(loader)
        users = copy.copy(self)
        users.data = DataLoader(self.data, collate_fn=loader.collate_fn)
        return users


class UserRows(InnerRows):
    """Users that can be drawn by position, and at most `max_rows` rows of each, chosen anew at every draw."""

    def __init__(self, users: Users, max_rows: int, example: Any = None) -> None:
        super().__init__(users.data, example, users.ids, "id")
        self._users, self._max_rows = users.rows, max_rows

    def __len__(self) -> int:
        return len(self._users)

    def take(self, positions: Positions, dtype: torch.dtype, rng: Random | None = None) -> Lot:
        """A batch for each power of two up to `max_rows`: users with that many rows,
        filled up by rows of weight 0.

        A user is in one batch only, so rows of another shape than declared are left out:
        two batches would be clipped apart.
        """
        row_lists = [self._choose(self._users[position], rng) for position in positions]
        if not row_lists:
            return []
        owners = np.repeat(np.arange(len(row_lists)), [len(own) for own in row_lists])
        shapes = self.form(dtype).shapes
        lot: Lot = []
        with self.seeds(rng):
            groups = self.read(np.concatenate(row_lists), dtype)
        for group in groups:
            if tuple(tuple(part.shape[1:]) for part in tensors(group.rows)) == shapes:
                lot += batches(group.rows, owners[group.places], self._max_rows)
        return lot

    def _choose(self, places: Positions, rng: Random | None) -> Positions:
        if len(places) <= self._max_rows:
            return places
        order = np.arange(len(places)) if rng is None else rng.permutation(len(places))
        return places[order[: self._max_rows]]


def sizes(max_rows: int) -> list[int]:
    """The numbers of rows that users are filled up to.

    >>> sizes(6)
    [1, 2, 4, 6]
    """
    return [*(1 << k for k in range((max_rows - 1).bit_length())), max_rows]


def batches(rows: Any, owners: NDArray[np.int64], max_rows: int) -> Lot:
    """Rows of one shape by their owners; an owner's rows count equally and their weights add up to 1."""
    _, owner, counts = np.unique(owners, return_inverse=True, return_counts=True)
    order = np.argsort(owner, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    lot, least = [], 0
    for size in sizes(max_rows):
        members = np.flatnonzero((counts > least) & (counts <= size))
        least = size
        if len(members):
            lot.append(_batch(rows, order, starts[members], counts[members], size))
    return lot


def _batch(rows: Any, order: NDArray[Any], starts: NDArray[Any], counts: NDArray[Any], size: int) -> Batch:
    """The rows of these users, each filled up to `size` by her first row with the weight 0."""
    offsets = np.arange(size)[None, :]
    is_own = offsets < counts[:, None]
    places = torch.from_numpy(order[starts[:, None] + np.where(is_own, offsets, 0)].reshape(-1))
    weights = torch.from_numpy(np.where(is_own, 1 / counts[:, None], 0.0).reshape(-1))

    def pick(part: Tensor) -> Tensor:
        return part[places]

    return Batch(map_parts(pick, rows), size, weights)


def users_of(data: Any, unit: Unit) -> Users:
    """The people of a container: as given, or by the unit's column of a frame, of a dict
    of columns or of a `datasets` set; of a loader, those of its data set."""
    if isinstance(data, Users):
        return data
    if isinstance(data, DataLoader):
        inner: Any = data.dataset
        if isinstance(inner, Users):
            return inner.collate(data)
        return Users(data, _ids(inner, unit))
    return Users(data, _ids(data, unit))


def _ids(data: Any, unit: Unit) -> Any:
    """The unit's column."""
    name = str(unit.column_name)
    names = (
        data.keys()
        if isinstance(data, Mapping)
        else getattr(data, "column_names", getattr(data, "columns", ()))
    )
    if not callable(names) and name in list(names):
        return data[name]
    raise DataError(
        f'Expected Users(data, ids), a loader of it, or data with a column "{name}". Nothing was charged.'
    )


def _rows_of_each(ids: Any) -> list[Positions]:
    """The positions of each user's rows. Ids are compared as Python values: 1 and 1.0
    are one user, "1" is another."""
    is_column = getattr(ids, "ndim", 1) == 1 and hasattr(ids, "__len__")
    if isinstance(ids, str | bytes) or not is_column:
        raise DataError("Expected the ids of users as a list, an array or a column. Nothing was charged.")
    positions: dict[Hashable, list[int]] = {}
    for position, value in enumerate(containers.to_list(ids)):
        name = usable_name(value)
        if name is not None:
            positions.setdefault(name, []).append(position)
    return [np.array(own, dtype=np.int64) for own in positions.values()]
