"""The database below the ledger: connections, transactions, and what its failures mean.

SQLite runs in WAL mode with full sync, and a writer takes the write lock before it reads (BEGIN IMMEDIATE).
PostgreSQL writers lock the one row of `ledger` (SELECT … FOR UPDATE), so in both databases a charge sees
everything that was charged before it.

Statements are SQLAlchemy Core, compiled once for each database and then handed to its driver: a charge costs
little more than the bare commit that makes it durable.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from deniable import extras
from deniable.errors import InvalidParameter, LedgerError
from deniable.ledger.store import schema, visible
from deniable.ledger.store.gate import Gate, register
from deniable.process import Home, Original, abandon, strayed

PATIENCE = 60.0
"""Seconds that a writer waits for the writers before it."""

APPLICATION = 0x44504C31
"""SQLite's application_id of a ledger ("DPL1"): tells it from any other database by the
first hundred bytes of the file."""

SLACK = 64
"""More entries than one page of the journal holds."""

Row = tuple[Any, ...]


class CoreStatement(Protocol):
    """A statement of SQLAlchemy Core."""

    def compile(self, *, dialect: Any) -> Any: ...


class Transaction:
    """Statements inside one transaction."""

    def __init__(self, store: Store, cursor: Any, home: Home) -> None:
        self._store = store
        self._cursor = cursor
        self._home = home
        self.newest: tuple[int, str] | None = None
        """Number and seal of the entry that this transaction has added."""

    def run(self, statement: CoreStatement, **values: Any) -> None:
        self._home.check("This transaction", "The parent goes on with it.")
        text, parameters = self._store.compile_statement(statement)
        self._cursor.execute(text, {**parameters, **values})

    def fetch_all(self, statement: CoreStatement, **values: Any) -> list[Row]:
        self.run(statement, **values)
        return [tuple(row) for row in self._cursor.fetchall()]

    def first(self, statement: CoreStatement, **values: Any) -> Row | None:
        self.run(statement, **values)
        row = self._cursor.fetchone()
        if row is None:
            return None
        return tuple(row)


class Store(Original):
    """One database by URL. In memory (`sqlite://`) it lives as long as this object."""

    def __init__(self, url: str) -> None:
        self.url = parse(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self.in_memory = self.sqlite and self.url.database in (None, "", ":memory:")
        self.engine = open_database(self.url, in_memory=self.in_memory)
        self._database: visible.Identity | None = None
        if self.path is not None:
            self._name = os.path.abspath(self.path)
            event.listen(self.engine, "do_connect", self._connect)
        self.gate = Gate()
        self._home = Home()
        self._is_barred = self._left_open()
        self._texts: dict[CoreStatement, tuple[str, dict[str, Any]]] = {}
        self._turn = (
            threading.RLock() if self.in_memory else nullcontext()
        )  # one connection, shared by all threads
        self._errors = (self.engine.dialect.loaded_dbapi.Error, SQLAlchemyError)
        register(self)

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    @property
    def path(self) -> Path | None:
        """The file, if the database is one."""
        if not self.sqlite or self.in_memory:
            return None
        return Path(str(self.url.database).removeprefix("file:"))

    def exists(self) -> bool:
        """Whether opening would find something; a server is asked only when it is opened. A file that is
        missing while its log or its key is there is an error."""
        if self.path is None:
            return True
        visible.check_complete(self.path)
        return self.path.exists()

    def _connect(self, _: object, __: object, arguments: Any, options: Any) -> visible.Pinned:
        """Every connection of this object is to one file, for good."""
        with self.failures():
            connection = visible.connect(Path(self._name), *arguments, **options)
        if self._database is None:
            self._database = connection.files.database
        if connection.files.database != self._database:
            files = connection.files._replace(database=self._database)
            connection.close()
            raise visible.move_error(self._name, files)
        return connection

    def check_visible(self) -> None:
        """Raise if the path no longer shows the file that this object has opened."""
        if self._database is None:
            return
        if visible.identity(self._name) != self._database:
            raise visible.move_error(self._name, visible.look(self._name)._replace(database=self._database))

    def compile_statement(self, statement: CoreStatement) -> tuple[str, dict[str, Any]]:
        entry = self._texts.get(statement)
        if entry is None:
            compilation = statement.compile(dialect=self.engine.dialect)
            entry = self._texts[statement] = (str(compilation), dict(compilation.params))
        return entry

    def reading(self) -> AbstractContextManager[Transaction]:
        """One consistent view of everything committed."""
        return self._transaction(
            "BEGIN" if self.sqlite else "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
        )

    def writing(self) -> AbstractContextManager[Transaction]:
        """Alone among writers; durable when the block has been left, undone if it raises."""
        return self._transaction("BEGIN IMMEDIATE" if self.sqlite else self.compile_statement(schema.LOCK)[0])

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Around every use of the database: in the right process, and while no fork is under way."""
        self._check_process()
        self.gate.enter()
        try:
            yield
        finally:
            self.gate.leave()

    def _check_process(self) -> None:
        if self.in_memory:
            self._home.check("A ledger in memory", "Open a ledger in a file, which processes share.")
        if self._is_barred or (self.sqlite and strayed()):
            raise LedgerError(
                f"This process was forked in the middle of a transaction on {self}, or by code that did not "
                "tell Python, and SQLite cannot be used in both. Nothing was charged. Start the process by "
                "spawn."
            )

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        self._check_process()
        self.gate.enter()
        try:
            with self._turn:
                yield from self._transact(begin, Home())
        finally:
            self.gate.leave()

    def _transact(self, begin: str, home: Home) -> Iterator[Transaction]:
        connection = None
        try:
            connection = self._borrow()
            cursor = connection.cursor()
            cursor.execute(begin)
            database = connection.driver_connection
            self._look(database, cursor)
            transaction = Transaction(self, cursor, home)
            yield transaction
            home.check("This transaction", "The parent goes on with it.")
            connection.commit()
            if self._look(database, None):
                cursor.execute("BEGIN")
                self._recount(database, cursor, transaction.newest)
                connection.commit()
        except self._errors as error:
            raise self._failure(error) from error
        finally:
            if connection is not None:
                _let_go(connection, home)

    def _borrow(self) -> Any:
        """A connection of the pool. One that was made before the file had a log does not know its log."""
        connection = self.engine.raw_connection()
        database = connection.driver_connection
        if (
            isinstance(database, visible.Pinned)
            and database.files.log is None
            and visible.look(self._name).log
        ):
            connection.invalidate()
            return self.engine.raw_connection()
        return connection

    def _look(self, database: object, cursor: Any) -> bool:
        """Compare the files that a connection has open with what the path shows. Where the database was
        written to outside of a transaction, its entries are counted too, by the `cursor` of one that has just
        begun."""
        if not isinstance(database, visible.Pinned):
            return False
        is_rewritten = database.check()
        if is_rewritten and cursor is not None:
            self._recount(database, cursor, None)
        return is_rewritten

    def _recount(self, database: visible.Pinned, cursor: Any, newest: tuple[int, str] | None) -> None:
        """An older copy that was written over the database lacks the last entries that the log does not hold.
        The log holds at most one for each of its pages, so those that it may hold, and some before, must all
        be there."""
        last = cursor.execute("SELECT MAX(seq) FROM journal").fetchone()[0] or 0
        span = min(last, database.pages_of_log + SLACK)
        count = cursor.execute("SELECT COUNT(*) FROM journal WHERE seq > ?", (last - span,)).fetchone()[0]
        row = None
        if newest is not None:
            row = cursor.execute("SELECT seq, mac FROM journal WHERE seq = ?", newest[:1]).fetchone()
        if count != span or row != newest:
            raise LedgerError(
                f"The file {self._name} was written over by another program: entries of its journal are "
                "missing. Nothing was released. Stop every process that uses it, put the newest copy back "
                "together with its -wal file, check it with `deniable ledger verify`, and start again."
            )

    def before_fork(self, is_alone: bool) -> bool:
        """Of SQLite nothing may be open at a fork. A socket to a server stays with the
        parent: the child leaves it alone."""
        if self.path is not None and is_alone:
            self.engine.dispose()
        return is_alone and not self._open_connections()

    def after_fork_in_child(self, clean: bool | None) -> None:
        """Connections of the parent are neither used nor closed here; this process opens its own."""
        if self.in_memory:
            return
        if clean is None:
            clean = not self._open_connections()
        abandon(self.engine.pool)
        self.engine.dispose(close=False)
        if self.path is not None and not clean:
            self._is_barred = True
            _BARRED.update(_inode(self.path))

    def _open_connections(self) -> int:
        pool: Any = self.engine.pool
        if isinstance(pool, QueuePool):
            return int(pool.checkedin() + pool.checkedout())
        return 0

    def _left_open(self) -> bool:
        """Whether a connection of the parent to this file was open when this process was forked."""
        return bool(_BARRED.intersection(_inode(self.path)))

    def damage(self, transaction: Transaction) -> list[str]:
        """What SQLite itself finds wrong in its file; a server keeps its own checks."""
        if not self.sqlite:
            return []
        problems = [str(row[0]) for row in transaction.fetch_all(schema.CHECK)]
        if problems == ["ok"]:
            return []
        return problems

    @contextmanager
    def failures(self) -> Iterator[None]:
        """A failure of the database becomes a `LedgerError` that says what it means."""
        try:
            yield
        except self._errors as error:
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> LedgerError:
        return LedgerError(f"{_meaning(error)} The ledger is {self}. Nothing was released.")

    def close(self) -> None:
        self.engine.dispose()


