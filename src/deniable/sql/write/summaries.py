"""What `prepare` sums beforehand: for each combination of columns with public keys the
weights, and the weighted values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.plan.measures.grid import grid as finest_grid
from deniable.sql.schema.declare import TableInfo
from deniable.sql.tree import Column, Kind
from deniable.sql.types import WHOLE
from deniable.sql.write.contributions import WEIGHT

KEYS = 1 << 16
"""A summary is put together by columns with public keys as long as these have no more combinations."""
SPAN = 1 << 31
"""The widest bounds of a column that is summed beforehand."""


@dataclass(frozen=True)
class Summary:
    """What `prepare` knows of a stored table. `whole` are the columns of `bounds`
    without a NULL or a value beyond these; `units` how many units have how many rows, by class.

    `table`, if it is there, has one row for each combination of the columns `keys`, and in it the sum of the
    weights as `_weight`, and for each column of `bounds`, clamped to these, the sum of weight · (value −
    lower bound) and of the weights of rows where it is not NULL.
    """

    table: str | None
    keys: frozenset[str]
    bounds: Mapping[str, tuple[int, int]]
    whole: frozenset[str] = frozenset()
    units: Mapping[int, int] = field(default_factory=dict)

    def sum(self, column: str) -> str:
        return f"_sum_{column}"

    def count(self, column: str) -> str:
        return f"_count_{column}"


def summary_keys(table: TableInfo) -> frozenset[str]:
    """The first columns with public keys. (Floats are left out: 0.0 and −0.0 would be put together.)"""
    names, combinations = set(), 1
    for column in table.columns:
        combinations *= len(column.keys or ()) + 1
        if column.keys is not None and column.type.kind is not Kind.FLOAT and combinations <= KEYS:
            names.add(column.name)
    return frozenset(names)


def summary_bounds(table: TableInfo) -> dict[str, tuple[int, int]]:
    """The columns of whole numbers and decimals with bounds, in numbers of 10^-scale."""
    bounds = {}
    for column in table.columns:
        if column.type.kind in WHOLE and column.lower is not None and column.upper is not None:
            grid = finest_grid(Column(column.name, column.type), (column.lower, column.upper), False, 62)
            if grid.exact and grid.upper - grid.lower <= SPAN:
                bounds[column.name] = (int(grid.lower), int(grid.upper))
    return bounds


def inside(name: str, bounds: tuple[int, int], dialect: Dialect) -> str:
    return f"{dialect.quote(name)} BETWEEN {bounds[0]} AND {bounds[1]}"


def summarising(stored: str, summary: Summary, dialect: Dialect) -> str:
    """SELECT what a summary holds from the stored table."""
    keys = [dialect.quote(name) for name in sorted(summary.keys)]
    sums = [f"SUM({WEIGHT}) AS {WEIGHT}"]
    for name, (lower, upper) in summary.bounds.items():
        column, total, count = (dialect.quote(n) for n in (name, summary.sum(name), summary.count(name)))
        outside = f"WHEN {column} < {lower} THEN 0 WHEN {column} > {upper} THEN {upper - lower}"
        above = f"CASE {outside} ELSE {column} - ({lower}) END"
        sums.append(f"SUM({WEIGHT} * CAST({above} AS BIGINT)) AS {total}")
        sums.append(f"SUM(CASE WHEN {column} IS NOT NULL THEN {WEIGHT} END) AS {count}")
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(keys + sums)} FROM {stored}{by}"
