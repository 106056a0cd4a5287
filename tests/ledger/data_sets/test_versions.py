"""Which version of the data a release is of: the owner's word, in the journal; old ledgers say nothing of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from deniable import Budget, Unit
from deniable.curator import Curator
from deniable.errors import InvalidParameter, LedgerError
from deniable.ledger import EntryKind, Ledger
from deniable.ledger.data_sets.versions import by_version, entries_holding, version_of
from deniable.mechanisms import Laplace

STORED = Path(__file__).parents[1] / "stored"
VISITS = pa.table({"patient": [1, 2, 3, 4], "days": [3, 1, 4, 1]})
COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(f"sqlite:///{tmp_path}/privacy.db", analyst="olga")


def curator(ledger: Ledger, version: str | None, analyst: str = "olga") -> Curator:
    return Curator.open(
        {"visits": VISITS},
        unit=Unit.column("patient", max_rows=1),
        limit=Budget(10, 1e-6),
        ledger=ledger,
        version=version,
        analyst=analyst,
    )


def versions(ledger: Ledger) -> list[str | None]:
    return [version_of(entry) for entry in ledger.history() if entry.kind is EntryKind.RUN]


def test_entries_say_which_version_they_are_of_and_charge_what_they_did(ledger: Ledger) -> None:
    account = ledger.create("visits", Unit.row(), limit=Budget(10))
    account.run(Laplace(2), 7)
    plain = account.history()[-1]
    account.declare_version("2026-01")
    account.run(Laplace(2), 7)
    declared = account.history()[-1]
    assert declared.details == {**plain.details, "version": "2026-01"}
    assert (declared.loss_json, declared.description) == (plain.loss_json, plain.description)
    assert account.versions() == {None: (2,), "2026-01": (3,)}
    assert float(account.spent().epsilon) == 1
    assert ledger.verify().ok


def test_a_ledger_of_an_earlier_version_says_nothing_and_verifies_with_new_entries(tmp_path: Path) -> None:
    for name in ("v0002.db", "v0002.db.key"):
        shutil.copy(STORED / name, tmp_path / name)
    with Ledger.open(f"sqlite:///{tmp_path}/v0002.db", analyst="olga") as ledger:
        head, old = ledger.head(), ledger.history()
        assert ledger.verify().ok
        assert {version_of(entry) for entry in old} == {None}
        account = ledger.create("versioned", Unit.row(), limit=Budget(1))
        account.declare_version("2026-01")
        account.run(Laplace(2), 7)
        assert ledger.history()[: len(old)] == old
        assert ledger.verify(head).ok
        assert list(account.versions()) == ["2026-01"]


def test_the_owners_curator_notes_it_for_all_who_ask(ledger: Ledger) -> None:
    whole = curator(ledger, "2026-01")
    whole.sql(COUNT, epsilon=1)
    part = whole.share("ada", Budget(2, 1e-7))
    part.sql("SELECT SUM(1) AS n FROM visits WHERE patient > 1", epsilon=1)
    whole.as_analyst("ada").sql("SELECT COUNT(*) AS n FROM visits WHERE patient > 2", epsilon=1)
    assert versions(ledger) == ["2026-01"] * 3
    assert ledger.verify().ok
    undeclared = curator(ledger, None)
    undeclared.sql("SELECT COUNT(*) AS n FROM visits WHERE patient > 3", epsilon=1)
    assert versions(ledger)[-1] is None


def test_an_analyst_cannot_declare_one(ledger: Ledger) -> None:
    whole = curator(ledger, "2026-01")
    part = whole.share("ada", Budget(5, 1e-7))
    for account in (part.account, ledger.account("visits", analyst="ada")):
        with pytest.raises(LedgerError, match="Only olga"):
            account.declare_version("2027")
        with pytest.raises(LedgerError, match="Only olga"):
            account.still_held()
    part.sql("SELECT COUNT(*) AS n FROM visits -- version: 2027", epsilon=1)
    hers = curator(ledger, "2027", analyst="ada")
    hers.sql("SELECT COUNT(*) AS n FROM visits WHERE patient > 1", epsilon=1)
    hers.as_analyst("ada").sql("SELECT COUNT(*) AS n FROM visits WHERE patient > 2", epsilon=1)
    assert versions(ledger) == ["2026-01", None, None]


def test_a_proposal_keeps_the_version_unless_another_made_the_account(ledger: Ledger) -> None:
    first, second = curator(ledger, "mine", "olga"), curator(ledger, "hers", "ada")
    assert (first.account.version, second.account.version) == ("mine", "hers")  # each would own it
    first.sql(COUNT, epsilon=1)
    second.sql("SELECT COUNT(*) AS n FROM visits WHERE patient > 1", epsilon=1)
    assert versions(ledger) == ["mine", None]


@pytest.mark.parametrize("bad", ["", "a\nb", "x" * 1001, 3, None])
def test_a_version_is_a_text_that_can_be_seen(ledger: Ledger, bad: object) -> None:
    account = ledger.create("visits", Unit.row(), limit=Budget(1))
    with pytest.raises(InvalidParameter, match="Nothing was declared"):
        account.declare_version(bad)  # type: ignore[arg-type]
    assert account.version is None


def test_forgetting_names_the_versions_that_held_the_person_and_later_use_of_them(ledger: Ledger) -> None:
    account = ledger.create("visits", Unit.row(), limit=Budget(10))
    for version in ("2026-01", "2026-02"):
        account.declare_version(version)
        account.run(Laplace(2), 7)
    assert account.still_held() == ()
    forgotten = account.forget(1, declared=10)
    assert forgotten.versions == {"2026-01": (2,), "2026-02": (3,)}
    assert 'as of "2026-01", "2026-02"' in forgotten.reading
    account.run(Laplace(2), 7)  # the old data, once more
    late = account.history()[-1].seq
    account.declare_version("2026-03")
    account.run(Laplace(2), 7)
    assert account.still_held() == (late,)
    ledger.account("visits").run(Laplace(2), 7)  # nobody says which
    assert account.still_held() == (late, account.history()[-1].seq)
    account.forget(2)
    account.run(Laplace(2), 7)  # 2026-03 held the second one
    assert len(account.still_held()) == 3
    assert entries_holding([]) == ()
    assert forgotten.to_dict()["versions"][0] == {"version": "2026-01", "entries": (2,)}


def test_what_is_read_again_is_of_the_version_that_made_it_and_opens_nothing(ledger: Ledger) -> None:
    whole = curator(ledger, "2026-01")
    whole.sql(COUNT, epsilon=1)
    whole.account.forget(1, declared=10)
    part = whole.share("ada", Budget(5, 1e-7))
    part.sql(COUNT, epsilon=1)
    read = [entry for entry in ledger.history() if "reads" in entry.details]
    assert len(read) == 1
    paid = [entry.seq for entry in ledger.history() if entry.kind is EntryKind.RUN]
    assert whole.account.still_held() == ()
    assert entries_holding(ledger.history()) == ()
    assert by_version(ledger.history()) == {"2026-01": tuple(paid)}
