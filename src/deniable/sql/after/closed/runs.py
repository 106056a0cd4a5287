"""Who runs a statement over released tables: this process, whose caller is trusted, or another one for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from deniable.errors import InvalidQuery
from deniable.sql.after.closed.connection import Closed, Tables, check_size, is_known, quoted
from deniable.sql.read.names import fold

SECONDS = 10.0
"""For all statements of one question together, where another process runs them; for each of them here."""
EMPTY_SECONDS = 1.0
"""For a statement over tables without rows: whatever it takes, it takes by its text alone."""


class RunClosed(Protocol):
    """Answers SELECTs over released tables, by their names, for one question. `empty`: the tables have no
    rows."""

    def __call__(self, tables: Tables, text: str, *, empty: bool = False) -> pa.Table: ...


Runner = Callable[[str, Callable[[], bool]], RunClosed]
"""Makes the `RunClosed` of a question: of whoever pays for it, and whether she has stopped it."""


def run_here(tables: Tables, text: str, *, empty: bool = False) -> pa.Table:
    """In this process, by DuckDB's own limits."""
    with Closed(named(tables), seconds=SECONDS) as database:
        return with_distinct_names(database.answer(text))


def named(tables: Tables) -> Tables:
    return {quoted(name): table for name, table in tables.items()}


def checked(table: pa.Table, *, lists: bool = False) -> pa.Table:
    """A table that another process made, if it is one that an answer can be: a process that ran an analyst's
    statement is not believed."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        raise InvalidQuery("What is said over the released numbers fails: its table is damaged.") from None
    check_size(table.num_rows, table.nbytes)
    for field in table.schema:
        if not is_known(field.type, lists=lists):
            raise InvalidQuery("What is said over the released numbers fails: its types are not known.")
    return table.replace_schema_metadata(None)


def with_distinct_names(table: pa.Table) -> pa.Table:
    """No two columns with one name. Each name goes on counting where it came to, so that a thousand of one
    name are no more work than a thousand names."""
    names: dict[str, str] = {}
    numbers: dict[str, Iterator[int]] = {}
    for name in table.column_names:
        free = name
        base = key = fold(name)
        while key in names:
            free = f"{name}_{next(numbers.setdefault(base, itertools.count(2)))}"
            key = fold(free)
        names[key] = free
    return table.rename_columns(list(names.values()))
