"""What the owner declares about the data: columns, types, bounds, public keys, and the
path from a table to the unit.

Everything that is checked before a charge is checked against this, never against data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from deniable.sql.tree import Type, Value

Bound = int | float | Decimal | Fraction


@dataclass(frozen=True)
class ColumnInfo:
    """A column. `lower` and `upper` clamp its values wherever they are summed; `keys` is
    its public list of values. `nulls` is False where no row has a NULL in it."""

    name: str
    type: Type
    lower: Fraction | None = None
    upper: Fraction | None = None
    keys: tuple[Value, ...] | None = None
    nulls: bool = field(default=True, repr=False)


@dataclass(frozen=True)
class TableInfo:
    """A table. `public` tables hold nobody's secrets. `unit` is the column with the unit of privacy; or
    `path` leads to it: ((column here, next table, column there), …). `unique` are the columns that together
    identify a row of a public table."""

    name: str
    columns: tuple[ColumnInfo, ...]
    public: bool = False
    unit: str | None = None
    path: tuple[tuple[str, str, str], ...] = ()
    unique: tuple[str, ...] = ()

    def column(self, name: str) -> ColumnInfo | None:
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True)
class Schema:
    """The tables an analyst may name, and the version of the data that the owner declares."""

    tables: tuple[TableInfo, ...]
    version: str = "1"

    def __str__(self) -> str:
        """All that an answer depends on. (Answers from before NULLs were declared are found as they were.)"""
        columns = (f"{table.name}.{c.name}" for table in self.tables for c in table.columns if not c.nulls)
        return " without NULLs ".join((repr(self), *columns))

    def table(self, name: str) -> TableInfo | None:
        return next((table for table in self.tables if table.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """All names that a query may say: of tables and of columns."""
        columns = (column.name for table in self.tables for column in table.columns)
        return (*(table.name for table in self.tables), *columns)

    def identities(self, name: str) -> frozenset[str]:
        """The columns of a table that tell people apart (its unit, and what a path to
        the unit goes by) or its rows (unique)."""
        units = {table.unit for table in self.tables}
        pairs = {
            (table.name, column.name)
            for table in self.tables
            for column in table.columns
            if column.name in units
        }
        for table in self.tables:
            pairs |= {(table.name, column) for column in table.unique}
            here = table.name
            for column, there, its in table.path:
                pairs |= {(here, column), (there, its)}
                here = there
        return frozenset(column for table_name, column in pairs if table_name == name)