_BARRED: set[tuple[int, int]] = set()
"""Files of which this process inherited an open connection."""


def _inode(path: Path | None) -> set[tuple[int, int]]:
    try:
        status = os.stat(path or "")
    except OSError:
        return set()
    return {(status.st_dev, status.st_ino)}


def _let_go(connection: Any, home: Home) -> None:
    """Give a connection back, which rolls back what was not committed; the parent's is
    not a child's to touch."""
    if home.here():
        connection.close()
    else:
        abandon(connection)


def parse(url: str) -> URL:
    """The address of a database: SQLite, or PostgreSQL by its psycopg driver."""
    try:
        address = make_url(url)
    except ArgumentError:
        raise InvalidParameter(f"Expected a ledger URL like sqlite:///privacy.db, got {url!r}.") from None
    if address.drivername in ("postgresql", "postgres"):
        return address.set(drivername="postgresql+psycopg")
    if address.drivername in ("sqlite", "postgresql+psycopg"):
        return address
    raise InvalidParameter(f"Expected a ledger in sqlite:// or postgresql://, got {address.drivername}://.")


def open_database(url: URL, *, in_memory: bool = False) -> Engine:
    """A database whose commits are on disk when they return, and whose SQLite transactions begin as we say:
    at once as a writer, unless the connection has the option `reading`. For all that Deniable keeps. In
    memory all threads share one connection."""
    if url.get_backend_name() == "sqlite":
        pool: dict[str, Any] = {}
        if in_memory:
            pool = {"poolclass": StaticPool}
        arguments = {"check_same_thread": False, "timeout": PATIENCE}
        engine = sqlalchemy.create_engine(url, paramstyle="named", connect_args=arguments, **pool)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        engine = sqlalchemy.create_engine(url, pool_pre_ping=True)
    except ImportError:
        raise extras.missing("A ledger in PostgreSQL needs a driver", "postgres") from None
    event.listen(engine, "connect", _prepare_postgres)
    return engine


