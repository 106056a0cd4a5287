"""A query stopped by hand freezes nothing and tells nothing; one stopped by anything
else freezes. Real signals, real engines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from deniable.curator import Curator, stop
from deniable.curator.stop import SENTENCE, Pace, Stop, by_signal
from deniable.errors import AccountFrozen, DataError, Stopped
from deniable.guarantee import Budget
from deniable.ledger import EntryKind, Ledger, Status
from deniable.sql.engines.sources import DuckDBTable, PostgresTable
from deniable.units import Unit
from tests.postgres import server
from tests.sql.engines import real

pytestmark = pytest.mark.filterwarnings("ignore:.* is a view or a foreign table:UserWarning")
"""A view is how PostgreSQL is made slow here; its owner is warned of views."""
SLOW = "SELECT COUNT(*) AS n FROM slow WHERE days > 3"
QUICK = "SELECT COUNT(*) AS n FROM quick"


def duckdb_tables(folder: Path) -> dict[str, Any]:
    """A view that nobody has ever counted to the end, and a small table."""
    file = folder / "hospital.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(
            "CREATE VIEW slow AS SELECT i AS patient_id, i % 100 AS days FROM range(1000000000000) t(i)"
        )
        connection.execute("CREATE TABLE quick AS SELECT i AS patient_id FROM range(10) t(i)")
    return {"slow": DuckDBTable(file, "slow"), "quick": DuckDBTable(file, "quick")}


def postgres_tables(folder: Path) -> dict[str, Any]:
    server().psql(
        "CREATE OR REPLACE VIEW slow AS SELECT a AS patient_id, b % 100 AS days "
        "FROM generate_series(1, 30000) AS s(a), generate_series(1, 30000) AS t(b);"
        "CREATE OR REPLACE VIEW quick AS SELECT a AS patient_id FROM generate_series(1, 10) AS s(a);"
    )
    return {name: PostgresTable(server().get_uri(), name) for name in ("slow", "quick")}


def spark_tables(folder: Path) -> dict[str, Any]:
    slow = real.session().range(10**13).selectExpr("id AS patient_id", "id % 100 AS days")
    return {"slow": slow, "quick": real.session().range(10).selectExpr("id AS patient_id")}


ENGINES = [
    duckdb_tables,
    pytest.param(postgres_tables, marks=pytest.mark.needs("postgres")),
    pytest.param(spark_tables, marks=pytest.mark.needs("spark")),
]


@contextmanager
def opened(tables: dict[str, Any], **changes: Any) -> Iterator[Curator]:
    how = {"unit": Unit.row(), "limit": Budget(3), "account": "hospital", "ledger": "sqlite://"}
    with Curator.open(tables, **(how | changes)) as curator:
        yield curator


def charges(ledger: Ledger) -> int:
    return sum(entry.kind is EntryKind.RUN for entry in ledger.history())


@contextmanager
def when_charged(ledger: Ledger, act: Callable[[], object]) -> Iterator[None]:
    """Do it a little after the next charge has been written, from another thread."""
    before = charges(ledger)

    def wait() -> None:
        while charges(ledger) == before:
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def stopped(curator: Curator, text: str = SLOW, act: Callable[[], object] = ctrl_c) -> None:
    with when_charged(curator.ledger, act), pytest.raises(Stopped) as caught:
        curator.sql(text, epsilon=0.5)
    assert str(caught.value) == SENTENCE
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("tables", ENGINES)
def test_ctrl_c_in_an_engine_charges_and_freezes_nothing(
    tables: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    with opened(tables(tmp_path)) as curator:
        before = signal.getsignal(signal.SIGINT)
        stopped(curator)
        assert signal.getsignal(signal.SIGINT) is before
        assert curator.account.status is Status.OPEN
        assert curator.account.spent().epsilon == 0.5
        assert not curator.preview(SLOW, epsilon=0.5).free
        assert curator.sql(QUICK, epsilon=0.5).value.num_rows == 1
        assert curator.ledger.verify().ok


def test_an_engine_that_had_finished_looks_like_one_that_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both end at a whole step, with one sentence; the finished answer is not kept, and costs again."""
    ends: list[float] = []

    def wait(pace: Pace) -> None:
        """For the wish alone: a step of an hour, which no load of the machine makes two, is not slept through."""
        pace.end_work()
        while pace._stop.requested is None:
            time.sleep(0.01)
        ends.append(pace.end)

    with opened(duckdb_tables(tmp_path), floor=3600) as curator:
        with monkeypatch.context() as patch:
            patch.setattr(Pace, "wait", wait)
            for text in (SLOW, QUICK):
                stopped(curator, text)
        assert ends == [3600, 3600]
        assert curator.account.spent().epsilon == 1.0
        assert not curator.preview(QUICK, epsilon=0.5).free
        monkeypatch.setattr(Pace, "wait", Pace.end_work)
        assert not curator.sql(QUICK, epsilon=0.5).again


