"""Who is at the door: a token in the header, or a session in a cookie that other sites cannot use."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Annotated, ParamSpec, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends, Request, Response

from deniable.curator import Answer
from deniable.errors import Forbidden, NotLoggedIn
from deniable.server.asking import Pending, Pendings
from deniable.server.people.rights import Caller
from deniable.server.questions import Question
from deniable.server.service import Service
from deniable.server.stops import Stops

P = ParamSpec("P")
R = TypeVar("R")

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
SECURE_COOKIE, PLAIN_COOKIE = "__Host-deniable", "deniable"
"""A browser takes the first over TLS alone, and from no other host."""
CSRF = "X-CSRF-Token"


class Door:
    """What a route needs: the service, and threads in which it works while the event loop goes on."""

    def __init__(self, service: Service, executor: Executor) -> None:
        self.service = service
        self._executor = executor
        self.askings = Pendings(self.run)
        self.stops = Stops(service.state, self.run)
        settings = service.settings
        self.secure = settings.tls or settings.proxy
        self.cookie = SECURE_COOKIE if self.secure else PLAIN_COOKIE

    async def run(self, act: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._executor, partial(act, *args, **kwargs))

    async def ask(
        self,
        caller: Caller,
        name: str,
        question: Question,
        key: str | None = None,
        *,
        then: Callable[[Answer], R],
    ) -> R:
        """What `then` makes of the answer. The response's floor is waited for by the event loop, in no
        thread."""
        service = self.service

        def make() -> Pending:
            return service.asking(caller, service.curator(caller, name), name, question, key=key)

        return await self.askings.answer(make, then)

    def session(self, request: Request, csrf: str | None = None) -> str:
        """The session of a request. One that may change something must come from this site, by its Origin,
        and from whoever was told the session's CSRF token, in the header or, for a form, as `csrf`."""
        # Browsers keep a secure cookie on loopback without TLS too, and the console uses it; other clients do
        # not.
        secret = request.cookies.get(SECURE_COOKIE) or request.cookies.get(self.cookie)
        if not secret:
            raise NotLoggedIn(
                "Expected a login: a session, or a token as `Authorization: Bearer …`. Nothing was done."
            )
        if request.method in SAFE:
            return secret
        self.check_origin(request)
        token = csrf or request.headers.get(CSRF, "")
        if not hmac.compare_digest(token.encode(), self.service.roster.csrf(secret).encode()):
            raise Forbidden(
                "Expected the session's CSRF token, which the login and GET /v1/me tell, in the header "
                f"{CSRF}. Nothing was done."
            )
        return secret

    def check_origin(self, request: Request) -> None:
        if not self.own(request):
            raise Forbidden(
                "Expected a request from this site itself: its Origin is another, or is missing. Nothing was "
                "done."
            )

    def origin(self, request: Request) -> str:
        """Where this service is reached, as the one who asks sees it."""
        scheme = "https" if self.secure else "http"
        return self.service.settings.origin or f"{scheme}://{request.headers.get('host', '')}"

    def own(self, request: Request) -> bool:
        origin = request.headers.get("origin", "")
        own_origin = self.service.settings.origin
        if own_origin is not None:
            return origin == own_origin
        return bool(origin) and urlsplit(origin).netloc == request.headers.get("host")

    def give(self, response: Response, secret: str) -> None:
        """Hand out a session."""
        seconds = int(self.service.settings.session_hours * 3600)
        response.set_cookie(
            self.cookie, secret, max_age=seconds, secure=self.secure, httponly=True, samesite="strict"
        )

    def take(self, response: Response) -> None:
        response.delete_cookie(self.cookie, secure=self.secure, httponly=True, samesite="strict")

    async def caller(self, request: Request) -> Caller:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        roster = self.service.roster
        if kind.lower() == "bearer" and self.service.state.sqlite:
            return roster.token(token.strip())  # one read of a local file: a thread would cost more
        if kind.lower() == "bearer":
            return await self.run(roster.token, token.strip())
        return await self.run(roster.session, self.session(request))


def door_of(request: Request) -> Door:
    door: Door = request.app.state.door
    return door


async def caller_of(request: Request) -> Caller:
    return await door_of(request).caller(request)


AtDoor = Annotated[Door, Depends(door_of)]
Who = Annotated[Caller, Depends(caller_of)]


def address(request: Request) -> str:
    """Where a request comes from, for counting how often."""
    if request.client:
        return request.client.host
    return ""
