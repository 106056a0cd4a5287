"""Acts that wait for a second person: raise a limit, thaw, register data, declare a new version.

Where the settings ask for one, an owner's act is written down as a proposal, and done when another owner
agrees, in the name of the one who proposed it. Both are in the sealed list of acts.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from deniable.errors import Forbidden, NotFound
from deniable.server.people import acts, store
from deniable.server.people.store import State

UNKNOWN = "There is no such proposal: it never was, or it was decided. Nothing was changed."


@dataclass(frozen=True)
class ProposedAct:
    """What somebody wants to do: `terms` are the arguments of the act."""

    id: str
    act: str
    about: str
    person: str
    reason: str
    terms: dict[str, Any]


class Proposals:
    """What waits for a second person."""

    def __init__(self, state: State, key: bytes) -> None:
        self._state = state
        self._key = key

    def add(self, person: str, act: str, about: str, reason: str, terms: dict[str, Any]) -> str:
        number = secrets.token_hex(8)
        row = {"id": number, "act": act, "about": about, "person": person, "reason": reason}
        with self._state.writing() as connection:
            connection.execute(store.proposals.insert().values(**row, terms=json.dumps(terms)))
            acts.record(connection, self._key, person, f"propose: {act}", about, reason)
        return number

    def all(self) -> list[ProposedAct]:
        with self._state.reading() as connection:
            rows = connection.execute(sa.select(store.proposals).order_by(store.proposals.c.id)).mappings()
            return [_proposal(row) for row in rows]

    def one(self, number: str) -> ProposedAct:
        with self._state.reading() as connection:
            return _found(connection, number)

    def agree(self, person: str, number: str) -> ProposedAct:
        """Taken off the list for who agrees: it is done once, whoever else agrees at the same moment."""
        with self._state.writing() as connection:
            proposal = _found(connection, number)
            if proposal.person == person:
                raise Forbidden(
                    "Expected a second person: who proposes does not agree to it. Nothing was changed."
                )
            connection.execute(store.proposals.delete().where(store.proposals.c.id == number))
            words = f"proposed by {proposal.person}: {proposal.reason}"
            acts.record(connection, self._key, person, f"agree: {proposal.act}", proposal.about, words)
        return proposal

    def drop(self, person: str, number: str) -> None:
        """Refuse it, or take it back."""
        with self._state.writing() as connection:
            proposal = _found(connection, number)
            connection.execute(store.proposals.delete().where(store.proposals.c.id == number))
            acts.record(connection, self._key, person, f"drop: {proposal.act}", proposal.about, "")


def _found(connection: sa.Connection, number: str) -> ProposedAct:
    query = sa.select(store.proposals).where(store.proposals.c.id == number)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound(UNKNOWN)
    return _proposal(row)


def _proposal(row: sa.RowMapping) -> ProposedAct:
    fields = {name: row[name] for name in ("id", "act", "about", "person", "reason")}
    return ProposedAct(**fields, terms=json.loads(row["terms"]))
