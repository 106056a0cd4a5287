"""The page of people: who they are, what they may do, their parts of the data, their tokens and sessions."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Response

from deniable.curator.question import read_number
from deniable.errors import DeniableError, InvalidParameter
from deniable.guarantee import Budget
from deniable.ledger import Account
from deniable.server.console.page import Here, PageRoute, Visit
from deniable.server.http.errors import describe_error
from deniable.server.people.membership import LoginOutcome
from deniable.server.people.rights import Right, Role
from deniable.server.people.roster import Person
from deniable.server.service import analyst_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)
ROLES = {
    "analyst": "asks, within her own part",
    "auditor": "looks at everything written down; asks nothing",
    "owner": "registers data, grants parts, raises limits, adds people",
}
SCOPES = {
    "ask": "previews and questions",
    "look": "everyone's entries and balances",
    "manage": "data, limits, people",
}

PROPOSED = "Proposed. Another owner must agree, on the page Budget, or the operator at the server's shell."


@router.get("/people")
async def page(visit: Here) -> Response:
    return await _page(visit)


@router.post("/people/add")
async def add(visit: Here) -> Response:
    form = visit.form

    def act() -> dict[str, Any] | None:
        name = form.clean("name")
        outcome = visit.door.service.membership.add(visit.caller, name, form.list_values("roles"))
        return _describe_outcome(outcome, f"The one-time password of {name}")

    return await _carry_out(visit, act)


@router.post("/people/change")
async def change(visit: Here) -> Response:
    form, members = visit.form, visit.door.service.membership
    name, caller = form["name"], visit.caller

    def act() -> dict[str, Any] | None:
        match form["act"]:
            case "roles":
                outcome = members.change(caller, name, roles=form.list_values("roles"), disabled=None)
            case "disable" | "enable":
                outcome = members.change(caller, name, roles=None, disabled=form["act"] == "disable")
            case "sessions":
                members.end_sessions(caller, name)
                return None
            case "reset":
                outcome = members.reset(caller, name)
            case _:
                raise InvalidParameter("There is no such act. Nothing was changed.")
        return _describe_outcome(outcome, f"A new one-time password of {name}")

    return await _carry_out(visit, act)


@router.post("/people/hand-over")
async def hand_over(visit: Here) -> Response:
    form = visit.form

    def act() -> dict[str, Any] | None:
        return _describe_outcome(
            LoginOutcome(visit.door.service.hand_over(visit.caller, form["data"], form["owner"])), ""
        )

    return await _carry_out(visit, act)


def _describe_outcome(outcome: LoginOutcome, password: str) -> dict[str, Any] | None:
    """What the page shows of an act, beside what everybody sees of it."""
    if outcome.proposal is None and outcome.secret is None:
        return None
    if outcome.proposal is None:
        return {"secret": outcome.secret, "secret_of": password}
    if outcome.secret is None:
        return {"good": PROPOSED}
    half = f"{password}: the first half, to be typed before a dot and the second half"
    return {"good": PROPOSED, "secret": outcome.secret, "secret_of": half}


@router.post("/people/grant")
async def grant(visit: Here) -> Response:
    form = visit.form

    def act() -> None:
        limit = Budget(
            read_number("epsilon", form.clean("epsilon")), read_number("delta", form.clean("delta") or "0")
        )
        visit.door.service.grant(visit.caller, form["data"], form["analyst"], limit)

    return await _carry_out(visit, act)


@router.post("/people/token")
async def token(visit: Here) -> Response:
    form, roster = visit.form, visit.door.service.roster

    def act() -> dict[str, Any]:
        days = float(read_number("days", form.clean("days")))
        if not 0 < days <= 366:
            raise InvalidParameter("Expected days between 0 and 366. Nothing was made.")
        new_token = roster.new_token(
            visit.caller, form.clean("label"), form.list_values("scope"), days * 86_400
        )
        return {
            "secret": new_token.text,
            "secret_of": "Your new token, also the password for psql and BI tools",
        }

    return await _carry_out(visit, act)


@router.post("/people/revoke")
async def revoke(visit: Here) -> Response:
    return await _carry_out(visit, lambda: visit.door.service.roster.revoke(visit.caller, visit.form["id"]))


@router.post("/people/leave")
async def leave(visit: Here) -> Response:
    """End all sessions of one's own, this one among them."""
    await visit.door.run(visit.door.service.roster.end_all, visit.caller.name, visit.caller.name)
    return visit.redirect("/login")


async def _carry_out(visit: Visit, act: Any) -> Response:
    """Do it. A secret is shown in the answer itself, once; anything else leads back to the page."""
    try:
        secret = await visit.door.run(act)
    except DeniableError as error:
        status, body = describe_error(error)
        return await _page(visit, status, sentence=body["message"])
    if secret is None:
        return visit.redirect("/people")
    return await _page(visit, **secret)


async def _page(visit: Visit, status: int = 200, **additions: Any) -> Response:
    facts = await visit.door.run(_facts, visit)
    extras = {"sentence": None, "good": None, "secret": None, "secret_of": ""} | additions
    return visit.draw(
        "people.html",
        status,
        **facts,
        roles=ROLES,
        scopes=SCOPES,
        typed=visit.form,
        now=time.time(),
        **extras,
    )


def _parts(visit: Visit, data: str) -> list[Account]:
    """The parts of a data set that the caller may see: every one, her own, or none."""
    service, caller = visit.door.service, visit.caller
    if caller.may(Right.LOOK):
        return service.parts(caller, data)
    if caller.may(Right.ASK):
        return [service.account(caller, data, caller.name)]
    return []


def _owners(people: list[Person]) -> list[str]:
    return [person.name for person in people if Role.OWNER in person.roles and not person.disabled]


def _facts(visit: Visit) -> dict[str, Any]:
    service, caller = visit.door.service, visit.caller
    look, manage = caller.may(Right.LOOK), caller.may(Right.MANAGE)
    people: list[Person] = []
    if look:
        people = service.roster.people()
    whose: str | None = caller.name
    if manage:
        whose = None
    data_sets = service.datasets(caller)
    parts: dict[str, list[tuple[str, Budget]]] = {}
    for data in data_sets:
        for account in _parts(visit, data):
            parts.setdefault(analyst_of(account), []).append((data, account.limit))
    mine = [data for data in data_sets if service.ledger.account(data).owner == caller.name]
    asking = [p.name for p in people if {Role.ANALYST, Role.OWNER} & set(p.roles) and not p.disabled]
    return {
        "people": people,
        "parts": parts,
        "tokens": service.roster.tokens(whose),
        "sessions": service.roster.sessions(),
        "mine": mine,
        "owners": _owners(people),
        "asking": asking,
        "manage": manage,
    }
