"""Requests that are paid at most once: a key that is written in the very transaction of the charge.

Whoever asks over a network may lose the answer and ask again. Inside `paid_once(key, body)` the first charge
carries the key; a second one under the same key is refused before anything is run. An answer that is kept
costs nothing and needs no charge, so asking again inside the same block either gives what is kept or says
which entry was paid and that its answer is gone: never a second run under the old charge, and never a second
charge by accident.

The table is an index into the journal, whose entry names the key too. A row that was removed only means that
the key can pay again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from deniable.errors import AlreadyPaid, InvalidParameter
from deniable.ledger.journal.entries import Entry
from deniable.ledger.store import Transaction, schema


@dataclass(frozen=True)
class Request:
    """What is asked, by two digests: the key that may pay once, and the body that it is bound to."""

    key: str
    body: str


_CURRENT: ContextVar[Request | None] = ContextVar("deniable_request", default=None)


@contextmanager
def paid_once(key: str, body: str) -> Iterator[None]:
    """Charges made in this block, by this thread or task, carry the key; one that was
    paid before is refused."""
    token = _CURRENT.set(Request(key, body))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def details() -> dict[str, str]:
    """What the entry of a charge says of the request that it is for."""
    request = _CURRENT.get()
    if request is None:
        return {}
    return {"request": request.key}


def claim(transaction: Transaction, entry: Entry) -> None:
    """Write down, with the charge, that the request is paid by `entry`. Raises, and so undoes the charge, if
    it was before."""
    request = _CURRENT.get()
    if request is None:
        return
    row = transaction.first(schema.REQUEST, this=request.key)
    if row is None:
        transaction.run(schema.CLAIM, key=request.key, body=request.body, entry=entry.seq)
        return
    body, seq = str(row[0]), int(row[1])
    if body != request.body:
        raise InvalidParameter(
            f"This key was used for another request, which entry {seq} paid for. Nothing was charged and "
            "nothing was run. Use a new key."
        )
    raise lost_answer(seq)


def lost_answer(seq: int) -> AlreadyPaid:
    """What is said of a request that entry `seq` paid for, and whose answer is gone."""
    return AlreadyPaid(
        f"Entry {seq} was paid for this request, and its answer is not kept: it was lost, stopped, or is "
        "still on its way. Nothing was charged and nothing was run. Asking anew, with a new key, is a new "
        "charge.",
        entry=seq,
    )
