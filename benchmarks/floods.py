"""Floods: how long /v1/health takes, and how much memory the service has, idle and while somebody floods it.

    python benchmarks/floods.py            prints the table and writes it into docs/benchmarks.md
    python benchmarks/floods.py logins     one flood alone, printed and not written

The service is a process of its own at its default rates, as `deniable serve` runs it. Each flood comes from another
process on loopback and ends after a few seconds. Latency is wall time, so read it beside the idle line of the same
run; memory is the largest resident size that was seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import multiprocessing
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import psycopg
import pyarrow.parquet as pq

from _report import write_section
from deniable.datasets.visits import visits
from deniable.guarantee import Budget
from deniable.server.data.declaration import Declaration
from deniable.server.people.rights import Caller, Right, Role
from deniable.server.run import Doors
from deniable.server.service import Service
from deniable.server.settings import Address, Engines, Settings
from deniable.server.workers import until_signal
from deniable.units import Unit

SCHEMA = """
tables:
  visits:
    unit: patient_id
    columns: {patient_id: integer, age: {type: integer, bounds: [0, 100]}, sex: {type: text, keys: [F, M]}, ward: text,
      diagnosis: text, admitted: date, days: {type: integer, bounds: [0, 60]}, cost: {type: integer, bounds: [0, 50000]}}
"""
OWNER = Caller("olga", frozenset({Role.OWNER}))
SECONDS, PAUSE, THREADS = 4.0, 0.01, 16
LONG = "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(f"age = {i % 100} + nothing" for i in range(2600))

FULL = "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(
    f"age = {i % 100} + {'nothing' * 4}" for i in range(1300)
)
"""Two texts of 57 and 64 kB: of twice as many words as may be, and of as many."""


def settings(folder: Path) -> Settings:
    loopback = Address("127.0.0.1", 0)
    return Settings(folder / "state", (folder / "data",), loopback, loopback, engines=Engines(threads=1))


def fill(folder: Path) -> str:
    """A service with data and one analyst; her token."""
    (folder / "data").mkdir()
    pq.write_table(visits(20_000), folder / "data" / "visits.parquet")
    service = Service(settings(folder))
    unit = Unit.column("patient_id", max_rows=4)
    service.register(
        OWNER, Declaration.declare("visits", {"visits": "visits.parquet"}, SCHEMA, unit, Budget(1000, 1e-6))
    )
    service.roster.invite("olga", "ada", ["analyst"], "subject ada")
    service.grant(OWNER, "visits", "ada", Budget(900, 1e-9))
    token = service.roster.new_token(Caller("ada", frozenset({Role.ANALYST})), "bench", [Right.ASK], 36_000)
    service.close()
    return token.text


def serve(folder: Path) -> None:
    """The service: it says where it listens, and serves until it is told to end."""
    service = Service(settings(folder))
    service.shelf.curator("visits").prepare()
    try:
        asyncio.run(until_signal(Doors(service), lambda doors: print(doors.http, doors.wire, flush=True)))
    finally:
        service.close()


class Target:
    """Where a flood goes: both doors, and a token for those who have one."""

    def __init__(self, http: str, wire: str, token: str) -> None:
        self.http, self.wire, self.token = http, wire, token

    def post(self, path: str, body: object, token: str | None = None) -> int:
        connection = http.client.HTTPConnection(self.http, timeout=30)
        head = {"Content-Type": "application/json"}
        if token is not None:
            head["Authorization"] = f"Bearer {token}"
        try:
            connection.request("POST", path, json.dumps(body), head)
            return connection.getresponse().status
        finally:
            connection.close()

    def open(self, door: str, first: bytes = b"") -> socket.socket:
        host, _, port = door.rpartition(":")
        connection = socket.create_connection((host, int(port)), 30)
        connection.sendall(first)
        return connection


def logins(target: Target, number: int) -> None:
    target.post("/v1/login", {"name": f"guess {number}", "password": "wrong password"})


def bad_tokens(target: Target, number: int) -> None:
    target.post("/v1/datasets/visits/preview", {"sql": "SELECT 1", "epsilon": 1}, f"dnb_{number:012}_nothing")


def refused_texts(target: Target, number: int, sql: str = LONG) -> None:
    host, _, port = target.wire.rpartition(":")
    place = f"host={host} port={port} dbname=visits user=ada password={target.token}"
    with psycopg.connect(place, autocommit=True) as connection:
        for _ in range(20):
            with contextlib.suppress(psycopg.Error):
                connection.execute(sql.encode())


def refused_full_texts(target: Target, number: int) -> None:
    refused_texts(target, number, FULL)


def refused_previews(target: Target, number: int) -> None:
    target.post("/v1/datasets/visits/preview", {"sql": LONG, "epsilon": 0.1}, target.token)


def parallel_requests(target: Target, number: int) -> None:
    sql = f"SELECT ward, COUNT(*) AS n FROM visits WHERE age > {number % 90} GROUP BY ward"
    target.post("/v1/datasets/visits/preview", {"sql": sql, "epsilon": 0.1}, target.token)


def large_bodies(target: Target, number: int) -> None:
    target.post("/v1/datasets/visits/preview", [[]] * 250_000, target.token)


def silent_sockets(target: Target, number: int) -> None:
    held = [target.open(door) for door in (target.wire, target.http) for _ in range(40)]
    time.sleep(1)
    for connection in held:
        connection.close()


def slow_heads_and_bodies(target: Target, number: int) -> None:
    head = b"POST /v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    held = [target.open(target.http, head + b"X-Slow: ") for _ in range(20)]
    held += [
        target.open(target.http, head + b"Content-Length: 900000\r\n\r\n" + b" " * 60_000) for _ in range(20)
    ]
    for _ in range(10):
        time.sleep(0.1)
        for connection in held:
            with contextlib.suppress(OSError):
                connection.sendall(b" ")
    for connection in held:
        connection.close()


def tiny_chunks(target: Target, number: int) -> None:
    head = b"POST /v1/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with contextlib.suppress(OSError), target.open(target.http, head + b"1\r\n{\r\n" * 40_000) as connection:
        connection.recv(1)


def cancels(target: Target, number: int) -> None:
    with (
        contextlib.suppress(OSError),
        target.open(target.wire, struct.pack("!iiii", 16, 80877102, number, 1)) as connection,
    ):
        connection.recv(1)


def upgrades(target: Target, number: int) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    with contextlib.suppress(OSError), target.open(target.http, head + os.urandom(20_000)) as connection:
        connection.recv(1)


FLOODS: tuple[Callable[[Target, int], None], ...] = (
    logins, bad_tokens, refused_texts, refused_full_texts, refused_previews, parallel_requests, large_bodies, silent_sockets,
    slow_heads_and_bodies, tiny_chunks, cancels, upgrades,
)  # fmt: skip


def pour(name: str, target: Target) -> None:
    """One flood, from a process of its own, until its time is over."""
    act = next(each for each in FLOODS if each.__name__ == name)
    end = time.monotonic() + SECONDS

    def repeat(first: int) -> None:
        number = first
        while time.monotonic() < end:
            with contextlib.suppress(OSError, http.client.HTTPException, psycopg.Error):
                act(target, number)
            number += THREADS

    threads = [threading.Thread(target=repeat, args=(i,), daemon=True) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 10)


def memory(process: int) -> float:
    """Megabytes that a process has now."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def watch(target: Target, process: int, until: Callable[[], bool]) -> tuple[list[float], float]:
    """Milliseconds of each /v1/health, each by a connection of its own, and the most megabytes."""
    times, most = [], memory(process)
    while not until():
        begun = time.perf_counter()
        connection = http.client.HTTPConnection(target.http, timeout=30)
        connection.request("GET", "/v1/health")
        assert connection.getresponse().status == 200
        connection.close()
        times.append(1000 * (time.perf_counter() - begun))
        most = max(most, memory(process))
        time.sleep(PAUSE)
    return times, most


