"""What runs after a release in a server: in processes of its own, under limits of the kernel, whatever a text says."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from deniable.curator.question import Question
from deniable.errors import DeniableError, InvalidQuery, Stopped, TooMany
from deniable.server.after import pool, process
from deniable.server.after.pool import Pool
from deniable.server.after.process import Child, ClosedStatement
from deniable.server.people.rights import Caller, Role
from deniable.server.settings import Caps
from deniable.sql.after.closed import child as program
from tests.server.hospital import Hospital, hospital
from tests.sql.after.bombs import T, bombs

TABLES = {"t": pa.table({"g": ["F", "M"], "n": [812, 903]})}
WINDOW = f"{T} SELECT g, n, RANK() OVER (ORDER BY n) AS r FROM t ORDER BY g"
FULL = f"{T}, a AS (SELECT g || g || g || g AS s FROM t)" + "".join(
    f", {chr(98 + i)} AS (SELECT s || s || s || s AS s FROM {chr(97 + i)})" for i in range(14)
)
MEMORY = f"{FULL} SELECT LENGTH(s) AS l FROM o"
TIME = "SELECT SUM(v0 * v1 * v2) AS x FROM " + ", ".join(
    f"generate_series(1, 10000) AS s{i}(v{i})" for i in range(3)
)
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def warm() -> Iterator[Pool]:
    """One pool for the tests that leave it as it was."""
    with_children = Pool(3)
    yield with_children
    with_children.close()


# ------------------------------------------------------------------------------------------------ by every door


def test_a_bomb_ends_by_memory_and_what_it_read_stays_paid_and_free(shared: Hospital) -> None:
    before = shared.spent()
    refused = shared.ask("ada", MEMORY, epsilon=0.5)
    assert refused.status_code == 422
    assert refused.json()["error"] == "NotComputed"
    assert "needs more memory than it may use (700 MB" in refused.json()["message"]
    assert "paid for, and is kept" in refused.json()["message"]
    again = shared.ask("ada", WINDOW, epsilon=0.5).json()
    assert again["again"] is True
    assert [row[2] for row in again["rows"]] != []
    assert shared.spent() - before <= 0.5 + 1e-9


def test_a_bomb_of_literals_is_refused_and_what_it_reads_is_charged_at_most_once(shared: Hospital) -> None:
    """DuckDB computes what is constant while it reads a text, over tables without rows too, and then nothing is
    charged. A process that has answered before may meet its limit later: then what the text reads was released, and
    is kept for her."""
    before = shared.spent()
    for _ in range(2):
        refused = shared.ask("ada", bombs()["of literals"], epsilon=0.4375)
        assert refused.status_code == 422
        if "nothing was charged" in refused.json()["message"]:
            assert shared.spent() == before
        else:
            assert "needs more memory than it may use (700 MB" in refused.json()["message"]
            assert shared.spent() - before <= 0.4375 + 1e-9


def test_the_catalog_of_the_wire_runs_under_the_same_limits(shared: Hospital) -> None:
    text = "'x'"
    for _ in range(6):
        text = f"replace({text}, 'x', '{'x' * 900}')"
    with psycopg.connect(shared.dsn(), autocommit=True) as connection:
        with pytest.raises(psycopg.Error, match="The catalog does not answer this"):
            connection.execute(f"SELECT length({text}) FROM pg_class, pg_type, pg_attribute")
        assert connection.execute("SELECT relname FROM pg_class").fetchall() == [("visits",)]


def test_a_cap_is_not_given_back_for_what_was_charged(tmp_path: Path) -> None:
    with hospital(tmp_path, caps=Caps(day=1.0)) as running:
        assert running.ask("ada", MEMORY, epsilon=0.75).json()["error"] == "NotComputed"
        refused = running.ask("ada", "SELECT COUNT(*) AS n FROM visits", epsilon=0.5)
        assert refused.status_code == 409
        assert running.spent() == pytest.approx(0.75)


def test_a_stop_ends_the_process_and_others_are_answered_meanwhile(shared: Hospital) -> None:
    service = shared.service
    ada = Caller("ada", frozenset({Role.ANALYST}))
    question = Question.read(f"{T} {TIME}, t", epsilon=0.5)
    pending = service.asking(ada, service.curator(ada, "visits"), "visits", question)
    outcome: list[BaseException] = []
    thread = threading.Thread(target=lambda: outcome.append(_raised(pending.answer)))
    thread.start()
    try:
        while not service.pool._busy:
            thread.join(0.01)
            assert thread.is_alive(), outcome
        [busy] = service.pool._busy
        assert shared.ask("bob", WINDOW, epsilon=0.5).status_code == 200
        assert shared.ask("ada", "SELECT COUNT(*) AS n FROM visits", epsilon=0.1).status_code == 200
        assert busy.alive
        assert thread.is_alive()
    finally:
        pending.cancel()
        thread.join(600)
    assert isinstance(outcome[0], Stopped)
    assert not busy.alive


def _raised(act: Callable[[], Any]) -> BaseException:
    try:
        act()
    except BaseException as error:
        return error
    return AssertionError("nothing was raised")


# ----------------------------------------------------------------------------------------------- what a process has


@linux
def test_a_process_has_two_pipes_its_limits_and_nothing_of_the_server(
    warm: Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DENIABLE_LEDGER_KEY", "secret")
    monkeypatch.setenv("PGPASSWORD", "secret")
    with (tmp_path / "ledger.db").open("wb") as ledger:
        child = Child()
        try:
            child.run(ClosedStatement(TABLES, "SELECT 1 AS x"), never)
            place = Path(f"/proc/{child.pid}")
            environment = (place / "environ").read_bytes()
            opened = [str(link.readlink()) for link in (place / "fd").iterdir()]
            limits = {
                line[:26].strip(): line[26:].split()[0]
                for line in (place / "limits").read_text().splitlines()
            }
            assert (place / "cwd").readlink() == Path("/")
        finally:
            child.end()
        assert ledger.name not in opened
    assert b"secret" not in environment
    assert b"DENIABLE" not in environment
    assert {name.split(":")[0] for name in opened} <= {"pipe", "/dev/null"}
    assert limits["Max address space"] == str(program.ADDRESS_SPACE)
    assert (limits["Max file size"], limits["Max core file size"], limits["Max processes"]) == ("0", "0", "0")


def test_a_statement_that_opens_a_file_finds_none_to_open(warm: Pool) -> None:
    """Were DuckDB's own lock to fail: the kernel gives no file while a statement runs."""
    with pytest.raises(InvalidQuery, match="fails"):
        warm("ada", never)(TABLES, "SELECT * FROM read_text('/etc/passwd')")


