"""Acts that wait for a second person: raise a limit, thaw, register data, declare a new version, hand a data
set over, give an owner a login.

Where the settings ask for one, an owner's act is written down as a proposal, and done when another owner
agrees, in the name of the one who proposed it. Both are in the sealed list of acts. Who agrees was an owner
before the proposal, and no login of hers went through the hands of who proposed it (`logins`); the operator
agrees at the server's shell.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from deniable.errors import Forbidden, NotFound
from deniable.server.people import acts, logins, store
from deniable.server.people.logins import OPERATOR, Consent
from deniable.server.people.rights import Caller
from deniable.server.people.store import State

HALF = "half"
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

    @property
    def hide_half(self) -> ProposedAct:
        """The act as people see it: without the digest of a password's half."""
        return replace(self, terms={name: value for name, value in self.terms.items() if name != HALF})


class Proposals:
    """What waits for a second person."""

    def __init__(self, state: State, key: bytes) -> None:
        self._state = state
        self._key = key

    def add(self, caller: Caller, act: str, target: str, reason: str, terms: dict[str, Any]) -> str:
        number = secrets.token_hex(8)
        row = {"id": number, "act": act, "about": target, "person": caller.name, "reason": reason}
        with self._state.writing() as connection:
            logins.check_login(connection, caller)
            seq = acts.record(connection, self._key, caller.name, f"propose: {act}", target, reason)
            connection.execute(store.proposals.insert().values(**row, terms=json.dumps(terms), seq=seq))
        return number

    def list_waiting(self) -> list[ProposedAct]:
        with self._state.reading() as connection:
            rows = connection.execute(sa.select(store.proposals).order_by(store.proposals.c.id)).mappings()
            return [_proposal(row) for row in rows]

    def find(self, number: str) -> ProposedAct:
        with self._state.reading() as connection:
            return _find(connection, number)

    def agree(self, caller: Caller | None, number: str) -> tuple[ProposedAct, Consent]:
        """Taken off the list for who agrees, None for the operator at the server's shell: it is done once,
        whoever else agrees at the same moment."""
        person = None if caller is None else caller.name
        with self._state.writing() as connection:
            if caller is not None:
                logins.check_login(connection, caller)
            proposal = _find(connection, number)
            row = connection.execute(
                sa.select(store.people).where(store.people.c.name == proposal.person)
            ).mappings()
            if not logins.is_owner(row.first()):
                raise Forbidden(
                    f"{proposal.person}, who proposed this, is an owner no longer. Nothing was changed. "
                    "Drop it."
                )
            if person is not None:
                seq = sa.select(store.proposals.c.seq).where(store.proposals.c.id == number)
                logins.check_second(connection, proposal.person, connection.execute(seq).scalar(), person)
            connection.execute(store.proposals.delete().where(store.proposals.c.id == number))
            words = f"proposed by {proposal.person}: {proposal.reason}"
            by = OPERATOR if person is None else person
            acts.record(connection, self._key, by, f"agree: {proposal.act}", proposal.about, words)
        return proposal, Consent(person, proposal.terms.get(HALF))

    def drop(self, person: str, number: str) -> None:
        """Refuse it, or take it back."""
        with self._state.writing() as connection:
            proposal = _find(connection, number)
            connection.execute(store.proposals.delete().where(store.proposals.c.id == number))
            acts.record(connection, self._key, person, f"drop: {proposal.act}", proposal.about, "")


def _find(connection: sa.Connection, number: str) -> ProposedAct:
    query = sa.select(store.proposals).where(store.proposals.c.id == number)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound(UNKNOWN)
    return _proposal(row)


def _proposal(row: sa.RowMapping) -> ProposedAct:
    fields = {name: row[name] for name in ("id", "act", "about", "person", "reason")}
    return ProposedAct(**fields, terms=json.loads(row["terms"]))
