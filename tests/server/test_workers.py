"""Several processes of one service on a ledger in PostgreSQL: one budget, jobs and wishes to stop that reach the right
process, and another process where one dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import psycopg
import pytest

from deniable.errors import InvalidParameter
from deniable.server.run import Doors, address
from deniable.server.service import Service
from deniable.server.settings import parse
from deniable.server.workers import Workers
from tests.ledger.conftest import postgres_url, server
from tests.server.hospital import COUNT, Hospital, hospital, settings
from tests.server.test_attacks import crowd, long_race, race
from tests.server.test_wire import cancelled

__all__ = ["postgres_url", "server"]


@contextmanager
def many(folder: Path, url: str, part: float, **changes: Any) -> Iterator[tuple[Hospital, Workers]]:
    """Two processes, and a service in this one that only looks."""
    with hospital(folder, part=part, rows=200, ledger=url) as first:
        tokens = first.tokens
    made = settings(folder, ledger=url, workers=2, **changes)
    workers, ready = Workers(made), threading.Event()
    thread = threading.Thread(target=workers.serve, args=(lambda _: ready.set(),))
    thread.start()
    assert ready.wait(600)
    assert workers._listeners.wire is not None
    doors = SimpleNamespace(
        http=address(workers._listeners.http), wire=address(workers._listeners.wire), stop=workers.stop
    )
    service = Service(made)
    try:
        running = Hospital(service, cast("Doors", doors), thread, tokens)
        awaited(running)
        yield running, workers
    finally:
        service.close()
        workers.stop()
        thread.join(600)


def awaited(running: Hospital) -> None:
    """Until somebody answers."""
    while True:
        try:
            assert httpx.get(f"{running.url}/v1/health", trust_env=False, timeout=600).status_code == 200
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return


@pytest.mark.needs("postgres")
def test_processes_share_a_budget_jobs_and_wishes_and_one_that_dies_is_replaced(
    tmp_path: Path, postgres_url: str
) -> None:
    with many(tmp_path, postgres_url, 10) as (running, workers):
        outcomes: list[str] = []
        dsn = running.dsn(epsilon="1")
        race(6, lambda i: outcomes.extend(crowd(running.url, running.tokens["ada"], dsn, i, 4)))
        assert sorted(outcomes) == ["granted"] * 10 + ["refused"] * 14
        assert running.spent("visits/ada") == pytest.approx(10)
        with running.api("bob") as client:
            job = client.post("/v1/datasets/visits/jobs", json={"sql": COUNT, "epsilon": 0.1}).json()["job"]
        states = set()
        while "done" not in states:
            with running.api(
                "bob"
            ) as client:  # each by a connection of its own, to whichever process takes it
                states.add(client.get(f"/v1/jobs/{job}").json()["state"])
        assert states <= {"running", "done"}
        victim = workers._processes[0].pid
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        while workers._processes[0].pid == victim:
            time.sleep(0.1)
        for i in range(6):
            awaited(running)
            assert running.ask("bob", f"{COUNT} WHERE age > {i}").status_code == 200
        assert running.service.ledger.verify().ok


@pytest.mark.needs("postgres")
def test_a_query_is_cancelled_whichever_process_hears_of_it(tmp_path: Path, postgres_url: str) -> None:
    with many(tmp_path, postgres_url, 100, floor=2.0) as (running, _):
        for turn in range(2):  # each wish comes by a connection of its own
            with psycopg.connect(running.dsn(epsilon="0.5"), autocommit=True) as connection:
                assert cancelled(running, connection, 20 * turn)


@pytest.mark.soak
@pytest.mark.needs("postgres")
def test_a_long_race_on_postgresql_grants_the_limit_and_no_more(tmp_path: Path, postgres_url: str) -> None:
    with many(tmp_path, postgres_url, 500) as (running, _):
        long_race(running)


@pytest.mark.parametrize("text", ["workers = 2", 'workers = 2\nledger = "sqlite:///x.db"', "workers = 0"])
def test_several_processes_need_postgresql(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"Expected (a ledger in PostgreSQL|workers)"):
        parse(text)
