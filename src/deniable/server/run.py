"""Run a service: its doors in one event loop, the work in threads."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import uvicorn

from deniable.errors import LedgerError
from deniable.server.http.app import guarded
from deniable.server.service import Service
from deniable.server.settings import Address, Settings
from deniable.server.wire.server import Wire

MOST_CONNECTIONS = 500


class Doors:
    """A service that listens. `http` and `wire` are where, once it is ready."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.http: Address | None = None
        self.wire: Address | None = None
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, ready: Callable[[Doors], None]) -> None:
        """Until `stop`. What is being asked then is finished first."""
        settings = self.service.settings
        self._stop, self._loop = asyncio.Event(), asyncio.get_running_loop()
        executor = ThreadPoolExecutor(settings.threads, thread_name_prefix="deniable")
        web = uvicorn.Server(_config(settings, guarded(self.service, executor)))
        web.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        listener = _listening(settings.http)
        self.http = Address(settings.http.host, listener.getsockname()[1])
        wire = Wire(self.service, executor, tls_context(settings))
        try:
            if settings.wire is not None:
                self.wire = await wire.listen(settings.wire)
            running = asyncio.create_task(web.serve(sockets=[listener]))
            while not web.started and not running.done():
                await asyncio.sleep(0.01)
            ready(self)
            stopping = asyncio.create_task(self._stop.wait())
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            web.should_exit = True
            await running
            stopping.cancel()
        finally:
            await wire.close()
            listener.close()
            executor.shutdown(wait=True, cancel_futures=True)

    @property
    def where(self) -> str:
        scheme = "https" if self.service.settings.tls else "http"
        wire = "" if self.wire is None else f", postgresql://{self.wire}"
        return f"{scheme}://{self.http}{wire}"

    def stop(self) -> None:
        """From any thread."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)


def _config(settings: Settings, app: object) -> uvicorn.Config:
    tls = settings.certificate if settings.tls else None
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        ssl_certfile=tls,
        ssl_keyfile=settings.key if tls else None,
        log_config=None,
        access_log=False,  # addresses of requests are nobody's business but the ledger's
        proxy_headers=settings.proxy,
        server_header=False,
        lifespan="off",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=120,
        h11_max_incomplete_event_size=64 * 1024,
        http="h11",
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
    listener = socket.socket(family, socket.SOCK_STREAM)
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
