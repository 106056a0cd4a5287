"""Whose login is in whose hands: who may count as a second person.

Whoever gives somebody a login alone (adds her, sets her password anew, links her to a provider) could use it
herself. So each person has beside her the *hands* that her login went through: `password` and `link` name
those who gave her either of them, with all the hands that their own logins went through. What two people gave
together (each has half of a one-time password), or the operator, went through nobody's.

Claim: if a proposal and the consent to it come from people whose hands share nobody, no single person made
both. Proof: whoever acts as somebody is she herself, or had one of the logins that she was given and that
still open something. Each way in is a password, a link, or a session or token that came from one of these.
A new password, a new link and the end of a link all end every session and token. So she is among the hands of
the person that she acts as, and one who acts as both is among the hands of both. Hands are those of the
present, so the logins of both must be older than the proposal (`since`, which each of these moves on): what
was proposed by a login before counts no more. And a request may be on its way while its login ends, so a
proposal, a consent and a new token look for the login once more in the transaction that writes them
(`check_login`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from deniable.errors import Forbidden, NotLoggedIn
from deniable.server.people import store
from deniable.server.people.rights import Caller, Role

OPERATOR = "operator"
"""Who stands in the list of acts for what is done at the server's shell. A name alone proves nothing: only
`AT_THE_SHELL` does."""
EXPIRED = "This login is not valid, or no longer. Log in again."
NOBODY: dict[str, list[str]] = {"password": [], "link": []}
GIVES = {
    "add person": "password",
    "reset password": "password",
    "link identity": "link",
    "change person": None,
}
"""Acts of 0.2.0 that gave a login or a role, each alone, and what they gave."""


@dataclass(frozen=True)
class Consent:
    """That a second person agreed; `person` is None for the operator at the server's shell.

    `half_digest` is the digest of the first half of a one-time password, which the one who proposed has: who
    agrees is shown the other half, and nobody has both but the one they are given to.
    """

    person: str | None
    half_digest: str | None = None


AT_THE_SHELL = Consent(None)


class ConsentNeeded(Forbidden):
    """An act that waits for a second person. Doors make a proposal of it."""

    def __init__(self) -> None:
        super().__init__("Expected the consent of a second person. Nothing was changed. Propose it.")


def check_login(connection: sa.Connection, caller: Caller) -> None:
    """Refuse a caller whose session or token has ended since she came in by it, or who was sent away."""
    person, login = _row(connection, caller.name), None
    if caller.session is not None:
        login = store.sessions.c.digest == caller.session
    if caller.token is not None:
        login = store.tokens.c.id == caller.token
    has_ended = (
        login is not None and connection.execute(sa.select(sa.literal(1)).where(login)).first() is None
    )
    if has_ended or person is None or person["disabled"]:
        raise NotLoggedIn(EXPIRED)


def is_owner(row: Any) -> bool:
    """Whether a row of people is that of an owner who may come in."""
    return row is not None and Role.OWNER in row["roles"].split() and not row["disabled"]


def read_hands(row: Any) -> frozenset[str] | None:
    """Everybody who may act as this person, herself among them; None where that is not known."""
    if row["hands"] is None:
        return None
    hands = json.loads(row["hands"])
    return frozenset({row["name"], *hands["password"], *hands["link"]})


def changed_hands(connection: sa.Connection, row: Any, way: str, actor: str | None) -> str | None:
    """The hands of a person after `actor` gave her a password or a link alone (None: nobody did so alone).
    None where it is not known whose hands her login, or that of `actor`, went through before."""
    before: str | None = json.dumps(NOBODY)
    if row is not None:
        before = row["hands"]
    hands: frozenset[str] | None = frozenset()
    if actor is not None:
        giver = _row(connection, actor)
        hands = frozenset({actor})
        if giver is not None:
            hands = read_hands(giver)
    if before is None or hands is None:
        return None
    return json.dumps(json.loads(before) | {way: sorted(hands)})


def check_second(connection: sa.Connection, proposer: str, seq: int | None, second: str) -> None:
    """Refuse a consent that does not come from a second person."""
    if proposer == second:
        raise Forbidden("Expected a second person: who proposes does not agree to it. Nothing was changed.")
    row, first = _row(connection, second), _row(connection, proposer)
    if not is_owner(row):
        raise Forbidden("Expected an owner who agrees. Nothing was changed.")
    if seq is None:
        raise Forbidden(
            "This was proposed under an earlier version of Deniable, which did not write down who was an "
            "owner then. Nothing was changed. Drop it, and propose it again."
        )
    if first is None or first["since"] is None or first["since"] >= seq:
        raise Forbidden(
            f"The login of {proposer} changed after this was proposed, so it may not be her wish. Nothing "
            "was changed. Drop it, and let her propose it again."
        )
    if row["since"] is None or row["since"] >= seq:
        raise Forbidden(
            "You became an owner, or your login changed, after this was proposed, so your consent does not "
            "count for it. Nothing was changed. Let another owner agree, or propose it again."
        )
    seconds, proposers = read_hands(row), read_hands(first)
    if seconds is None or proposers is None or seconds & proposers:
        raise Forbidden(
            f"Expected a second person: one owner alone gave out a login of {second} or {proposer}, so both "
            "may be in one hand. Nothing was changed. The operator can agree at the server's shell, with "
            "`deniable serve --agree`, or give both of them a new login, with `deniable serve --reset`."
        )


def adopt(connection: sa.Connection) -> None:
    """Tell the hands of people whom an earlier version wrote down, from what its acts say."""
    people = {row["name"]: row for row in _rows(connection)}
    unknown = [name for name, row in people.items() if row["hands"] is None]
    if not unknown:
        return
    hands: dict[str, dict[str, set[str]]] = {name: {way: set() for way in NOBODY} for name in people}
    since = dict.fromkeys(people, 0)
    for act in connection.execute(sa.select(store.acts).order_by(store.acts.c.seq)).mappings():
        if act["about"] in people and act["act"] in GIVES:
            since[act["about"]] = act["seq"]
            _give(hands, act["about"], GIVES[act["act"]], act["person"])
    for name in unknown:
        content = json.dumps({way: sorted(each) for way, each in hands[name].items()})
        here = store.people.c.name == name
        connection.execute(store.people.update().where(here).values(hands=content, since=since[name]))


def _give(hands: dict[str, dict[str, set[str]]], person: str, way: str | None, actor: str) -> None:
    if way is not None and actor in hands:
        hands[person][way] |= {actor, *hands[actor]["password"], *hands[actor]["link"]}


def _rows(connection: sa.Connection) -> list[Any]:
    return list(connection.execute(sa.select(store.people)).mappings())


def _row(connection: sa.Connection, name: str) -> Any:
    query = sa.select(store.people).where(store.people.c.name == name)
    return connection.execute(query).mappings().first()
