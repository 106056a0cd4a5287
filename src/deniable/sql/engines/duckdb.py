"""Embedded DuckDB over files and frames, with every door but the declared tables closed."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from deniable.errors import DataError, InvalidParameter
from deniable.process import Home, abandon
from deniable.sql.dialects import DUCKDB
from deniable.sql.dialects.dialect import Dialect, as_stored
from deniable.sql.dialects.duckdb import DuckDB
from deniable.sql.duckdb_settings import CLOSED
from deniable.sql.engines.engine import (
    Engine,
    Statement,
    TimeLimit,
    guarded,
    stored_units,
    text,
    view,
    within,
)
from deniable.sql.engines.sources import CSV, DuckDBTable, Frame, Parquet, Source
from deniable.sql.engines.stored import parquet
from deniable.sql.engines.stored.fields import duckdb_rows
from deniable.sql.engines.stored.frames import readable
from deniable.sql.schema.declare import Schema, TableInfo
from deniable.sql.write import contributions, summaries
from deniable.sql.write.summaries import Summary
from deniable.units import Unit, UnitKind

VERSIONS = ((2, 0), (3,))
MEMORY = re.compile(r"[0-9]+([.][0-9]+)? ?[KMGT]i?B")

DENSE_BITS = 20
"""Whole numbers whose range has so many bits are grouped by position, not by hash: counting the rows of
people numbered up to a million is then four times as fast and needs no more memory. A table of positions
holds at most 2^20 groups for each thread."""

PREPARED = "_prepared"
"""The database where prepared tables are stored: a file in the engine's own folder,
which goes when the engine is closed."""
SUMMARY_ROWS = 1 << 17
"""A summary is kept if it has no more rows."""
CLOSING = 200
"""How often a running statement is told to stop when the engine is closed, twenty times a second."""


@dataclass(frozen=True)
class _Stored:
    """SQL for the rows of a table as they are stored, the types of their columns, and what changes when files
    do."""

    state: tuple[tuple[int, int, int], ...]
    relation: str
    types: Mapping[str, str]


@dataclass(frozen=True)
class _File:
    """A table in parquet, as it was when its view was made."""

    table: TableInfo
    source: Parquet
    identities: frozenset[str]
    stored: _Stored


@contextmanager
def _reading(table: TableInfo) -> Iterator[None]:
    """What is wrong with a table is told to the owner."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise DataError(f'The table "{table.name}" cannot be read: {_mended(str(error))}') from error


_BAD_ENCODING = (
    "Save the file in UTF-8, like `iconv -f latin1 -t utf-8 old.csv > new.csv`, or from a spreadsheet as CSV "
    "UTF-8."
)
_BAD_LINES = (
    "Every line needs as many fields as the header, and a field with the separator in it stands in double "
    "quotes. The separator is that of the header, or CSV(path, delimiter=…)."
)


def _mended(text: str) -> str:
    """What DuckDB says of a CSV file, with a way out that exists here in place of options that do not."""
    if "CSV Error" not in text:
        return text
    way_out = _BAD_ENCODING if "utf-8" in text else _BAD_LINES
    finding = re.split(r"\n+Possible ", text)[0]
    return f"{finding}\n{way_out}"


