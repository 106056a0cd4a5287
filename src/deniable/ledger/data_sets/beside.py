"""One data set, one ledger: find another ledger that lies beside the data."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from deniable.errors import LedgerError
from deniable.ledger.journal import Journal
from deniable.ledger.store import APPLICATION

BESIDE = "privacy.db"
"""The ledger of the data in a folder, where no other is named."""

BELONGINGS = ("-shm", "-wal", "-journal")
"""What SQLite keeps beside a database, and locks: never to be opened by anybody else in
a process that uses the database."""

HIDDEN = "***"
"""What stands for a password in an address."""


def bind(journal: Journal, data: Path) -> None:
    """Warn of other ledgers of `data`, then leave a mark beside it that names this one."""
    others = [*_marked_ledgers(journal, data), *_lying(journal, data)]
    for other in dict.fromkeys(others):
        warnings.warn(_warning(journal, data, other), UserWarning, stacklevel=3)
    if not others:
        _mark(journal, data)


def _warning(journal: Journal, data: Path, other_ledger: str) -> str:
    if other_ledger == _address(journal):
        return (
            f'The ledger {other_ledger} is not the one that metered "{data}" before: that one was deleted or '
            "replaced, and what "
            "was spent from it is not counted here. Put it back; if this is a new start, remove the mark "
            f"{_mark_of(data)}."
        )
    return (
        f'Another ledger lies beside "{data}": {other_ledger}. Two ledgers do not know of each other, so '
        "together "
        "they grant the "
        f"sum of their limits. This ledger is {journal.store}; use one of them."
    )


def ledger_of(data: Path) -> str:
    """The address of the ledger that meters `data`: the one its mark names, or `privacy.db` in its folder."""
    try:
        address = str(_read_mark(data)["ledger"])
    except FileNotFoundError:
        return f"sqlite:///{data.resolve().with_name(BESIDE)}"
    if HIDDEN in address:
        raise LedgerError(
            f'The ledger of "{data}" is {address}. Name it with its password: ledger="postgresql://…".'
        )
    return address


def _mark_of(data: Path) -> Path:
    return data.with_name(data.name + ".ledger")


def _read_mark(data: Path) -> Mapping[str, str]:
    try:
        mark = json.loads(_mark_of(data).read_text(encoding="utf-8"))
        return {"id": str(mark["id"]), "ledger": str(mark["ledger"])}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, LookupError):
        raise LedgerError(
            f"The mark {_mark_of(data)}, which names the ledger of this data, cannot be read."
        ) from None


def _marked_ledgers(journal: Journal, data: Path) -> Iterator[str]:
    try:
        mark = _read_mark(data)
    except FileNotFoundError:
        return
    if mark["id"] != journal.id:
        yield mark["ledger"]


def _lying(journal: Journal, data: Path) -> Iterator[str]:
    """SQLite ledgers in the folder of the data, told by the number that a ledger writes
    into the head of its file."""
    own = journal.store.path
    for file in sorted(data.resolve().parent.iterdir()):
        if (
            not file.is_file()
            or file.name.endswith(BELONGINGS)
            or (own is not None and _is_same_file(file, own))
        ):
            continue
        if _is_ledger(file):
            yield f"sqlite:///{file}"  # as a mark names it, so that one ledger is told of once


def _is_same_file(first: Path, second: Path) -> bool:
    return second.exists() and first.samefile(second)


def _is_ledger(file: Path) -> bool:
    """Asked of SQLite itself. POSIX drops all locks of a process on a file when the process closes it,
    however it was opened: were a ledger that is open here opened and closed as a plain file, the next process
    to close it would take itself for the last, remove the write-ahead log, and charges would go into a
    deleted file. SQLite keeps such a file open until it may."""
    try:
        with closing(
            sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        ) as connection:
            return bool(connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION)
    except sqlite3.Error:
        return False


def _mark(journal: Journal, data: Path) -> None:
    """Best effort: where the data cannot be written beside, the ledgers that lie there are still found."""
    if journal.store.in_memory:
        return
    mark = {"id": journal.id, "ledger": _address(journal)}
    try:
        _mark_of(data).write_text(json.dumps(mark) + "\n", encoding="utf-8")
    except OSError:
        return


def _address(journal: Journal) -> str:
    own = journal.store.path
    if own is None:
        return str(journal.store)
    return f"sqlite:///{own.resolve()}"
