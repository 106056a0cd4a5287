"""The server's own key, which seals the acts, the CSRF tokens and the salts of the wire; and another one in
its place.

A rotation seals all acts anew, after it has checked them, and takes away every session and token: whoever had
the old key could have made some. The new key is on disk before the acts are sealed with it, so that a crash
in between loses neither.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from deniable.errors import TamperedLedger
from deniable.ledger.journal import chain
from deniable.server.people import acts, store
from deniable.server.people.store import State

NAME, NEXT = "server.key", "server.key.next"


def open_key(folder: Path, state: State) -> bytes:
    """The key of a service; made at its first start."""
    following = chain.read_key(folder / NEXT)
    history = []
    if following is not None:
        history = acts.history(state)
    if following is not None and history and acts.find_broken_seal(history, following) is None:
        (folder / NEXT).replace(folder / NAME)  # a rotation that was cut off after the acts were sealed
    return chain.read_key(folder / NAME) or chain.make_key(folder / NAME)


def rotate(folder: Path, state: State) -> None:
    """Another key. Every process of the service must have ended."""
    old = open_key(folder, state)
    (folder / NEXT).unlink(missing_ok=True)
    new = chain.make_key(folder / NEXT)
    with state.writing() as connection:
        rows = connection.execute(sa.select(store.acts).order_by(store.acts.c.seq))
        history = [acts.Act._make(row) for row in rows]
        if (number := acts.find_broken_seal(history, old)) is not None:
            raise TamperedLedger(
                f"Act {number} is not as it was written. Nothing was changed. Look into it first."
            )
        connection.execute(store.acts.delete())
        before = acts.ROOT
        for act in history:
            before = chain.sealed(new, before, act[:-1])
            connection.execute(store.acts.insert().values(**act._replace(mac=before)._asdict()))
        for table in (store.sessions, store.tokens):
            connection.execute(table.delete())
        acts.record(connection, new, "operator", "rotate key", NAME, "every session and token ended")
    (folder / NEXT).replace(folder / NAME)
