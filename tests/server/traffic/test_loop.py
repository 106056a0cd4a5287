"""The event loop of a real service does nothing but I/O: none of its callbacks uses more than 5 ms of its thread's CPU
time, whatever ordinary and hostile clients send."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import psycopg
import pytest

from tests.server.hospital import COUNT, PASSWORD, SCHEMA, UNIT, Hospital
from tests.server.traffic.loop_times import MOST_SECONDS, LoopTimes, measured

LONG = "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(f"age = {i % 100} + nothing" for i in range(800))
DEEP = "SELECT " + "(" * 900 + "age" + ")" * 900 + " FROM visits"
MANY = "SELECT 1;" * 90 + ";" * 60_000
CATALOG = "SELECT c.relname, a.attname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid"


def connect(running: Hospital) -> psycopg.Connection[Any]:
    return psycopg.connect(running.dsn(epsilon="0.1"), autocommit=True)


def ordinary_wire(running: Hospital) -> None:
    with connect(running) as connection:
        connection.execute(COUNT.encode())
        connection.execute("SELECT COUNT(*) AS n FROM visits WHERE age > %s AND sex = %s", (30, "F"))
        connection.execute(CATALOG).fetchall()
        connection.execute("EXPLAIN SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").fetchall()
        connection.execute("SELECT days, COUNT(*) AS n FROM visits GROUP BY days ORDER BY days").fetchall()
        with connection.cursor().copy(
            "COPY (SELECT sex, COUNT(*) AS n FROM visits WHERE age > 44 GROUP BY sex) TO STDOUT"
        ) as copy:
            list(copy)


def hostile_wire(running: Hospital) -> None:
    with connect(running) as connection:
        for text in (
            LONG,
            DEEP,
            MANY,
            "SELECT '" + "a" * 65_000,
            "x " * 32_000,
            "SELECT " + "a." * 30_000 + "b",
        ):
            with suppress(psycopg.Error):
                connection.execute(text.encode())
        for text in (LONG, DEEP):  # by the extended protocol
            with suppress(psycopg.Error):
                connection.execute(
                    text.replace("+ nothing", "+ %s", 1) if text is LONG else text, (1,) * (text is LONG)
                )
        with suppress(psycopg.Error):
            connection.execute(COUNT + " WHERE ward = %s", ("'" * 500_000,))
        with suppress(psycopg.Error):
            marks = ", ".join(["%s"] * 1000)
            connection.execute(f"{COUNT} WHERE age IN ({marks})", list(range(1000)))


def ordinary_web(running: Hospital) -> None:
    with running.api("ada") as ada, running.api("olga") as olga:
        ask = {"sql": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "epsilon": 0.1}
        assert ada.post("/v1/datasets/visits/preview", json=ask).status_code == 200
        assert ada.post("/v1/datasets/visits/queries", json=ask | {"form": "arrow"}).status_code == 200
        job = ada.post("/v1/datasets/visits/jobs", json=ask).json()["job"]
        assert ada.get(f"/v1/jobs/{job}").status_code == 200
        for path in (
            "datasets",
            "datasets/visits",
            "people",
            "tokens",
            "accounts",
            "acts",
            "audits",
            "proposals",
            "me",
        ):
            assert olga.get(f"/v1/{path}").status_code == 200
        for path in ("entries?most=1000", "export", "verify", "head"):
            assert olga.get(f"/v1/ledger/{path}").status_code == 200
        assert olga.get("/v1/openapi.json").status_code == 200


def pages(running: Hospital) -> None:
    """The console, by somebody who keeps its cookies."""
    with running.client() as client:
        begun = client.post("/v1/login", json={"name": "olga", "password": PASSWORD})
        assert begun.status_code == 200
        secret = begun.cookies["deniable"]
        token, head = begun.json()["csrf"], {"Origin": running.url, "Cookie": f"__Host-deniable={secret}"}
        for path in ("ask", "budget", "ledger", "audits", "data", "people", "explain", "login"):
            assert client.get(f"/{path}", headers=head).status_code == 200
        form = {"token": token, "data": "visits", "sql": LONG, "by": "epsilon", "epsilon": "0.1"}
        client.post("/ask/preview", data=form, headers=head)
        client.post("/ask", data=form | {"sql": COUNT}, headers=head)
        many: dict[str, Any] = {
            "token": token,
            "act": "test",
            "name": "x",
            "source": "visits.parquet",
            "unit": "patient_id",
        }
        many |= {"protects": "column", "rows": "4", "epsilon": "1", "delta": "1e-6"}
        columns = {"name": [f"c{i}" for i in range(500)], "type": ["text"] * 500, "keys": ["a,b,c,d"] * 500}
        columns |= {name: [""] * 500 for name in ("low", "high", "scale")}
        client.post(
            "/data", data=many | {f"column_{name}": cells for name, cells in columns.items()}, headers=head
        )


def hostile_web(running: Hospital) -> None:
    with running.api("ada") as ada, running.api("olga") as olga:
        for sql in (LONG, DEEP):
            ada.post("/v1/datasets/visits/preview", json={"sql": sql, "epsilon": 0.1})
            ada.post("/v1/datasets/visits/jobs", json={"sql": sql, "epsilon": 0.1})
        head = {"Content-Type": "application/json"}
        for body in (
            json.dumps({f"a{i}": i for i in range(60_000)}),
            "[" * 1_000_000,
            "[" + "[]," * 330_000 + "[]]",
            json.dumps({"sql": COUNT, "epsilon": "1" * 900_000}),
            json.dumps({"sql": "\u0001" * 65_536, "epsilon": 0.1}),
        ):
            assert ada.post("/v1/datasets/visits/preview", content=body, headers=head).status_code in (
                400,
                413,
                422,
            )
        columns = "".join(f"      c{i}: {{type: integer, bounds: [0, {i}]}}\n" for i in range(5500))
        declared = {"name": "wide", "sources": {"visits": "visits.parquet"}, "schema": SCHEMA + columns}
        limit = {"epsilon": 1, "delta": "1e-6"}
        said = olga.post("/v1/datasets", json=declared | {"unit": UNIT.to_dict(), "limit": limit})
        assert said.status_code == 422
        ada.get("/v1/datasets", params={"q": "x" * 8000}, headers={"Cookie": "a=b;" * 1500})


def raw(running: Hospital, *parts: bytes) -> None:
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 60) as connection, suppress(OSError):
        for part in parts:
            connection.sendall(part)
        connection.settimeout(60)
        while connection.recv(65536):
            pass


def hostile_bytes(running: Hospital) -> None:
    head = b"POST /v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    raw(running, head + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n{\r\n" * 40_000)
    raw(running, head + b"a:b\r\n" * 50_000 + b"\r\n")
    raw(
        running, b"GET /v1/me HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 90 + b"Connection: close\r\n\r\n" * 1000
    )
    raw(
        running,
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n"
        + b"\0" * 100_000,
    )
    raw(running, b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n" * 2000 + b"GET / HTTP/1.0\r\n\r\n")
    raw(running, bytes(range(256)) * 1000)
    wire = ("127.0.0.1", running.port)
    crowd = [socket.create_connection(wire, 60) for _ in range(150)]
    for connection in crowd:
        connection.close()
    for part in (
        struct.pack("!iiii", 16, 80877102, 1, 2),
        struct.pack("!ii", 9999, 196608) + b"a\0" * 4990,
        b"\xff" * 5000,
    ):
        with socket.create_connection(wire, 60) as connection, suppress(OSError):
            connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass


@pytest.mark.parametrize(
    "talk",
    [ordinary_wire, hostile_wire, ordinary_web, pages, hostile_web, hostile_bytes],
    ids=lambda talk: talk.__name__,
)
def test_no_callback_of_the_loop_uses_more_than_5_ms(
    shared: Hospital, monkeypatch: pytest.MonkeyPatch, talk: Callable[[Hospital], None]
) -> None:
    """Of ten conversations one must stay below: what computes in the loop does so in each, and what a busy machine
    adds to the processor time of a callback (a page fault, a cold cache) does not. The usual worst is 2 ms."""
    worst = []
    for _ in range(10):
        with measured(shared.thread, monkeypatch) as times:
            talk(shared)
            assert httpx.get(f"{shared.url}/v1/health", trust_env=False).status_code == 200
        assert times.count > 10
        worst.append(times.worst)
        if times.worst[0] <= MOST_SECONDS:
            return
    raise AssertionError(", ".join(f"{1000 * seconds:.1f} ms in {name}" for seconds, name in worst))


def test_the_measure_sees_a_callback_that_computes(shared: Hospital, monkeypatch: pytest.MonkeyPatch) -> None:
    with measured(shared.thread, monkeypatch) as times:
        loop = shared.doors._loop
        assert loop is not None
        done = LoopTimes()
        loop.call_soon_threadsafe(lambda: (sum(range(2_000_000)), done.note("done", 0.0)))
        while not done.count:
            httpx.get(f"{shared.url}/v1/health", trust_env=False)
    assert times.worst[0] > MOST_SECONDS
