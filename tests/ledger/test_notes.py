"""Steps are noted before they are taken, and none is begun twice, whatever was put back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deniable.errors import AccountFrozen, InvalidParameter, LedgerError
from deniable.guarantee import Budget
from deniable.ledger import Account, EntryKind, Ledger
from deniable.loss import Pure
from deniable.units import Unit
from tests.ledger.workers import Asking, Noisy

ROW = Unit.row()


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.create("visits", ROW, limit=Budget(3))


def test_steps_are_noted_and_none_is_begun_twice(ledger: Ledger, account: Account) -> None:
    session = account.open(Asking(Pure(0.01), 100), 1)
    assert account.begun(session.entry) == 0
    account.begin(session.entry, 0, 20)
    account.begin(session.entry, 25, 40)  # steps 21 to 25 are lost
    assert account.begun(session.entry) == 40
    for start in (0, 20, 39):
        with pytest.raises(
            LedgerError, match=rf"Step {start + 1} of entry 2 was begun before.* Go on with step 41"
        ):
            account.begin(session.entry, start, 60)
    assert account.begun(session.entry) == 40
    assert [entry.description for entry in account.history() if entry.kind is EntryKind.BEGIN] == [
        "Steps 1 to 20 of entry 2 begun.",
        "Steps 26 to 40 of entry 2 begun.",
    ]
    assert account.spent().epsilon == 1
    assert ledger.verify().ok


def test_a_run_is_noted_like_a_session(account: Account) -> None:
    entry = account.run(Noisy(Pure(0.1)), 5).entry
    assert entry is not None
    account.begin(entry, 0, 7)
    assert account.begun(entry) == 7


def test_notes_are_known_to_the_next_process(url: str) -> None:
    with Ledger.open(url) as ledger:
        entry = ledger.create("visits", ROW, limit=Budget(3)).open(Asking(Pure(0.01), 100), 1).entry
        ledger.account("visits").begin(entry, 0, 30)
    with Ledger.open(url) as ledger:
        account = ledger.account("visits")
        assert account.begun(entry) == 30
        with pytest.raises(LedgerError, match=r"begun before"):
            account.begin(entry, 29, 31)
        account.begin(entry, 30, 31)


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (5, 4), (-1, 3), (0, 1.5), (True, 3), ("0", 3)])
def test_steps_that_are_none_are_refused(account: Account, start: object, stop: object) -> None:
    session = account.open(Asking(Pure(0.01), 100), 1)
    with pytest.raises(InvalidParameter, match=r"Expected steps from 0 ≤ start < stop"):
        account.begin(session.entry, start, stop)  # type: ignore[arg-type]
    assert account.begun(session.entry) == 0


def test_only_what_paid_and_still_runs_begins_steps(ledger: Ledger, account: Account) -> None:
    part = ledger.create("visits/ada", limit=Budget(1), parent="visits")
    session, other = account.open(Asking(Pure(0.01), 10), 1), part.open(Asking(Pure(0.01), 10), 1)
    created = f"{account.history()[0].seq}:{account.history()[0].mac}"
    for wrong in (other.entry, created, "99:" + "0f" * 32, session.entry.split(":")[0] + ":" + "0f" * 32):
        with pytest.raises(LedgerError, match=r"is no charge of the account"):
            account.begin(wrong, 0, 1)
    session.close()
    with pytest.raises(LedgerError, match=r"The session of entry 3 is closed"):
        account.begin(session.entry, 0, 1)
    account.freeze()
    with pytest.raises(AccountFrozen):
        part.begin(other.entry, 0, 1)  # a part of what is frozen
    account.unfreeze()
    part.begin(other.entry, 0, 1)
    part.close()
    with pytest.raises(LedgerError, match=r"is closed"):
        part.begin(other.entry, 1, 2)


def test_a_note_costs_the_same_after_many(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(3))
        session = account.open(Asking(Pure(0.001), 1000), 1)
        for step in range(600):  # past a mark
            account.begin(session.entry, step, step + 1)
        assert ledger._journal._tip is not None
    with Ledger.open(sqlite_url) as ledger:
        with ledger._journal.store.reading() as transaction:
            assert ledger._journal._marked(transaction).seq == 500
        assert ledger.account("visits").begun(session.entry) == 600
        assert ledger.verify().ok


def test_a_ledger_that_is_set_back_while_it_is_open_is_noticed(tmp_path: Path) -> None:
    """The whole file, at the next note or charge of a process that has seen more."""
    file = tmp_path / "privacy.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        entry = ledger.create("visits", ROW, limit=Budget(3)).open(Asking(Pure(0.01), 100), 1).entry
    shutil.copy(file, tmp_path / "old.db")
    ledger = Ledger.open(f"sqlite:///{file}")
    ledger.account("visits").begin(entry, 0, 30)
    ledger._journal.store.close()
    shutil.copy(tmp_path / "old.db", file)
    with pytest.raises(LedgerError, match=r"no longer holds entry 3 as this process has seen it"):
        ledger.account("visits").begin(entry, 0, 30)
    ledger.close()
