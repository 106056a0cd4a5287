"""The journal: what was written is found as it was written, or the difference is told."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
import sqlalchemy

from deniable.errors import InvalidParameter, LedgerError, TamperedLedger
from deniable.guarantee import Budget
from deniable.ledger import Head, Ledger
from deniable.ledger.journal.entries import COLUMNS, Standing, apply
from deniable.ledger.journal.export import comma_separated, json_lines
from deniable.ledger.journal.verify import HOLDER, NO_HEAD, NO_KEY
from deniable.ledger.store.migrate import NEWEST, TABLE
from deniable.ledger.store.schema import metadata
from deniable.loss import Approximate, GaussianNoise, Pure
from deniable.units import Unit
from tests.ledger.workers import Asking, Noisy

ROW = Unit.row()


def fill(ledger: Ledger, times: int = 6) -> None:
    account = ledger.create("visits", ROW, limit=Budget(3, 1e-6))
    part = ledger.create("visits/ada", limit=Budget(1, 1e-7), parent="visits")
    for i in range(times):
        (part if i % 2 else account).run(Noisy(Pure(0.1)), i)


def tamper(url: str, *statements: str) -> None:
    """Edit the database as somebody who can write to it but does not hold the key."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            for trigger in ("journal_no_update", "journal_no_delete"):
                connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
            for statement in statements:
                connection.execute(statement)
        connection.close()
        return
    with psycopg.connect(url) as postgres:
        postgres.execute("DROP TRIGGER IF EXISTS journal_only_grows ON journal")
        for statement in statements:
            postgres.execute(statement)


EDITS: dict[str, tuple[list[str], str]] = {
    "a description edited": (["UPDATE journal SET description = 'x' WHERE seq = 4"], "Entry 4 was edited"),
    "a loss made smaller": (
        ['UPDATE journal SET loss = \'{"node":"Pure","epsilon":0.01}\' WHERE seq = 4'],
        "Entry 4 was edited",
    ),
    "an analyst renamed": (["UPDATE journal SET analyst = 'eve' WHERE seq = 5"], "Entry 5 was edited"),
    "an entry removed": (["DELETE FROM journal WHERE seq = 5"], "Entries 5 to 5 are missing"),
    "an entry removed and the rest moved up": (
        [
            "DELETE FROM journal WHERE seq = 5",
            "UPDATE journal SET seq = 5 WHERE seq = 6",
            "UPDATE journal SET seq = 6 WHERE seq = 7",
        ],
        "Entry 5 was edited, moved",
    ),
    "two entries exchanged": (
        [
            "UPDATE journal SET seq = 99 WHERE seq = 4",
            "UPDATE journal SET seq = 4 WHERE seq = 6",
            "UPDATE journal SET seq = 6 WHERE seq = 99",
        ],
        "Entry 4 was edited, moved",
    ),
    "the end cut off": (["DELETE FROM journal WHERE seq > 6"], 'The account "visits'),
    "the spending set back": (
        ["UPDATE accounts SET spent = replace(spent, '[3,5]', '[1,5]') WHERE name = 'visits'"],
        'The account "visits" in',
    ),
    "the limit raised in the table": (
        [
            'UPDATE accounts SET filter = replace(filter, \'"epsilon":"3"\', \'"epsilon":"9"\') WHERE name = \'visits\''
        ],
        'The account "visits" in',
    ),
    "an account removed": (
        ["DELETE FROM accounts WHERE name = 'visits/ada'"],
        'The account "visits/ada" is not what',
    ),
    "an account frozen by hand": (
        ["UPDATE accounts SET status = 'frozen' WHERE name = 'visits'"],
        "is not as it was written",
    ),
}


def test_an_untouched_journal_verifies(ledger: Ledger) -> None:
    fill(ledger)
    found = ledger.verify(ledger.head())
    assert found.ok
    assert found.head == ledger.head()
    assert found.unseen == (HOLDER,)


@pytest.mark.parametrize("edit", EDITS)
def test_tampering_is_found(url: str, edit: str) -> None:
    with Ledger.open(url) as ledger:
        fill(ledger)
        statements, told = EDITS[edit]
        tamper(url, *statements)
        found = ledger.verify()
        assert any(told in problem for problem in found.problems), found.problems


def test_a_charge_on_an_edited_account_is_refused_at_once(url: str) -> None:
    with Ledger.open(url) as ledger:
        fill(ledger)
        account = ledger.account("visits")
        tamper(url, *EDITS["the spending set back"][0])
        with pytest.raises(
            TamperedLedger,
            match=r'"visits" .* is not as it was written. Nothing was charged and nothing was run',
        ):
            account.run(Noisy(Pure(0.1)), 5)


