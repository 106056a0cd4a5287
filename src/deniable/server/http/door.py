"""Who is at the door: a token in the header, or a session in a cookie that other sites cannot use."""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import Annotated, Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends, Request, Response

from deniable.curator import Answer
from deniable.curator.question import Question
from deniable.errors import DeniableError, Forbidden, NotLoggedIn
from deniable.server.asking import Pending, Pendings
from deniable.server.people.rights import Caller
from deniable.server.people.secrets import digest
from deniable.server.service import Service
from deniable.server.stops import Stops
from deniable.server.traffic import steps
from deniable.server.traffic.addresses import host_of
from deniable.server.traffic.seats import Seats, seat_owner

P = ParamSpec("P")
R = TypeVar("R")

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
SECURE_COOKIE, PLAIN_COOKIE = "__Host-deniable", "deniable"
"""A browser takes the first over TLS alone, and from no other host."""
CSRF = "X-CSRF-Token"
MOST_KNOWN = 10_000
"""Logins whose person is remembered, for the share of threads alone: what they may do is looked up anew."""


class Door:
    """What a route needs: the service, and threads in which it works while the event loop goes on.

    A route is a coroutine that is driven in threads (`drive`); `run` then calls what it is given right there.
    """

    def __init__(self, service: Service, executor: Executor) -> None:
        self.service = service
        self._executor = executor
        self.seats = Seats(service.settings.threads)
        self._owners: OrderedDict[str, str] = OrderedDict()
        self.askings = Pendings(self.run)
        self.stops = Stops(service.state, self.run)
        settings = service.settings
        self.secure = settings.tls or settings.proxy
        self.cookie = SECURE_COOKIE if self.secure else PLAIN_COOKIE

    async def run(self, act: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it in a thread, within the share of whoever's request it is."""
        if not steps.in_loop():
            return act(*args, **kwargs)
        owner, loop = seat_owner.get(), asyncio.get_running_loop()
        if not owner:
            return await loop.run_in_executor(self._executor, partial(act, *args, **kwargs))
        await self.seats.take(owner)
        try:
            return await loop.run_in_executor(self._executor, partial(act, *args, **kwargs))
        finally:
            self.seats.give(owner)

    async def drive(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in threads; what it waits for, the event loop awaits."""
        return await steps.drive(self.run, coroutine)

    async def ask(
        self,
        caller: Caller,
        name: str,
        question: Question,
        key: str | None = None,
        *,
        finish: Callable[[Answer], R],
    ) -> R:
        """What `finish` makes of the answer. The response's floor is waited for by the event loop, in no
        thread."""
        service = self.service

        def make() -> Pending:
            return service.asking(caller, service.curator(caller, name), name, question, key=key)

        return await steps.on_loop(lambda: self.askings.answer(make, finish))

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
        if not self.is_own_origin(request):
            raise Forbidden(
                "Expected a request from this site itself: its Origin is another, or is missing. Nothing was "
                "done."
            )

    def origin(self, request: Request) -> str:
        """Where this service is reached, as the one who asks sees it."""
        scheme = "https" if self.secure else "http"
        return self.service.settings.origin or f"{scheme}://{request.headers.get('host', '')}"

    def is_own_origin(self, request: Request) -> bool:
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
        if kind.lower() == "bearer":
            return roster.token(token.strip())
        return roster.session(self.session(request))

    def known_owner(self, request: Request) -> str | None:
        """Whose seats a request has, as far as that is known without looking: those of its address where it
        brings no login, and None where it brings one that was not seen yet."""
        login = self._login(request)
        if login is None:
            return f"address {host_of(address(request))}"
        return self._owners.get(digest(login))

    async def owner(self, request: Request) -> str:
        """Whose seats a request has: those of the person whose login it brings, or of its address."""
        login, roster = self._login(request), self.service.roster
        owner = f"address {host_of(address(request))}"
        if login is None:
            return owner
        try:
            caller = roster.token(login) if login.startswith("dnb_") else roster.session(login)
        except DeniableError:
            return owner
        owner = f"person {caller.name}"
        self._owners[digest(login)] = owner
        if len(self._owners) > MOST_KNOWN:
            self._owners.popitem(last=False)
        return owner

    def _login(self, request: Request) -> str | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return token.strip() or None
        return request.cookies.get(SECURE_COOKIE) or request.cookies.get(self.cookie)


async def door_of(request: Request) -> Door:
    door: Door = request.app.state.door
    return door


async def caller_of(request: Request) -> Caller:
    return await (await door_of(request)).caller(request)


AtDoor = Annotated[Door, Depends(door_of)]
Who = Annotated[Caller, Depends(caller_of)]


def address(request: Request) -> str:
    """Where a request comes from, for counting how often."""
    if request.client:
        return request.client.host
    return ""
