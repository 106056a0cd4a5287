"""Pairs of neighbouring inputs: given by a person, or searched among the patterns that
break mechanisms in the literature.

The patterns are those of StatDP (Ding et al. 2018) and DP-Sniper (Bichsel et al. 2021),
for vectors of query answers: one above, one below, one above rest below, one below rest
above, half half, all above, all below, x-shape. Added here: the odd one last instead of
first, and one answer far above or below the rest, which shows where supports end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.errors import InvalidParameter
from deniable.units import Unit, UnitKind


@dataclass(frozen=True, eq=False)
class Pair:
    """Two inputs that a unit of privacy makes neighbours."""

    first: Any
    second: Any
    name: str = "given"

    def swap(self) -> Pair:
        return Pair(self.second, self.first, f"{self.name}, swapped")

    def check(self, unit: Unit) -> Pair:
        """Itself, if the two are neighbours under `unit`; a pair that is not proves nothing."""
        if not neighbours(self.first, self.second, unit):
            raise InvalidParameter(
                f'The pair "{self.name}" is not a pair of neighbours for the unit "{unit}". Nothing was run; '
                "give two inputs that differ by one unit."
            )
        return self


# ------------------------------------------------------------------------------------------------ validation


def neighbours(first: Any, second: Any, unit: Unit) -> bool:
    """Whether the two inputs differ by exactly one unit, or less.

    Rows are compared as a bag: their order carries no meaning for a unit. A table is a mapping from column
    names to columns, an Arrow table, or a sequence of rows.
    """
    match unit.kind:
        case UnitKind.VALUE:
            return True
        case UnitKind.BALL:
            return _distance(first, second, unit.p or 1.0) <= (unit.radius or 0.0) * (1 + 1e-12)
        case UnitKind.ROW:
            return _rows_differ(_rows(first), _rows(second), unit.replace)
        case UnitKind.CLIENT:
            return _changed_keys(first, second, unit.replace)
        case UnitKind.COLUMN:
            return _owners_differ(first, second, unit)


def _distance(first: Any, second: Any, p: float) -> float:
    a, b = np.atleast_1d(np.asarray(first, np.float64)), np.atleast_1d(np.asarray(second, np.float64))
    return float(np.linalg.norm((a - b).ravel(), ord=p)) if a.shape == b.shape else math.inf


def _rows_differ(first: list[Any], second: list[Any], replace: bool) -> bool:
    more, fewer = _count_unmatched(first, second), _count_unmatched(second, first)
    return more == fewer <= 1 if replace else more + fewer <= 1


def _count_unmatched(first: list[Any], second: list[Any]) -> int:
    """How many of these have no counterpart of their own among those."""
    left: dict[Any, int] = {}
    for row in second:
        left[row] = left.get(row, 0) + 1
    missing = 0
    for row in first:
        if left.get(row, 0):
            left[row] -= 1
        else:
            missing += 1
    return missing


def _changed_keys(first: Any, second: Any, replace: bool) -> bool:
    if not (isinstance(first, Mapping) and isinstance(second, Mapping)):
        return _rows_differ(_rows(first), _rows(second), replace)
    different_keys = [k for k in {*first, *second} if _freeze(first.get(k)) != _freeze(second.get(k))]
    present = all(k in first and k in second for k in different_keys)
    return len(different_keys) <= 1 and (present if replace else not different_keys or not present)


def _owners_differ(first: Any, second: Any, unit: Unit) -> bool:
    """Whether only rows of one owner were added or removed (or, to replace, those of one
    left and those of another came)."""
    name = unit.column_name or ""
    groups = [_by_owner(table, name) for table in (first, second)]
    different_owners = [k for k in {*groups[0], *groups[1]} if groups[0].get(k) != groups[1].get(k)]
    if unit.replace:
        return len(different_owners) <= 1 or (
            len(different_owners) == 2 and sum(k in groups[0] for k in different_owners) == 1
        )
    return len(different_owners) <= 1 and all(
        not (k in groups[0] and k in groups[1]) for k in different_owners
    )


def _by_owner(table: Any, column: str) -> dict[Any, list[Any]]:
    columns = _columns(table)
    if columns is None or column not in columns:
        raise InvalidParameter(f'Expected a table with the column "{column}" of the unit. Nothing was run.')
    groups: dict[Any, list[Any]] = {}
    for owner, row in zip(columns[column], _rows(table), strict=True):
        groups.setdefault(owner, []).append(row)
    return {owner: sorted(rows, key=repr) for owner, rows in groups.items()}


def _columns(table: Any) -> Mapping[str, Sequence[Any]] | None:
    if hasattr(table, "to_pydict"):
        return dict(table.to_pydict())
    if isinstance(table, Mapping):
        return table
    rows = list(table)
    if rows and all(isinstance(row, Mapping) for row in rows):
        return {name: [row.get(name) for row in rows] for name in rows[0]}
    return None


def _rows(table: Any) -> list[Any]:
    if isinstance(table, Mapping) or hasattr(table, "to_pydict"):
        columns = _columns(table) or {}
        return [_freeze(row) for row in zip(*columns.values(), strict=True)]
    return [_freeze(row) for row in (table if np.ndim(table) else [table])]


def _freeze(value: Any) -> Any:
    """The same value as something that can be compared and hashed."""
    if isinstance(value, np.ndarray):
        return tuple(_freeze(v) for v in value.tolist()) if value.ndim else value.item()
    if isinstance(value, Mapping):
        return tuple(sorted((k, _freeze(v)) for k, v in value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(_freeze, value))
    return value.item() if isinstance(value, np.generic) else value


# ------------------------------------------------------------------------------------------------ patterns


def patterns(length: int, *, everywhere: bool, distance: float = 0.0) -> list[Pair]:
    """Neighbouring vectors of `length` answers.

    `everywhere`: one unit may change every answer by 1 (ℓ∞); otherwise one answer by 1 (ℓ1). `distance` > 0
    adds pairs in which one answer lies that much above (or below) all others.
    """
    pairs = list(_single_changes(length)) + (
        list(_common_changes(length)) if everywhere and length > 1 else []
    )
    if distance and length > 1:
        pairs += list(_spikes(length, distance, everywhere))
    return _distinct(pairs)


def _single_changes(length: int) -> Iterator[Pair]:
    flat = np.ones(length)
    for name, step in (("one above", 1.0), ("one below", -1.0)):
        yield Pair(flat, flat + step * _unit_vector(length, 0), name)


def _common_changes(length: int) -> Iterator[Pair]:
    flat, half = np.ones(length), length // 2
    head, tail = _unit_vector(length, 0), _unit_vector(length, length - 1)
    front = (np.arange(length) < half).astype(np.float64)
    yield Pair(flat, flat + 2 * head - 1, "one above, rest below")
    yield Pair(flat, flat - 2 * head + 1, "one below, rest above")
    yield Pair(flat, flat + 2 * front - 1, "half half")
    yield Pair(flat, flat + 1, "all above")
    yield Pair(flat, flat - 1, "all below")
    yield Pair(front, 1 - front, "x-shape")
    yield Pair(head, 1 - head, "x-shape, first alone")
    yield Pair(tail, 1 - tail, "x-shape, last alone")


def _spikes(length: int, distance: float, everywhere: bool) -> Iterator[Pair]:
    head = _unit_vector(length, 0)
    for name, spike in (("one far above", distance * head), ("one far below", -distance * head)):
        yield Pair(spike, spike + head, f"{name}, raised")
        if everywhere:
            yield Pair(spike, spike + 1, f"{name}, all raised")


def _unit_vector(length: int, index: int) -> Any:
    return (np.arange(length) == index).astype(np.float64)


def _distinct(pairs: list[Pair]) -> list[Pair]:
    """The pairs without those that are equal up to order: every classifier looks in both directions."""
    pair_by_key: dict[frozenset[bytes], Pair] = {}
    for pair in pairs:
        key = frozenset((np.asarray(pair.first).tobytes(), np.asarray(pair.second).tobytes()))
        pair_by_key.setdefault(key, pair)
    return list(pair_by_key.values())


def default_pairs(unit: Unit) -> list[Pair]:
    """Pairs to search where none are given: tiny data sets for rows, the ends of a ball,
    two values for a local report."""
    match unit.kind:
        case UnitKind.VALUE:
            return [Pair(0, 1, "0 or 1")]
        case UnitKind.ROW if unit.replace:
            return [Pair([0] * k + [0], [0] * k + [1], f"{k} zeros, the last 0 or 1") for k in (0, 2, 9)]
        case UnitKind.ROW:
            return [Pair([1] * k, [1] * (k + 1), f"{k} or {k + 1} ones") for k in (0, 1, 9)]
        case UnitKind.BALL:
            radius = unit.radius or 1.0
            return [Pair(0, radius, f"0 or {radius:g}"), Pair(-radius, 0, f"−{radius:g} or 0")]
        case _:
            raise InvalidParameter(
                f'No pairs are known for the unit "{unit}": give a pair of neighbouring tables.'
            )