def test_a_thread_without_signals_is_stopped_by_cancel(tmp_path: Path) -> None:
    with opened(duckdb_tables(tmp_path)) as curator:
        others = curator.share("ada", Budget(1))
        seen: list[BaseException] = []

        def ask() -> None:
            try:
                curator.sql(SLOW, epsilon=0.5)
            except BaseException as error:
                seen.append(error)

        asking = threading.Thread(target=ask)
        with when_charged(curator.ledger, lambda: (others.cancel(), curator.cancel())):
            asking.start()
        asking.join(600)
        assert [str(error) for error in seen] == [SENTENCE]
        assert curator.account.status is Status.OPEN


def test_a_query_that_waits_for_its_turn_is_stopped_before_it_is_charged(tmp_path: Path) -> None:
    with opened(duckdb_tables(tmp_path)) as curator:
        curator._desk.turn.acquire()
        before = signal.getsignal(signal.SIGINT)

        def press() -> None:
            while signal.getsignal(signal.SIGINT) is before:  # nobody listens yet
                time.sleep(0.01)
            ctrl_c()

        threading.Thread(target=press).start()
        with pytest.raises(Stopped):
            curator.sql(QUICK, epsilon=0.5)
        curator._desk.turn.release()
        assert curator.account.spent().epsilon == 0


