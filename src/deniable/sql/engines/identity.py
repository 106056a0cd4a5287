"""What tells one physical source of data from another: keys, of which each belongs to
one account of a ledger.

A file has two: its real path, where a new file of the same name stays with its account, and
its device and inode, by which links of any kind and folders and patterns over it are found. A
whole folder has one more. A table in PostgreSQL has the identity of the server, of the
database and of every table it is made of (views, partitions, parents). What has no key is not
found: tables in memory, frames and tables of Spark, copies of a file, and data that is reached
by another way than before (a network mount under another device, a foreign table, a dump).
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deniable import extras
from deniable.sql.engines.sources import CSV, DuckDBTable, Parquet, PostgresTable, recognised

MEMBERS = """
WITH RECURSIVE part(oid) AS (
    SELECT CAST(%s AS regclass)::oid
  UNION
    SELECT next.oid FROM part, LATERAL (
        SELECT inhrelid AS oid FROM pg_inherits WHERE inhparent = part.oid
      UNION SELECT inhparent FROM pg_inherits WHERE inhrelid = part.oid
      UNION SELECT d.refobjid FROM pg_rewrite r
            JOIN pg_depend d ON d.objid = r.oid AND d.classid = 'pg_rewrite'::regclass
            WHERE r.ev_class = part.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> part.oid
    ) AS next
)
SELECT oid FROM part
"""
"""A table and all that it is made of: partitions and parents, and the tables below a view."""


def keys(sources: Mapping[str, Any], private: frozenset[str]) -> tuple[str, ...]:
    """The keys of all private tables. Public tables belong to nobody."""
    tables = tuple(table for table in sources if table in private)
    origins = recognised({table: sources[table] for table in tables}, tables)
    folders = [_folder(sources[table]) for table in tables]
    every = [key for keys in folders for key in keys]
    return tuple(dict.fromkeys((*every, *(key for source in origins.values() for key in _keys(source)))))


def _folder(source: Any) -> Iterator[str]:
    """A folder that is opened whole has all that comes into it later."""
    if isinstance(source, str | Path) and "://" not in str(source) and Path(source).is_dir():
        yield f"folder:{Path(source).resolve()}"


def _keys(source: Any) -> Iterator[str]:
    match source:
        case PostgresTable(url, table, schema):
            yield from _tables(url, table, schema)
        case Parquet(files=files):
            for file in files:
                yield from _files(Path(file))
        case CSV(path=path) | DuckDBTable(path=path):
            yield from _files(Path(path))


def _files(path: Path) -> Iterator[str]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    else:
        files = [Path(each) for each in sorted(glob.glob(str(path), recursive=True))] or [path]
    for file in files:
        real = file.resolve()
        yield f"path:{real}"
        if real.exists():
            status = real.stat()
            yield f"file:{status.st_dev}:{status.st_ino}"


def above(known: tuple[str, ...]) -> tuple[str, ...]:
    """Keys of folders that hold these files: a folder that was opened whole has all that
    comes into it later."""
    paths = [Path(key.partition(":")[2]) for key in known if key.startswith(("path:", "folder:"))]
    return tuple(dict.fromkeys(f"folder:{parent}" for path in paths for parent in path.parents))


def _tables(address: str, table: str, schema: str) -> Iterator[str]:
    """The server by its own number where it tells that, else by where it listens: host names are aliases."""
    try:
        import psycopg
        from psycopg import sql
    except ImportError:
        raise extras.missing("Nothing was opened. PostgreSQL needs a driver", "postgres") from None
    with psycopg.connect(address, autocommit=True) as connection:
        server = _server(connection, psycopg.Error)
        database = connection.execute(
            "SELECT oid FROM pg_database WHERE datname = current_database()"
        ).fetchone()
        identifier = sql.Identifier(schema, table).as_string(connection)
        for (oid,) in connection.execute(MEMBERS, [identifier]).fetchall():
            yield f"postgresql:{server}/{database[0] if database else 0}/{oid}"


def _server(connection: Any, failure: type[Exception]) -> str:
    try:
        row = connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
    except failure:  # not every user may ask that
        row = connection.execute(
            "SELECT inet_server_addr(), inet_server_port(), pg_postmaster_start_time()"
        ).fetchone()
    return ":".join(map(str, row))
