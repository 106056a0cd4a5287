"""A ledger that was moved, deleted, replaced or written over under a running process: nothing more is released."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing import Event, Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from deniable.errors import LedgerError
from deniable.guarantee import Budget
from deniable.ledger import Ledger
from deniable.ledger.store import visible
from deniable.loss import Pure
from deniable.units import Unit
from tests.ledger.workers import Asking, Noisy

ROW = Unit.row()
TENTH = Noisy(Pure(0.1))
SMALL = Noisy(Pure(0.001))


def opened() -> int:
    raise AssertionError("Data was opened.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a ledger, below one that can be moved; with a backup from before the last charges beside it."""
    place = tmp_path / "books"
    place.mkdir()
    with Ledger.open(f"sqlite:///{place}/privacy.db") as ledger:
        ledger.create("visits", ROW, limit=Budget(1)).run(TENTH, 5)
    shutil.copytree(place, tmp_path / "backup")
    return place


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{folder}/privacy.db") as ledger:
        yield ledger


def restore(folder: Path) -> None:
    copy = folder / "copy"
    shutil.copy(folder.with_name("backup") / "privacy.db", copy)
    os.replace(copy, folder / "privacy.db")


def restore_alone(folder: Path) -> None:
    for name in ("privacy.db-wal", "privacy.db-shm"):
        (folder / name).unlink()
    restore(folder)


def delete(folder: Path) -> None:
    for file in folder.glob("privacy.db*"):
        file.unlink()


def delete_database(folder: Path) -> None:
    (folder / "privacy.db").unlink()


def rename(folder: Path) -> None:
    for file in list(folder.glob("privacy.db*")):
        file.rename(folder / file.name.replace("privacy", "other"))


