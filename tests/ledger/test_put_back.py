"""What was true once and is put back without the key is noticed at the next charge, not
at the next `verify`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from deniable.errors import LedgerError, TamperedLedger
from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger
from deniable.ledger.store import parse
from deniable.loss import Pure
from deniable.mechanisms import Laplace
from deniable.units import Unit
from tests.ledger.workers import Asking, Noisy

ROW = Unit.row()
TENTH = Noisy(Pure(0.1))
COUNT = Laplace.for_budget(epsilon=0.25)


class Forger:
    """Somebody who can write to the database and does not hold the key."""

    def __init__(self, url: str) -> None:
        self.engine = sqlalchemy.create_engine(parse(url), poolclass=sqlalchemy.NullPool)

    def rows(self, query: str) -> list[dict[str, Any]]:
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(sqlalchemy.text(query)).mappings()]

    def run(self, *statements: str) -> None:
        with self.engine.begin() as connection:
            for statement in statements:
                connection.execute(sqlalchemy.text(statement))

    def put(self, table: str, rows: list[dict[str, Any]], where: str) -> None:
        """Put rows back in the place of those that are there."""
        names = list(rows[0])
        insert = (
            f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(':' + name for name in names)})"
        )
        with self.engine.begin() as connection:
            connection.execute(sqlalchemy.text(f"DELETE FROM {table} WHERE {where}"))
            connection.execute(sqlalchemy.text(insert), rows)

    def free_journal(self) -> None:
        """Take away what guards the journal against accidents."""
        triggers = ("journal_no_update", "journal_no_delete")
        sqlite = [f"DROP TRIGGER IF EXISTS {trigger}" for trigger in triggers]
        postgres = ["DROP TRIGGER IF EXISTS journal_only_grows ON journal"]
        self.run(*(sqlite if self.engine.dialect.name == "sqlite" else postgres))


@pytest.fixture
def forger(url: str) -> Forger:
    return Forger(url)


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.create("visits", ROW, limit=Budget(1))


def spend(account: Account, times: int) -> None:
    for _ in range(times):
        account.run(TENTH, 5)


@pytest.mark.parametrize("fresh", [False, True])
def test_an_old_account_row_put_back_grants_nothing(
    url: str, account: Account, forger: Forger, fresh: bool
) -> None:
    """Fifty releases of .1 were had so under a limit of 1."""
    old = forger.rows("SELECT * FROM accounts WHERE name = 'visits'")
    spend(account, 8)
    forger.put("accounts", old, "name = 'visits'")
    with Ledger.open(url) as other:
        asked = other.account if fresh else lambda _: account
        with pytest.raises(
            TamperedLedger, match=r'"visits" .* is not as it was written. Nothing was charged'
        ):
            asked("visits").run(TENTH, 5)
        with pytest.raises(TamperedLedger):
            account.spent()
        problems = other.verify().problems
        assert any(
            'The account "visits" in' in p and "what is spent" in p and "Entry 9" in p for p in problems
        )


def test_old_rows_of_a_part_and_its_whole_put_back_together_grant_nothing(
    ledger: Ledger, account: Account, forger: Forger
) -> None:
    part = ledger.create("visits/ada", limit=Budget(1), parent="visits")
    old = forger.rows("SELECT * FROM accounts")
    spend(part, 5)
    forger.put("accounts", old, "1 = 1")
    for charged in (part, account):
        with pytest.raises(TamperedLedger):
            charged.run(TENTH, 5)


def test_an_old_row_is_noticed_when_another_account_was_charged_last(
    ledger: Ledger, account: Account, forger: Forger
) -> None:
    other = ledger.create("other", ROW, limit=Budget(9))
    old = forger.rows("SELECT * FROM accounts WHERE name = 'visits'")
    spend(account, 5)
    spend(other, 5)
    forger.put("accounts", old, "name = 'visits'")
    spend(other, 1)  # goes on
    with pytest.raises(TamperedLedger):
        account.run(TENTH, 5)


def test_a_row_that_was_removed_is_no_free_name(
    url: str, ledger: Ledger, account: Account, forger: Forger
) -> None:
    spend(account, 8)
    forger.run("DELETE FROM accounts WHERE name = 'visits'")
    with pytest.raises(TamperedLedger):
        account.run(TENTH, 5)
    with Ledger.open(url) as other, pytest.raises(TamperedLedger):
        other.create("visits", ROW, limit=Budget(1))
    assert any("its row is missing" in problem for problem in ledger.verify().problems)


def test_a_row_that_no_entry_made_grants_nothing(
    url: str, ledger: Ledger, account: Account, forger: Forger
) -> None:
    made = forger.rows("SELECT * FROM accounts")
    forger.put("accounts", [*made, made[0] | {"name": "free"}], "1 = 1")
    with Ledger.open(url) as other, pytest.raises(TamperedLedger):
        other.account("free")
    assert any(
        '"free" is not what the journal comes to: no entry ever made it' in p
        for p in ledger.verify().problems
    )


@pytest.mark.sampled
@pytest.mark.parametrize("marks", ["removed", "put back"])
def test_marks_that_were_removed_or_put_back_hide_nothing(url: str, forger: Forger, marks: str) -> None:
    with Ledger.open(url) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(200))
        spend(account, 500)
        old, mark = forger.rows("SELECT * FROM accounts"), forger.rows("SELECT * FROM marks")
        assert [row["seq"] for row in mark] == [500]
        spend(account, 520)
        assert [row["seq"] for row in forger.rows("SELECT * FROM marks ORDER BY seq")] == [500, 1000]
    forger.put("accounts", old, "1 = 1")
    if marks == "put back":
        forger.put("marks", mark, "1 = 1")
    else:
        forger.run("DELETE FROM marks")
    with Ledger.open(url) as ledger, pytest.raises(TamperedLedger):
        ledger.account("visits").run(TENTH, 5)


def test_a_forged_mark_is_not_read(url: str, forger: Forger) -> None:
    with Ledger.open(url) as ledger:
        spend(ledger.create("visits", ROW, limit=Budget(200)), 500)
        forger.run("UPDATE marks SET state = replace(state, '\"visits\"', '\"others\"')")
    with Ledger.open(url) as ledger:
        ledger.account("visits").run(TENTH, 5)
        assert ledger.verify().ok


def test_an_end_that_was_cut_off_with_its_rows_is_seen_by_who_saw_more_and_against_a_head(
    url: str, ledger: Ledger, account: Account, forger: Forger
) -> None:
    """A roll-back of everything looks to a newcomer like the ledger of yesterday: only
    who saw more can tell."""
    old = forger.rows("SELECT * FROM accounts")
    spend(account, 5)
    head = ledger.head()
    forger.free_journal()
    forger.run("DELETE FROM journal WHERE seq > 1")
    forger.put("accounts", old, "1 = 1")
    with pytest.raises(TamperedLedger, match=r"no longer holds entry 6 as this process has seen it"):
        account.run(TENTH, 5)
    with Ledger.open(url) as newcomer:
        assert newcomer.verify().ok  # not seen
        assert not newcomer.verify(head).ok


def test_an_edited_entry_among_the_last_is_seen_at_the_next_charge_of_a_newcomer(
    url: str, forger: Forger
) -> None:
    with Ledger.open(url) as ledger:
        spend(ledger.create("visits", ROW, limit=Budget(1)), 5)
    forger.free_journal()
    forger.run("UPDATE journal SET description = 'x' WHERE seq = 4")
    with Ledger.open(url) as ledger:
        with pytest.raises(TamperedLedger, match=r"Entry 4 of the journal is not as it was written"):
            ledger.account("visits")
        assert ledger.verify().problems[0].startswith("Entry 4 was edited")


def test_a_row_of_another_course_of_history_does_not_fit(tmp_path: Path) -> None:
    """Sealed with the right key, at the right number: a copy of the file was charged less."""
    file, fork = tmp_path / "privacy.db", tmp_path / "fork.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        ledger.create("visits", ROW, limit=Budget(1))
    shutil.copy(file, fork)
    for path, price in ((file, 0.9), (fork, 0.01)):
        with Ledger.open(f"sqlite:///{path}", key=tmp_path / "privacy.db.key") as ledger:
            ledger.account("visits").run(Noisy(Pure(price)), 5)
    cheaper = Forger(f"sqlite:///{fork}").rows("SELECT * FROM accounts")
    Forger(f"sqlite:///{file}").put("accounts", cheaper, "1 = 1")
    with Ledger.open(f"sqlite:///{file}") as ledger, pytest.raises(TamperedLedger):
        ledger.account("visits").run(TENTH, 5)


def test_a_note_cannot_be_taken_back(url: str, ledger: Ledger, account: Account, forger: Forger) -> None:
    session = account.open(Asking(Pure(0.01), 100), 1)
    account.begin(session.entry, 0, 50)
    forger.free_journal()
    forger.run("DELETE FROM journal WHERE kind = 'begin'")
    with pytest.raises(TamperedLedger, match=r"no longer holds entry 3"):
        account.begun(session.entry)
    with Ledger.open(
        url
    ) as newcomer:  # the end of the journal, cut off: seen against a head, and at the number if more follows
        assert newcomer.account("visits").begun(session.entry) == 0


# ------------------------------------------------------------------------------------------------ releases


def test_who_paid_for_one_release_has_not_paid_for_another(
    ledger: Ledger, account: Account, forger: Forger
) -> None:
    ada, ben = (
        ledger.create(f"visits/{name}", limit=Budget(0.5), parent="visits") for name in ("ada", "ben")
    )
    ada.keep("q1", ada.run(COUNT, 5), "first")
    paid = forger.rows("SELECT * FROM readers WHERE account = 'visits/ada'")
    forger.run("DELETE FROM releases", "DELETE FROM readers")
    ben.keep("q1", ben.run(COUNT, 5), "second")
    forger.put("readers", paid, "account = 'visits/ada'")
    with pytest.raises(TamperedLedger, match=r"Nothing was shown"):
        ada.recall("q1")


def test_a_release_whose_charge_was_cut_off_is_not_shown(url: str, account: Account, forger: Forger) -> None:
    old = forger.rows("SELECT * FROM accounts")
    account.keep("q1", account.run(COUNT, 5), "said")
    forger.free_journal()
    forger.run("DELETE FROM journal WHERE seq > 1")
    forger.put("accounts", old, "1 = 1")
    with Ledger.open(url) as newcomer:
        with pytest.raises(TamperedLedger, match=r"Nothing was shown"):
            newcomer.account("visits").recall("q1")
        assert any("release kept under q1" in problem for problem in newcomer.verify().problems)


def test_a_release_of_another_unit_is_not_recalled(ledger: Ledger, account: Account) -> None:
    """An answer about rows is no answer about patients, at any price."""
    account.keep("q1", account.run(COUNT, 5), "said")
    people = ledger.create("people", Unit.column("patient_id", max_rows=4), limit=Budget(3))
    assert people.recall("q1") is None
    assert not people.holds("q1")
    assert people.spent().epsilon == 0
    kept = account.recall("q1")
    assert kept is not None
    assert kept.unit == ROW


def test_only_what_this_account_paid_is_kept(ledger: Ledger, account: Account) -> None:
    from dataclasses import replace

    release = account.run(COUNT, 5)
    other = ledger.create("other", ROW, limit=Budget(1))
    cheap = Laplace.for_budget(epsilon=0.001)
    for keeper, forged in (
        (other, release),
        (account, replace(release, loss=cheap.loss)),
        (account, replace(release, entry="1:" + "0f" * 32)),
    ):
        with pytest.raises(LedgerError, match=r"Nothing was kept"):
            keeper.keep("q1", forged, "said")
