"""Login, sessions, tokens and people."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from deniable.errors import Forbidden
from deniable.server.http import bodies
from deniable.server.http.door import AtDoor, Who, address
from deniable.server.people.membership import LoginOutcome
from deniable.server.people.rights import Right

router = APIRouter(prefix="/v1", tags=["people"], route_class=bodies.StrictRoute)


@router.post("/login")
async def login(body: bodies.Login, request: Request, response: Response, door: AtDoor) -> dict[str, Any]:
    """Begin a session. With a one-time password, nothing but `POST /v1/password` is open
    until it is changed."""
    if "origin" in request.headers and not door.is_own_origin(request):
        raise Forbidden("Expected a login from this site itself. Nothing was done.")
    with door.service.throttle.login(body.name, address(request)):
        secret, caller = await door.run(door.service.roster.login, body.name, body.password)
    door.give(response, secret)
    return {
        "name": caller.name,
        "roles": sorted(caller.roles),
        "must_change": caller.must_change,
        "csrf": door.service.roster.csrf(secret),
    }


@router.post("/password")
async def password(
    body: bodies.NewPassword, request: Request, response: Response, door: AtDoor
) -> dict[str, Any]:
    """Set a password of one's own. Every other session ends."""
    secret = door.session(request)
    caller = await door.run(door.service.roster.session, secret)
    with door.service.throttle.guesses(f"{caller.name}, logged in"):
        fresh = await door.run(door.service.roster.set_password, secret, body.old, body.new)
    door.give(response, fresh)
    return {"name": caller.name, "csrf": door.service.roster.csrf(fresh)}


@router.post("/logout")
async def logout(request: Request, response: Response, door: AtDoor) -> dict[str, Any]:
    await door.run(door.service.roster.end, door.session(request))
    door.take(response)
    return {}


@router.get("/me")
async def me(request: Request, caller: Who, door: AtDoor) -> dict[str, Any]:
    """Who one is, and the CSRF token of the session, if this is one."""
    secret = None
    if "authorization" not in request.headers:
        secret = request.cookies.get(door.cookie)
    return {
        "name": caller.name,
        "roles": sorted(caller.roles),
        "rights": sorted(caller.rights),
        "must_change": caller.must_change,
        "csrf": door.service.roster.csrf(secret) if secret else None,
    }


@router.get("/tokens")
async def tokens(caller: Who, door: AtDoor) -> list[dict[str, Any]]:
    """One's own tokens; everybody's for an owner. Never their secrets."""
    _check_settled(caller)
    whose = None
    if not caller.may(Right.MANAGE):
        whose = caller.name
    return [asdict(token) for token in await door.run(door.service.roster.tokens, whose)]


@router.post("/tokens", status_code=201)
async def new_token(body: bodies.NewToken, caller: Who, door: AtDoor) -> dict[str, Any]:
    """A new token of one's own, shown this once. It is the password of the wire too."""
    _check_settled(caller)
    token = await door.run(door.service.roster.new_token, caller, body.label, body.scope, body.days * 86_400)
    return {"id": token.id, "token": token.text}


@router.delete("/tokens/{token}")
async def revoke(token: str, caller: Who, door: AtDoor) -> dict[str, Any]:
    _check_settled(caller)
    await door.run(door.service.roster.revoke, caller, token)
    return {}


@router.get("/people")
async def people(caller: Who, door: AtDoor) -> list[dict[str, Any]]:
    caller.need(Right.LOOK)
    return [asdict(person) for person in await door.run(door.service.roster.people)]


@router.post("/people", status_code=201)
async def add(body: bodies.NewPerson, caller: Who, door: AtDoor) -> dict[str, Any]:
    """A new person, and her one-time password, shown this once; with `subject`, one who logs in by the OpenID
    provider alone. Of an owner where a second person must agree: a proposal, and the first half of it."""
    outcome = await door.run(door.service.membership.add, caller, body.name, body.roles, body.subject)
    return {"name": body.name, **_secret(outcome)}


@router.put("/people/{name}/identity")
async def identity(name: str, body: bodies.Link, caller: Who, door: AtDoor) -> dict[str, Any]:
    """Whom the OpenID provider means by this person; null: nobody any more. Her sessions and tokens end."""
    outcome = await door.run(door.service.membership.link, caller, name, body.subject)
    return {"proposal": outcome.proposal}


@router.patch("/people/{name}")
async def change(name: str, body: bodies.Change, caller: Who, door: AtDoor) -> dict[str, Any]:
    """Other roles, or in and out."""
    change = partial(door.service.membership.change, roles=body.roles, disabled=body.disabled)
    return {"proposal": (await door.run(change, caller, name)).proposal}


@router.post("/people/{name}/password", status_code=201)
async def reset(name: str, caller: Who, door: AtDoor) -> dict[str, Any]:
    """A new one-time password, shown this once. Every session and token of hers ends."""
    return {"name": name, **_secret(await door.run(door.service.membership.reset, caller, name))}


@router.delete("/people/{name}/sessions")
async def end_sessions(name: str, caller: Who, door: AtDoor) -> dict[str, Any]:
    return {"ended": await door.run(door.service.membership.end_sessions, caller, name)}


def _secret(outcome: LoginOutcome) -> dict[str, Any]:
    """A one-time password, or, while a proposal waits, the first half of one that two people give."""
    if outcome.proposal is None:
        return {"one_time_password": outcome.secret, "proposal": None}
    return {"one_time_password": None, "proposal": outcome.proposal, "first_half": outcome.secret}


def _check_settled(caller: Who) -> None:
    if caller.must_change:
        raise Forbidden(
            "Expected a password of your own first: a one-time password opens nothing else. Nothing was done."
        )