def rename_folder(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def remount(folder: Path) -> None:
    """Another folder appears in its place, as when a disk is mounted over it."""
    folder.rename(folder.with_name("below"))
    folder.with_name("backup").rename(folder)


def delete_log(folder: Path) -> None:
    (folder / "privacy.db-wal").unlink()


def delete_index(folder: Path) -> None:
    (folder / "privacy.db-shm").unlink()


def replace_log(folder: Path) -> None:
    shutil.copy(folder / "privacy.db-wal", folder / "copy")
    os.replace(folder / "copy", folder / "privacy.db-wal")


def second_name(folder: Path) -> None:
    os.link(folder / "privacy.db", folder / "second.db")


SWAPS = [
    restore, restore_alone, delete, delete_database, rename, rename_folder, remount, delete_log, delete_index,
    replace_log, second_name,
]  # fmt: skip


@pytest.mark.parametrize("swap", SWAPS)
def test_nothing_leaves_once_the_file_is_another(
    folder: Path, ledger: Ledger, swap: Callable[[Path], None]
) -> None:
    account = ledger.account("visits")
    account.keep("question", account.run(TENTH, 5), "said")
    session = account.open(Asking(Pure(0.01), 10), 1)
    assert account.recall("question") is not None
    swap(folder)
    acts: list[Callable[[], object]] = [
        lambda: account.run(TENTH, opened),
        lambda: account.open(Asking(Pure(0.01), 10), opened),
        lambda: session.ask(lambda data: data),
        lambda: account.recall("question"),
        lambda: account.view("question"),
        lambda: account.preview(Pure(0.1)),
        lambda: account.remaining(),
        lambda: account.spent(),
        lambda: account.forget("ada", declared=3),
        lambda: account.raise_limit(Budget(5)),
        lambda: account.begin(session.entry, 0, 1),
        lambda: ledger.create("other", ROW, limit=Budget(9)),
        lambda: ledger.history(),
    ]
    for act in [*acts, *acts, session.close]:
        with pytest.raises(LedgerError, match=r"Nothing was released.*put the newest file back|is closed"):
            act()


def test_what_was_under_way_when_the_file_went_is_not_released(folder: Path, ledger: Ledger) -> None:
    account = ledger.account("visits")

    def opening() -> int:
        rename(folder)
        return 5

    with pytest.raises(LedgerError, match=r"is no longer there: it was deleted or renamed"):
        account.run(TENTH, opening)


def test_a_file_that_goes_during_the_commit_is_seen_before_the_data_is_opened(
    folder: Path, ledger: Ledger
) -> None:
    """The entry is made, and the transaction ends, after the file was renamed."""
    account = ledger.account("visits")

    def clock(now: Any = ledger._journal._clock) -> Any:
        rename_folder(folder)
        return now()

    ledger._journal._clock = clock
    with pytest.raises(LedgerError, match=r"is no longer there"):
        account.run(TENTH, opened)
    with Ledger.open(f"sqlite:///{folder.with_name('elsewhere')}/privacy.db") as other:
        assert other.account("visits").spent().epsilon == 0.2  # charged there, and not released


def test_a_file_that_is_put_back_goes_on_with_every_charge(folder: Path, ledger: Ledger) -> None:
    account = ledger.account("visits")
    account.run(TENTH, 5)
    rename_folder(folder)
    with pytest.raises(LedgerError):
        account.run(TENTH, opened)
    folder.with_name("elsewhere").rename(folder)
    account.run(TENTH, 5)
    assert account.spent().epsilon == pytest.approx(0.3)
    assert ledger.verify().ok


def test_a_symbolic_link_that_points_elsewhere_is_seen(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(folder / "privacy.db")
    key = folder / "privacy.db.key"
    with Ledger.open(f"sqlite:///{link}", key=key) as ledger:
        account = ledger.account("visits")
        account.run(TENTH, 5)
        for target in (folder.with_name("backup") / "privacy.db", tmp_path / "nowhere"):
            other = tmp_path / "other"
            other.symlink_to(target)
            os.replace(other, link)
            with pytest.raises(LedgerError, match=r"Nothing was released"):
                account.run(TENTH, opened)
        link.unlink()
        link.symlink_to(folder / "privacy.db")
        account.run(TENTH, 5)


def test_a_folder_link_that_points_elsewhere_is_seen(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to(folder)
    with Ledger.open(f"sqlite:///{link}/privacy.db") as ledger:
        account = ledger.account("visits")
        account.run(TENTH, 5)
        (tmp_path / "next").symlink_to(tmp_path / "backup")
        os.replace(tmp_path / "next", link)
        with pytest.raises(LedgerError, match=r"is another file"):
            account.run(TENTH, opened)


def test_another_folder_of_the_process_is_no_other_ledger(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with Ledger.open("sqlite:///privacy.db") as ledger:
        account = ledger.account("visits")
        account.run(TENTH, 5)
        monkeypatch.chdir(tmp_path)
        account.run(TENTH, 5)
        ledger.close()
        account.run(TENTH, 5)
        assert account.spent().epsilon == pytest.approx(0.4)


def test_a_second_connection_is_never_to_another_file(folder: Path, ledger: Ledger) -> None:
    """The pool has none left, and opens one, when the file is another already."""
    account = ledger.account("visits")
    account.run(TENTH, 5)
    ledger.close()
    restore(folder)
    with pytest.raises(LedgerError, match=r"is another file"):
        account.run(TENTH, opened)


# ------------------------------------------------------------------------------------------------ written over in place


def fold_in(folder: Path) -> None:
    """Another program writes the log into the database."""
    text = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint(TRUNCATE)')"
    subprocess.run([sys.executable, "-c", text, folder / "privacy.db"], check=True)


def write_over(source: Path, folder: Path) -> None:
    """As `cp` does, in another process: the inode stays."""
    subprocess.run(["cp", source / "privacy.db", folder / "privacy.db"], check=True)


@pytest.mark.parametrize("later", [0, 1, 40])
def test_an_older_copy_written_over_the_file_is_refused(folder: Path, ledger: Ledger, later: int) -> None:
    account = ledger.account("visits")
    for _ in range(60):
        account.run(SMALL, 5)
    fold_in(folder)
    for _ in range(later):  # these are in the log alone
        account.run(SMALL, 5)
    write_over(folder.with_name("backup"), folder)
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"Nothing was|damaged"):
            account.run(SMALL, opened)
    if later:  # else the file is what it once was, and only a head kept elsewhere tells
        with pytest.raises(LedgerError):
            charge_as_newcomer(folder)


def charge_as_newcomer(folder: Path) -> None:
    with Ledger.open(f"sqlite:///{folder}/privacy.db") as newcomer:
        newcomer.account("visits").run(SMALL, opened)


def test_an_older_copy_that_the_log_makes_good_loses_nothing(folder: Path, ledger: Ledger) -> None:
    account = ledger.account("visits")
    for _ in range(60):
        account.run(SMALL, 5)
    write_over(folder.with_name("backup"), folder)
    account.run(SMALL, 5)
    assert ledger.verify().ok
    assert ledger.head().count == 63


def test_checkpoints_are_no_reason_to_refuse(folder: Path, ledger: Ledger) -> None:
    account = ledger.account("visits")
    for _ in range(3):
        account.run(SMALL, 5)
        fold_in(folder)
    with Ledger.open(f"sqlite:///{folder}/privacy.db") as other:
        other.account("visits").run(SMALL, 5)
    account.run(SMALL, 5)
    assert ledger.verify().ok


# ------------------------------------------------------------------------------------------------ a log written over in place


def empty_log(folder: Path) -> None:
    os.truncate(folder / "privacy.db-wal", 0)


def halve_log(folder: Path) -> None:
    os.truncate(folder / "privacy.db-wal", (folder / "privacy.db-wal").stat().st_size // 2)


def cut_log(folder: Path) -> None:
    """The last page is missing."""
    os.truncate(folder / "privacy.db-wal", (folder / "privacy.db-wal").stat().st_size - 4096 - 24)


def restore_log(folder: Path) -> None:
    """As rsync does with a copy of the whole folder: the database is as it was then, so it is left alone."""
    subprocess.run(["cp", folder / "older", folder / "privacy.db-wal"], check=True)


def wipe_header(folder: Path) -> None:
    with (folder / "privacy.db-wal").open("r+b") as file:
        file.write(bytes(32))


LOG_CHANGES = [empty_log, halve_log, cut_log, restore_log, wipe_header]


@pytest.mark.parametrize("change", LOG_CHANGES)
@pytest.mark.parametrize("moment", ["between charges", "during a charge"])
def test_a_log_that_is_written_over_in_place_is_seen_by_all(
    folder: Path, ledger: Ledger, change: Callable[[Path], None], moment: str
) -> None:
    """Inodes stay, and SQLite goes on with what it remembers: charges would be lost to whoever reads the log anew."""
    account, url = ledger.account("visits"), f"sqlite:///{folder}/privacy.db"
    account.run(SMALL, 5)
    shutil.copy(folder / "privacy.db-wal", folder / "older")
    for _ in range(30):
        account.run(SMALL, 5)
    with Ledger.open(url) as other:
        if moment == "between charges":
            change(folder)
        else:

            def clock(now: Any = ledger._journal._clock) -> Any:
                change(folder)
                return now()

            ledger._journal._clock = clock
        for _ in range(2):
            with pytest.raises(LedgerError, match=r"emptied, cut off or written over.*Nothing was released"):
                account.run(SMALL, opened)
        with pytest.raises(LedgerError, match=r"Nothing was released"):
            other.account("visits").run(SMALL, opened)
        with pytest.raises(LedgerError, match=r"Nothing was released"):
            charge_as_newcomer(folder)


@pytest.mark.parametrize("change", LOG_CHANGES)
def test_a_log_that_was_written_over_is_seen_before_anything_is_added_to_it(
    folder: Path, ledger: Ledger, change: Callable[[Path], None]
) -> None:
    """A commit may end in a checkpoint, which would write what is left of the log into the database."""
    account = ledger.account("visits")
    account.run(SMALL, 5)
    shutil.copy(folder / "privacy.db-wal", folder / "older")
    for _ in range(30):
        account.run(SMALL, 5)
    change(folder)
    log = (folder / "privacy.db-wal").read_bytes()
    with pytest.raises(LedgerError, match=r"emptied, cut off or written over"):
        account.run(SMALL, opened)
    assert (folder / "privacy.db-wal").read_bytes() == log


def test_a_log_that_is_begun_anew_again_and_again_is_no_reason_to_refuse(
    folder: Path, ledger: Ledger, crowd: Callable[..., Any]
) -> None:
    """Two processes in turn, checkpoints that start the log anew and ones that empty it, and a rollback."""
    url, account = f"sqlite:///{folder}/privacy.db", ledger.account("visits")
    receiver, sender = Pipe()
    child = crowd(target=hold, args=(url, sender))
    child.start()
    assert receiver.recv() == "open"
    for mode in ("RESTART", "PASSIVE", "TRUNCATE", "FULL"):
        for _ in range(3):
            account.run(SMALL, 5)
        with pytest.raises(LedgerError):
            ledger.create("visits", ROW, limit=Budget(1))
        text = f"import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint({mode})')"
        subprocess.run([sys.executable, "-c", text, folder / "privacy.db"], check=True)
        account.run(SMALL, 5)
    receiver.send("close")
    child.join(60)
    assert child.exitcode == 0
    account.run(SMALL, 5)
    assert ledger.verify().ok
    assert ledger.head().count == 2 + 1 + 4 * 4 + 1


# ------------------------------------------------------------------------------------------------ a log without its file


@pytest.mark.parametrize("emptied", [False, True])
@pytest.mark.parametrize("left", ["privacy.db-wal", "privacy.db.key"])
def test_no_ledger_is_begun_where_a_log_or_a_key_was_left(folder: Path, left: str, emptied: bool) -> None:
    for file in folder.glob("privacy.db*"):
        file.unlink()
    (folder / left).write_text("left")
    if emptied:
        (folder / "privacy.db").touch()
    for create in (True, False):
        with pytest.raises(
            LedgerError, match=r"There is no ledger in .* but .* of one that was there.*remove"
        ):
            Ledger.open(f"sqlite:///{folder}/privacy.db", create=create)
    (folder / left).unlink()
    Ledger.open(f"sqlite:///{folder}/privacy.db").close()


KILLED = """
import os, sys
from deniable.ledger import Ledger
from deniable.ledger.journal import chain
from deniable.ledger.journal.journal import Journal

moment = sys.argv[2]
make_key, begin = chain.make_key, Journal._begin
def stop(*_):
    os._exit(9)
if moment == "before the key":
    chain.make_key = stop
if moment == "after the key":
    chain.make_key = lambda path: (make_key(path), stop())
Ledger.open(sys.argv[1])
"""


@pytest.mark.parametrize("moment", ["before the key", "after the key"])
def test_a_crash_at_the_first_creation_is_overcome_by_opening_again(tmp_path: Path, moment: str) -> None:
    url = f"sqlite:///{tmp_path}/privacy.db"
    assert subprocess.run([sys.executable, "-c", KILLED, url, moment], check=False).returncode == 9
    with Ledger.open(url) as ledger:
        ledger.create("visits", ROW, limit=Budget(1)).run(TENTH, 5)
        assert ledger.verify().ok


# ------------------------------------------------------------------------------------------------ closing


def test_whoever_lost_the_log_closes_nothing_that_others_have_charged(
    folder: Path, crowd: Callable[..., Any]
) -> None:
    """SQLite, closing, would write the old log into the database and delete the new one."""
    url = f"sqlite:///{folder}/privacy.db"
    receiver, sender = Pipe()
    child = crowd(target=hold, args=(url, sender))
    child.start()
    assert receiver.recv() == "open"
    delete_log(folder)
    delete_index(folder)
    with Ledger.open(url) as newcomer:
        newcomer.account("visits").run(TENTH, 5)
        head = newcomer.head()
    receiver.send("close")
    child.join(600)
    assert child.exitcode == 0
    with Ledger.open(url) as newcomer:
        assert newcomer.verify(head).ok
        assert newcomer.head() == head


def hold(url: str, report: Connection) -> None:
    with Ledger.open(url) as ledger:
        ledger.account("visits").run(SMALL, 5)
        report.send("open")
        report.recv()


# ------------------------------------------------------------------------------------------------ under load


def charge_on(url: str, changed: Any, report: Connection) -> None:
    """Charge until it is refused; tell what was released, and what was begun after the change and released."""
    entries: list[str] = []
    late: list[str] = []
    with Ledger.open(url) as ledger:
        account = ledger.account("visits")
        for number in range(100_000):
            after = changed.is_set()
            try:
                entry = str(account.run(SMALL, 5).entry)
            except LedgerError as error:
                report.send((entries, late, str(error)))
                return
            entries.append(entry)
            if after:
                late.append(entry)
            if number == 3:
                report.send("running")


def journal(file: Path) -> set[str]:
    """Every entry of the file, as head."""
    if not file.exists():
        return set()
    with closing(sqlite3.connect(file)) as connection:
        return {f"{seq}:{mac}" for seq, mac in connection.execute("SELECT seq, mac FROM journal")}


def swap_link(folder: Path) -> None:
    other = folder.with_name("other")
    other.symlink_to(folder.with_name("backup"))
    os.replace(other, folder.with_name("link"))


LOADED = [restore, delete, rename, remount, swap_link, delete_log, empty_log, halve_log]


@pytest.mark.parametrize("swap", LOADED)
def test_four_processes_release_nothing_after_the_change(
    folder: Path, tmp_path: Path, crowd: Callable[..., Any], swap: Callable[[Path], None]
) -> None:
    place = folder
    with Ledger.open(f"sqlite:///{folder}/privacy.db") as ledger:
        ledger.account("visits").raise_limit(Budget(1000))
    if swap is swap_link:
        place = tmp_path / "link"
        place.symlink_to(folder)
    changed, pipes, children = Event(), [Pipe() for _ in range(4)], []
    for _, sender in pipes:
        child = crowd(target=charge_on, args=(f"sqlite:///{place}/privacy.db", changed, sender))
        child.start()
        children.append(child)
    for receiver, _ in pipes:
        assert receiver.recv() == "running"
    swap(folder)
    changed.set()
    reports = [receiver.recv() for receiver, _ in pipes]
    for child in children:
        child.join(600)
    for entries, late, error in reports:
        assert late == []
        assert "Nothing was" in error
        assert len(entries) >= 4
    # Each release stands in one journal or the other, wherever the file is now, unless that was deleted.
    if swap not in (delete, delete_log, restore, empty_log, halve_log):
        journals = [journal(file) for file in tmp_path.glob("*/*.db")]
        assert set().union(*(entries for entries, _, _ in reports)) <= set().union(*journals)


def test_opening_while_the_file_is_swapped_to_and_fro_is_exact(folder: Path, tmp_path: Path) -> None:
    """Whatever the path shows meanwhile: the files that are remembered are those that are open."""
    one, two, link = folder / "privacy.db", tmp_path / "backup" / "privacy.db", tmp_path / "link.db"
    link.symlink_to(one)
    program = (
        "import os, sys\n"
        "one, two, link = sys.argv[1:]\n"
        "while os.getppid() != 1:\n"
        "    for target in (two, one):\n"
        "        os.symlink(target, link + '.new')\n"
        "        os.replace(link + '.new', link)\n"
    )
    flipping = subprocess.Popen([sys.executable, "-c", program, one, two, link])
    try:
        for _ in range(60):
            try:
                connection = visible.connect(link, str(link))
            except LedgerError:
                continue
            name = connection.execute("PRAGMA database_list").fetchone()[2]
            status = os.stat(name)
            assert connection.files.database == (status.st_dev, status.st_ino)
            connection.close()
    finally:
        flipping.kill()
        flipping.wait()