def test_a_cut_end_is_seen_at_the_next_charge(url: str) -> None:
    with Ledger.open(url) as ledger:
        fill(ledger)
        account = ledger.account("visits")
        tamper(url, "DELETE FROM journal WHERE seq > 6")
        with pytest.raises(TamperedLedger):
            account.run(Noisy(Pure(0.1)), 5)


def test_the_journal_only_grows(url: str) -> None:
    with Ledger.open(url) as ledger:
        fill(ledger)
    for statement in ("UPDATE journal SET analyst = 'eve'", "DELETE FROM journal"):
        if url.startswith("sqlite"):
            connection = sqlite3.connect(url.removeprefix("sqlite:///"))
            with pytest.raises(sqlite3.IntegrityError, match=r"the journal only grows"):
                connection.execute(statement)
            connection.close()
        else:
            with (
                pytest.raises(psycopg.Error, match=r"the journal only grows"),
                psycopg.connect(url) as postgres,
            ):
                postgres.execute(statement)


def test_a_roll_back_is_seen_against_a_head_and_only_so(tmp_path: Path) -> None:
    file, copy = tmp_path / "privacy.db", tmp_path / "copy.db"
    with Ledger.open(f"sqlite:///{file}") as ledger:
        fill(ledger)
    shutil.copy(file, copy)
    with Ledger.open(f"sqlite:///{file}") as ledger:
        ledger.account("visits").run(Noisy(Pure(0.1)), 5)
        head = ledger.head()
    shutil.copy(copy, file)
    with Ledger.open(f"sqlite:///{file}") as ledger:
        blind = ledger.verify()
        assert blind.ok
        assert NO_HEAD in blind.unseen
        cut = ledger.verify(head)
        assert (
            "The head was taken at 9 entries; there are 8: the end was cut off or rolled back."
            in cut.problems
        )
        ledger.account("visits").run(Noisy(Pure(0.2)), 5)  # written on
        assert any("rolled back and written on" in p for p in ledger.verify(str(head)).problems)


def test_an_entry_of_another_course_of_history_does_not_fit(tmp_path: Path) -> None:
    """Sealed with the right key, under the right number, for the same charge: only the chain tells."""
    file, fork, moment = tmp_path / "privacy.db", tmp_path / "fork.db", datetime(2030, 1, 1, tzinfo=UTC)
    with Ledger.open(f"sqlite:///{file}", clock=lambda: moment) as ledger:
        fill(ledger)
    shutil.copy(file, fork)
    for path, words in ((file, "the truth"), (fork, "a lie")):
        with Ledger.open(
            f"sqlite:///{path}", key=tmp_path / "privacy.db.key", clock=lambda: moment
        ) as ledger:
            for _ in range(2):
                ledger.account("visits").run(Noisy(Pure(0.1)), 5, description=words)
    tamper(
        f"sqlite:///{file}",
        f"ATTACH '{fork}' AS fork",
        "DELETE FROM main.journal WHERE seq = 9",
        "INSERT INTO main.journal SELECT * FROM fork.journal WHERE seq = 9",
    )
    with Ledger.open(f"sqlite:///{file}") as ledger:
        assert ledger.verify().problems == (
            "Entry 10 was edited, moved, or does not follow the entry before it.",
        )


