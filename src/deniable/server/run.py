"""Run a service: its doors in one event loop, the work in threads."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import uvicorn

from deniable.errors import DeniableError, LedgerError
from deniable.server.http.app import add_guard, api
from deniable.server.http.door import Door
from deniable.server.service import Service
from deniable.server.settings import Address, Settings
from deniable.server.traffic.protocol import BoundedHttp, TlsFirst
from deniable.server.traffic.waiting import WaitingRoom
from deniable.server.wire.server import Wire

MOST_CONNECTIONS = 500
MARK_SECONDS = 10.0
ACCEPTED_AT_ONCE = 32
"""Connections that one callback of the event loop accepts at most."""
BACKLOG = 1024
"""Connections that the kernel holds until they are accepted."""


@dataclass(frozen=True)
class Listeners:
    """Where a service listens, before anybody is let in. Processes of one service share them."""

    http: socket.socket
    wire: socket.socket | None

    @classmethod
    def open(cls, settings: Settings) -> Listeners:
        http = _listening(settings.http)
        try:
            wire = None
            if settings.wire is not None:
                wire = _listening(settings.wire)
        except LedgerError:
            http.close()
            raise
        return cls(http, wire)

    def describe_addresses(self, settings: Settings) -> str:
        """The addresses, as they are told to people."""
        scheme = "https" if settings.tls else "http"
        wire = ""
        if self.wire is not None:
            wire = f", postgresql://{address(self.wire)}"
        return f"{scheme}://{address(self.http)}{wire}"

    def deepen(self) -> None:
        """Let the kernel hold more connections than asyncio is told of, which accepts that many at once."""
        for listener in (self.http, self.wire):
            if listener is not None:
                listener.listen(BACKLOG)

    def close(self) -> None:
        for listener in (self.http, self.wire):
            if listener is not None:
                listener.close()


def address(listener: socket.socket) -> Address:
    return Address(*listener.getsockname()[:2])


class Doors:
    """A service that listens. `http` and `wire` are where, once it is ready."""

    def __init__(self, service: Service, listeners: Listeners | None = None) -> None:
        self.service = service
        self.http: Address | None = None
        self.wire: Address | None = None
        self._listeners = listeners
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, ready: Callable[[Doors], None]) -> None:
        """Until `stop`. What is being asked then is finished first."""
        settings = self.service.settings
        self._stop, self._loop = asyncio.Event(), asyncio.get_running_loop()
        executor = ThreadPoolExecutor(settings.threads, thread_name_prefix="deniable")
        door = Door(self.service, executor)
        app = api(door)
        wire = Wire(door, tls_context(settings))
        listeners = self._listeners or Listeners.open(settings)
        beside = [asyncio.create_task(door.stops.serve()), asyncio.create_task(_mark_heads(door))]
        try:
            self.http = address(listeners.http)
            if listeners.wire is not None:
                await wire.listen(listeners.wire)
                self.wire = address(listeners.wire)
            web = uvicorn.Server(_config(settings, add_guard(app, door)))
            await self._web(web, listeners, ready)
        finally:
            await wire.close()
            await door.askings.close()
            await app.state.jobs.close()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await door.run(self.service.mark_head)
            listeners.close()
            executor.shutdown(wait=True, cancel_futures=True)

    async def _web(self, web: uvicorn.Server, listeners: Listeners, ready: Callable[[Doors], None]) -> None:
        assert self._stop is not None
        web.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        running = asyncio.create_task(web.serve(sockets=[listeners.http]))
        while not web.started and not running.done():
            await asyncio.sleep(0.01)
        listeners.deepen()
        ready(self)
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        web.should_exit = True
        await running
        stopping.cancel()

    @property
    def describe_addresses(self) -> str:
        scheme = "https" if self.service.settings.tls else "http"
        wire = ""
        if self.wire is not None:
            wire = f", postgresql://{self.wire}"
        return f"{scheme}://{self.http}{wire}"

    def stop(self) -> None:
        """Stop, from any thread."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)


async def _mark_heads(door: Door) -> None:
    while True:
        await asyncio.sleep(MARK_SECONDS)
        with suppress(DeniableError):  # the database is busy or away: the next mark will do
            await door.run(door.service.mark_head)


def _config(settings: Settings, app: object) -> uvicorn.Config:
    room, proxies, context = WaitingRoom(), settings.proxies, tls_context(settings)

    def speak(**options: Any) -> asyncio.Protocol:
        if context is None:
            return BoundedHttp(room, proxies, **options)
        return TlsFirst(context, room, proxies, lambda: BoundedHttp(room, proxies, **options))

    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_config=None,
        log_level=logging.ERROR,  # whoever sends nonsense shall not fill the log with it
        access_log=False,  # addresses of requests are nobody's business but the ledger's
        proxy_headers=False,
        server_header=False,
        lifespan="off",
        limit_concurrency=MOST_CONNECTIONS,
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=120,
        http=speak,  # type: ignore[arg-type]
        ws="none",
        loop="asyncio",
    )


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    if settings.certificate is None or settings.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.certificate, settings.key)
    return context


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only where a socket says that it is TCP: else an answer in two parts
    # waits 40 ms for the other side's acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise LedgerError(
            f"The address {address} cannot be listened on: {error.strerror}. Nothing was started."
        ) from None
    listener.listen(BACKLOG)
    return listener
