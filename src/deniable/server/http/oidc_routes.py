"""Login by an OpenID provider: there, and back.

The session's cookie is SameSite=Strict, so a browser does not send it with the provider's redirect. The
callback therefore ends in a page of this site that goes on by itself.
"""

from __future__ import annotations

from html import escape
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from deniable.errors import DeniableError, NotFound, NotLoggedIn
from deniable.server.http.door import AtDoor, Door, address
from deniable.server.http.errors import describe_error
from deniable.server.people.oidc import CALLBACK, SECONDS, Attempt, Provider
from deniable.server.traffic.addresses import host_of

router = APIRouter(tags=["people"])
HOME = "/"
PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Deniable</title>{head}</head>'
    '<body><main><p>{sentence}</p><p><a href="{href}">{link}</a></p></main></body></html>'
)
Text = Annotated[str, Query(max_length=4096)]


@router.get("/v1/oidc/login", response_class=RedirectResponse, status_code=303)
async def login(request: Request, door: AtDoor) -> Any:
    """Go to the provider's page."""
    provider = _provider(door)
    door.service.throttle.hit("login_address", host_of(address(request)))
    attempt = Attempt.begin()
    response = RedirectResponse(await door.run(provider.begin, attempt), 303)
    response.set_cookie(
        _cookie(door),
        attempt.seal(door.service.key),
        max_age=int(SECONDS),
        secure=door.secure,
        httponly=True,
        samesite="lax",
    )
    return response


@router.get(CALLBACK, response_class=HTMLResponse)
async def callback(
    request: Request, door: AtDoor, code: Text = "", state: Text = "", error: Text = ""
) -> Any:
    """Back from the provider, in the browser that began: a session, and a page that goes on."""
    provider = _provider(door)
    try:
        with door.service.throttle.token_login(address(request)):
            if error or not code:
                raise NotLoggedIn("The provider did not log you in. Nothing was done.")
            attempt = Attempt.unseal(request.cookies.get(_cookie(door), ""), door.service.key)
            subject = await door.run(provider.finish, attempt, code=code, state=state)
            session = await door.run(door.service.roster.log_in_subject, subject)
            if session is None:
                raise NotLoggedIn(
                    f"The provider calls you {subject}, and nobody of this service is linked to that. Give "
                    "it to an owner."
                )
    except DeniableError as failure:
        response = HTMLResponse(page(str(failure), "Try again", "/v1/oidc/login"), describe_error(failure)[0])
    else:
        head = f'<meta http-equiv="refresh" content="0;url={HOME}">'
        response = HTMLResponse(page(f"You are logged in as {session[1].name}.", "Go on", HOME, head))
        door.give(response, session[0])
    response.delete_cookie(_cookie(door), secure=door.secure, httponly=True, samesite="lax")
    return response


def page(sentence: str, link: str, href: str, head: str = "") -> str:
    return PAGE.format(sentence=escape(sentence), link=escape(link), href=escape(href), head=head)


def _cookie(door: Door) -> str:
    return f"{door.cookie}-oidc"


def _provider(door: Door) -> Provider:
    if door.service.provider is None:
        raise NotFound("This service has no OpenID provider. Log in by a password.")
    return door.service.provider
