"""A device behind a socket on its own machine: whatever carries messages hands bytes in
there and gets bytes back.

Keys, rows and the state of a round stay in the device's process. What carries messages
may come and go (Flower starts a new process for every message), and sees only what
travels anyway. A message and a reply are a length of eight bytes and that many bytes; an
empty message asks for the device's number, an empty reply is silence.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

from deniable.errors import DeniableError, InvalidParameter, ProtocolError
from deniable.federated.devices.transport import Handler

LENGTH = struct.Struct(">Q")
LONGEST = 1 << 32
"""No message is longer; a length beyond it is a lie."""
NUMBER = struct.Struct(">Q")
PATIENCE = 60.0
"""Seconds that a peer may be silent in the middle of a message."""


class Relay:
    """Answers at the Unix socket `path` for one device; only the user who runs it may connect."""

    def __init__(self, handler: Handler, number: int, path: str | Path) -> None:
        self._handler, self._number = handler, NUMBER.pack(number)
        self._path = Path(path)
        if _is_left_behind(self._path):
            self._path.unlink()
        if self._path.exists():
            raise InvalidParameter(
                f"Expected a free name for the socket, but {self._path} exists. Nothing was opened."
            )
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)  # from the first moment on nobody else may connect
        try:
            self._socket.bind(str(self._path))
        finally:
            os.umask(before)
        self._socket.listen()

    def serve(self) -> None:
        """Answer one message after another, until `close`."""
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            with peer, suppress(OSError, ProtocolError):
                peer.settimeout(PATIENCE)
                _send(peer, self._reply(_receive(peer)))

    def _reply(self, message: bytes) -> bytes:
        if not message:
            return self._number
        try:
            return self._handler(message)
        except DeniableError:
            return b""

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._path.unlink(missing_ok=True)


def ask(path: str | Path, message: bytes, *, timeout: float = PATIENCE) -> bytes:
    """The device's reply; empty if it stays silent, is gone, or answers too late."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(timeout)
        try:
            peer.connect(str(path))
            _send(peer, message)
            return _receive(peer)
        except (OSError, ProtocolError):
            return b""


def _is_left_behind(path: Path) -> bool:
    """Whether this is the socket of a device that was killed: nobody listens there."""
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
    return False


def number_of(reply: bytes) -> int | None:
    """The number in the reply to an empty message."""
    if len(reply) != NUMBER.size:
        return None
    (number,) = NUMBER.unpack(reply)
    return int(number)


def _send(peer: socket.socket, content: bytes) -> None:
    peer.sendall(LENGTH.pack(len(content)) + content)


def _receive(peer: socket.socket) -> bytes:
    (length,) = LENGTH.unpack(_read_exactly(peer, LENGTH.size))
    if length > LONGEST:
        raise ProtocolError("Expected a shorter message. Nothing was read.")
    return _read_exactly(peer, length)


def _read_exactly(peer: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = peer.recv(min(1 << 20, count - len(parts)))
        if not part:
            raise ProtocolError("Expected a longer message: this one was cut off.")
        parts += part
    return bytes(parts)
