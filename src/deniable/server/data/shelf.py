"""The open data sets of this process: one curator each, on one ledger.

What is declared is read from the service's state alone. An engine is opened when somebody asks, so a data set
whose source is gone is told as broken, and stands in nobody else's way.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import sqlalchemy as sa

from deniable.curator import Curator
from deniable.errors import DeniableError, InvalidParameter, LedgerError, NotFound
from deniable.ledger import Ledger
from deniable.server.after.pool import Pool
from deniable.server.data.content import digests
from deniable.server.data.declaration import Declaration
from deniable.server.data.places import Places
from deniable.server.people import store
from deniable.server.people.store import State
from deniable.server.settings import Settings
from deniable.sql.engines.identity import keys
from deniable.sql.schema.declare import Schema, TableInfo
from deniable.sql.schema.infer import describe
from deniable.units import Unit

ROW = sa.select(store.datasets).where(store.datasets.c.name == sa.bindparam("wanted"))
MOST_PARTS = 1000
UNKNOWN = "There is no such data set, or it is not for you. Nothing was done."
FAILURE_SECONDS = 30.0
"""How long a data set that could not be opened is told as broken; then it counts as mended."""


@dataclass(frozen=True)
class DeclaredData:
    """What is declared about a data set. `problem` says why it cannot be opened, for its owner's eyes."""

    name: str
    owner: str
    unit: Unit
    schema: Schema
    problem: str | None


@dataclass(frozen=True)
class OpenData:
    """A data set that is open, and the files that it stands on. `standing` is its version and its owner."""

    standing: tuple[str, str]
    curator: Curator
    files: tuple[str, ...]

    @property
    def present(self) -> bool:
        return all(os.path.exists(path) for path in self.files)


