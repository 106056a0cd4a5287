"""Who is at the door: a token in the header, or a session in a cookie that other sites cannot use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Annotated, ParamSpec, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends, Request

from deniable.errors import Forbidden, NotLoggedIn
from deniable.server.people.rights import Caller
from deniable.server.service import Service

P = ParamSpec("P")
R = TypeVar("R")

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
SECURE_COOKIE, PLAIN_COOKIE = "__Host-deniable", "deniable"


class Door:
    """What a route needs: the service, and threads in which it works while the event loop goes on."""

    def __init__(self, service: Service, executor: Executor) -> None:
        self.service = service
        self._executor = executor
        settings = service.settings
        self.secure = settings.tls or settings.proxy
        self.cookie = SECURE_COOKIE if self.secure else PLAIN_COOKIE

    async def run(self, act: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._executor, partial(act, *args, **kwargs))

    def session(self, request: Request) -> str:
        """The session of a request that may change something: it must come from this site."""
        secret = request.cookies.get(self.cookie)
        if not secret:
            raise NotLoggedIn(
                "Expected a login: a session, or a token as `Authorization: Bearer …`. Nothing was done."
            )
        if request.method not in SAFE and not self._own(request):
            raise Forbidden(
                "Expected a request from this site itself: its Origin is another, or is missing. Nothing was "
                "done."
            )
        return secret

    def _own(self, request: Request) -> bool:
        origin = request.headers.get("origin", "")
        wanted = self.service.settings.origin
        if wanted is not None:
            return origin == wanted
        return bool(origin) and urlsplit(origin).netloc == request.headers.get("host")

    async def caller(self, request: Request) -> Caller:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        roster = self.service.roster
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