def test_all_statements_of_a_question_share_its_seconds(warm: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SECONDS", 1.0)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = warm("ada", never)
    run(TABLES, "SELECT SUM(v0 * v1) AS x FROM range(10000) AS a(v0), range(3000) AS b(v1)")
    assert run._left < 1.0
    with pytest.raises(InvalidQuery, match="takes longer than 1 second of processor time"):
        run(TABLES, TIME)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 12


def test_a_process_that_met_its_limit_is_replaced_and_one_that_died_idle_too(warm: Pool) -> None:
    with pytest.raises(InvalidQuery, match="memory"):
        warm("ada", never)(TABLES, "SELECT LENGTH(repeat(g, 2000000000)) AS x FROM t")
    for idle in warm._idle:
        idle._process.kill()
        idle._process.wait()
    assert warm("ada", never)(TABLES, "SELECT SUM(n) AS x FROM t").to_pydict() == {"x": [1715]}


# ------------------------------------------------------------------------------------------------ what it says

LIES = (
    "a header without an end",
    "a table without an end",
    "no header",
    "no JSON",
    "no table",
    "no seconds",
    "garbage",
    "a damaged table",
    "a text that is none",
    "another type",
    "too many rows",
    "an end",
    "silence",
)


@pytest.mark.parametrize("lie", LIES)
def test_a_process_that_says_anything_else_is_ended_and_not_believed(
    lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CHILD", "tests.server.lying_child")
    monkeypatch.setattr(process, "CLOCK", 0.2 if lie == "silence" else 30.0)
    child = Child()
    try:
        with pytest.raises(InvalidQuery):
            child.run(ClosedStatement(TABLES, lie), never)
        assert not child.alive
    finally:
        child.end()


def test_a_process_that_cannot_start_is_told_to_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "CHILD", "tests.server.no_such_module")
    broken = Pool(1)
    with pytest.raises(DeniableError, match="could not be started"):
        broken("ada", never)(TABLES, "SELECT 1 AS x")
    broken.close()


# --------------------------------------------------------------------------------------------------- whose turn


def test_one_payer_has_one_process_and_few_waiting_questions(warm: Pool) -> None:
    with warm.lend("ada", never):
        with warm.lend("bob", never):
            assert len(warm._busy) == 2
        stops = [False]
        waiting = [
            threading.Thread(target=_raised, args=(lambda: warm._take("ada", lambda: stops[0]),))
            for _ in range(8)
        ]
        for thread in waiting:
            thread.start()
        while len(warm._queue) < 8:
            waiting[0].join(0.01)
            assert waiting[0].is_alive()
        with pytest.raises(TooMany, match="8 questions of yours wait"):
            warm._take("ada", never)
        with warm.lend("bob", never) as child:
            assert child.alive
        stops[0] = True
        for thread in waiting:
            thread.join(600)
    assert warm._queue == []


def test_a_pool_that_is_closed_ends_its_processes_and_takes_no_question() -> None:
    closing = Pool(1)
    closing.warm()
    [child] = closing._idle
    closing.close()
    assert not child.alive
    with pytest.raises(TooMany):
        closing("ada", never)(TABLES, "SELECT 1 AS x")
