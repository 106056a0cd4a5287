"""What owners did that the ledger does not write down itself: people, roles, tokens, versions of data. Sealed
in a chain, never a secret.

Each act carries a MAC over itself and the one before, under the server's key, as the entries of a ledger do.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import sqlalchemy as sa

from deniable.ledger.journal import chain
from deniable.server.people import store
from deniable.server.people.store import State

ROOT = "acts"


class Act(NamedTuple):
    """Who did what, about whom or what, and when."""

    seq: int
    time: str
    person: str
    act: str
    about: str
    words: str
    mac: str


def record(connection: sa.Connection, key: bytes, person: str, act: str, target: str, words: str) -> int:
    """Write an act down in the transaction that does it; its number."""
    table = store.acts
    last = connection.execute(
        sa.select(table.c.seq, table.c.mac).order_by(table.c.seq.desc()).limit(1)
    ).first()
    seq, before = 1, ROOT
    if last is not None:
        seq, before = int(last[0]) + 1, str(last[1])
    body = (seq, datetime.now(UTC).isoformat(timespec="microseconds"), person, act, target, words)
    values = dict(zip(Act._fields, (*body, chain.sealed(key, before, body)), strict=True))
    connection.execute(table.insert().values(**values))
    return seq


def history(state: State) -> list[Act]:
    with state.reading() as connection:
        return [
            Act._make(row) for row in connection.execute(sa.select(store.acts).order_by(store.acts.c.seq))
        ]


def find_broken_seal(history: list[Act], key: bytes) -> int | None:
    """The number of the first act that is not as it was written; None if all are."""
    before = ROOT
    for number, act in enumerate(history, 1):
        if act.seq != number or chain.sealed(key, before, act[:-1]) != act.mac:
            return number
        before = act.mac
    return None
