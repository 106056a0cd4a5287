"""Rows and batches as people have them: tensors in pairs, tuples and dicts, one inside the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Structure:
    """How parts are put together: the keys of a dict, the length of a tuple, or one part alone."""

    keys: tuple[Any, ...] | None = None
    inner: tuple[Structure, ...] | None = None

    def build(self, parts: Iterable[Any]) -> Any:
        """The nest of this structure with these parts; lists and tuples are tuples."""
        return self._build_from(iter(parts))

    def _build_from(self, parts: Iterator[Any]) -> Any:
        if self.inner is None:
            return next(parts)
        values = [each._build_from(parts) for each in self.inner]
        return tuple(values) if self.keys is None else dict(zip(self.keys, values, strict=True))


def take_apart(nest: Any) -> tuple[Structure, list[Any]]:
    """The structure and the parts of a row or of a batch. A list of plain numbers, below
    the top, is one part.

    >>> take_apart(({"b": 2, "a": [1, 2]}, 0))[1]
    [[1, 2], 2, 0]
    """
    parts: list[Any] = []
    return _structure(nest, parts, top=True), parts


def _structure(nest: Any, parts: list[Any], *, top: bool) -> Structure:
    if isinstance(nest, Mapping):
        keys = tuple(sorted(nest, key=repr))
        return Structure(keys, tuple(_structure(nest[key], parts, top=False) for key in keys))
    if isinstance(nest, list | tuple) and (top or _holds_parts(nest)):
        return Structure(None, tuple(_structure(value, parts, top=False) for value in nest))
    parts.append(nest)
    return Structure()


def _holds_parts(values: Iterable[Any]) -> bool:
    return any(
        isinstance(value, Tensor | np.ndarray | Mapping)
        or (isinstance(value, list | tuple) and _holds_parts(value))
        for value in values
    )


def tensors(nest: Any) -> list[Tensor]:
    """The tensors of a batch, in the order of its structure."""
    return take_apart(nest)[1]


def map_parts(change: Callable[[Tensor], Any], nest: Any) -> Any:
    """The batch with every tensor changed."""
    structure, parts = take_apart(nest)
    return structure.build([change(part) for part in parts])


def length(batch: Any) -> int:
    """How many rows a batch has."""
    parts = tensors(batch)
    return len(parts[0]) if parts else 0