def has_ended(process: BaseProcess) -> bool:
    return not process.is_alive()


def quantile(times: list[float], share: float) -> float:
    return sorted(times)[min(int(share * len(times)), len(times) - 1)]


def measure(folder: Path, token: str, names: list[str]) -> list[str]:
    command = [sys.executable, __file__, "--serve", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    web, wire = process.stdout.readline().split()
    target = Target(web, wire, token)
    try:
        for i in range(5):
            parallel_requests(target, i)
        end = time.monotonic() + SECONDS
        idle, idle_memory = watch(target, process.pid, lambda: time.monotonic() > end)
        lines = [f"| idle | {quantile(idle, 0.5):.1f} | {quantile(idle, 0.99):.1f} | | {idle_memory:.0f} | |"]
        for name in names:
            flood = multiprocessing.get_context("spawn").Process(target=pour, args=(name, target))
            flood.start()
            times, most = watch(target, process.pid, partial(has_ended, flood))
            more = quantile(times, 0.99) - quantile(idle, 0.99)
            lines.append(
                f"| {name.replace('_', ' ')} | {quantile(times, 0.5):.1f} | {quantile(times, 0.99):.1f} | {more:+.1f} "
                f"| {most:.0f} | {most - idle_memory:+.0f} |"
            )
            print(lines[-1], flush=True)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(150)
    return lines


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = measure(folder, fill(folder), names or [each.__name__ for each in FLOODS])
    head = (
        "| flood | median, ms | p99, ms | more than idle | MB | more than idle |\n|---|---|---|---|---|---|"
    )
    intro = (
        f"## Floods\n\n`benchmarks/floods.py`: /v1/health of a service at its default rates, while another process floods it "
        f"with {THREADS} threads for {SECONDS:g} seconds, on a machine of {os.cpu_count()} cores that the flood shares. The aim "
        "is a p99 within 50 ms of idle and memory within 300 MB.\n\n"
    )
    report = f"{intro}{head}\n" + "\n".join(lines)
    print(report)
    if not names:
        write_section("Floods", report)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]))
    else:
        main(sys.argv[1:])
