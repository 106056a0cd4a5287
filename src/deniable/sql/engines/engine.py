"""What an engine is, what it is asked, and what all engines share: a declared table as a SELECT over the
stored one, the text of a statement, the limit on its time, and the one sentence that they fail with."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

from deniable.errors import DataError, InvalidParameter
from deniable.process import Home
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.dialects.storage import Physical, bare
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Kind
from deniable.sql.types import MAX_SCALE
from deniable.sql.write.columns import canonical
from deniable.sql.write.summaries import Summary
from deniable.units import Unit


@dataclass(frozen=True)
class Statement:
    """`WITH name AS (text), … select`. Declared tables are named in quotes, with their
    declared columns in canonical types."""

    ctes: tuple[tuple[str, str], ...]
    select: str


class Engine(ABC):
    """One open, locked-down connection to private data, with an answer to all that a plan may ask.

    `run` fails, if ever, with one fixed sentence. `prepared` are the tables that hold a stored `_weight`,
    with the number of rows of one unit that count; `summaries` are those of prepared tables. Both are empty
    where an engine can only read.
    """

    dialect: Dialect
    prepared: Mapping[str, int] = MappingProxyType({})
    summaries: Mapping[str, Summary] = MappingProxyType({})

    _home: Home | None = None
    """The process that opened it; None where any may use it."""

    @property
    def at_home(self) -> bool:
        """Whether this is the process that opened it."""
        return self._home is None or self._home.here()

    def check_process(self) -> None:
        """Raise in a forked child: it shares the parent's connection, and would read the
        parent's answers from it."""
        if self._home is not None:
            self._home.check("This engine", "Open the data in the process that asks.", DataError)

    @abstractmethod
    def run(self, statement: Statement) -> pa.Table:
        """The small table that a statement asks for."""

    def present(self, table: str, columns: Sequence[str]) -> frozenset[str]:
        """Those of the columns in which no value is NULL, as far as the engine knows without looking."""
        return frozenset()

    def prepare(self, schema: Schema, unit: Unit) -> None:
        """Store what each row counts, for the queries to come."""
        raise InvalidParameter(
            "Expected files or frames in this process: weights are stored in embedded DuckDB only, and data "
            "elsewhere is only read. Nothing was prepared."
        )

    @property
    @abstractmethod
    def overran(self) -> bool:
        """Whether the last statement reached the limit of its time, whatever ended it."""

    @abstractmethod
    def cancel(self) -> None:
        """Stop the statement that is running, if one is; from any thread. What was
        stopped fails as any other does."""

    @abstractmethod
    def close(self) -> None: ...


NEARLY = 0.99
"""From this share of its time on, a statement may have been stopped by the server's own clock."""
FAILED = "The engine did not finish this statement. Nothing was released; the reason is kept for the owner."


def view(
    table: TableInfo,
    stored: Mapping[str, str],
    origin: str,
    dialect: Dialect,
    identities: Collection[str] = (),
) -> str:
    """SELECT the declared columns, in canonical types, from `origin`, whose columns are stored as `stored`
    says. `identities` are the columns that tell people or rows apart."""
    columns = [
        f"{_read(table, column, stored, dialect, column.name in identities)} AS {dialect.quote(column.name)}"
        for column in table.columns
    ]
    columns += [
        f"{dialect.quote(named(table, column.name, stored))} AS {dialect.unit(table.name, column.name)}"
        for column in table.columns
        if (table.name, column.name) in dialect.stored_units
    ]
    return f"SELECT {', '.join(columns)} FROM {origin}"


def stored_units(
    schema: Schema, types: Mapping[str, Mapping[str, str]], dialect: Dialect
) -> frozenset[tuple[str, str]]:
    """The tables and columns whose units can be told apart as they are stored, which is faster than as text:
    those that are declared as text and stored in a type of which each value has its own text.

    Units are compared with units only, so all tables that hold some must say in which column, and store them
    in one type."""
    holders = [table for table in schema.tables if not table.public and not table.path]
    units = [(table, table.unit) for table in holders if table.unit is not None]
    kinds = {_stored_type(table, name, types[table.name], dialect) for table, name in units}
    if len(units) < len(holders) or len(kinds) != 1 or None in kinds:
        return frozenset()
    return frozenset((table.name, name) for table, name in units)