def _begin_sqlite(connection: Connection) -> None:
    """Begin for SQLAlchemy's own connections. A writer takes the write lock before it reads: what it read
    would else be out of date when it writes."""
    connection.exec_driver_sql(
        "BEGIN" if connection.get_execution_options().get("reading") else "BEGIN IMMEDIATE"
    )


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # we begin transactions ourselves
    for pragma in ("synchronous=FULL", "fullfsync=ON", "foreign_keys=ON", "trusted_schema=OFF"):
        connection.execute(f"PRAGMA {pragma}")


def _prepare_postgres(connection: Any, _: object) -> None:
    """A commit that returns is on disk, even where the server's default is to answer earlier."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE "
            "current_setting('synchronous_commit') = 'off'"
        )
    connection.commit()


def write_ahead(store: Store) -> None:
    """Turn a SQLite file to WAL, once. Another process may be doing the same, and SQLite
    does not wait for it here."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with store.failures(), store.passing():
            connection = store.engine.raw_connection()
            try:
                mode = connection.cursor().execute("PRAGMA journal_mode=WAL").fetchone()[0]
                if mode != "wal":
                    raise LedgerError(
                        f"The file system below {store} cannot hold a write-ahead log. Nothing was written."
                    )
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            finally:
                connection.close()
        time.sleep(0.01)


MEANINGS = {
    sqlite3.SQLITE_FULL: "The disk of the ledger is full.",
    sqlite3.SQLITE_IOERR: "The disk of the ledger failed or is full.",
    sqlite3.SQLITE_READONLY: "The ledger can only be read, so nothing could be charged.",
    sqlite3.SQLITE_CORRUPT: (
        "The file of the ledger is damaged. Restore a copy and verify it against a head kept elsewhere."
    ),
    sqlite3.SQLITE_NOTADB: "The file of the ledger is no SQLite database.",
    sqlite3.SQLITE_BUSY: f"Other writers held the ledger for {PATIENCE:g} seconds.",
    sqlite3.SQLITE_CANTOPEN: "The file of the ledger cannot be opened.",
}


def _meaning(error: BaseException) -> str:
    original: Any = getattr(error, "orig", None) or error
    if isinstance(original, sqlite3.Error):
        code = getattr(original, "sqlite_errorcode", 0) & 0xFF
        return MEANINGS.get(code, f"The database of the ledger refused: {original}.")
    if getattr(original, "sqlstate", None) is None or str(original.sqlstate)[:2] in ("08", "57"):
        return "The connection to the ledger's server was lost, so an unfinished charge may or may not stand."
    return f"The database of the ledger refused: {str(original).splitlines()[0]}."