class Shelf:
    """Registers data sets and opens them. Why an engine failed is written to a file for the owner's eyes, and
    told to nobody."""

    def __init__(self, state: State, ledger: Ledger, settings: Settings, pool: Pool) -> None:
        self._state = state
        self._pool = pool
        self._ledger = ledger
        self._settings = settings
        self._places = Places(settings.roots, settings.folder)
        self._turn = threading.Lock()
        self._open: dict[str, OpenData] = {}
        self._failures: dict[str, tuple[float, str]] = {}
        self._parts: dict[tuple[str, str], tuple[Curator, Curator]] = {}

    def names(self) -> list[str]:
        with self._state.reading() as connection:
            return [
                str(row[0]) for row in connection.execute(sa.select(store.datasets.c.name).order_by("name"))
            ]

    def register(self, declaration: Declaration, owner: str) -> None:
        """The account is made with its data: a source that belongs to another one is refused before anything
        is written."""
        places = self.check(declaration)
        with self._turn:
            self._check_new(declaration.name)
            private = _private(declaration)
            bound = keys(places, private)
            content = digests(places, private)
            self._ledger.create(
                declaration.name, declaration.unit, limit=declaration.limit, owner=owner, data=bound
            )
            row = {"name": declaration.name, "declaration": declaration.to_json(), "owner": owner}
            with self._state.writing() as connection:
                connection.execute(store.datasets.insert().values(**row, version=declaration.schema.version))
                for digest in content:
                    connection.execute(store.contents.insert().values(digest=digest, data=declaration.name))

    def twins(self, declaration: Declaration) -> list[str]:
        """Registered data sets that hold the content of one of its files, or held it at first."""
        mine = set(digests(self._places.locate_all(declaration.sources), _private(declaration)))
        with self._state.reading() as connection:
            past = connection.execute(sa.select(store.contents)).all()
            rows = connection.execute(sa.select(store.datasets)).mappings().all()
        content = {row["name"]: {digest for digest, data in past if data == row["name"]} for row in rows}
        for row in rows:
            if row["name"] != declaration.name and not content[row["name"]] & mine:
                content[row["name"]] |= self._present(row)
        return sorted(name for name, each in content.items() if name != declaration.name and each & mine)

    def _present(self, row: sa.RowMapping) -> set[str]:
        """What a data set holds now; nothing where it cannot be looked at."""
        other = Declaration.from_json(row["name"], row["declaration"])
        try:
            return set(digests(self._places.locate_all(other.sources), _private(other)))
        except InvalidParameter:
            return set()

    def files(self) -> list[str]:
        return self._places.files()

    def describe(self, source: str, table: str) -> TableInfo:
        """Names and types of a source's columns, from its metadata alone: of CSV, all is text."""
        place = self._places.locate(source)
        try:
            return describe(table, place)
        except InvalidParameter:
            raise
        except DeniableError:
            raise InvalidParameter("This source cannot be opened. Nothing was registered.") from None

    def check(self, declaration: Declaration) -> dict[str, str]:
        """Where its sources lie, if it can be registered as far as one can tell without doing it."""
        self._check_new(declaration.name)
        places = self._places.locate_all(declaration.sources)
        self._try(declaration, places)
        return places

    def _check_new(self, name: str) -> None:
        if name in self.names():
            raise InvalidParameter(f'There is a data set "{name}" already. Nothing was changed.')

    def _try(self, declaration: Declaration, places: dict[str, str]) -> None:
        """Open it once on a ledger that is forgotten: what is wrong with a source is found before there is an
        account."""
        try:
            with Curator.open(
                places,
                schema=declaration.schema,
                unit=declaration.unit,
                limit=declaration.limit,
                account=declaration.name,
                ledger="sqlite://",
                memory=self._settings.engines.memory,
                seconds=self._settings.engines.seconds,
            ):
                pass
        except InvalidParameter:
            raise
        except DeniableError:
            raise InvalidParameter(
                "A source cannot be opened as the schema says. Nothing was registered. `deniable schema "
                "check` on the server's machine tells what differs."
            ) from None

    def version(self, name: str) -> str:
        row = self._row(name)
        return str(row["version"])

    def set_version(self, name: str, version: str) -> None:
        """The data is another from now on: answers that were kept for an earlier version
        are not given again."""
        if not version or len(version) > 100 or not version.isprintable():
            raise InvalidParameter(
                "Expected a version of 1 to 100 characters that can be seen. Nothing was changed."
            )
        self._row(name)
        with self._state.writing() as connection:
            condition = store.datasets.c.name == name
            connection.execute(store.datasets.update().where(condition).values(version=version))

    def hand_over(self, name: str, owner: str) -> None:
        """Open the data set for another owner from now on."""
        with self._state.writing() as connection:
            condition = store.datasets.c.name == name
            connection.execute(store.datasets.update().where(condition).values(owner=owner))

    def curator(self, name: str) -> Curator:
        """The owner's curator of a data set, at its present version; opened at its first use."""
        row = self._row(name)
        standing = (row["version"], row["owner"])
        entry = self._open.get(name)
        if entry is None or entry.standing != standing:
            with self._turn:
                entry = self._open.get(name)
                if entry is None or entry.standing != standing:
                    entry = self._open_data(name, row)
                    self._open[name] = entry
        if not entry.present:  # told before anything is charged for it
            raise LedgerError(_cannot_open(name))
        return entry.curator

    def read_declared(self, name: str) -> DeclaredData:
        """What is declared about a data set. No engine is opened."""
        row = self._row(name)
        declaration = _declaration(name, row["declaration"])
        account = self._ledger.account(name)
        schema = declaration.schema_at(row["version"])
        return DeclaredData(name, account.owner, account.unit, schema, self._problem(name, declaration))

    def _problem(self, name: str, declaration: Declaration) -> str | None:
        for table, source in declaration.sources.items():
            try:
                self._places.locate(source)
            except InvalidParameter:
                return (
                    f"The source {source} of the table {table} is not there. Put it back, or ask the "
                    "operator of this service."
                )
        moment, reason = self._failures.get(name, (0.0, ""))
        if reason and time.monotonic() < moment + FAILURE_SECONDS:
            return reason
        return None

    def part(self, name: str, curator: Curator, analyst: str) -> Curator:
        """An analyst's part of a data set, which is found once for each opening of it: parts do not go
        away."""
        entry = self._parts.get((name, analyst))
        if entry is None or entry[0] is not curator:
            entry = (curator, curator.as_analyst(analyst))
            if len(self._parts) >= MOST_PARTS:
                self._parts.clear()
            self._parts[name, analyst] = entry
        return entry[1]

    def _row(self, name: str) -> sa.RowMapping:
        with self._state.reading() as connection:
            row = connection.execute(ROW, {"wanted": name}).mappings().first()
        if row is None:
            raise NotFound(UNKNOWN)
        return row

    def _open_data(self, name: str, row: sa.RowMapping) -> OpenData:
        declaration = _declaration(name, row["declaration"])
        engines = self._settings.engines
        places: dict[str, str] = {}
        try:
            places = self._places.locate_all(declaration.sources)
            curator = Curator.open(
                places,
                schema=declaration.schema_at(row["version"]),
                account=name,
                analyst=row["owner"],
                ledger=self._ledger,
                floor=self._settings.floor,
                memory=engines.memory,
                seconds=engines.seconds,
                threads=engines.threads,
            )
        except DeniableError as error:
            note(self._settings.folder)(error)
            reason = str(error)
            for table, place in places.items():
                reason = reason.replace(place, declaration.sources[table])
            if places:  # that a source is gone is seen anew each time
                self._failures[name] = (time.monotonic(), reason)
            raise LedgerError(_cannot_open(name)) from None
        self._failures.pop(name, None)
        files = tuple(place for place in places.values() if "://" not in place)
        curator.compute_by(self._pool)
        return OpenData((row["version"], row["owner"]), curator, files)

    def close(self) -> None:
        for entry in self._open.values():
            entry.curator.close()
        self._open.clear()


@lru_cache(maxsize=256)
def _declaration(name: str, text: str) -> Declaration:
    """Read once: a schema of many columns takes long to parse."""
    return Declaration.from_json(name, text)


def _cannot_open(name: str) -> str:
    return f'The data set "{name}" cannot be opened now. Nothing was charged. Tell its owner.'


def _private(declaration: Declaration) -> frozenset[str]:
    return frozenset(table.name for table in declaration.schema.tables if not table.public)


def note(folder: Path) -> Callable[[Exception], None]:
    """Writes why something failed, which may depend on data, to a file that only the server's user can
    read."""

    def write(error: Exception) -> None:
        path = folder / "failures.log"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(handle, "a", encoding="utf-8") as file:
            file.write(f"{type(error).__name__}: {error}\n")

    return write
