"""One visit to a page: who it is, what was typed, and how a page is sent.

A page is drawn from a template that escapes everything, under a Content-Security-Policy that runs no script
but the console's own file. Errors are pages too: they say the one sentence, and keep what was typed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from deniable._version import VERSION
from deniable.errors import DeniableError, Forbidden, NotLoggedIn
from deniable.server.console import words
from deniable.server.http.door import SECURE_COOKIE, Door, door_of
from deniable.server.http.errors import describe_error
from deniable.server.people.rights import Caller, Right

STATIC = Path(__file__).parent / "static"
VISIT_COOKIE = "__Host-deniable-visit"
"""What a login form is bound to, before there is a session."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
MENU = (
    ("/ask", "Ask", Right.ASK),
    ("/budget", "Budget", None),
    ("/ledger", "Ledger", None),
    ("/audits", "Audits", Right.LOOK),
    ("/data", "Data", None),
    ("/people", "People", None),
    ("/explain", "Explain", None),
)
MOST_FIELDS = 4000

environment = Environment(
    loader=PackageLoader("deniable.server.console"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.filters |= words.FILTERS


class Typed:
    """The fields of a form as they were typed."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    @classmethod
    async def read(cls, request: Request) -> Typed:
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/x-www-form-urlencoded":
            return cls([])
        body = (await request.body()).decode("utf-8", "replace")
        try:
            return cls(parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS))
        except ValueError:
            raise Forbidden("Expected a form of fewer fields. Nothing was done.") from None

    def __getitem__(self, name: str) -> str:
        """The field, or "" where it is missing."""
        return next((value for key, value in self._pairs if key == name), "")

    def get(self, name: str, value: str) -> str:
        """The field, or `value` where it is missing."""
        return next((text for key, text in self._pairs if key == name), value)

    def list_values(self, name: str) -> list[str]:
        return [value for key, value in self._pairs if key == name]

    def clean(self, name: str) -> str:
        return self[name].strip()

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self._pairs)


@dataclass
class Visit:
    """A request of somebody who is logged in."""

    request: Request
    door: Door
    caller: Caller
    token: str
    secret: str
    form: Typed = field(default_factory=lambda: Typed([]))

    @property
    def fragment(self) -> bool:
        """Whether the script asks for a part of a page."""
        return self.request.headers.get("x-fragment") == "1"

    def draw(self, template: str, status: int = 200, **facts: Any) -> HTMLResponse:
        return draw(self.request, template, status, caller=self.caller, token=self.token, **facts)

    def redirect(self, path: str) -> RedirectResponse:
        return RedirectResponse(path, 303)


def draw(
    request: Request, template: str, status: int = 200, *, caller: Caller | None, token: str, **facts: Any
) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    menu = [(path, name) for path, name, right in MENU if caller and (right is None or caller.may(right))]
    context = {
        "caller": caller,
        "rights": frozenset(str(right) for right in Right if caller is not None and caller.may(right)),
        "token": token,
        "nonce": nonce,
        "menu": menu,
        "path": request.url.path,
        "version": VERSION,
        "stamp": stamp(),
    }
    body = environment.get_template(template).render(context | facts)
    # With "no-referrer" a browser hides the origin of its own forms as well, and they would be refused.
    headers = {"content-security-policy": POLICY.format(nonce=nonce), "referrer-policy": "same-origin"}
    return HTMLResponse(body, status, headers)


@lru_cache(maxsize=1)
def stamp() -> str:
    """What changes with the script and the style, so that browsers may keep them."""
    both = b"".join((STATIC / name).read_bytes() for name in ("app.js", "app.css"))
    return hashlib.sha256(both).hexdigest()[:16]


def trust_picture(picture: str) -> Markup:
    """A picture of `plots.svg`, which has escaped what it was given."""
    return Markup(picture)


# ---------------------------------------------------------------------------------------- who, and from where


async def visit_of(request: Request) -> Visit:
    """Whoever has a session; a POST must come from a page of hers."""
    door = await door_of(request)
    form = await Typed.read(request)
    secret = door.session(request, form["token"])
    caller = await door.run(door.service.roster.session, secret)
    token = door.service.roster.csrf(secret)
    if caller.must_change and request.url.path not in ("/password", "/logout"):
        raise OneTime
    return Visit(request, door, caller, token, secret, form)


Here = Annotated[Visit, Depends(visit_of)]


class OneTime(Forbidden):
    """A one-time password was used; it opens nothing but the change of itself."""


class PageRoute(APIRoute):
    """Errors of a page are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except OneTime:
                return RedirectResponse("/password", 303)
            except NotLoggedIn as error:
                return _log_in(request, error)
            except DeniableError as error:
                status, body = describe_error(error)
                return await _draw_failure(request, status, body["message"])

        return handle


def _log_in(request: Request, error: NotLoggedIn) -> Response:
    if request.headers.get("x-fragment") == "1":
        return draw(request, "parts/ended.html", 401, caller=None, token="")
    path = request.url.path
    back = ""
    if request.method == "GET" and path != "/":
        back = f"?back={quote(path)}"
    return RedirectResponse(f"/login{back}", 303)


async def _draw_failure(request: Request, status: int, sentence: str) -> Response:
    template = "parts/sentence.html" if request.headers.get("x-fragment") == "1" else "failed.html"
    caller, token = None, ""
    secret = request.cookies.get(SECURE_COOKIE)
    if secret:
        door = await door_of(request)
        try:
            caller = await door.run(door.service.roster.session, secret)
            token = door.service.roster.csrf(secret)
        except DeniableError:
            caller = None
    return draw(request, template, status, caller=caller, token=token, sentence=sentence)
