"""The service: what its doors add to a preview, a kept answer and a new answer; fifty analysts on one data set, with
a restart in between; and its memory over ten thousand requests.

    python benchmarks/server.py     writes its table into docs/benchmarks.md

The service is a process of its own, on loopback, as `deniable serve` runs it. Times are CPU seconds: a wall clock
says little on a machine that others share. The share is in-process CPU over CPU of the worker: how many requests
a worker answers for each that the library would.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pyarrow.parquet as pq

from _report import write_section
from deniable.curator.question import Question
from deniable.datasets.visits import visits
from deniable.guarantee import Budget
from deniable.server.data.declaration import Declaration
from deniable.server.people.rights import Caller, Right, Role
from deniable.server.run import Doors
from deniable.server.service import Service
from deniable.server.settings import Address, Engines, Rates, Settings
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
REQUESTS, ANALYSTS, EACH, MANY = 40, 50, 4, 10_000
ROUNDS = 3
PRICE, CROWD = 300, 45_000
SAME = "SELECT COUNT(*) AS n FROM visits"
TICKS = os.sysconf("SC_CLK_TCK")


def settings(folder: Path) -> Settings:
    loopback = Address("127.0.0.1", 0)
    return Settings(
        folder / "state",
        (folder / "data",),
        loopback,
        loopback,
        floor=0.0,
        rates=Rates(*["1000000/second"] * 4),
        engines=Engines(threads=1),
    )


def filled(folder: Path) -> dict[str, str]:
    """A service with data and people; their tokens."""
    (folder / "data").mkdir()
    pq.write_table(visits(20_000), folder / "data" / "visits.parquet")
    service = Service(settings(folder))
    unit = Unit.column("patient_id", max_rows=4)
    limit = Budget(80 + CROWD, 1e-6)
    service.register(OWNER, Declaration.declare("visits", {"visits": "visits.parquet"}, SCHEMA, unit, limit))
    tokens = {"ada": person(service, "ada", 80)}
    tokens |= {f"a{i}": person(service, f"a{i}", EACH * PRICE) for i in range(ANALYSTS)}
    service.close()
    return tokens


def person(service: Service, name: str, limit: float) -> str:
    """An analyst with a part of the budget; her token."""
    service.roster.invite("olga", name, ["analyst"], f"subject {name}")
    service.grant(OWNER, "visits", name, Budget(limit, 1e-9))
    caller = Caller(name, frozenset({Role.ANALYST}))
    return service.roster.new_token(caller, "bench", [Right.ASK], 36_000).text


def serve(folder: Path) -> None:
    """The worker: it says where it listens, and serves until it is told to end."""
    service = Service(settings(folder))
    service.shelf.curator("visits").prepare()

    def ready(doors: Doors) -> None:
        print(doors.http, doors.wire, flush=True)

    try:
        asyncio.run(until_signal(Doors(service), ready))
    finally:
        service.close()


class Worker:
    """A running worker, seen from outside."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, __file__, str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.http, self.wire = self.process.stdout.readline().split()

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


class Client:
    """Somebody with a token, at both doors."""

    def __init__(self, worker: Worker, name: str, token: str) -> None:
        self._web = http.client.HTTPConnection(worker.http)
        self._head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        host, port = worker.wire.split(":")
        place = f"host={host} port={port} dbname=visits user={name} password={token}"
        self.wire = psycopg.connect(f"{place} options='-c deniable.epsilon=0.1'", autocommit=True)

    def post(self, path: str, sql: str, epsilon: float = 0.1, key: str | None = None) -> int:
        head = self._head | ({} if key is None else {"Idempotency-Key": key})
        body = json.dumps({"sql": sql, "epsilon": epsilon})
        self._web.request("POST", f"/v1/datasets/visits/{path}", body, head)
        response = self._web.getresponse()
        response.read()
        return response.status

    def close(self) -> None:
        self._web.close()
        self.wire.close()


def inside(service: Service) -> dict[str, Callable[[int], object]]:
    """The same without any door."""
    curator = service.curator(Caller("ada", frozenset({Role.ANALYST})), "visits")
    epsilon = Question.read("", epsilon=0.1).epsilon
    return {
        "preview": lambda i: curator.preview(text(1, i), epsilon=epsilon),
        "kept answer": lambda i: curator.sql(SAME, epsilon=epsilon),
        "new answer": lambda i: curator.sql(text(2, i), epsilon=epsilon),
    }


def text(door: int, i: int) -> str:
    return f"SELECT COUNT(*) AS n FROM visits WHERE age > {door} AND cost > {i + 10}"


def timed(act: Callable[[int], object], clock: Callable[[], float]) -> float:
    for i in range(-5, 0):
        act(i)
    begun = clock()
    for i in range(REQUESTS):
        act(i)
    return 1000 * (clock() - begun) / REQUESTS