def test_without_the_key_the_ledger_is_read_only_and_says_what_it_cannot_see(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/privacy.db"
    with Ledger.open(url) as ledger:
        fill(ledger)
    (tmp_path / "privacy.db.key").rename(tmp_path / "safe")
    with Ledger.open(url) as ledger:
        assert NO_KEY in ledger.verify().unseen
        assert ledger.account("visits").spent().epsilon > 0
        with pytest.raises(
            LedgerError,
            match=r"key .* was not found at .*privacy.db.key, so it can only be read. Nothing was charged",
        ):
            ledger.account("visits").run(Noisy(Pure(0.1)), 5)
    assert not (tmp_path / "privacy.db.key").exists()
    with Ledger.open(url, key=tmp_path / "safe") as ledger:
        ledger.account("visits").run(Noisy(Pure(0.1)), 5)


def test_another_key_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/privacy.db"
    with Ledger.open(url) as ledger:
        fill(ledger)
    (tmp_path / "privacy.db.key").write_text("ab" * 32)
    with pytest.raises(LedgerError, match=r"is not the key of the ledger"):
        Ledger.open(url)
    (tmp_path / "privacy.db.key").write_text("no key")
    with pytest.raises(LedgerError, match=r"holds no key"):
        Ledger.open(url)


def test_the_key_lies_outside_the_database_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(f"sqlite:///{tmp_path}/privacy.db") as ledger:
        fill(ledger)
    key = tmp_path / "privacy.db.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text().strip() not in (tmp_path / "privacy.db").read_bytes().hex()
    assert key.read_text().strip().encode() not in (tmp_path / "privacy.db").read_bytes()
    monkeypatch.setenv("DENIABLE_LEDGER_KEY", str(tmp_path / "elsewhere"))
    with Ledger.open(f"sqlite:///{tmp_path}/other.db"):
        assert (tmp_path / "elsewhere").exists()
        assert not (tmp_path / "other.db.key").exists()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_heads_are_read_or_refused() -> None:
    assert Head.parse(" 12:" + "0f" * 32 + "\n") == Head(12, "0f" * 32)
    for bad in ("", "12", "12:zz", "x:" + "0f" * 32, "12:" + "0F" * 32):
        with pytest.raises(InvalidParameter, match=r"Expected a head like"):
            Head.parse(bad)


def test_state_rebuilt_from_the_journal_is_the_same_bit_for_bit(ledger: Ledger) -> None:
    fill(ledger)
    account = ledger.account("visits")
    account.run(Noisy(GaussianNoise(30)), 5)
    account.run(Noisy(Approximate(0.1, 1e-9)), 5)
    with account.open(Asking(GaussianNoise(50), 20), 5) as session:
        session.ask(lambda data: data)
    account.raise_limit(Budget(4, 1e-6))
    account.freeze()
    rebuilt: dict[str, Standing] = {}
    for entry in ledger.history():
        rebuilt |= apply(entry, rebuilt)
    assert rebuilt == {name: ledger.account(name).standing() for name in ("visits", "visits/ada")}


def test_a_charge_does_the_same_work_whatever_the_history(sqlite_url: str) -> None:
    """The statements of a charge and the rows they touch, at two lengths of history."""
    with Ledger.open(sqlite_url) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(100))
        work = []
        for _ in range(2):
            steps, count = [0], account.run(Noisy(Pure(0.001)), 5)
            assert count.entry is not None
            connection = ledger._journal.store.engine.raw_connection()
            connection.driver_connection.set_progress_handler(lambda: steps.__setitem__(0, steps[0] + 1), 1)  # noqa: B023
            connection.close()
            account.run(Noisy(Pure(0.001)), 5)
            connection = ledger._journal.store.engine.raw_connection()
            connection.driver_connection.set_progress_handler(None, 1)
            connection.close()
            work.append(steps[0])
            for _ in range(300):
                account.run(Noisy(Pure(0.001)), 5)
        assert 0 < work[1] <= 1.2 * work[0]


def test_the_export_loses_nothing(ledger: Ledger) -> None:
    fill(ledger)
    lines, cells = io.StringIO(), io.StringIO()
    entries = ledger.history()
    assert json_lines(entries, lines) == comma_separated(entries, cells) == len(entries)
    read = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert read == [entry.to_dict() for entry in entries]
    assert tuple(read[0]) == COLUMNS
    rows = list(csv.DictReader(io.StringIO(cells.getvalue())))
    assert [int(row["seq"]) for row in rows] == [entry.seq for entry in entries]
    assert rows[3]["loss"] == entries[3].loss_json


def test_a_spreadsheet_runs_nothing_that_an_analyst_wrote(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))
    account.run(Noisy(Pure(0.1)), 5, description='=HYPERLINK("http://example.org")')
    cells = io.StringIO()
    comma_separated(memory.history(), cells)
    assert list(csv.DictReader(io.StringIO(cells.getvalue())))[1]["description"].startswith("'=")


# ------------------------------------------------------------------------------------------------ one data set, one ledger


def test_another_ledger_beside_the_data_is_named(tmp_path: Path) -> None:
    data = tmp_path / "visits.parquet"
    data.write_bytes(b"PAR1")
    with Ledger.open(f"sqlite:///{tmp_path}/one.db") as one:
        one.bind(data)  # alone: no warning
        one.bind(data)
    with (
        Ledger.open(f"sqlite:///{tmp_path}/two.db") as two,
        pytest.warns(UserWarning, match=r"Another ledger lies beside .*one\.db"),
    ):
        two.bind(data)
    with Ledger.open(f"sqlite:///{tmp_path}/one.db") as one, pytest.warns(UserWarning, match=r"two\.db"):
        one.bind(data)


def test_another_ledger_is_named_once_though_mark_and_folder_tell_of_it(tmp_path: Path) -> None:
    data = tmp_path / "visits.parquet"
    data.write_bytes(b"PAR1")
    with Ledger.open(f"sqlite:///{tmp_path}/one.db") as one:
        one.bind(data)
    with Ledger.open(f"sqlite:///{tmp_path}/two.db") as two, pytest.warns(UserWarning, match="one") as warned:
        two.bind(data)
    assert len(warned) == 1


