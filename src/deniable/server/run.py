"""Run a service: its doors in one event loop, the work in threads."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from deniable.errors import DeniableError, LedgerError
from deniable.server.http.app import api, guarded
from deniable.server.http.door import Door
from deniable.server.service import Service
from deniable.server.settings import Address, Settings
from deniable.server.wire.server import Wire

MOST_CONNECTIONS = 500
MARK_SECONDS = 10.0
HEAD_SECONDS = 20.0


@dataclass(frozen=True)
class Listeners:
    """Where a service listens, before anybody is let in. Processes of one service share them."""

    http: socket.socket
    wire: socket.socket | None

    @classmethod
    def of(cls, settings: Settings) -> Listeners:
        http = _listening(settings.http)
        try:
            wire = None
            if settings.wire is not None:
                wire = _listening(settings.wire)
        except LedgerError:
            http.close()
            raise
        return cls(http, wire)

    def where(self, settings: Settings) -> str:
        """The addresses, as they are told to people."""
        scheme = "https" if settings.tls else "http"
        wire = ""
        if self.wire is not None:
            wire = f", postgresql://{address(self.wire)}"
        return f"{scheme}://{address(self.http)}{wire}"

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
        listeners = self._listeners or Listeners.of(settings)
        beside = [asyncio.create_task(door.stops.serve()), asyncio.create_task(_mark_heads(door))]
        try:
            self.http = address(listeners.http)
            if listeners.wire is not None:
                await wire.listen(listeners.wire)
                self.wire = address(listeners.wire)
            await self._web(uvicorn.Server(_config(settings, guarded(app, door))), listeners.http, ready)
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

    async def _web(
        self, web: uvicorn.Server, listener: socket.socket, ready: Callable[[Doors], None]
    ) -> None:
        assert self._stop is not None
        web.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        running = asyncio.create_task(web.serve(sockets=[listener]))
        while not web.started and not running.done():
            await asyncio.sleep(0.01)
        ready(self)
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        web.should_exit = True
        await running
        stopping.cancel()

    @property
    def where(self) -> str:
        scheme = "https" if self.service.settings.tls else "http"
        wire = ""
        if self.wire is not None:
            wire = f", postgresql://{self.wire}"
        return f"{scheme}://{self.http}{wire}"

    def stop(self) -> None:
        """From any thread."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)


async def _mark_heads(door: Door) -> None:
    while True:
        await asyncio.sleep(MARK_SECONDS)
        with suppress(DeniableError):  # the database is busy or away: the next mark will do
            await door.run(door.service.mark_head)


class Impatient(H11Protocol):
    """Ends a connection whose request does not say within `HEAD_SECONDS` what it wants: a client that sends
    one byte now and then would hold its place for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = self.loop.call_later(HEAD_SECONDS, self._late)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._disarm()
        elif self._timer is None and self.conn.trailing_data[0]:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


def _config(settings: Settings, app: object) -> uvicorn.Config:
    certificate = key = None
    if settings.tls:
        certificate, key = settings.certificate, settings.key
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_config=None,
        access_log=False,  # addresses of requests are nobody's business but the ledger's
        proxy_headers=settings.proxy,
        server_header=False,
        lifespan="off",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=120,
        h11_max_incomplete_event_size=64 * 1024,
        http=Impatient,
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
    listener.listen(256)
    return listener
