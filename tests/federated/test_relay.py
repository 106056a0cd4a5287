"""A device behind a socket: bytes in, bytes out, silence for what it refuses, and nobody else may connect."""

from __future__ import annotations

import socket
import stat
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.errors import InvalidParameter, ProtocolError
from deniable.federated.devices.relay import Relay, ask, number_of


def handle(message: bytes) -> bytes:
    if message == b"refused":
        raise ProtocolError("No.")
    return message[::-1]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    relay = Relay(handle, 7, tmp_path / "device.sock")
    thread = threading.Thread(target=relay.serve)
    thread.start()
    yield tmp_path / "device.sock"
    relay.close()
    thread.join(timeout=600)
    assert not thread.is_alive()


def test_messages_of_any_length_come_back_answered(path: Path) -> None:
    for message in (b"a", b"\0" * 9, bytes(range(256)) * 20_000):
        assert ask(path, message) == message[::-1]
    assert number_of(ask(path, b"")) == 7


def test_what_the_device_refuses_is_silence_and_it_goes_on(path: Path) -> None:
    assert ask(path, b"refused") == b""
    assert ask(path, b"ab") == b"ba"


def test_nobody_else_may_connect(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize("text", [b"", b"\0\0\0", struct.pack(">Q", 1 << 60), struct.pack(">Q", 10) + b"cut"])
def test_a_broken_message_does_not_stop_it(path: Path, text: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(path))
        peer.sendall(text)
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(1) == b""
    assert ask(path, b"ab") == b"ba"


def test_a_device_that_is_gone_is_silent_and_a_taken_name_is_refused(path: Path, tmp_path: Path) -> None:
    assert ask(tmp_path / "nobody.sock", b"x") == b""
    assert number_of(b"short") is None
    with pytest.raises(InvalidParameter, match="exists"):
        Relay(handle, 1, path)


def test_the_socket_of_a_killed_device_is_taken_over(tmp_path: Path) -> None:
    left = tmp_path / "device.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(left))
    relay = Relay(handle, 1, left)
    relay.close()
    assert not left.exists()
    left.write_text("a file", encoding="ascii")
    with pytest.raises(InvalidParameter, match="exists"):
        Relay(handle, 1, left)
