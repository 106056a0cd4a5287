"""Around every request: its size and time are bounded, its answer carries safe headers, and a bug shows
nothing of what it held."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES = 1 << 20
MOST_SECONDS = 20.0
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
log = logging.getLogger("deniable.server")


class Guard:
    """The outermost part of the HTTP door."""

    def __init__(self, app: App, *, hsts: bool) -> None:
        self._app = app
        self._headers: tuple[tuple[bytes, bytes], ...] = HEADERS
        if hsts:
            self._headers += ((b"strict-transport-security", b"max-age=31536000"),)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(receive, send, self._headers)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception as error:
            log.error("%s", where(error))
            await exchange.end()


class Exchange:
    """One request and its answer."""

    def __init__(self, receive: Receive, send: Send, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        self._receive = receive
        self._send = send
        self._headers = headers
        self._bytes = 0
        self._whole = False
        self._started = False
        self._deadline = asyncio.get_running_loop().time() + MOST_SECONDS

    async def receive(self) -> Message:
        """The next part of the body; the end of the connection where it is too long or too slow."""
        if self._whole:
            return await self._receive()
        left = self._deadline - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(self._receive(), max(left, 0.01))
        except TimeoutError:
            return self._given_up()
        self._bytes += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._bytes > MOST_BYTES:
            return self._given_up()
        return message

    def _given_up(self) -> Message:
        """What is still to come of the body is not read: the connection ends with the answer."""
        self._headers = (*self._headers, (b"connection", b"close"))
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            own = list(message.get("headers", []))
            header_names = {name.lower() for name, _ in own}
            ours = [pair for pair in self._headers if pair[0] not in header_names]
            message = {**message, "headers": [*own, *ours]}
        await self._send(message)

    async def end(self) -> None:
        """Where nothing was said yet, say that it failed."""
        if not self._started:
            await self.send({"type": "http.response.start", "status": 500, "headers": []})
            await self.send({"type": "http.response.body", "body": b""})


def where(error: BaseException) -> str:
    """The type of an error and where it was raised: never its text, which may hold what nobody should read.

    >>> try:
    ...     int("a secret")
    ... except ValueError as error:
    ...     "secret" in where(error), where(error).startswith("ValueError")
    (False, True)
    """
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places}"
