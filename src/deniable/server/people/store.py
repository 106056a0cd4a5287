"""The database of a service: people, tokens, sessions, registered data, jobs and the owners' acts. SQLite, or
PostgreSQL for many workers.

No row holds a secret from which somebody could log in: passwords are argon2 hashes, tokens and sessions
SHA-256 digests of random texts, and a token's verifier for the wire is that of SCRAM.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Boolean, Column, Float, Integer, MetaData, Table, Text, event

from deniable.errors import LedgerError
from deniable.ledger.store import open_database, parse
from deniable.process import Original

metadata = MetaData()

people = Table(
    "people",
    metadata,
    Column("name", Text, primary_key=True),
    Column("roles", Text, nullable=False),
    Column("password", Text),
    Column("one_time", Boolean, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("created", Float, nullable=False),
    Column("since", Integer),
    Column("hands", Text),
)
tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("person", Text, nullable=False, index=True),
    Column("label", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("stored_key", Text, nullable=False),
    Column("server_key", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float, nullable=False),
)
sessions = Table(
    "sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("person", Text, nullable=False, index=True),
    Column("must_change", Boolean, nullable=False),
    Column("expires", Float, nullable=False),
)
identities = Table(
    "identities",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("person", Text, nullable=False, unique=True),
)
acts = Table(
    "acts",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("time", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("act", Text, nullable=False),
    Column("about", Text, nullable=False),
    Column("words", Text, nullable=False),
    Column("mac", Text, nullable=False),
)
datasets = Table(
    "datasets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("declaration", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("owner", Text, nullable=False),
)
contents = Table(
    "contents",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("data", Text, primary_key=True),
)
spending = Table(
    "spending",
    metadata,
    Column("account", Text, primary_key=True),
    Column("day", Text, primary_key=True),
    Column("epsilon", Float, nullable=False),
)
asked = Table(
    "asked",
    metadata,
    Column("person", Text, primary_key=True),
    Column("data", Text, primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("typed", Text, nullable=False),
    Column("entry", Integer, nullable=False),
    Column("epsilon", Float, nullable=False),
    Column("time", Float, nullable=False),
)
lost = Table(
    "lost",
    metadata,
    Column("asked", Text, primary_key=True),
    Column("times", Integer, nullable=False),
)
jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("person", Text, nullable=False, index=True),
    Column("stop", Text, nullable=False, index=True),
    Column("state", Text, nullable=False),
    Column("outcome", Text),
    Column("created", Float, nullable=False),
    Column("beat", Float, nullable=False),
)
stops = Table(
    "stops",
    metadata,
    Column("key", Text, primary_key=True),
    Column("time", Float, nullable=False),
)
heads = Table(
    "heads",
    metadata,
    Column("of", Text, primary_key=True),
    Column("count", Integer, nullable=False),
    Column("mac", Text, nullable=False),
)
audits = Table(
    "audits",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("person", Text, nullable=False),
    Column("time", Float, nullable=False),
    Column("about", Text, nullable=False),
    Column("options", Text, nullable=False),
    Column("finding", Text, nullable=False),
)
proposals = Table(
    "proposals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("act", Text, nullable=False),
    Column("about", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("terms", Text, nullable=False),
    Column("seq", Integer),
)


WRITERS = 7_305_017_242_961
"""The lock of PostgreSQL that writers of this database take: acts are numbered without gaps."""


class State(Original):
    """The database behind a service. Threads share it; a process opens its own."""

    WAY_OUT = "Open the service's state there by its address."

    def __init__(self, url: str) -> None:
        address = parse(url)
        self.sqlite = address.get_backend_name() == "sqlite"
        if self.sqlite and address.database not in (None, "", ":memory:"):
            _private_file(Path(str(address.database)))
        self._engine = open_database(address)
        if self.sqlite:
            event.listen(self._engine, "connect", _write_ahead)
        with self.writing() as connection:
            metadata.create_all(connection)
            _add_columns(connection)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with (
            self._failures(),
            self._engine.connect().execution_options(reading=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Alone among writers; durable when the block has been left, undone if it raises."""
        with self._failures(), self._engine.begin() as connection:
            if not self.sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(WRITERS)))
            yield connection

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.SQLAlchemyError:  # its text may hold hashes
            raise LedgerError(
                "The database of the service could not be read or written. Nothing was done."
            ) from None

    def check(self) -> None:
        """Raise where the database cannot be read, or its file is gone (an open one could still be read)."""
        place = self._engine.url.database
        if self.sqlite and place not in (None, "", ":memory:") and not Path(str(place)).exists():
            raise LedgerError("The file of the service's database is gone. Nothing was done.")
        with self.reading() as connection:
            connection.execute(sa.select(people.c.name).limit(1)).first()

    def close(self) -> None:
        self._engine.dispose()


TIMES = sa.select(lost.c.times).where(lost.c.asked == sa.bindparam("wanted"))


class Lost:
    """How often somebody was told that the answer to her question was paid and is lost: once for each time
    that it was, by whichever process. The next time she asks is a new charge."""

    def __init__(self, state: State) -> None:
        self._state = state

    def times(self, key: str) -> int:
        with self._state.reading() as connection:
            row = connection.execute(TIMES, {"wanted": key}).first()
        if row is None:
            return 0
        return int(row[0])

    def add(self, key: str) -> None:
        with self._state.writing() as connection:
            here = lost.c.asked == key
            if connection.execute(lost.update().where(here).values(times=lost.c.times + 1)).rowcount == 0:
                connection.execute(lost.insert().values(asked=key, times=1))


def _add_columns(connection: sa.Connection) -> None:
    """Bring tables that an earlier version made up to date: each new column may be empty."""
    inspector = sa.inspect(connection)
    for table in metadata.sorted_tables:
        present = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in present:
                kind = column.type.compile(connection.dialect)
                connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}"))


def _private_file(path: Path) -> None:
    """Made for its owner's eyes before anything is written to it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    path.chmod(0o600)


def _write_ahead(connection: Any, _: object) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
