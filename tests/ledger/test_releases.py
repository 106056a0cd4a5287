"""A release is paid for once: free for who paid, charged to another analyst, never twice
to the data set, and sealed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from deniable.errors import BudgetExceeded, InvalidParameter, LedgerError, TamperedLedger
from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger
from deniable.ledger.store import parse
from deniable.ledger.store.migrate import TABLE
from deniable.mechanism import Release
from deniable.mechanisms import Gaussian, Laplace
from deniable.units import Unit

COUNT = Laplace.for_budget(epsilon=0.25)


def asked(account: Account, key: str = "q1", content: str = "said") -> Release[int]:
    release = account.run(COUNT, 1234)
    assert account.keep(key, release, content)
    return release


@pytest.fixture
def visits(ledger: Ledger) -> Account:
    return ledger.create("visits", Unit.row(), limit=Budget(3, 1e-6))


def test_the_account_that_paid_reads_for_free(ledger: Ledger, visits: Account) -> None:
    release = asked(visits)
    before, head = visits.spent(), ledger.head()
    kept = visits.recall("q1")
    assert kept is not None
    assert (kept.content, kept.entry, kept.loss, kept.private) == ("said", release.entry, release.loss, True)
    assert visits.holds("q1")
    assert (visits.spent(), ledger.head()) == (before, head)


def test_what_was_never_asked_is_not_found(visits: Account) -> None:
    assert visits.recall("q1") is None
    assert not visits.holds("q1")


def test_another_analyst_pays_from_her_own_account_and_only_once(ledger: Ledger, visits: Account) -> None:
    asked(visits)
    ada = ledger.create("visits/ada", limit=Budget(1), parent="visits")
    assert not ada.holds("q1")
    assert ada.recall("q1") is not None
    assert ada.spent().epsilon == 0.25
    assert visits.spent().epsilon == 0.25
    assert ada.recall("q1") is not None
    assert ada.spent().epsilon == 0.25
    assert ledger.verify().ok


def test_what_an_analyst_paid_for_is_free_for_the_data_set_and_not_for_a_colleague(
    ledger: Ledger, visits: Account
) -> None:
    ada, bob = (ledger.create(f"visits/{name}", limit=Budget(1), parent="visits") for name in ("ada", "bob"))
    asked(ada)
    assert (ada.holds("q1"), visits.holds("q1"), bob.holds("q1")) == (True, True, False)
    assert bob.recall("q1") is not None
    spent = [account.spent().epsilon for account in (visits, ada, bob)]
    assert spent == [0.25, 0.25, 0.25]
    (last,) = [entry for entry in bob.history() if "reads" in entry.details]
    assert set(last.details["charges"]) == {"visits/bob"}


def test_a_colleague_without_budget_is_refused_and_nothing_is_written(
    ledger: Ledger, visits: Account
) -> None:
    asked(visits)
    poor = ledger.create("visits/poor", limit=Budget(0.1), parent="visits")
    head = ledger.head()
    with pytest.raises(BudgetExceeded, match="Nothing was run and nothing was charged"):
        poor.recall("q1")
    assert ledger.head() == head
    assert not poor.holds("q1")


def test_a_release_charged_at_a_delta_is_read_at_the_same_price(ledger: Ledger, visits: Account) -> None:
    noisy = Gaussian(sigma=20, sensitivity=1)
    release = visits.run(noisy, 1234, delta=1e-8)
    visits.keep("q2", release, "said", delta=1e-8)
    ada = ledger.create("visits/ada", limit=Budget(1, 1e-6), parent="visits")
    ada.recall("q2")
    assert ada.spent().epsilon == pytest.approx(visits.spent().epsilon)
    assert ada.spent().delta == visits.spent().delta == 1e-8


def test_the_first_of_two_releases_for_one_question_stays(visits: Account) -> None:
    asked(visits, content="first")
    assert not visits.keep("q1", visits.run(COUNT, 1234), "second")
    kept = visits.recall("q1")
    assert kept is not None
    assert kept.content == "first"


def test_a_colleague_who_lost_the_race_still_owes_for_the_release_that_stays(
    ledger: Ledger, visits: Account
) -> None:
    asked(visits, content="first")
    ada = ledger.create("visits/ada", limit=Budget(1), parent="visits")
    assert not ada.keep("q1", ada.run(COUNT, 1234), "second")
    assert not ada.holds("q1")
    ada.recall("q1")
    assert ada.spent().epsilon == 0.5


def test_releases_outlive_the_process(url: str) -> None:
    with Ledger.open(url) as ledger:
        asked(ledger.create("visits", Unit.row(), limit=Budget(3)))
    with Ledger.open(url) as ledger:
        kept = ledger.account("visits").recall("q1")
        assert kept is not None
        assert kept.content == "said"


EDITS = (
    "UPDATE releases SET content = 'forged'",
    "UPDATE releases SET key = 'q2'",
    "UPDATE releases SET delta = '1/2'",
    "UPDATE releases SET entry = '1'",
    "UPDATE releases SET loss = '{}'",
    "UPDATE releases SET private = 0",
    "INSERT INTO readers (key, account, mac) VALUES ('q1', 'visits/poor', 'x')",
    "UPDATE readers SET account = 'visits/poor'",
)


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_release_is_never_shown(ledger: Ledger, url: str, visits: Account, edit: str) -> None:
    asked(visits)
    ledger.create("visits/poor", limit=Budget(0.1), parent="visits")
    engine = create_engine(parse(url))
    with engine.begin() as connection:
        connection.execute(text(edit))
    engine.dispose()
    key = "q2" if "q2" in edit else "q1"
    with pytest.raises(TamperedLedger, match=r"is not as it was written\. Nothing was shown"):
        visits.recall(key)
    found = ledger.verify()
    assert not found.ok
    assert any("release" in problem for problem in found.problems)


def test_a_release_that_was_not_paid_for_is_not_kept(visits: Account) -> None:
    with pytest.raises(InvalidParameter, match="that an account paid for"):
        visits.keep("q1", Release(1, COUNT.loss, COUNT.unit), "said")


def test_without_the_key_nothing_is_found(sqlite_url: str, tmp_path: Path) -> None:
    with Ledger.open(sqlite_url) as ledger:
        asked(ledger.create("visits", Unit.row(), limit=Budget(3)))
    with Ledger.open(sqlite_url, key=tmp_path / "elsewhere.key") as ledger:
        assert ledger.account("visits").recall("q1") is None


def test_a_ledger_of_the_first_version_is_upgraded_and_keeps_what_was_spent(
    sqlite_url: str, tmp_path: Path
) -> None:
    with Ledger.open(sqlite_url) as ledger:
        ledger.create("visits", Unit.row(), limit=Budget(3)).run(COUNT, 1234)
    database = sqlite3.connect(tmp_path / "privacy.db")
    database.executescript(
        f"DROP TABLE releases; DROP TABLE readers; UPDATE {TABLE} SET version_num = "
        "'0001';"  # as version 0001 left it
    )
    database.close()
    with Ledger.open(sqlite_url) as ledger:
        account = ledger.account("visits")
        assert account.spent().epsilon == 0.25
        asked(account)
        assert account.holds("q1")
        assert ledger.verify().ok


def test_the_data_names_its_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deniable.ledger.data_sets.beside import ledger_of

    folder = tmp_path / "data"
    folder.mkdir()
    data = folder / "visits.parquet"
    data.write_bytes(b"")
    assert ledger_of(data) == f"sqlite:///{folder}/privacy.db"
    monkeypatch.chdir(tmp_path)
    with Ledger.open("sqlite:///central.db") as ledger:
        ledger.bind(data)
    assert ledger_of(data) == f"sqlite:///{tmp_path}/central.db"
    Path(f"{data}.ledger").write_text(
        '{"id": "x", "ledger": "postgresql+psycopg://a:***@host/db"}', encoding="utf-8"
    )
    with pytest.raises(LedgerError, match="Name it with its password"):
        ledger_of(data)
