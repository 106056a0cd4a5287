"""What engines return, as the integers that a plan measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from deniable.sql.plan.keys import Group
from deniable.sql.tree import Kind, Type


def numbers(table: pa.Table, types: Sequence[Type]) -> dict[Group, list[int]]:
    """The numbers of each group. (Keys that become equal, as 0.0 and −0.0 do, are added up.)"""
    groups: dict[Group, list[int]] = {}
    for line in _lines(table):
        key = tuple(map(_key, line, types))
        values = [_integer(value) for value in line[len(types) :]]
        if key in groups:
            values = [a + b for a, b in zip(groups[key], values, strict=True)]
        groups[key] = values
    return groups


def histograms(table: pa.Table, types: Sequence[Type]) -> dict[Group, dict[int, int]]:
    """The weight in each cell of each group."""
    groups: dict[Group, dict[int, int]] = {}
    for line in _lines(table):
        cells = groups.setdefault(tuple(map(_key, line, types)), {})
        cell = int(line[len(types)])
        cells[cell] = cells.get(cell, 0) + _integer(line[len(types) + 1])
    return groups


def cells(table: pa.Table) -> dict[int, int]:
    """The weight in each cell of one histogram; what lies in none is left out."""
    return {int(cell): _integer(weight) for cell, weight in _lines(table) if cell is not None}


def _lines(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _integer(value: Any) -> int:
    """A sum as text or number; the sum of nothing is 0."""
    return 0 if value is None else int(value)


def _key(value: Any, type_: Type) -> Any:
    """A key as the schema means it: decimals come as numbers of 10^-scale, timestamps without a zone."""
    if value is None:
        return None
    if type_.kind is Kind.DECIMAL:
        return Decimal(int(value)).scaleb(-type_.scale)
    if type_.kind is Kind.TIMESTAMP:
        return value.replace(tzinfo=None)
    return value
