"""Around every request: its size and time are bounded, its answer carries safe headers, and a bug shows
nothing of what it held.

The request is read here, in the event loop, as bytes. Then all of it runs in threads, from the first look at
its path to the last byte of its answer, within the share of whoever sent it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from fastapi import Request

from deniable._version import VERSION
from deniable.errors import TooMany
from deniable.server.traffic.addresses import host_of
from deniable.server.traffic.seats import working_for

if TYPE_CHECKING:
    from deniable.server.http.door import Door

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]

MOST_BYTES = 1 << 20
MOST_HELD = 64 << 20
"""Bytes of all bodies that are on their way at a time."""
MOST_STRUCTURE = 64 * 1024
"""Characters of a JSON body outside its texts: each may become an object, of many times the size."""
MOST_SECONDS = 20.0
RETRY = (b"retry-after", b"10")
JSON = (b"content-type", b"application/json")
CLOSE = (b"connection", b"close")
TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
HEALTH = json.dumps({"ok": True, "version": VERSION}).encode()
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


class Refusal(Exception):
    """A request that is not begun: its status, and the sentence."""

    def __init__(self, status: int, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.body = json.dumps({"error": kind, "message": sentence}, ensure_ascii=False).encode()


class Guard:
    """The outermost part of the HTTP door."""

    def __init__(self, app: App, door: Door) -> None:
        self._app = app
        self._door = door
        self._proxies = door.service.settings.proxies
        self._body_bytes = 0
        self._headers: Headers = HEADERS
        if door.secure:
            self._headers += ((b"strict-transport-security", b"max-age=31536000"),)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = Exchange(send, self._headers)
        if scope["path"] == "/v1/health" and scope["method"] in ("GET", "HEAD"):
            await exchange.reply(200, HEALTH)
            return
        try:
            await self._serve(scope, receive, exchange)
        except Refusal as refusal:
            await exchange.reply(refusal.status, refusal.body, CLOSE)
        except Exception as error:  # a bug: where it is goes to the log, and nothing of it to the client
            log.error("%s", locate_error(error))
            await exchange.end()

    async def _serve(self, scope: Scope, receive: Receive, exchange: Exchange) -> None:
        request = Request(scope)
        self._name_client(request)
        owner = self._door.known_owner(request)
        with ExitStack() as stack:
            if owner is None:
                with working_for(f"login {host_of(str(scope['client'][0]))}"):
                    owner = await self._door.drive(self._door.owner(request))
            self._begin(stack, owner)
            body = await self._read(stack, receive)
            answer = await self._answer(scope, owner, body)
        for message in answer.messages:
            await exchange.send(message)

    async def _answer(self, scope: Scope, owner: str, body: bytes) -> CollectedAnswer:
        """The answer. What is refused counts, and more than that is not begun."""
        answer = CollectedAnswer()
        try:
            with self._door.service.throttle.text(owner, len(body)):
                await self._door.drive(self._run(scope, body, answer))
                if answer.refuses:
                    raise CountedRefusal
        except CountedRefusal:
            pass
        except TooMany as error:
            raise Refusal(429, "TooMany", str(error)) from None
        return answer

    def _begin(self, stack: ExitStack, owner: str) -> None:
        try:
            stack.enter_context(self._door.seats.request(owner))
        except TooMany as error:
            raise Refusal(429, "TooMany", str(error)) from None

    def _name_client(self, request: Request) -> None:
        """Name as client of the request whoever is behind the proxies that are trusted."""
        peer = request.client.host if request.client else ""
        addresses = ",".join(request.headers.getlist("x-forwarded-for"))
        client = self._proxies.client(peer, addresses)
        request.scope["client"] = (client, 0)
        if client != peer and request.headers.get("x-forwarded-proto") == "https":
            request.scope["scheme"] = "https"

    async def _read(self, stack: ExitStack, receive: Receive) -> bytes:
        """All of the body, or the end where it is too long or too slow."""
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(MOST_SECONDS):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Refusal(400, "HTTP", "The request was not sent to its end. Nothing was done.")
                    part = message.get("body", b"")
                    self._hold(stack, len(part))
                    parts.append(part)
                    size += len(part)
                    more = message.get("more_body", False)
                    if size > MOST_BYTES:
                        sentence = f"Expected a body of at most {MOST_BYTES:,} bytes. Nothing was done."
                        raise Refusal(413, "HTTP", sentence)
        except TimeoutError:
            raise Refusal(
                408, "HTTP", f"Expected the body within {MOST_SECONDS:g} seconds. Nothing was done."
            ) from None
        return b"".join(parts)

    def _hold(self, stack: ExitStack, size: int) -> None:
        self._body_bytes += size
        stack.callback(self._let_go, size)
        if self._body_bytes > MOST_HELD:
            raise Refusal(
                503, "TooMany", "Too much is being sent at this moment. Nothing was done. Send it again."
            )

    def _let_go(self, size: int) -> None:
        self._body_bytes -= size

    async def _run(self, scope: Scope, body: bytes, answer: CollectedAnswer) -> None:
        """All of the request, in threads."""
        if len(body) > MOST_STRUCTURE and len(TEXTS.sub(b"", body)) > MOST_STRUCTURE and is_json(scope):
            sentence = f"Expected at most {MOST_STRUCTURE:,} characters outside the texts of the body."
            raise Refusal(413, "HTTP", f"{sentence} Nothing was done.")

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        try:
            await self._app(scope, receive, answer.take)
        except Exception as error:  # a bug: where it is goes to the log, and nothing of it to the client
            if not answer.messages:
                raise
            log.error("%s", locate_error(error))


def is_json(scope: Scope) -> bool:
    """Whether the body is read as JSON: a form is bounded by the number of its fields."""
    kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    return not kind.startswith(b"application/x-www-form-urlencoded")


class CountedRefusal(Exception):
    """Raised and caught around the count of refusals."""


class CollectedAnswer:
    """The messages of an answer, until all of them are there."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def take(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def refuses(self) -> bool:
        """Whether it refuses what was sent, for a reason that lies with whoever sent it."""
        status = next((message["status"] for message in self.messages if "status" in message), 500)
        return 400 <= status < 500 and status != 429


class Exchange:
    """The answer to one request, on its way out."""

    def __init__(self, send: Send, headers: Headers) -> None:
        self._send = send
        self._headers = headers
        self._has_started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._has_started = True
            ours = self._headers
            if message["status"] in (429, 503):
                ours = (*ours, RETRY)
            own = list(message.get("headers", []))
            header_names = {name.lower() for name, _ in own}
            message = {**message, "headers": [*own, *(pair for pair in ours if pair[0] not in header_names)]}
        await self._send(message)

    async def reply(self, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        """A whole answer."""
        length = (b"content-length", str(len(body)).encode())
        await self.send(
            {"type": "http.response.start", "status": status, "headers": [JSON, length, *headers]}
        )
        await self.send({"type": "http.response.body", "body": body})

    async def end(self) -> None:
        """Where nothing was said yet, say that it failed."""
        if not self._has_started:
            await self.reply(500, b"")


def locate_error(error: BaseException) -> str:
    """The type of an error and where it was raised: never its text, which may hold what nobody should read.

    >>> try:
    ...     int("a secret")
    ... except ValueError as error:
    ...     "secret" in locate_error(error), locate_error(error).startswith("ValueError")
    (False, True)
    """
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places}"
