"""The service: what both doors add to a preview, a kept answer and a new answer, and
fifty analysts on one data set.

    python benchmarks/server.py     writes its table into docs/benchmarks.md

Doors and clients run in this process, so CPU seconds count both sides of the conversation; a wall clock would
say little on a machine that others share. The ratio is in-process CPU over CPU through the door.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow.parquet as pq

from _report import write_section
from deniable.datasets.visits import visits
from deniable.errors import BudgetExceeded
from deniable.guarantee import Budget
from deniable.server.data.declaration import Declaration
from deniable.server.people.rights import Caller, Right, Role
from deniable.server.questions import Question
from deniable.server.run import Doors
from deniable.server.service import Service
from deniable.server.settings import Address, Engines, Rates, Settings
from deniable.units import Unit

SCHEMA = """
tables:
  visits:
    unit: patient_id
    columns: {patient_id: integer, age: {type: integer, bounds: [0, 100]}, sex: {type: text, keys: [F, M]}, ward: text,
      diagnosis: text, admitted: date, days: {type: integer, bounds: [0, 60]}, cost: {type: integer, bounds: [0, 50000]}}
"""
OWNER = Caller("olga", frozenset({Role.OWNER}))
REQUESTS, ANALYSTS, EACH = 50, 50, 4


def opened(folder: Path) -> Service:
    (folder / "data").mkdir()
    pq.write_table(visits(20_000), folder / "data" / "visits.parquet")
    often = Rates(*["1000000/second"] * 4)
    loopback = Address("127.0.0.1", 0)
    service = Service(
        Settings(
            folder / "state",
            (folder / "data",),
            loopback,
            loopback,
            floor=0.0,
            rates=often,
            engines=Engines(threads=1),
        )
    )
    unit = Unit.column("patient_id", max_rows=4)
    declared = Declaration.of("visits", {"visits": "visits.parquet"}, SCHEMA, unit, Budget(100_000, 1e-6))
    service.register(OWNER, declared)
    service.shelf.curator("visits").prepare()
    return service


def person(service: Service, name: str, limit: float) -> tuple[Caller, str]:
    """An analyst with a part of the budget, and her token."""
    secret, _ = service.roster.login(name, service.roster.add("olga", name, ["analyst"]))
    service.roster.set_password(secret, None, "correct horse battery")
    service.grant(OWNER, "visits", name, Budget(limit, 1e-9))
    caller = Caller(name, frozenset({Role.ANALYST}))
    return caller, service.roster.new_token(caller, "bench", [Right.ASK], 3600).text


def cpu(act: Callable[[int], object], count: int = REQUESTS) -> float:
    """Milliseconds of CPU for one."""
    act(-1)
    begun = time.process_time()
    for i in range(count):
        act(i)
    return 1000 * (time.process_time() - begun) / count


def doors_cost(service: Service, doors: Doors) -> list[str]:
    """CPU of a preview, a kept answer and a new answer: in process, over HTTP, over the wire."""
    caller, token = person(service, "ada", 50_000)
    assert doors.http is not None
    assert doors.wire is not None
    client = http.client.HTTPConnection(*doors.http)
    head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    place = f"host={doors.wire.host} port={doors.wire.port} dbname=visits user=ada password={token}"
    wire = psycopg.connect(f"{place} options='-c deniable.epsilon=0.1'", autocommit=True)

    def posted(path: str, sql: str) -> None:
        client.request("POST", f"/v1/datasets/visits/{path}", json.dumps({"sql": sql, "epsilon": 0.1}), head)
        response = client.getresponse()
        assert response.status == 200, response.read()
        response.read()

    def text(door: int, i: int) -> str:
        return f"SELECT COUNT(*) AS n FROM visits WHERE age > {door} AND cost > {i + 1}"

    same = "SELECT COUNT(*) AS n FROM visits"
    curator = service.curator(caller, "visits")
    kinds: dict[str, list[Callable[[int], object]]] = {
        "preview": [
            lambda i: curator.preview(text(1, i), epsilon=Question.of("", epsilon=0.1).epsilon),
            lambda i: posted("preview", text(2, i)),
            lambda i: wire.execute(f"EXPLAIN {text(3, i)}".encode()).fetchall(),
        ],
        "kept answer": [
            lambda i: curator.sql(same, epsilon=Question.of("", epsilon=0.1).epsilon),
            lambda i: posted("queries", same),
            lambda i: wire.execute(same.encode()).fetchall(),
        ],
        "new answer": [
            lambda i: curator.sql(text(4, i), epsilon=Question.of("", epsilon=0.1).epsilon),
            lambda i: posted("queries", text(5, i)),
            lambda i: wire.execute(text(6, i).encode()).fetchall(),
        ],
    }
    lines = []
    for kind, acts in kinds.items():
        inside = cpu(acts[0])
        client.close()  # one that stood idle may be gone; it is opened anew
        web, pg = cpu(acts[1]), cpu(acts[2])
        lines.append(
            f"| {kind} | {inside:.1f} | {web:.1f} ({inside / web:.0%}) | {pg:.1f} ({inside / pg:.0%}) |"
        )
    wire.close()
    return lines


def crowd(service: Service) -> str:
    """Fifty analysts ask at once, of a data set that has enough for a part of them."""
    before = service.ledger.account("visits").spent().epsilon
    people = [person(service, f"a{i}", 1000)[0] for i in range(ANALYSTS)]
    granted: list[str] = []
    refused: list[str] = []

    def ask(caller: Caller, number: int) -> None:
        for j in range(EACH):
            sql = f"SELECT COUNT(*) AS n FROM visits WHERE age > {number} AND days > {j}"
            try:
                granted.append(str(service.ask(caller, "visits", Question.of(sql, epsilon=300)).entry))
            except BudgetExceeded:
                refused.append(sql)

    threads = [threading.Thread(target=ask, args=(caller, i)) for i, caller in enumerate(people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = service.ledger.account("visits").spent().epsilon - before
    good = len(set(granted)) == len(granted) == round(spent / 300) and service.ledger.verify().ok
    verdict = "nothing over, nothing lost, the journal verifies" if good else "WRONG"
    return f"{ANALYSTS} analysts at once, {ANALYSTS * EACH} asks: {len(granted)} granted, {len(refused)} refused; {verdict}."


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        service = opened(Path(name))
        doors, ready = Doors(service), threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(doors.serve(lambda _: ready.set())), daemon=True)
        thread.start()
        ready.wait(60)
        lines = doors_cost(service, doors)
        told = crowd(service)
        doors.stop()
        thread.join(60)
        service.close()
    head = (
        "| ms of CPU, both sides | in process | HTTP (of the in-process rate) | the wire |\n|---|---|---|---|"
    )
    intro = (
        "## The service\n\n`benchmarks/server.py`: milliseconds of CPU for one request, client and server in "
        "one process, on a table of 20,000 visits that was prepared.\n\n"
    )
    report = f"{intro}{head}\n" + "\n".join(lines) + f"\n\n{told}"
    print(report)
    write_section("The service", report)


if __name__ == "__main__":
    main()
