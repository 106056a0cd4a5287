"""Listening: TLS first, then the login; and requests to cancel, which come by connections of their own.

Until somebody has logged in, a connection has a place in the waiting room and `LOGIN_SECONDS` in all. After
that it has one of `MOST_CONNECTIONS`, of which one person has a part.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from collections import Counter
from contextlib import suppress

from deniable.errors import TooMany
from deniable.server.http.door import Door
from deniable.server.http.guard import locate_error
from deniable.server.traffic.addresses import TrustedProxies
from deniable.server.traffic.protocol import known_address
from deniable.server.traffic.waiting import WaitingRoom
from deniable.server.wire.catalog import Catalogs
from deniable.server.wire.connection import Connection, cancel_key
from deniable.server.wire.messages import message, report, text

SSL, GSS, CANCEL = 80877103, 80877104, 80877102
VERSION = 3
MOST_STARTUP = 10_000
MOST_CONNECTIONS = 500
MOST_OF_PERSON = 100
LOGIN_SECONDS = 20.0
ACCEPTED_AT_ONCE = 32
"""Connections that one callback of the event loop accepts at most."""
NOBODY = TrustedProxies(())
"""The wire has no proxies: it does not speak the PROXY protocol, so a TCP proxy in front is one address."""
log = logging.getLogger("deniable.server")


class Wire:
    """The door that speaks PostgreSQL's protocol."""

    def __init__(self, door: Door, context: ssl.SSLContext | None) -> None:
        self._door = door
        self._context = context
        self._catalogs = Catalogs()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = WaitingRoom()
        self._people: Counter[str] = Counter()

    async def listen(self, listener: socket.socket) -> None:
        self._server = await asyncio.start_server(self._accept, sock=listener, backlog=ACCEPTED_AT_ONCE)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        transport = writer.transport
        self._room.enter(transport, known_address(transport, NOBODY))
        try:
            await self._serve(reader, writer)
        except (
            asyncio.IncompleteReadError,
            ConnectionError,
            TimeoutError,
            ssl.SSLError,
            asyncio.CancelledError,
        ):
            pass
        except Exception as error:  # a bug: where it is goes to the log, and the others are served on
            log.error("%s", locate_error(error))
        finally:
            self._tasks.discard(task)
            self._room.leave(transport)
            with suppress(Exception):
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        transport = writer.transport
        connection = Connection(self._door, self._catalogs, reader, writer)
        async with asyncio.timeout(LOGIN_SECONDS):
            parameters = await self._start(reader, writer)
            if parameters is None:
                return
            person = await connection.log_in(parameters)
            if person is None or not await self._seat(connection, person):
                return
        # From here on a place is the person's, of whom it is known who she is, and no longer the address's.
        self._room.leave(transport)
        self._people[person] += 1
        try:
            await connection.serve()
        finally:
            self._people[person] -= 1

    async def _seat(self, connection: Connection, person: str) -> bool:
        """Whether there is still a place for a connection of this person's; it is told."""
        sentence = ""
        if self._people[person] >= MOST_OF_PERSON:
            sentence = f"You have {MOST_OF_PERSON} connections already. Nothing was done. Close one of them."
        elif self._people.total() >= MOST_CONNECTIONS:
            sentence = f"There are {MOST_CONNECTIONS} connections already. Nothing was done. Try again later."
        if sentence:
            await connection.refuse(TooMany(sentence))
        return not sentence

    async def _start(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> dict[str, str] | None:
        """The first messages: encryption, a wish to cancel, or who wants in."""
        has_tls = False
        for _ in range(4):
            size, code = struct.unpack("!ii", await reader.readexactly(8))
            # Nobody is logged in yet: a size is believed only as far as it costs nothing.
            if not 8 <= size <= MOST_STARTUP:
                return None
            body = await reader.readexactly(size - 8)
            if code == SSL and self._context is not None and not has_tls:
                if _waiting(reader):
                    return None
                writer.write(b"S")
                await writer.drain()
                await writer.start_tls(self._context)
                has_tls = True
            # "N": not here. The client goes on in the clear, or leaves, as it was told to.
            elif code in (SSL, GSS):
                writer.write(b"N")
                await writer.drain()
            # A wish to cancel comes by a connection of its own, and never gets an answer.
            elif code == CANCEL:
                await self._cancel(body, writer)
                return None
            elif code >> 16 != VERSION:
                writer.write(report(b"E", "FATAL", "0A000", "Expected version 3 of the protocol."))
                return None
            # With a certificate at hand a token is never read from a connection in the clear.
            elif self._context is not None and not has_tls:
                writer.write(
                    report(
                        b"E", "FATAL", "28000", "Expected TLS: connect with sslmode=require or verify-full."
                    )
                )
                return None
            else:
                return _startup(body, code, writer)
        return None

    async def _cancel(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        """A wish that means no query of this process is passed on to the others, if there are any, and
        counts: anybody may send one, and each is written down."""
        if len(body) != 8:
            return
        key, service = cancel_key(*struct.unpack("!ii", body)), self._door.service
        if not self._door.stops.watches(key):
            if service.settings.workers == 1:
                return
            with suppress(TooMany):
                service.throttle.hit("refusals", f"address {known_address(writer.transport, NOBODY)}")
                await self._door.stops.wish(key)
            return
        await self._door.stops.wish(key)


def _waiting(reader: asyncio.StreamReader) -> bool:
    """Whether bytes came in the clear after the wish for TLS: somebody between would
    have them taken for the client's own."""
    return bool(getattr(reader, "_buffer", b""))


def _startup(body: bytes, code: int, writer: asyncio.StreamWriter) -> dict[str, str]:
    parts = [part.decode(errors="replace") for part in body.split(b"\0")]
    parameters = dict(zip(parts[::2], parts[1::2], strict=False))
    unknown = [name for name in parameters if name.startswith("_pq_.")]
    if code & 0xFFFF or unknown:  # a later minor version: say which one is spoken here
        names = b"".join(text(name) for name in unknown)
        writer.write(message(b"v", struct.pack("!ii", VERSION << 16, len(unknown)) + names))
    return parameters
