"""Data that belongs to an account, accounts that are set anew before their first charge, and new names."""

from __future__ import annotations

from pathlib import Path

import pytest

from deniable import Budget, Ledger, Unit
from deniable.errors import LedgerError
from deniable.ledger.journal import tip
from deniable.mechanisms import Laplace, SparseVector
from deniable.randomness import SeededRandom

SMALL = Laplace(10)


def ledger(folder: Path | None = None) -> Ledger:
    return Ledger.open("sqlite://" if folder is None else f"sqlite:///{folder}/l.db", analyst="ada")


def test_a_source_belongs_to_one_account(tmp_path: Path) -> None:
    books = ledger(tmp_path)
    for name in ("visits", "people"):
        books.create(name, Unit.row(), limit=Budget(3))
    books.bind_sources("visits", ["path:/a", "file:1:2"])
    assert books.owners(["path:/a", "path:/b"]) == {"path:/a": "visits"}
    entries = len(books.history())
    books.bind_sources("visits", ["file:1:2"])
    assert len(books.history()) == entries
    with pytest.raises(LedgerError, match='belongs to the account "visits"'):
        books.bind_sources("people", ["path:/b", "file:1:2"])
    assert books.owners(["path:/b"]) == {}
    books.close()
    again = ledger(tmp_path)
    assert again.owners(["file:1:2"]) == {"file:1:2": "visits"}
    assert again.verify().ok


def test_bindings_and_names_are_kept_in_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tip, "EVERY", 3)
    books = ledger(tmp_path)
    account = books.create("visits", Unit.row(), limit=Budget(30))
    books.bind_sources("visits", ["path:/a"])
    books.rename("visits", "stays")
    for _ in range(5):
        account.run(SMALL, 1)
    books.close()
    again = ledger(tmp_path)
    assert again.owners(["path:/a"]) == {"path:/a": "visits"}
    assert again.account("stays").name == "visits"
    assert again.was_charged("visits")


def test_unit_and_limit_are_set_anew_until_the_first_charge() -> None:
    books = ledger()
    account = books.create("visits", Unit.row(), limit=Budget(100))
    changed = books.reset("visits", Unit.column("patient", max_rows=2), limit=Budget(2))
    assert (changed.unit, changed.limit) == (Unit.column("patient", max_rows=2), Budget(2))
    with pytest.raises(LedgerError):
        account.run(
            SMALL, 1, rng=SeededRandom(1)
        )  # the account as it was opened before: its unit is no longer this
    again = books.reset("visits", Unit.row(), limit=Budget(2))
    again.run(SMALL, 1, rng=SeededRandom(1))
    with pytest.raises(LedgerError, match="has been charged"):
        books.reset("visits", Unit.row(), limit=Budget(50))
    assert books.verify().ok


def test_a_refund_is_no_first_charge() -> None:
    books = ledger()
    account = books.create("visits", Unit.row(), limit=Budget(10))
    account.open(SparseVector(epsilon=1, threshold=1e9), [1], rng=SeededRandom(1)).close()
    assert books.was_charged("visits")
    with pytest.raises(LedgerError, match="has been charged"):
        books.reset("visits", Unit.row(), limit=Budget(50))


def test_only_the_owner_sets_anew_and_renames() -> None:
    books = ledger()
    books.create("visits", Unit.row(), limit=Budget(10))
    with pytest.raises(LedgerError, match="you are eve"):
        books.reset("visits", Unit.row(), limit=Budget(50), owner="eve")
    with pytest.raises(LedgerError, match="you are eve"):
        books.rename("visits", "stays", owner="eve")
    books.create("visits/bo", limit=Budget(1), parent="visits")
    with pytest.raises(LedgerError, match="has parts"):
        books.reset("visits", Unit.row(), limit=Budget(50))


def test_a_new_name_is_no_second_budget() -> None:
    books = ledger()
    account = books.create("visits", Unit.row(), limit=Budget(1))
    renamed = books.rename("visits", "stays")
    renamed.run(SMALL, 1, rng=SeededRandom(1))
    assert account.spent().epsilon == books.account("stays").spent().epsilon > 0
    for taken in ("visits", "stays"):
        with pytest.raises(LedgerError, match="already"):
            books.create(taken, Unit.row(), limit=Budget(1))
    books.create("people", Unit.row(), limit=Budget(1))
    with pytest.raises(LedgerError, match="is taken"):
        books.rename("people", "stays")
    assert books.verify().ok
