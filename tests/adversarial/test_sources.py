"""One source, one budget; and nothing is written before the first charge. A test for
each hole that an attack found."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.curator import Curator
from deniable.errors import BudgetExceeded, DeniableError, InvalidParameter, InvalidQuery, LedgerError
from deniable.guarantee import Budget
from deniable.ledger import EntryKind, Ledger
from deniable.mechanisms import Laplace
from deniable.units import Unit
from tests.postgres import server

COUNT = "SELECT COUNT(*) AS n FROM visits"
VISITS = pa.table(
    {"patient_id": pa.array([1, 1, 2, 3], pa.int64()), "days": pa.array([1, 2, 3, 4], pa.int64())}
)
PATIENT = Unit.column("patient_id", max_rows=2)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    pq.write_table(VISITS, tmp_path / "data" / "visits.parquet")
    return tmp_path / "data" / "visits.parquet"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


def ask(source: Any, url: str, epsilon: float = 0.5, **how: Any) -> str:
    """Asks once and tells the account that paid."""
    settings: dict[str, Any] = {"name": "visits", "unit": Unit.row(), "limit": Budget(1)} | how
    with Curator.open(source, ledger=url, **settings) as curator:
        curator.sql(COUNT, epsilon=epsilon)
        return curator.account.name


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# ------------------------------------------------------------------------------------------------ one source, one account


def ways(file: Path) -> Iterator[Any]:
    """Other names for one file."""
    folder = file.parent
    link, hard = folder / "link.parquet", folder / "hard.parquet"
    link.symlink_to(file)
    os.link(file, hard)
    yield from (
        link,
        hard,
        str(folder / "vis*.parquet"),
        folder,
        str(file),
        folder / ".." / "data" / "visits.parquet",
    )


def test_a_file_under_another_name_is_charged_to_its_account(file: Path, url: str) -> None:
    assert ask(file, url, 0.3, account="first") == "first"
    for way in ways(file):
        with pytest.raises(LedgerError, match='belongs to the account "first"'):
            ask(way, url, account="second")
    with pytest.raises(BudgetExceeded):
        ask(file.parent / "link.parquet", url, 0.8, limit=None, unit=None)
    with Ledger.open(url) as ledger:
        assert [account.name for account in ledger.accounts()] == ["first"]
        assert ledger.verify().ok


def test_a_folder_has_what_comes_into_it_later(file: Path, url: str) -> None:
    assert ask(file.parent, url, 0.25, account="first") == "first"
    pq.write_table(VISITS, file.parent / "more.parquet")
    with pytest.raises(LedgerError, match='belongs to the account "first"'):
        ask(file.parent / "more.parquet", url, account="second")


def test_a_new_file_of_the_same_path_stays_with_its_account(file: Path, url: str) -> None:
    ask(file, url, 0.25, account="first")
    file.unlink()
    pq.write_table(VISITS.slice(1), file)
    with pytest.raises(LedgerError, match='belongs to the account "first"'):
        ask(file, url, account="second")
    with Curator.open(file, name="visits", ledger=url, account="first", version="2") as curator:
        curator.sql(COUNT, epsilon=0.25)
    moved = file.with_name("moved.parquet")
    os.rename(file, moved)
    with pytest.raises(LedgerError, match='belongs to the account "first"'):
        ask(moved, url, account="second")


def test_sources_of_two_accounts_are_refused_together(file: Path, url: str) -> None:
    other = file.with_name("people.parquet")
    pq.write_table(VISITS, other)
    ask(file, url, 0.25, account="first")
    with Curator.open(
        other, name="people", ledger=url, unit=Unit.row(), limit=Budget(1), account="second"
    ) as curator:
        curator.sql("SELECT COUNT(*) AS n FROM people", epsilon=0.25)
    with pytest.raises(LedgerError, match=r"several accounts of this ledger \(first, second\)"):
        Curator.open({"visits": file, "people": other}, ledger=url, unit=Unit.row(), limit=Budget(1))


def test_a_set_with_one_known_source_is_charged_to_its_account(file: Path, url: str) -> None:
    other = file.with_name("people.parquet")
    pq.write_table(VISITS, other)
    ask(file, url, 0.25, account="first")
    with Curator.open({"visits": file, "people": other}, ledger=url) as curator:
        curator.sql("SELECT COUNT(*) AS n FROM people", epsilon=0.25)
        assert curator.account.name == "first"
    with pytest.raises(LedgerError, match='belongs to the account "first"'):
        Curator.open(other, name="people", ledger=url, account="second", unit=Unit.row(), limit=Budget(1))


def test_a_copy_is_not_found_as_the_guide_says(file: Path, url: str) -> None:
    ask(file, url, 0.25, account="first")
    shutil.copy(file, file.with_name("copy.parquet"))
    assert ask(file.with_name("copy.parquet"), url, 0.25, account="second") == "second"


@pytest.mark.needs("postgres")
def test_views_and_partitions_of_a_table_are_its_account(url: str) -> None:
    address = server().get_uri()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS visits CASCADE")
        connection.execute(
            "CREATE TABLE visits (patient_id bigint, days bigint) PARTITION BY RANGE (patient_id)"
        )
        connection.execute("CREATE TABLE visits_low PARTITION OF visits FOR VALUES FROM (0) TO (100)")
        connection.execute("CREATE VIEW seen AS SELECT * FROM visits WHERE days > 0")
        connection.execute("INSERT INTO visits VALUES (1, 2), (3, 4)")
    ask(address, url, 0.25, account="first")
    for table in ("visits_low", "seen"):
        with pytest.raises(LedgerError, match='belongs to the account "first"'):
            Curator.open(address, name=table, ledger=url, account="second", unit=Unit.row(), limit=Budget(1))
    alias = (
        address.replace("?", "?application_name=other&")
        if "?" in address
        else f"{address}?application_name=other"
    )
    with pytest.raises(LedgerError, match='belongs to the account "first"'):
        ask(alias, url, account="second")


# ------------------------------------------------------------------------------------------------ before the first charge


def test_previews_and_refusals_write_nothing(file: Path, tmp_path: Path) -> None:
    before = files(tmp_path)
    with Curator.open(file, unit=Unit.row(), limit=Budget(1)) as curator:
        assert curator.preview(COUNT, epsilon=0.5).fits
        for text, how in (
            ("SELECT nonsense FROM visits", {"epsilon": 0.5}),
            (COUNT, {"epsilon": 5}),
            (COUNT, {}),
        ):
            with pytest.raises(DeniableError):
                curator.sql(text, **how)
        assert curator.account.spent().epsilon == 0
    assert files(tmp_path) == before


def test_a_refused_first_query_fixes_neither_unit_nor_limit(file: Path) -> None:
    with Curator.open(file, unit=Unit.row(), limit=Budget(100)) as curator, pytest.raises(InvalidQuery):
        curator.sql("SELECT nonsense FROM visits", epsilon=1)
    with Curator.open(file, unit=PATIENT, limit=Budget(2)) as curator:
        curator.sql(COUNT, epsilon=1)
        assert (curator.account.unit, curator.account.limit) == (PATIENT, Budget(2))
    with pytest.raises(InvalidParameter, match="has the limit"):
        Curator.open(file, limit=Budget(100))


def test_who_holds_the_account_holds_the_one_that_is_made(file: Path) -> None:
    with Curator.open(file, unit=Unit.row(), limit=Budget(1)) as curator:
        account, ledger = curator.account, curator.ledger
        curator.sql(COUNT, epsilon=0.5)
        assert account.spent().epsilon == 0.5
        assert ledger.verify().ok
        assert [entry.kind for entry in ledger.history()] == [EntryKind.CREATE, EntryKind.RUN]


def test_an_account_made_and_never_charged_is_set_anew_by_its_owner(file: Path, url: str) -> None:
    """As after a crash between the account and its first charge."""
    with Curator.open(file, ledger=url, unit=Unit.row(), limit=Budget(100)) as curator:
        curator._begin()
    with Curator.open(file, ledger=url, unit=PATIENT, limit=Budget(2)) as curator:
        assert curator.preview(COUNT, epsilon=1).fits
        with Ledger.open(url) as ledger:
            assert ledger.account("visits").limit == Budget(100)
        curator.sql(COUNT, epsilon=1)
    with Ledger.open(url) as ledger:
        assert (ledger.account("visits").limit, ledger.account("visits").unit) == (Budget(2), PATIENT)
        assert ledger.verify().ok


def test_an_account_made_on_purpose_is_not_changed_by_an_opening(file: Path, url: str) -> None:
    with Ledger.open(url) as ledger:
        ledger.create("visits", Unit.row(), limit=Budget(1))
    with pytest.raises(InvalidParameter, match="has the limit ε = 1 already"):
        Curator.open(file, ledger=url, limit=Budget(50))
    with Curator.open(file, ledger=url) as curator:
        curator.sql(COUNT, epsilon=0.5)
    with pytest.raises(LedgerError, match='belongs to the account "visits"'):
        Curator.open(file, ledger=url, name="visits", account="second", unit=Unit.row(), limit=Budget(1))


def first_charge(file: str, url: str, epsilon: float, barrier: Any, said: Any) -> None:
    with Curator.open(file, ledger=url, unit=Unit.row(), limit=Budget(epsilon)) as curator:
        barrier.wait(600)
        try:
            # Two questions: what the other has paid for is read for free.
            curator.sql(COUNT, epsilon=epsilon / 8)
            said.put("answered")
        except DeniableError as error:
            said.put(str(error))


def test_of_two_processes_at_a_first_charge_one_wins_and_the_other_is_told(file: Path, url: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    barrier, said = spawn.Barrier(2), spawn.Queue()
    both = [
        spawn.Process(target=first_charge, args=(str(file), url, epsilon, barrier, said))
        for epsilon in (1.0, 2.0)
    ]
    for process in both:
        process.start()
    answers = sorted(said.get(timeout=600) for _ in both)
    for process in both:
        process.join(600)
    assert answers[1] == "answered"
    told = ("There is an account", "has the limit", "has been charged", "was set anew")
    assert any(words in answers[0] for words in told), answers
    with Ledger.open(url) as ledger:
        assert [account.name for account in ledger.accounts()] == ["visits"]


def test_who_set_an_account_anew_between_its_making_and_its_first_charge_is_not_paid_by_the_other(
    file: Path, url: str
) -> None:
    """Of two processes both were answered, once in hundreds of runs: one made the account, the other set it
    anew and was charged, and the first then paid under a limit it had never named."""
    with (
        Curator.open(file, ledger=url, unit=Unit.row(), limit=Budget(1)) as first,
        Curator.open(file, ledger=url, unit=Unit.row(), limit=Budget(2)) as second,
    ):
        first._begin()
        second.sql(COUNT, epsilon=0.25)
        with pytest.raises(LedgerError, match="was set anew"):
            first.sql(COUNT, epsilon=0.125)
        assert second.account.spent().epsilon == 0.25
        second.account.raise_limit(Budget(3))
        second.sql(COUNT, epsilon=0.5)


def test_an_analysts_part_is_found_again(file: Path, url: str) -> None:
    with Curator.open(file, ledger=url, unit=Unit.row(), limit=Budget(1)) as curator:
        curator.share("bo", Budget(0.5)).sql(COUNT, epsilon=0.25)
    with Curator.open(file, ledger=url) as curator:
        assert curator.as_analyst("bo").account.spent().epsilon == 0.25
        with pytest.raises(LedgerError):
            curator.as_analyst("eve")


def test_a_mechanism_run_on_the_account_before_the_first_query_is_charged_for_good(
    file: Path, url: str
) -> None:
    """A proposal stands for the account until its first charge, whoever makes that:
    nothing is charged to a proposal."""
    with Curator.open(file, ledger=url, unit=Unit.row(), limit=Budget(1)) as curator:
        curator.account.run(Laplace(4), 1)
        assert curator.account.spent().epsilon == 0.25
    with Ledger.open(url) as ledger:
        assert ledger.account("visits").spent().epsilon == 0.25


@pytest.mark.parametrize("there", [False, True], ids=["new ledger", "ledger of others"])
def test_what_an_owner_does_before_the_first_query_is_written_for_good(
    file: Path, url: str, there: bool
) -> None:
    """Raising a limit or making an account acts on the real ledger, never on a proposal that is forgotten."""
    if there:
        with Ledger.open(url) as ledger:
            ledger.create("others", Unit.row(), limit=Budget(1))
    with Curator.open(file, ledger=url, unit=Unit.row(), limit=Budget(1)) as curator:
        curator.account.raise_limit(Budget(2))
        curator.ledger.create("beside", Unit.row(), limit=Budget(3))
        assert curator.account.limit == Budget(2)
        curator.sql(COUNT, epsilon=1.5)
    with Ledger.open(url) as ledger:
        assert ledger.account("visits").limit == Budget(2)
        assert ledger.account("visits").spent().epsilon == 1.5
        assert ledger.account("beside").limit == Budget(3)
        assert ledger.verify().ok
