"""Whether other rows that a loop is given are private ones, as far as their containers tell."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

from deniable.learn.sgd.data.users import Users


def shares_rows(rows: Any, private: Any) -> bool:
    """Whether both are one data set, a loader, a part or a union of it with a row in common, or tensors with
    a row in the same memory. Places are compared, never what rows hold."""
    return any(
        here == there and (own is None or others is None or not set(own).isdisjoint(others))
        for here, own in _places(rows)
        for there, others in _places(private)
    )


def _places(
    rows: Any, places: Sequence[int] | None = None
) -> Iterator[tuple[Hashable, Sequence[int] | None]]:
    """The sets that rows are of, and their places there; None for all."""
    match rows:
        case DataLoader():
            yield from _places(rows.dataset, places)
        case Users():
            yield from _places(rows.data, places)
        case Subset():
            own = list(rows.indices)
            yield from _places(rows.dataset, own if places is None else [own[i] for i in places])
        case ConcatDataset():
            stops = rows.cumulative_sizes
            for part, start, stop in zip(rows.datasets, [0, *stops], stops, strict=False):
                yield from _places(part, _places_within(places, start, stop))
        case TensorDataset() if rows.tensors[0].layout is torch.strided:
            yield "memory", _memory(rows.tensors[0], places)
        case _:
            yield id(rows), places


def _places_within(places: Sequence[int] | None, start: int, stop: int) -> Sequence[int] | None:
    return None if places is None else [i - start for i in places if start <= i < stop]


def _memory(tensor: Tensor, places: Sequence[int] | None) -> list[int]:
    """Where in memory rows lie: the beginnings of the rows of the tensor that this one is a view of, of which
    it may have some columns. So other columns of a row are known as that row."""
    base = tensor if tensor._base is None or not tensor._base.dim() else tensor._base
    each = max(1, base.stride(0)) * base.element_size()
    axes = zip(tensor.shape[1:], tensor.stride()[1:], strict=True)
    width = tensor.element_size() * (1 + sum((size - 1) * step for size, step in axes if size))
    rows = np.arange(len(tensor)) if places is None else np.asarray(places, dtype=np.int64)
    begins = tensor.data_ptr() - base.data_ptr() + rows * tensor.stride(0) * tensor.element_size()
    firsts, lasts = begins // each, (begins + width - 1) // each
    spans = range(int((lasts - firsts).max(initial=-1)) + 1)
    numbers = np.unique(np.concatenate([np.minimum(firsts + k, lasts) for k in spans] or [firsts]))
    return [int(place) for place in base.data_ptr() + numbers * each]
