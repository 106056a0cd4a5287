"""Silent connections: each address has its places, the oldest goes first, and whoever means it is served, at both doors."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path

import httpx
import psycopg
import pytest

from deniable.server.traffic import protocol
from deniable.server.traffic.waiting import WaitingRoom
from deniable.server.wire import server as wire
from tests.server.hospital import COUNT, Hospital, hospital
from tests.server.test_wire import certificate


class FakeTransport(asyncio.Transport):
    """What a waiting room needs of a connection: that it can be ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = False

    def abort(self) -> None:
        self.ended = True


def test_the_oldest_of_an_address_goes_first_and_then_the_oldest_of_all() -> None:
    room = WaitingRoom(per_address=3, total=5)
    crowd = [FakeTransport() for _ in range(4)]
    for each in crowd:
        room.enter(each, "192.0.2.1")
    assert [each.ended for each in crowd] == [True, False, False, False]
    others = [FakeTransport() for _ in range(3)]
    for i, each in enumerate(others):
        room.enter(each, f"198.51.100.{i}")
    assert [each.ended for each in crowd] == [True, True, False, False]
    assert not any(each.ended for each in others)
    assert len(room) == 5
    room.leave(others[0])
    room.leave(others[0])
    proxied = [FakeTransport() for _ in range(3)]
    for each in proxied:
        room.enter(each, None)  # a trusted proxy has all places but no more
    assert not any(each.ended for each in proxied)
    assert len(room) == 5
    for each in (*crowd, *others, *proxied):
        room.leave(each)
    assert (len(room), room._rows) == (0, {})


def crowd_of(port: int, count: int, first: bytes = b"") -> list[socket.socket]:
    crowd = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), 60)
        connection.sendall(first)
        crowd.append(connection)
    return crowd


@pytest.mark.parametrize("first", [b"", struct.pack("!ii", 200, 196608), struct.pack("!ii", 8, 80877103)])
def test_silent_sockets_refuse_nobody_a_login(shared: Hospital, first: bytes) -> None:
    """505 of them, as they once did: silent from the start, within the first message, or after a wish for TLS."""
    port = int(shared.url.rpartition(":")[2])
    silent = crowd_of(shared.port, 505, first)
    web = crowd_of(port, 505, b"GET /v1/health HTTP/1.1\r\nX-Slow: " if first else b"")
    try:
        with psycopg.connect(shared.dsn(epsilon="0.1"), autocommit=True) as connection:
            assert connection.execute(COUNT.encode()).fetchall()
        assert httpx.get(f"{shared.url}/v1/health", trust_env=False).status_code == 200
        assert shared.ask("ada").status_code == 200
    finally:
        for each in (*silent, *web):
            each.close()


def test_a_login_that_is_not_finished_ends(shared: Hospital, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LOGIN_SECONDS", 0.2)
    body = b"user\0ada\0database\0visits\0\0"
    start = struct.pack("!ii", len(body) + 8, 196608) + body
    for first in (b"", start):
        (connection,) = crowd_of(shared.port, 1, first)
        with connection:
            while connection.recv(65536):  # until the service ends it
                pass


def test_one_person_has_a_part_of_the_connections(shared: Hospital, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_OF_PERSON", 2)
    with psycopg.connect(shared.dsn("ada")), psycopg.connect(shared.dsn("ada")):
        with pytest.raises(psycopg.OperationalError, match="You have 2 connections already"):
            psycopg.connect(shared.dsn("ada"))
        with psycopg.connect(shared.dsn("bob"), autocommit=True) as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_handshake_of_tls_has_a_place_and_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 2.0)
    cert, key = certificate(tmp_path)
    with hospital(tmp_path, rows=100, certificate=cert, key=key) as running:
        port = int(running.url.rpartition(":")[2])
        silent = crowd_of(port, 150, b"\x16\x03\x01")
        with running.client() as client:
            assert client.get("/v1/health").status_code == 200
        ended = 0
        for each in silent:
            try:
                ended += not each.recv(1)
            except ConnectionError:
                ended += 1
            each.close()
        assert ended == 150
        with socket.create_connection(("127.0.0.1", port), 60) as clear:
            clear.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" not in clear.recv(65536)
