"""What an owner declares unique in a public table is unique.

A join with a public table multiplies no row because its columns name at most one row of that table; where the
unit of privacy is a row, the sensitivity rests on it. So it is looked at once, when the data is opened, on
the values as statements read them. It costs one GROUP BY of each such table. A public table that changes
while it is open is not looked at again.
"""

from __future__ import annotations

from deniable.errors import DataError
from deniable.sql.engines.engine import Engine, Statement
from deniable.sql.schema.declare import Schema, TableInfo


def check_unique(engine: Engine, schema: Schema) -> None:
    """Raise, to the owner, where two rows of a public table have the same values of its unique columns. Rows
    with a NULL in them are met by no join."""
    for table in schema.tables:
        if table.public and table.unique and _has_twins(engine, table):
            names = ", ".join(f'"{name}"' for name in table.unique)
            raise DataError(
                f'The public table "{table.name}" has several rows with the same {names}, which its schema '
                "declares unique: joins would multiply the rows of people. Nothing was opened. Declare "
                "columns that identify its rows, or none, or leave the repeated rows out."
            )


def _has_twins(engine: Engine, table: TableInfo) -> bool:
    quote = engine.dialect.quote
    columns = [quote(name) for name in table.unique]
    present = " AND ".join(f"{column} IS NOT NULL" for column in columns)
    rows = f"SELECT 1 AS x FROM {quote(table.name)} WHERE {present}"
    groups = f"{rows} GROUP BY {', '.join(columns)} HAVING COUNT(*) > 1"
    twins = engine.run(Statement((), f"SELECT x FROM ({groups} LIMIT 1) AS t"))
    return bool(twins.num_rows)
