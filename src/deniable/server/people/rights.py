"""What a person may do: roles give rights, and the scope of a token takes some of them away.

>>> Caller("ada", frozenset({Role.ANALYST})).rights
frozenset({<Right.ASK: 'ask'>})
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deniable.errors import Forbidden


class Role(StrEnum):
    """Owners hold data, analysts ask about it, auditors look."""

    OWNER = "owner"
    ANALYST = "analyst"
    AUDITOR = "auditor"


class Right(StrEnum):
    """`ask`: previews and queries. `look`: everyone's entries and balances. `manage`: data, limits,
    people."""

    ASK = "ask"
    LOOK = "look"
    MANAGE = "manage"


RIGHTS = {
    Role.OWNER: frozenset(Right),
    Role.ANALYST: frozenset({Right.ASK}),
    Role.AUDITOR: frozenset({Right.LOOK}),
}
NEEDS = {Right.ASK: "an owner or analyst", Right.LOOK: "an owner or auditor", Right.MANAGE: "an owner"}


@dataclass(frozen=True)
class Caller:
    """Who has proved by a login to be `name`. Roles are as they stand now, not as they stood at the login.

    `token` is the number of the token, or `session` the digest of the session, that she came by.
    """

    name: str
    roles: frozenset[Role]
    scope: frozenset[Right] = frozenset(Right)
    token: str | None = None
    must_change: bool = False
    session: str | None = None

    @property
    def rights(self) -> frozenset[Right]:
        return frozenset().union(*(RIGHTS[role] for role in self.roles)) & self.scope

    def may(self, right: Right) -> bool:
        return right in self.rights and not self.must_change

    def need_session(self) -> None:
        """A token is for programs: it gives nobody a way in that would outlive it, and agrees to nothing."""
        if self.token is not None:
            raise Forbidden(
                "Expected a login by password or provider: a token gives out no login or token, and agrees "
                "to nothing. Nothing was done. Log in, and do it there."
            )

    def need(self, right: Right) -> None:
        if self.must_change:
            raise Forbidden(
                "Expected a password of your own first: a one-time password opens nothing else. Nothing was "
                "done."
            )
        if right not in self.rights:
            raise Forbidden(
                f"This is for {NEEDS[right]} whose login or token has the scope {right.value}. Nothing was "
                "done."
            )