def test_a_ledger_that_was_deleted_is_missed(tmp_path: Path) -> None:
    data = tmp_path / "visits.parquet"
    data.write_bytes(b"PAR1")
    with Ledger.open(f"sqlite:///{tmp_path}/one.db") as one:
        one.bind(data)
    (tmp_path / "one.db").unlink()
    with pytest.raises(LedgerError, match=r"but .*one\.db\.key of one that was there"):
        Ledger.open(f"sqlite:///{tmp_path}/one.db")
    (tmp_path / "one.db.key").unlink()
    with (
        Ledger.open(f"sqlite:///{tmp_path}/one.db") as new,
        pytest.warns(UserWarning, match=r"one\.db is not the one that metered .* deleted or replaced"),
    ):
        new.bind(data)


def test_a_ledger_elsewhere_is_found_by_its_mark(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    data = tmp_path / "a" / "visits.parquet"
    data.write_bytes(b"PAR1")
    (tmp_path / "a" / "notes.db").write_bytes(b"SQLite format 3\0 but no ledger")
    with Ledger.open(f"sqlite:///{tmp_path}/one.db") as one:
        one.bind(data)
    with Ledger.open(f"sqlite:///{tmp_path}/two.db") as two, pytest.warns(UserWarning, match=r"one\.db"):
        two.bind(data)
    Path(f"{data}.ledger").write_text("no mark")
    with (
        Ledger.open(f"sqlite:///{tmp_path}/two.db") as two,
        pytest.raises(LedgerError, match=r"cannot be read"),
    ):
        two.bind(data)


# ------------------------------------------------------------------------------------------------ opening


def test_the_tables_are_those_of_the_schema(ledger: Ledger) -> None:
    inspector = sqlalchemy.inspect(ledger._journal.store.engine)
    for table in metadata.sorted_tables:
        found = {column["name"]: column["nullable"] for column in inspector.get_columns(table.name)}
        assert found == {column.name: bool(column.nullable) for column in table.columns}


def test_opening_again_migrates_nothing_and_a_later_version_is_refused(url: str) -> None:
    with Ledger.open(url) as ledger:
        fill(ledger)
    with Ledger.open(url) as ledger:
        assert ledger.verify().ok
    tamper(url, f"UPDATE {TABLE} SET version_num = '9999' WHERE version_num = '{NEWEST}'")
    with pytest.raises(LedgerError, match=r"written by a later version of Deniable. Nothing was changed"):
        Ledger.open(url)


@pytest.mark.parametrize("address", ["privacy.db", "mysql://host/db", "", "sqlite+aiosqlite:///x"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InvalidParameter, match=r"Expected a ledger"):
        Ledger.open(address)


def test_what_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"There is no ledger in .*none.db. Nothing was created"):
        Ledger.open(f"sqlite:///{tmp_path}/none.db", create=False)
    assert not (tmp_path / "none.db").exists()
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE patients (name TEXT)")
    connection.close()
    with pytest.raises(LedgerError, match=r"is a database of something else. Nothing was changed"):
        Ledger.open(f"sqlite:///{tmp_path}/other.db")
    (tmp_path / "text.db").write_text("not a database at all, but long enough to be looked at" * 40)
    with pytest.raises(LedgerError, match=r"is no SQLite database"):
        Ledger.open(f"sqlite:///{tmp_path}/text.db")
    with pytest.raises(LedgerError, match=r"cannot be opened"):
        Ledger.open(f"sqlite:///{tmp_path}/no/folder.db")


def test_a_password_is_never_told(postgres_url: str) -> None:
    with pytest.raises(LedgerError) as failure:
        Ledger.open("postgresql://ada:hunter2@127.0.0.1:1/nowhere?connect_timeout=2")
    assert "hunter2" not in str(failure.value)


def test_the_database_is_set_to_last(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url) as ledger:
        ask: Callable[[str], object] = lambda name: (  # noqa: E731
            ledger._journal.store.engine.raw_connection().cursor().execute(f"PRAGMA {name}").fetchone()[0]
        )
        assert (ask("journal_mode"), ask("synchronous")) == ("wal", 2)


@pytest.mark.needs("postgres")
def test_a_server_that_answers_early_is_told_not_to(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DENIABLE_LEDGER_KEY", str(tmp_path / "key"))
    address = postgres_url.replace("options=", "options=-csynchronous_commit%3Doff%20")
    with Ledger.open(address) as ledger, ledger._journal.store.engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


def test_processes_share_no_draft_of_a_key(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path}/privacy.db"):
        assert sorted(os.listdir(tmp_path))[0] == "privacy.db"