def doors_cost(worker: Worker, client: Client, service: Service) -> list[str]:
    """CPU of the worker for one request, beside the same without a door: by turns, the least of three rounds, because
    others use this machine too."""
    kinds: dict[str, list[Callable[[int], object]]] = {
        "preview": [
            lambda i: client.post("preview", text(3, i)),
            lambda i: client.wire.execute(f"EXPLAIN {text(4, i)}".encode()).fetchall(),
        ],
        "kept answer": [
            lambda i: client.post("queries", SAME),
            lambda i: client.wire.execute(SAME.encode()).fetchall(),
        ],
        "new answer": [
            lambda i: client.post("queries", text(5, i)),
            lambda i: client.wire.execute(text(6, i).encode()).fetchall(),
        ],
    }
    alone, lines = inside(service), []
    for kind, acts in kinds.items():
        rounds = [
            (
                timed(partial(_shifted, alone[kind], 100 * turn), time.process_time),
                *(timed(partial(_shifted, act, 100 * turn), worker.cpu) for act in acts),
            )
            for turn in range(ROUNDS)
        ]
        here, web, pg = (min(column) for column in zip(*rounds, strict=True))
        lines.append(f"| {kind} | {here:.1f} | {web:.1f} ({here / web:.0%}) | {pg:.1f} ({here / pg:.0%}) |")
    return lines


def _shifted(act: Callable[[int], object], by: int, i: int) -> object:
    """New answers are new in each round."""
    return act(by + i)


def crowd(folder: Path, tokens: dict[str, str]) -> str:
    """Fifty analysts ask at once, of a data set that has enough for a part of them; the worker is killed in the middle
    and another takes its place, and each sends again, with the same key, what was not answered."""
    ledger = Service(settings(folder))
    before = ledger.ledger.account("visits").spent().epsilon
    workers = [Worker(folder)]
    statuses: list[int] = []

    def ask(name: str, number: int) -> None:
        for j in range(EACH):
            sql = f"SELECT COUNT(*) AS n FROM visits WHERE age > {number} AND days > {j}"
            statuses.append(insistent(workers, name, tokens[name], sql))

    threads = [threading.Thread(target=ask, args=(f"a{i}", i)) for i in range(ANALYSTS)]
    for thread in threads:
        thread.start()
    while len(statuses) < ANALYSTS * EACH // 4:
        time.sleep(0.05)
    workers[0].process.kill()
    workers[0].process.wait()
    workers.append(Worker(folder))
    for thread in threads:
        thread.join()
    workers[-1].end()
    spent = ledger.ledger.account("visits").spent().epsilon - before
    charged = round(spent / PRICE)
    answered, lost = statuses.count(200), statuses.count(-409)
    good = answered + lost == charged <= CROWD // PRICE and ledger.ledger.verify().ok
    ledger.close()
    verdict = "nothing over, nothing charged twice, the journal verifies" if good else "WRONG"
    return (
        f"{ANALYSTS} analysts at once, {ANALYSTS * EACH} asks, the worker killed in the middle: {charged} charged, "
        f"{answered} answered, {lost} told that they were paid and lost with the process, the rest refused; {verdict}."
    )


def insistent(workers: list[Worker], name: str, token: str, sql: str) -> int:
    """Ask until there is an answer. -409: it was paid, and its answer went with the process."""
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException, psycopg.Error):
            client = Client(workers[-1], name, token)
            try:
                web = client._web
                body = json.dumps({"sql": sql, "epsilon": PRICE})
                head = client._head | {"Idempotency-Key": sql}
                web.request("POST", "/v1/datasets/visits/queries", body, head)
                response = web.getresponse()
                said = json.loads(response.read())
                lost = response.status == 409 and said["error"] == "AlreadyPaid"
                return -409 if lost else response.status
            finally:
                client.close()
        time.sleep(0.1)


def memory(worker: Worker, client: Client) -> str:
    """Megabytes of the worker after the first thousand requests and after ten thousand more."""
    for i in range(1000):
        client.post("preview" if i % 2 else "queries", SAME if i % 2 == 0 else text(7, i))
    begun = worker.megabytes()
    for i in range(MANY):
        client.post("preview" if i % 2 else "queries", SAME if i % 2 == 0 else text(8, i % 500))
    return f"Memory of the worker: {begun:.0f} MB after 1,000 requests, {worker.megabytes():.0f} MB after {MANY:,} more."


@contextlib.contextmanager
def running(folder: Path, tokens: dict[str, str]) -> Iterator[tuple[Worker, Client]]:
    worker = Worker(folder)
    client = Client(worker, "ada", tokens["ada"])
    try:
        yield worker, client
    finally:
        client.close()
        worker.end()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokens = filled(folder)
        service = Service(settings(folder))
        service.shelf.curator("visits").prepare()
        with running(folder, tokens) as (worker, client):
            lines = doors_cost(worker, client, service)
            flat = memory(worker, client)
        service.close()
        together = crowd(folder, tokens)
    head = (
        "| ms of CPU of a worker | in process | HTTP (of the in-process rate) | the wire |\n|---|---|---|---|"
    )
    intro = (
        "## The service\n\n`benchmarks/server.py`: milliseconds of CPU of one worker for one request, on a table of "
        "20,000 visits that was prepared.\n\n"
    )
    report = f"{intro}{head}\n" + "\n".join(lines) + f"\n\n{together}\n\n{flat}"
    print(report)
    write_section("The service", report)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(Path(sys.argv[1]))
    else:
        main()
