"""Ledgers written by earlier versions: opened, migrated, verified, or their faults named and frozen."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy

from deniable.errors import AccountFrozen, TamperedLedger
from deniable.guarantee import Budget
from deniable.ledger import EntryKind, Ledger, Status
from deniable.ledger.store import Store, parse
from deniable.ledger.store.migrate import TABLE, migrate
from deniable.loss import Pure
from deniable.mechanisms import Laplace
from tests.ledger.workers import Noisy

STORED = Path(__file__).parent / "stored"
OPEN_SESSION = "8:5d7bd3a67894bd320e5b498ec0894bb80adcfb72cf2b3907e0c8f75780cb660c"
TABLES = ("ledger", "journal", "accounts", "releases", "readers")


def copied(name: str, folder: Path) -> str:
    for file in (f"{name}.db", f"{name}.db.key"):
        shutil.copy(STORED / file, folder / file)
    return f"sqlite:///{folder}/{name}.db"


@pytest.fixture
def old(request: pytest.FixtureRequest, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The stored ledger `v0002`, as a file and on a server."""
    file = copied("v0002", tmp_path)
    if url.startswith("sqlite"):
        return file
    monkeypatch.setenv("DENIABLE_LEDGER_KEY", str(tmp_path / "v0002.db.key"))
    store = Store(url)
    migrate(store, create=True)
    _as_of_0002(url, tmp_path / "v0002.db")
    store.close()
    return url


def _as_of_0002(url: str, file: Path) -> None:
    """The tables of the server as revision 0002 left them, with the rows of the file."""
    engine = sqlalchemy.create_engine(parse(url))
    with engine.begin() as server, sqlite3.connect(file) as stored:
        for statement in (
            "DROP TABLE marks",
            "ALTER TABLE ledger DROP COLUMN form",
            "ALTER TABLE releases DROP COLUMN unit",
            "ALTER TABLE readers DROP COLUMN entry",
            f"UPDATE {TABLE} SET version_num = '0002'",
        ):
            server.execute(sqlalchemy.text(statement))
        for table in TABLES:
            rows = stored.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in rows.description]
            insert = (
                f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(':' + name for name in names)})"
            )
            for row in rows:
                server.execute(sqlalchemy.text(insert), dict(zip(names, row, strict=True)))
    engine.dispose()


def test_a_ledger_of_the_version_before_opens_verifies_and_goes_on(old: str) -> None:
    with Ledger.open(old, analyst="ada") as ledger:
        assert ledger.verify().ok, ledger.verify().problems
        assert ledger.head().count == 13
        visits, ben = ledger.account("visits"), ledger.account("visits/ben")
        assert visits.limit == Budget(4, 1e-6)
        assert visits.spent().epsilon == pytest.approx(0.665323, abs=1e-6)
        assert ben.spent().epsilon == pytest.approx(0.408671, abs=1e-6)
        assert ledger.account("other").status is Status.CLOSED
        ben.run(Noisy(Pure(0.1)), 5)
        assert visits.begun(OPEN_SESSION) == 0
        visits.begin(OPEN_SESSION, 0, 4)
    with Ledger.open(old) as ledger:
        assert ledger.account("visits").begun(OPEN_SESSION) == 4
        assert ledger.verify().ok


def test_an_answer_kept_without_a_unit_is_not_recalled_and_gives_way(old: str) -> None:
    count = Laplace.for_budget(epsilon=0.25)
    with Ledger.open(old, analyst="ada") as ledger:
        visits = ledger.account("visits")
        assert visits.recall("q1") is None
        assert not visits.holds("q1")
        assert visits.keep("q1", visits.run(count, 5), "anew")
        kept = visits.recall("q1")
        assert kept is not None
        assert kept.content == "anew"
        assert not ledger.account("visits/ben").holds(
            "q1"
        )  # who paid for the old one has not paid for this one
        assert ledger.verify().ok


def test_an_open_session_of_the_version_before_is_still_settled_once(old: str) -> None:
    from deniable.accounting.filters.charges import Charge
    from deniable.errors import LedgerError
    from deniable.ledger.account import Paid
    from deniable.loss import Composed, Loss

    with Ledger.open(old) as ledger:
        account = ledger.account("visits")
        entry = ledger.history()[7]
        assert isinstance(entry.loss, Loss)
        charges = {name: Charge.from_dict(charge) for name, charge in entry.details["charges"].items()}
        paid = Paid(entry, entry.loss, entry.unit, True, charges, None)
        account.settle(paid, Composed(()))
        with pytest.raises(LedgerError, match=r"settled already"):
            account.settle(paid, Composed(()))
        assert ledger.verify().ok


def test_a_second_settle_found_in_an_old_ledger_freezes_the_account_and_is_named(tmp_path: Path) -> None:
    url = copied("v0002-twice", tmp_path)
    told = (
        'Entry 6 settles the session of entry 4 of the account "visits" a second time: entry 5 did so before.'
    )
    with Ledger.open(url, analyst="ada") as ledger:
        account = ledger.account("visits")
        assert account.status is Status.FROZEN
        assert account.spent().epsilon == 0.6  # what its releases cost: 1/10 of the session and 1/2
        freeze = account.history()[-1]
        assert (freeze.kind, freeze.seq) == (EntryKind.FREEZE, 8)
        assert told in freeze.description
        assert ledger.verify().problems == (told,)
        with pytest.raises(AccountFrozen):
            account.run(Noisy(Pure(0.1)), 5)
        ledger.account("fine").run(Noisy(Pure(0.1)), 5)
    with Ledger.open(url, analyst="ada") as ledger:  # once
        assert ledger.head().count == 9
        account = ledger.account("visits")
        account.unfreeze()
        account.run(Noisy(Pure(0.4)), 5)
        assert account.spent().epsilon == 1


def test_an_old_row_put_back_before_the_migration_is_not_made_good(tmp_path: Path) -> None:
    url = copied("v0002", tmp_path)
    with sqlite3.connect(tmp_path / "v0002.db") as database:
        database.execute("UPDATE accounts SET seq = 3 WHERE name = 'visits'")
    database.close()
    with Ledger.open(url) as ledger:
        with pytest.raises(TamperedLedger):
            ledger.account("visits")
        assert any('"visits"' in problem for problem in ledger.verify().problems)
        assert ledger.account("other").status is Status.CLOSED


def test_an_old_ledger_whose_journal_was_edited_is_told_not_migrated(tmp_path: Path) -> None:
    url = copied("v0002", tmp_path)
    with sqlite3.connect(tmp_path / "v0002.db") as database:
        database.execute("DROP TRIGGER journal_no_update")
        database.execute("UPDATE journal SET analyst = 'eve' WHERE seq = 5")
    database.close()
    with Ledger.open(url) as ledger:
        assert any(problem.startswith("Entry 5 was edited") for problem in ledger.verify().problems)
        with pytest.raises(TamperedLedger, match=r"Entry 5 of the journal"):
            ledger.account("visits").run(Noisy(Pure(0.1)), 5)


def test_an_old_ledger_without_its_key_is_read_and_adopted_when_the_key_comes(tmp_path: Path) -> None:
    url = copied("v0002-twice", tmp_path)
    (tmp_path / "v0002-twice.db.key").rename(tmp_path / "safe")
    with Ledger.open(url) as ledger:
        assert any("a second time" in problem for problem in ledger.verify().problems)
        assert ledger.head().count == 7
    with Ledger.open(url, key=tmp_path / "safe") as ledger:
        assert ledger.account("visits").status is Status.FROZEN
