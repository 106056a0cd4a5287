"""One data set, one ledger: find another ledger that lies beside the data."""

from __future__ import annotations

import json
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path

from deniable.errors import LedgerError
from deniable.ledger.journal import Journal
from deniable.ledger.store import APPLICATION


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


def _mark_of(data: Path) -> Path:
    return data.with_name(data.name + ".ledger")


def _marked(journal: Journal, data: Path) -> Iterator[str]:
    try:
        mark = json.loads(_mark_of(data).read_text(encoding="utf-8"))
        if mark["id"] != journal.id:
            yield str(mark["ledger"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, LookupError):
        raise LedgerError(f"The mark {_mark_of(data)}, which names the ledger of this data, cannot be read.") from None


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
    try:
        _mark_of(data).write_text(json.dumps({"id": journal.id, "ledger": str(journal.store)}) + "\n", encoding="utf-8")
    except OSError:
        return
