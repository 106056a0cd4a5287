"""Coming in and going out: login, the change of a one-time password, logout."""

from __future__ import annotations

import hmac
import secrets

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from deniable.errors import DeniableError, Forbidden
from deniable.server.console.page import (
    VISIT_COOKIE,
    Here,
    PageRoute,
    Typed,
    draw,
)
from deniable.server.http.door import SECURE_COOKIE, AtDoor, Door, address
from deniable.server.http.errors import describe_error
from deniable.server.people.rights import Caller, Right

router = APIRouter(route_class=PageRoute, include_in_schema=False)
COOKIE = (
    "Your browser did not keep the cookie of this page. Allow cookies for this address, or use TLS, and try "
    "again."
)


@router.get("/")
async def start(visit: Here) -> Response:
    return visit.redirect(_home(visit.caller))


@router.get("/login")
async def form(request: Request, door: AtDoor) -> Response:
    return _form(request, door)


@router.post("/login")
async def login(request: Request, door: AtDoor) -> Response:
    door.check_origin(request)
    form = await Typed.read(request)
    name = form["name"].strip()
    try:
        visit = request.cookies.get(VISIT_COOKIE)
        if not visit:
            raise Forbidden(COOKIE)
        if not hmac.compare_digest(form["token"].encode(), door.service.roster.csrf(visit).encode()):
            raise Forbidden("This form is too old, or is not ours. Nothing was done. Log in once more.")
        with door.service.throttle.login(name, address(request)):
            secret, caller = await door.run(door.service.roster.login, name[:200], form["password"][:300])
    except DeniableError as error:
        status, body = describe_error(error)
        return _form(request, door, status, name=name, sentence=body["message"])
    goal = form["back"]
    if not _is_inside(goal):
        goal = _home(caller)
    if caller.must_change:
        goal = "/password"
    response = RedirectResponse(goal, 303)
    give(response, door, secret)
    response.delete_cookie(VISIT_COOKIE, secure=True, httponly=True, samesite="strict")
    return response


@router.get("/password")
async def password_form(visit: Here) -> Response:
    return visit.draw("password.html", sentence=None)


@router.post("/password")
async def password(visit: Here) -> Response:
    form, door = visit.form, visit.door
    try:
        if form["new"] != form["again"]:
            raise Forbidden("The two new passwords differ. Nothing was changed.")
        with door.service.throttle.guesses(f"{visit.caller.name}, logged in"):
            fresh = await door.run(
                door.service.roster.set_password, visit.secret, form["old"] or None, form["new"]
            )
    except DeniableError as error:
        status, body = describe_error(error)
        return visit.draw("password.html", status, sentence=body["message"])
    response = visit.redirect("/")
    give(response, door, fresh)
    return response


@router.post("/logout")
async def logout(visit: Here) -> Response:
    await visit.door.run(visit.door.service.roster.end, visit.secret)
    response = visit.redirect("/login")
    response.delete_cookie(SECURE_COOKIE, secure=True, httponly=True, samesite="strict")
    return response


def _form(
    request: Request, door: Door, status: int = 200, *, name: str = "", sentence: str | None = None
) -> Response:
    """The form, bound to a cookie: a page elsewhere cannot log anybody in."""
    visit = request.cookies.get(VISIT_COOKIE) or secrets.token_urlsafe(32)
    back = request.query_params.get("back", "")
    response = draw(
        request, "login.html", status, caller=None, token=door.service.roster.csrf(visit), name=name,
        sentence=sentence, back=back if _is_inside(back) else "",
        provider=door.service.provider is not None,
    )  # fmt: skip
    response.set_cookie(VISIT_COOKIE, visit, path="/", secure=True, httponly=True, samesite="strict")
    return response


def give(response: Response, door: Door, secret: str) -> None:
    """The session, in a cookie that no other site and no script can use. Browsers keep it on loopback too,
    where there is no TLS."""
    seconds = int(door.service.settings.session_hours * 3600)
    response.set_cookie(
        SECURE_COOKIE, secret, max_age=seconds, path="/", secure=True, httponly=True, samesite="strict"
    )


def _is_inside(path: str) -> bool:
    """A page of this site, and no address that begins like one.

    >>> _is_inside("/budget"), _is_inside("//elsewhere.example"), _is_inside("/\\\\elsewhere.example")
    (True, False, False)
    """
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()


def _home(caller: Caller) -> str:
    if caller.may(Right.ASK):
        return "/ask"
    return "/ledger"
