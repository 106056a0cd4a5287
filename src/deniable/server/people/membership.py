"""What an owner does about people: alone where nobody gains by it, else proposed to a second person.

Who has a token alone gives nobody a way in: what a program may do ends with its token.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from deniable.errors import InvalidParameter
from deniable.server.people import secrets
from deniable.server.people.logins import Consent, ConsentNeeded
from deniable.server.people.proposals import HALF, Proposals, ProposedAct
from deniable.server.people.rights import Caller, Right
from deniable.server.people.roster import Roster

ACTS = ("add person", "change person", "reset password", "link identity")


class LoginOutcome(NamedTuple):
    """What came of an act: the proposal that waits, if there is one; and the one-time password, or, of one
    that two people give, the half that is shown to this one."""

    proposal: str | None = None
    secret: str | None = None


class Membership:
    """The acts of owners about people."""

    def __init__(self, roster: Roster, proposals: Proposals) -> None:
        self._roster = roster
        self._proposals = proposals

    def add(
        self, caller: Caller, name: str, roles: Collection[str], subject: str | None = None
    ) -> LoginOutcome:
        """A new person; with `subject`, one who logs in by the OpenID provider alone."""
        terms = {"roles": sorted(roles), "subject": subject}
        return self._act(caller, "add person", name, terms, in_halves=subject is None)

    def change(
        self, caller: Caller, name: str, *, roles: Collection[str] | None, disabled: bool | None
    ) -> LoginOutcome:
        """Another role, or in and out. What takes something away is done at once."""
        terms = {"roles": None if roles is None else sorted(roles), "disabled": disabled}
        return self._act(caller, "change person", name, terms)

    def reset(self, caller: Caller, name: str) -> LoginOutcome:
        """A new one-time password; every session and token of hers ends."""
        return self._act(caller, "reset password", name, {}, in_halves=True)

    def link(self, caller: Caller, name: str, subject: str | None) -> LoginOutcome:
        """Whom the OpenID provider means by this person."""
        return self._act(caller, "link identity", name, {"subject": subject})

    def end_sessions(self, caller: Caller, name: str) -> int:
        caller.need(Right.MANAGE)
        return self._roster.end_all(caller.name, name)

    def _act(
        self, caller: Caller, act: str, name: str, terms: dict[str, Any], *, in_halves: bool = False
    ) -> LoginOutcome:
        caller.need(Right.MANAGE)
        if act != "change person" or terms["roles"] is not None or terms["disabled"] is False:
            caller.need_session()
        try:
            return LoginOutcome(None, self._do(caller.name, act, name, terms, None))
        except ConsentNeeded:
            first = None
            if in_halves:
                first = secrets.new_secret()
                terms = terms | {HALF: secrets.digest(first)}
            return LoginOutcome(self._proposals.add(caller, act, name, "", terms), first)

    def perform(self, proposal: ProposedAct, consent: Consent) -> str | None:
        """Do what was agreed to; the second half of a one-time password, for who agreed."""
        return self._do(proposal.person, proposal.act, proposal.about, proposal.terms, consent)

    def _do(
        self, actor: str, act: str, name: str, terms: dict[str, Any], consent: Consent | None
    ) -> str | None:
        roster = self._roster
        match act:
            case "add person" if terms["subject"] is None:
                return roster.add(actor, name, terms["roles"], consent=consent)
            case "add person":
                roster.invite(actor, name, terms["roles"], terms["subject"], consent=consent)
            case "change person":
                roster.change(actor, name, roles=terms["roles"], disabled=terms["disabled"], consent=consent)
            case "reset password":
                return roster.reset(actor, name, consent=consent)
            case "link identity":
                roster.link(actor, name, terms["subject"], consent=consent)
            case _:
                raise InvalidParameter("There is no such act. Nothing was changed.")
        return None
