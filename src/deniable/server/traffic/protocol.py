"""HTTP on one connection, within bounds: of time, of size, and of how much one callback may read.

The parser is `h11`, the server uvicorn. What is added here is what a hostile client would use: a head of
thousands of lines and a body of thousands of tiny chunks take long to read, a client that sends or reads one
byte now and then holds its place, and a TLS handshake that never ends is a connection that nobody counts.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from deniable.server.traffic.addresses import TrustedProxies, host_of
from deniable.server.traffic.waiting import WaitingRoom

HEAD_SECONDS = 20.0
"""From the connection, or the last answer, to the end of the next head."""
READ_SECONDS = 60.0
"""How long an answer may lie unread."""
MOST_HEAD = 16 * 1024
MOST_LINES = 100
"""Of a head: `h11` needs some 10 µs for each."""
END_OF_HEAD = re.compile(rb"\n\r?\n")


class BoundedParser(h11.Connection):
    """Refuses heads of many lines, and bodies in chunks: their length is not told, and each chunk costs."""

    def next_event(self) -> Any:
        if self.their_state is h11.IDLE:
            head = END_OF_HEAD.split(self.trailing_data[0], 1)[0]
            if head.count(b"\n") > MOST_LINES:
                raise h11.RemoteProtocolError(f"Expected a head of at most {MOST_LINES} lines.")
        event = super().next_event()
        if isinstance(event, h11.Request) and any(name == b"transfer-encoding" for name, _ in event.headers):
            raise h11.RemoteProtocolError("Expected a body with a Content-Length.")
        return event


class BoundedHttp(H11Protocol):
    """One connection, which is in the waiting room whenever it has no request under way."""

    def __init__(self, room: WaitingRoom, proxies: TrustedProxies, **options: Any) -> None:
        super().__init__(**options)
        self.conn = BoundedParser(h11.SERVER, MOST_HEAD)
        self._room = room
        self._proxies = proxies
        self._address: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = known_address(transport, self._proxies)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._serve()
        if self._read_timer is not None:
            self._read_timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def _watch(self, last_size: int | None = None) -> None:
        """End the connection if nothing of its answer was read since the last look."""
        left = self.transport.get_write_buffer_size()
        self._read_timer = None
        if left and last_size is not None and left >= last_size:
            self.transport.abort()
        elif left:
            self._read_timer = self.loop.call_later(READ_SECONDS, self._watch, left)

    def _look(self) -> None:
        """Wait while there is no request, and no longer than that."""
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self._serve()
        elif self._timer is None:
            self._wait()

    def _wait(self) -> None:
        self._room.enter(self.transport, self._address)
        self._timer = self.loop.call_later(HEAD_SECONDS, self._time_out)

    def _serve(self) -> None:
        self._room.leave(self.transport)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self.transport.get_write_buffer_size():  # the answer is still on its way
            if self._read_timer is None:
                self._watch()
            self._timer = self.loop.call_later(HEAD_SECONDS, self._time_out)
        else:
            self._room.leave(self.transport)
            self.transport.close()


class TlsFirst(asyncio.Protocol):
    """The handshake of TLS, before HTTP: it has a place in the waiting room and an end, as everything has."""

    def __init__(
        self,
        context: ssl.SSLContext,
        room: WaitingRoom,
        proxies: TrustedProxies,
        make: Callable[[], asyncio.Protocol],
    ) -> None:
        self._context = context
        self._room = room
        self._proxies = proxies
        self._make = make
        self._task: asyncio.Task[None] | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()  # the client's first bytes are the handshake's
        self._room.enter(transport, known_address(transport, self._proxies))
        self._task = asyncio.get_running_loop().create_task(self._shake_hands(transport))

    def data_received(self, data: bytes) -> None:
        """A client may send its request with the last part of the handshake."""
        self._early.append(data)

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        try:
            secure = await asyncio.get_running_loop().start_tls(
                transport, self, self._context, server_side=True, ssl_handshake_timeout=HEAD_SECONDS
            )
        except (
            OSError
        ):  # it was no handshake, or took too long; `SSLError` and `TimeoutError` are of this kind
            transport.abort()
        else:
            if secure is not None and not secure.is_closing():
                self._hand_over(secure)
        finally:
            self._room.leave(transport)

    def _hand_over(self, secure: asyncio.Transport) -> None:
        protocol = self._make()
        secure.set_protocol(protocol)
        protocol.connection_made(secure)
        if self._early:
            protocol.data_received(b"".join(self._early))


def known_address(transport: asyncio.BaseTransport, proxies: TrustedProxies) -> str | None:
    """The address that a connection counts for; None for a trusted proxy, which brings everybody."""
    peer = transport.get_extra_info("peername")
    if not peer:
        return ""
    if proxies.trusts(str(peer[0])):
        return None
    return host_of(str(peer[0]))
