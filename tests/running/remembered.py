"""The tables of a new ledger, which thousands of tests make: by the statements that the first migration came to.

A test of `test_remembered.py` compares both ways. Older files, PostgreSQL, the tests of the ledger and every
process that a test starts migrate as ever.
"""

from __future__ import annotations

from sqlalchemy.engine import Connection

from deniable.ledger.store import migrate
from deniable.ledger.store.store import Store

Statements = tuple[str, ...]

by_migrations = migrate._upgrade
_tables: dict[str, Statements] = {}


def upgrade(connection: Connection, store: Store) -> None:
    """Do what the migrations do, by the statements that they came to where nothing is stored yet."""
    if not store.sqlite or read_tables(connection):
        by_migrations(connection, store)
    elif migrate.NEWEST not in _tables:
        by_migrations(connection, store)
        _tables[migrate.NEWEST] = read_tables(connection)
    else:
        for statement in _tables[migrate.NEWEST]:
            connection.exec_driver_sql(statement)


def read_tables(connection: Connection) -> Statements:
    """Statements that make the tables of this file; the version is the only row of a new one."""
    rows = connection.exec_driver_sql(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite^_%' ESCAPE '^' ORDER BY rowid"
    )
    tables = [str(sql) for (sql,) in rows]
    if not tables:
        return ()
    versions = connection.exec_driver_sql(f"SELECT version_num FROM {migrate.TABLE}")
    tables += [f"INSERT INTO {migrate.TABLE} VALUES ('{version}')" for (version,) in versions]
    ((application,),) = connection.exec_driver_sql("PRAGMA application_id")
    return (*tables, f"PRAGMA application_id={application}")
