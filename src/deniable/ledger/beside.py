"""One data set, one ledger: find another ledger that lies beside the data."""

from __future__ import annotations

import json
import struct
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from deniable.errors import LedgerError
from deniable.ledger.journal import Journal
from deniable.ledger.store import APPLICATION

BESIDE = "privacy.db"
"""The ledger of the data in a folder, where no other is named."""

HIDDEN = "***"
"""What stands for a password in an address."""


def bind(journal: Journal, data: Path) -> None:
    """Warn of other ledgers of `data`, then leave a mark beside it that names this one."""
    others = [*_marked(journal, data), *_lying(journal, data)]
    for other in dict.fromkeys(others):
        warnings.warn(
            f'Another ledger lies beside "{data}": {other}. Two ledgers do not know of each other, so together they grant the '
            f"sum of their limits. This ledger is {journal.store}; use one of them.",
            UserWarning,
            stacklevel=3,
        )
    if not others:
        _mark(journal, data)


def ledger_of(data: Path) -> str:
    """The address of the ledger that meters `data`: the one its mark names, or `privacy.db` in its folder."""
    try:
        marked = str(_read_mark(data)["ledger"])
    except FileNotFoundError:
        return f"sqlite:///{data.resolve().with_name(BESIDE)}"
    if HIDDEN in marked:
        raise LedgerError(f'The ledger of "{data}" is {marked}. Name it with its password: ledger="postgresql://…".')
    return marked


def _mark_of(data: Path) -> Path:
    return data.with_name(data.name + ".ledger")


def _read_mark(data: Path) -> Mapping[str, str]:
    try:
        mark = json.loads(_mark_of(data).read_text(encoding="utf-8"))
        return {"id": str(mark["id"]), "ledger": str(mark["ledger"])}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, LookupError):
        raise LedgerError(f"The mark {_mark_of(data)}, which names the ledger of this data, cannot be read.") from None


def _marked(journal: Journal, data: Path) -> Iterator[str]:
    try:
        mark = _read_mark(data)
    except FileNotFoundError:
        return
    if mark["id"] != journal.id:
        yield mark["ledger"]


def _lying(journal: Journal, data: Path) -> Iterator[str]:
    """SQLite ledgers in the folder of the data, told by the number that a ledger writes into the head of its file."""
    own = journal.store.path
    for file in sorted(data.resolve().parent.iterdir()):
        if file.is_file() and _is_ledger(file) and (own is None or not own.exists() or not file.samefile(own)):
            yield str(file)


def _is_ledger(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            head = stream.read(72)
    except OSError:
        return False
    return (
        len(head) == 72 and head.startswith(b"SQLite format 3\0") and struct.unpack(">I", head[68:72])[0] == APPLICATION
    )


def _mark(journal: Journal, data: Path) -> None:
    """Best effort: where the data cannot be written beside, the ledgers that lie there are still found."""
    if journal.store.in_memory:
        return
    own = journal.store.path
    address = str(journal.store) if own is None else f"sqlite:///{own.resolve()}"
    try:
        _mark_of(data).write_text(json.dumps({"id": journal.id, "ledger": address}) + "\n", encoding="utf-8")
    except OSError:
        return