class DuckDBEngine(Engine):
    """A connection to declared tables only: no file, extension, setting or other
    database can be reached through it.

    Parquet is read in place, as much as a statement needs. CSV is read once, here, so that a malformed line
    is told to the owner now and no query can meet it.
    """

    dialect: Dialect = DUCKDB

    def __init__(
        self,
        sources: Mapping[str, Source],
        schema: Schema,
        *,
        memory: str | None = None,
        seconds: float | None = None,
        threads: int | None = None,
    ) -> None:
        within(tuple(int(part) for part in duckdb.__version__.split(".")[:2]), *VERSIONS, "DuckDB")
        self.prepared: dict[str, int] = {}
        self.summaries: dict[str, Summary] = {}
        self._parquet: dict[int, _File] = {}
        self._limit = TimeLimit(seconds)
        self._home = Home()
        self._lock = threading.Lock()
        self._folder = tempfile.mkdtemp(prefix="deniable")
        # A curator that nobody closed leaves no folder behind either.
        self._discard = weakref.finalize(self, _remove, self._folder, self._home)
        settings = CLOSED | _settings(memory, threads) | {"temp_directory": self._folder}
        self._connection = duckdb.connect(":memory:", config={**settings})
        try:
            self._open(sources, schema)
        except BaseException:  # whatever it is goes on to the owner; no connection stays open behind it
            self.close()
            raise

    def _open(self, sources: Mapping[str, Source], schema: Schema) -> None:
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute(f"SET perfect_ht_threshold = {DENSE_BITS}")
        self._make_room()
        tables = {
            table.name: self._find(index, table, sources[table.name], schema.identities(table.name))
            for index, table in enumerate(schema.tables)
        }
        types = {name: each.types for name, each in tables.items()}
        self.dialect = DuckDB(stored_units(schema, types, DUCKDB))
        for index, table in enumerate(schema.tables):
            source, identities = sources[table.name], schema.identities(table.name)
            self._show(index, table, source, identities, tables[table.name])
        files = [file for source in sources.values() if isinstance(source, Parquet) for file in source.files]
        self._connection.execute(f"SET allowed_paths = [{', '.join(map(DUCKDB.text, files))}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def _make_room(self) -> None:
        """What `prepare` stores goes to a file while it is computed: in memory it would stand uncompressed
        first. The file has no name from here on, so that nothing of it is left when the process ends, however
        it ends; Windows keeps the name."""
        file = Path(self._folder) / "prepared.duckdb"
        self._connection.execute(f"ATTACH {DUCKDB.text(str(file))} AS {PREPARED}")
        with suppress(OSError):
            file.unlink()

    def _find(self, index: int, table: TableInfo, source: Source, identities: frozenset[str]) -> _Stored:
        """Where the rows of a declared table are, and how they are stored."""
        with _reading(table):
            state = parquet.state(source) if isinstance(source, Parquet) else ()
            relation = self._origin(index, table, source, identities)
            return _Stored(state, *duckdb_rows(self._connection, relation, table))

    def _show(
        self, index: int, table: TableInfo, source: Source, identities: frozenset[str], stored: _Stored
    ) -> None:
        """Create the declared table as a view over its source."""
        with _reading(table):
            body = view(table, stored.types, stored.relation, self.dialect, identities)
            name = DUCKDB.quote(table.name)
            if isinstance(source, Parquet):
                self._parquet[index] = _File(table, source, identities, stored)
            if isinstance(source, CSV):
                self._connection.execute(f"CREATE TABLE _table_{index} AS {body}")
                body = f"SELECT * FROM _table_{index}"
            self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS {body}")

    def _origin(self, index: int, table: TableInfo, source: Source, identities: frozenset[str]) -> str:
        """SQL that stands for the rows as they are stored, of which none can make a statement fail."""
        name = f"_source_{index}"
        if isinstance(source, Frame):
            self._connection.register(name, readable(source.table, table, source.loose))
            return name
        relation = origin(self._connection, name, source, tuple(column.name for column in table.columns))
        if not isinstance(source, Parquet):
            return relation
        if not parquet.strays(source, table):
            if index not in self._parquet:  # a file that changes later is read with "?" for what is not UTF-8
                parquet.check_identities(self._connection, table, source, identities)
            return relation
        place = f"{PREPARED}.main.{name}"
        self._connection.register("_batches", parquet.batches(source, table))
        self._connection.execute(f"CREATE OR REPLACE TABLE {place} AS SELECT * FROM _batches")
        self._connection.unregister("_batches")
        return place

    def _look_again(self) -> None:
        """A file that was replaced may hold what the one before did not."""
        for index, file in list(self._parquet.items()):
            table, source, identities = file.table, file.source, file.identities
            if table.name not in self.prepared and parquet.state(source) != file.stored.state:
                now = self._find(index, table, source, identities)
                if self.dialect.stored_units and now.types != file.stored.types:
                    raise DataError(f'The table "{table.name}" was replaced by one of other types.')
                self._show(index, table, source, identities, now)

    def run(self, statement: Statement) -> pa.Table:
        self.check_process()
        with guarded(), self._lock, self._limit(self._connection.interrupt):
            self._look_again()
            return self._select(text(statement, DUCKDB))

    def _select(self, sql: str) -> pa.Table:
        (only,) = self._connection.extract_statements(sql)
        if only.type != duckdb.StatementType.SELECT:
            raise DataError("Expected a SELECT.")
        # A relation, not a cursor: a cursor would hold the rows twice on their way to Arrow.
        return self._connection.sql(sql).to_arrow_table()

    def present(self, table: str, columns: Sequence[str]) -> frozenset[str]:
        """From the statistics that are kept with the data; DuckDB's own plans rest on them too."""
        self.check_process()
        expressions = ", ".join(f"stats({DUCKDB.quote(name)})" for name in columns)
        with guarded(), self._lock, self._limit(self._connection.interrupt):
            self._look_again()
            rows = self._connection.execute(
                f"SELECT {expressions} FROM {DUCKDB.quote(table)} LIMIT 1"
            ).fetchall()
        pairs = zip(columns, rows[0], strict=True) if rows else ()
        return frozenset(name for name, statistics in pairs if _complete(statistics))

    def prepare(self, schema: Schema, unit: Unit) -> None:
        """Store every table that holds the unit once, in canonical types and with what
        each row counts, for queries to come."""
        self.check_process()
        if unit.kind is not UnitKind.COLUMN or unit.max_rows is None or unit.column_name is None:
            raise InvalidParameter(
                "Expected Unit.column(…, max_rows=…): weights are stored for a known number of rows of a "
                "unit. Nothing was prepared."
            )
        for index, table in enumerate(schema.tables):
            if not table.public and table.unit is not None and not table.path:
                self._store(index, table, table.unit, unit.max_rows)

    def _store(self, index: int, table: TableInfo, unit: str, rows: int) -> None:
        name = DUCKDB.quote(table.name)
        # Named anew: a table that was prepared before for another number of rows is read as it was.
        relation = f"{PREPARED}.main._{index}_{rows}"
        columns = [column.name for column in table.columns]
        columns += [as_stored(name) for name in columns if (table.name, name) in self.dialect.stored_units]
        self.prepared.pop(table.name, None)
        self.summaries.pop(table.name, None)
        with guarded(), self._lock:
            body = contributions.stored(table.name, unit, columns, rows, self.dialect)
            self._connection.execute(f"CREATE OR REPLACE TABLE {relation} AS {body}")
            self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {relation}")
            self.prepared[table.name] = rows
            edges, who = contributions.class_edges(rows), self.dialect.unit(table.name, unit)
            sizes = contributions.classes(f"SELECT * FROM {relation}", who, edges, DUCKDB)
            units = dict(self._connection.execute(sizes).fetchall())
            self.summaries[table.name] = replace(self._summarised(index, table, relation), units=units)
            self._connection.execute(f"CHECKPOINT {PREPARED}")

    def _summarised(self, index: int, table: TableInfo, stored: str) -> Summary:
        summary = Summary(f"_summary_{index}", summaries.summary_keys(table), summaries.summary_bounds(table))
        tests = [
            f"count(*) = count(CASE WHEN {summaries.inside(*item, DUCKDB)} THEN 1 END)"
            for item in summary.bounds.items()
        ]
        outcomes = self._connection.execute(f"SELECT {', '.join([*tests, 'true'])} FROM {stored}").fetchall()[
            0
        ]
        whole_columns = frozenset(
            name for name, holds in zip(summary.bounds, outcomes, strict=False) if holds
        )
        body = f"{stored}_summary"
        self._connection.execute(
            f"CREATE OR REPLACE TABLE {body} AS {summaries.summarising(stored, summary, DUCKDB)}"
        )
        (count,) = self._connection.execute(f"SELECT count(*) FROM {body}").fetchall()[0]
        if count > SUMMARY_ROWS:
            self._connection.execute(f"DROP TABLE {body}")
            return replace(summary, table=None, whole=whole_columns)
        self._connection.execute(f"CREATE OR REPLACE VIEW {summary.table} AS SELECT * FROM {body}")
        return replace(summary, whole=whole_columns)

    @property
    def overran(self) -> bool:
        return self._limit.reached

    def cancel(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        """Stops what still runs: a busy connection cannot be closed."""
        if not self.at_home:
            abandon(self._connection)
            return
        for _ in range(CLOSING):
            if self._lock.acquire(timeout=0.05):
                self._lock.release()
                break
            self.cancel()
        self._connection.close()
        self._discard()


def _remove(folder: str, home: Home) -> None:
    """A forked child, which inherits the finalizer, leaves its parent's folder alone."""
    if home.here():
        shutil.rmtree(folder, ignore_errors=True)


def origin(connection: Any, name: str, source: Source, declared: tuple[str, ...]) -> str:
    """SQL that stands for the rows as they are stored, reached under `name` where they need a name."""
    match source:
        case Parquet():
            parquet.check_layout(source)
            return parquet.scan(source)
        case CSV():
            return csv(source, declared)
        case DuckDBTable():
            connection.execute(f"ATTACH {DUCKDB.text(str(source.path))} AS {name} (READ_ONLY)")
            return ".".join(DUCKDB.quote(part) for part in (name, source.schema, source.table))
        case Frame():
            connection.register(name, source.table)
            return name
        case _:
            raise InvalidParameter("Expected a file or a frame for embedded DuckDB.")


def csv(source: CSV, declared: tuple[str, ...]) -> str:
    """All columns as text; a line of another length or a broken quote is an error here and now."""
    names = source.names() or declared
    layout = ", ".join(f"{DUCKDB.text(name)}: 'VARCHAR'" for name in names)
    files = ", ".join(map(DUCKDB.text, source.files))
    return (
        f"read_csv([{files}], auto_detect = false, columns = {{{layout}}}, header = "
        f"{str(source.header).lower()}, delim = {DUCKDB.text(source.delimiter)}, quote = "
        f"{DUCKDB.text(source.quote)}, escape = {DUCKDB.text(source.quote)}, nullstr = '', strict_mode = "
        "true)"
    )


def _complete(told: Any) -> bool:
    """Whether statistics say that there is no NULL: a mapping since DuckDB 2, a text before."""
    if isinstance(told, dict):
        return told.get("has_null") is False
    return "Has Null: false" in str(told)


def _settings(memory: str | None, threads: int | None) -> dict[str, str]:
    if memory is not None and not MEMORY.fullmatch(memory):
        raise InvalidParameter(f'Expected memory={memory!r} like "4GB" or "500MB".')
    if threads is not None and (isinstance(threads, bool) or threads < 1):
        raise InvalidParameter(f"Expected threads={threads!r} to be a whole number of at least 1.")
    options = {"memory_limit": memory, "threads": None if threads is None else str(threads)}
    return {name: value for name, value in options.items() if value is not None}