def _stored_type(table: TableInfo, name: str, stored: Mapping[str, str], dialect: Dialect) -> str | None:
    """How a unit is stored; None where it must be read as it is declared."""
    column, kind = table.column(name), bare(stored[named(table, name, stored)])
    is_text = column is not None and column.type.kind is Kind.TEXT
    if is_text and kind in dialect.injective:
        return kind
    return None


def _read(
    table: TableInfo, column: ColumnInfo, stored: Mapping[str, str], dialect: Dialect, identity: bool
) -> str:
    name = named(table, column.name, stored)
    if not 0 <= column.type.scale <= MAX_SCALE or column.type.length < 1:
        raise InvalidParameter(
            f'Expected the column "{column.name}" with a scale in [0, {MAX_SCALE}] and a length of at least '
            "1."
        )
    few = column.keys is not None
    reading = canonical(dialect.quote(name), stored[name], column.type, dialect, identity=identity, few=few)
    if reading is None:
        kind = dialect.physical(stored[name])
        what = stored[name] if kind is Physical.OTHER else kind.value
        raise DataError(
            f'The column "{column.name}" of "{table.name}" is stored as {what}, which cannot be read as '
            f"{column.type.kind.value}. Nothing was opened; declare another type, or leave the column out."
        )
    return reading


def named(table: TableInfo, name: str, stored: Mapping[str, str]) -> str:
    """The stored column that is meant: of that name, or else the only one that differs
    in upper and lower case."""
    alike = [other for other in stored if other.casefold() == name.casefold()]
    if name in stored:
        return name
    if len(alike) != 1:
        raise DataError(
            f'The table "{table.name}" has no column "{name}" where it is stored. Nothing was opened; '
            "correct the schema."
        )
    return alike[0]


def text(
    statement: Statement, dialect: Dialect, before: tuple[tuple[str, str], ...] = (), hint: str = ""
) -> str:
    """The whole statement, the tables `before` put in front of it; `hint` is said of
    those, not of the statement's own."""
    tables = [f"{dialect.quote(name)} AS {hint}({body})" for name, body in before]
    own = [f"{dialect.quote(name)} AS ({body})" for name, body in statement.ctes]
    if tables or own:
        return f"WITH {', '.join([*tables, *own])} {statement.select}"
    return statement.select


@contextmanager
def guarded() -> Iterator[None]:
    """Whatever an engine says becomes one sentence; what it said stays behind it for the owner."""
    try:
        yield
    except Exception as error:  # any row may steer what fails here, so all of it is one fixed sentence
        raise DataError(FAILED) from error


class TimeLimit:
    """A limit on the time of each statement, and whether the last one reached it.

    An engine says the same of a statement that was stopped by this limit, by its own, or by a person; and how
    long a statement takes may depend on a row. So who stopped it is never read from what the engine says, but
    from `reached`, which is set before anything is stopped, and from the clock.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.reached = False
        self._lock = threading.Lock()

    @contextmanager
    def __call__(self, stop: Callable[[], object] | None = None) -> Iterator[None]:
        """Call `stop` from another thread if the block takes longer than the limit; never after the block."""
        self.reached, start = False, time.monotonic()
        if self.seconds is None:
            yield
            return
        running = [True]
        timer = threading.Timer(self.seconds, self._fire, (running, stop))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                running.clear()
            if time.monotonic() - start >= NEARLY * self.seconds:
                self.reached = True

    def _fire(self, running: list[bool], stop: Callable[[], object] | None) -> None:
        with self._lock:
            if running:
                self.reached = True
                if stop is not None:
                    stop()


def within(version: tuple[int, ...], low: tuple[int, ...], end: tuple[int, ...], what: str) -> None:
    """Refuse an engine that we were not tried on."""
    if not low <= version < end:
        say = [".".join(map(str, v)) for v in (version, low, end)]
        raise DataError(
            f"Expected {what} from {say[1]} and below {say[2]}, found {say[0]}. Nothing was opened."
        )