@pytest.mark.parametrize("tables", ENGINES[:2])
def test_the_limit_of_time_alone_freezes(tables: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    with opened(tables(tmp_path), seconds=0.3) as curator:
        with pytest.raises(AccountFrozen):
            curator.sql(SLOW, epsilon=0.5)
        assert curator._desk.engine.overran


@pytest.mark.parametrize("tables", ENGINES[:2])
def test_a_limit_of_time_that_is_reached_too_freezes(
    tables: Callable[[Path], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person's wish reaches the engine only after the limit: the same words from the
    engine, another ending."""
    with opened(tables(tmp_path), seconds=1.0) as curator:
        monkeypatch.setattr(curator._desk.engine, "cancel", lambda: None)
        with when_charged(curator.ledger, ctrl_c), pytest.raises(AccountFrozen):
            curator.sql(SLOW, epsilon=0.5)
        assert curator.account.status is Status.FROZEN


def test_an_engine_that_does_not_stop_freezes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(duckdb_tables(tmp_path)) as curator:
        monkeypatch.setattr(stop, "PATIENCE", 0.3)
        deaf, cancel = curator._desk.engine, curator._desk.engine.cancel
        monkeypatch.setattr(deaf, "cancel", lambda: None)
        with when_charged(curator.ledger, ctrl_c), pytest.raises(AccountFrozen):
            curator.sql(SLOW, epsilon=0.5)
        cancel()


class Failing:
    """An engine of which nothing is asked but to stop."""

    overran = False

    def cancel(self) -> None:
        pass


def test_an_engine_that_failed_by_itself_is_a_failure_whatever_the_person_wished() -> None:
    """The wish is there, but the engine had not been told: it failed for a reason of its own."""
    wish = Stop()

    def fail() -> None:
        wish.request()
        raise DataError("a row")

    with pytest.raises(DataError, match="a row"):
        wish.attend(fail, Failing())  # type: ignore[arg-type]


def test_a_wish_to_stop_is_heard_between_statements_as_well() -> None:
    """Told once, an engine between two statements would miss it: it is told until it ends."""
    wish, told = Stop(), threading.Event()

    class Deaf(Failing):
        count = 0

        def cancel(self) -> None:
            self.count += 1
            if self.count == 3:
                told.set()

    def work() -> None:
        wish.request()
        told.wait(10)
        raise DataError("stopped")

    with pytest.raises(Stopped):
        wish.attend(work, Deaf())  # type: ignore[arg-type]


def test_a_stopped_query_ends_at_the_step_after_the_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the engine ended at once (the wish comes in the sleep) or was still at work."""
    clock = [0.0]
    monkeypatch.setattr("deniable.curator.stop.time.monotonic", lambda: clock[0])

    def finished(at: float) -> float:
        clock[0], wish = 0.0, Stop()

        def sleep(seconds: float) -> None:
            if wish.requested is None and clock[0] + seconds > at:
                wish.requested = at
            clock[0] += seconds

        monkeypatch.setattr("deniable.curator.stop.time.sleep", sleep)
        pace = Pace(1.0, wish)
        clock[0] = 0.01
        pace.wait()
        return clock[0]

    def at_work(at: float) -> float:
        clock[0], wish = 0.0, Stop()
        pace = Pace(1.0, wish)
        wish.requested = at
        clock[0] = at + 0.05
        pace.wait()
        return clock[0]

    for at in (0.3, 0.74, 0.9, 0.99):
        assert finished(at) == at_work(at) == (1.0 if at < 0.75 else 2.0)


def test_lingering_ends_with_the_wish() -> None:
    wish = Stop()
    pace = Pace(0.0, wish)
    threading.Timer(0.1, wish.request).start()
    pace.linger(30)
    pace.wait()
    assert wish.requested is not None


def test_anothers_handler_hears_the_signal_afterwards() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        wish = Stop()
        with by_signal(wish):
            ctrl_c()
            time.sleep(0.01)
            assert heard == []
        assert (wish.requested is not None, heard) == (True, [signal.SIGINT])
    finally:
        signal.signal(signal.SIGINT, before)


# ------------------------------------------------------------------------------------------------ the command line


def interrupted(folder: Path, arguments: list[str], ready: Callable[[], bool]) -> tuple[int, str]:
    """Start a command, press Ctrl-C when it is ready; its exit code and what it says of it."""
    command = [sys.executable, "-u", "-m", "deniable", *arguments]
    answers, errors = folder / "answers.txt", folder / "errors.txt"
    with answers.open("w") as output, errors.open("w") as stream:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=stream, start_new_session=True)
        while not ready() and process.poll() is None:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        return process.wait(600), errors.read_text()


def test_deniable_query_ends_cleanly_on_ctrl_c(tmp_path: Path) -> None:
    duckdb_tables(tmp_path)
    url = f"sqlite:///{tmp_path}/privacy.db"

    def ready() -> bool:
        if not (tmp_path / "hospital.duckdb.ledger").exists():
            return False
        with Ledger.open(url) as ledger:
            return charges(ledger) == 1

    arguments = [
        "query",
        "hospital.duckdb",
        SLOW,
        "--name",
        "slow",
        "--unit",
        "row",
        "--limit",
        "3",
        "--epsilon",
        ".5",
    ]
    code, said = interrupted(tmp_path, arguments, ready)
    assert (code, said) == (130, SENTENCE + "\n")
    with Ledger.open(url) as ledger:
        assert ledger.account("slow").status is Status.OPEN
        assert ledger.account("slow").spent().epsilon == 0.5


def test_deniable_demo_ends_cleanly_on_ctrl_c(tmp_path: Path) -> None:
    code, said = interrupted(tmp_path, ["demo"], lambda: (tmp_path / "answers.txt").stat().st_size > 0)
    # Python ends itself by the signal where it came in the middle of an import: to a shell that is 130 too.
    assert code in (130, -signal.SIGINT)
    assert said in ("Stopped, as you asked.\n", SENTENCE + "\n")
