"""Units of several tables are compared as they are: only where they have one type.

Were a text compared with a number, an engine would convert one of them: it fails where a text is no number,
which is an error that depends on data, and takes "1" and "01" for one person, which is twice the sensitivity.
"""

from __future__ import annotations

from itertools import pairwise

from deniable.sql import types
from deniable.sql.refusals import refuse, shown
from deniable.sql.schema.declare import ColumnInfo, Schema
from deniable.sql.tree import Query, Scan
from deniable.sql.types_relations import scans

_WAY_OUT = "Ask the owner to declare one type for both."


def check_units(schema: Schema, query: Query) -> None:
    """Refuse a query that compares units, or keys on the way to them, of different types."""
    ends: dict[str, ColumnInfo] = {}
    for scan in dict.fromkeys(scans(query)):
        if scan.unit is not None:
            table = _end_of_path(schema, scan)
            ends[table] = _column(schema, table, scan.unit)
    for (table, a), (other, b) in pairwise(ends.items()):
        if not _alike(a, b):
            refuse(
                f"The units of privacy {shown(table)}.{shown(a.name)} and {shown(other)}.{shown(b.name)} "
                f"have different types: {types.name(a.type)} and {types.name(b.type)}.",
                _WAY_OUT,
            )


def _end_of_path(schema: Schema, scan: Scan) -> str:
    """The table that holds the unit; every step to it is between columns of one type."""
    here = scan.table
    for name, there, other in scan.path:
        mine, its = _column(schema, here, name), _column(schema, there, other)
        if not _alike(mine, its):
            refuse(
                f"The step {shown(here)}.{shown(name)} to {shown(there)}.{shown(other)} on the way to the "
                f"unit of privacy is between different types: {types.name(mine.type)} and "
                f"{types.name(its.type)}.",
                _WAY_OUT,
            )
        here = there
    return here


def _column(schema: Schema, table: str, name: str) -> ColumnInfo:
    info = schema.table(table)
    column = None if info is None else info.column(name)
    if column is None:
        refuse(
            f"The table {shown(table)} does not declare the column {shown(name)}.",
            "Ask the owner to declare it.",
        )
    return column


def _alike(a: ColumnInfo, b: ColumnInfo) -> bool:
    return (a.type.kind, a.type.scale) == (b.type.kind, b.type.scale)
