"""To be forgotten: a random receipt and nothing else in the journal, a number that only
falls, and old ledgers as before."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from deniable import Budget, Unit
from deniable.errors import InvalidParameter, LedgerError
from deniable.ledger import EntryKind, Ledger
from deniable.ledger.data_sets.forget import find_fault, for_people
from deniable.ledger.journal.entries import Entry
from deniable.ledger.journal.tip import Tip
from deniable.mechanisms import Laplace
from deniable.randomness import SeededRandom

PERSON = "Ada Lovelace, 10 December 1815"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(f"sqlite:///{tmp_path}/privacy.db", analyst="olga")


def test_the_journal_holds_a_receipt_and_nothing_of_the_person(ledger: Ledger) -> None:
    account = ledger.create("visits", Unit.row(), limit=Budget(1, 1e-6))
    account.run(Laplace(2), 7)
    erased: list[object] = []
    found = account.forget(PERSON, erase=erased.append, declared=3)
    assert erased == [PERSON]
    entry = account.history()[-1]
    assert entry.kind is EntryKind.FORGET
    assert entry.details == {"receipt": found.receipt, "number": 1, "declared": 3}
    assert len(found.receipt) == 32
    everything = json.dumps([each.to_dict() for each in ledger.history()])
    assert "Ada" not in everything
    assert found.receipt not in account.forget(PERSON).receipt
    assert ledger.verify().ok
    assert (found.stands, found.redo) == ((2,), ())
    assert (found.guarantee, found.due) == (Budget(1, 1e-6), False)
    assert "nothing in the ledger says whose it is" in found.reading


def test_people_add_up_until_the_declared_number(ledger: Ledger) -> None:
    account = ledger.create("visits", Unit.row(), limit=Budget(1, 1e-6))
    first, second, third = account.forget(1, declared=3), account.forget(2), account.forget(3)
    assert [each.number for each in (first, second, third)] == [1, 2, 3]
    assert [each.due for each in (first, second, third)] == [False, False, True]
    assert float(third.guarantee.epsilon) == 3
    assert float(third.guarantee.delta) == pytest.approx(1e-6 * (1 + math.e + math.e**2))
    assert "made anew from the data" in third.reading.replace(
        "make models and tables anew from", "made anew from"
    )
    assert account.forget(4, units=5).number == 8


def test_the_declared_number_is_named_first_and_never_put_off(ledger: Ledger) -> None:
    account = ledger.create("visits", Unit.row(), limit=Budget(1))
    erased: list[object] = []
    with pytest.raises(InvalidParameter, match="Nothing was written"):
        account.forget(1, erase=erased.append)
    account.forget(1, declared=5)
    with pytest.raises(LedgerError, match="not put off to 6"):
        account.forget(2, erase=erased.append, declared=6)
    assert erased == []
    assert account.forget(2, declared=4).declared == account.forget(3).declared == 4
    for bad in (0, True, 1.5):
        with pytest.raises(InvalidParameter, match="whole number"):
            account.forget(4, declared=bad)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter, match="whole number"):
            account.forget(4, units=bad)  # type: ignore[arg-type]


def test_what_could_not_be_erased_is_not_written(ledger: Ledger) -> None:
    account = ledger.create("visits", Unit.row(), limit=Budget(1))

    def fails(_: object) -> None:
        raise OSError("The disk is full.")

    with pytest.raises(OSError, match="full"):
        account.forget(1, erase=fails, declared=2)
    assert [entry.kind for entry in ledger.history()] == [EntryKind.CREATE]


def test_only_the_owner_forgets_and_only_she_sees_that_somebody_was_forgotten(ledger: Ledger) -> None:
    account = ledger.create("visits", Unit.row(), limit=Budget(1))
    part = ledger.create("visits/ana", limit=Budget(0.5), parent="visits")
    account.forget(1, declared=2)
    other = ledger.account("visits", analyst="ana")
    assert [entry.kind for entry in other.history()] == [EntryKind.CREATE]
    assert [entry.kind for entry in account.history()] == [EntryKind.CREATE, EntryKind.FORGET]
    with pytest.raises(LedgerError, match="Only olga"):
        other.forget(1)
    with pytest.raises(LedgerError, match="whole data set"):
        part.forget(1)


def test_a_closed_or_frozen_account_still_forgets(ledger: Ledger) -> None:
    account = ledger.create("visits", Unit.row(), limit=Budget(1))
    account.freeze()
    account.forget(1, declared=2)
    account.close()
    assert account.forget(2).due


def test_it_is_known_after_opening_again_and_across_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deniable.ledger.journal.tip.EVERY", 3)
    url = f"sqlite:///{tmp_path}/privacy.db"
    with Ledger.open(url) as ledger:
        account = ledger.create("visits", Unit.row(), limit=Budget(1))
        for person in range(4):
            account.forget(person, declared=9)
    with Ledger.open(url) as again:
        assert again.account("visits").forget(5).number == 5
        assert again.verify().ok


def test_a_mark_from_before_reads_as_it_did() -> None:
    text = '[7,"2026-01-01","ab",{"visits":"cd"},[[3,0]],{},{},["visits"]]'
    tip = Tip.from_json(text)
    assert tip.forgotten == {}
    assert tip.to_json() == text
    later = tip._replace(forgotten={"visits": (2, 5)})
    assert Tip.from_json(later.to_json()) == later


def test_a_release_from_a_seed_is_to_be_made_anew() -> None:
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("visits", Unit.row(replace=True), limit=Budget(2))
        account.run(Laplace(2, unit=Unit.row(replace=True)), 7, rng=SeededRandom(0))
        found = account.forget(1, declared=1)
        assert found.redo == (2,)
        assert "Entries 2 have no guarantee" in found.reading
        assert "had others stood in their place" in found.reading


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"receipt": "ab" * 16, "number": 2, "declared": 3}, None),
        ({"receipt": "ab" * 16, "number": 1, "declared": 3}, "counts the people"),
        ({"receipt": "ab" * 16, "number": 2, "declared": 9}, "counts the people"),
        ({"receipt": "ab" * 32, "number": 2, "declared": 3}, "counts the people"),
        ({"receipt": "ab" * 16, "number": 2, "declared": 3, "who": "Ada"}, "says more"),
    ],
)
def test_a_forged_entry_is_told_by_verify(details: dict[str, object], said: str | None) -> None:
    entry = Entry(9, "t", EntryKind.FORGET, "visits", "olga", "", None, "{}", json.dumps(details), "")
    found = find_fault(entry, details, (1, 3))
    assert (found is None) if said is None else (found is not None and said in found)


@pytest.mark.parametrize("people", [1, 2, 7])
def test_the_guarantee_of_several_people_is_group_privacy_rounded_up(people: int) -> None:
    budget = for_people(Budget(0.3, 1e-7), people)
    delta = 1e-7 * sum(math.exp(0.3 * k) for k in range(people))
    assert 0.3 * people <= float(budget.epsilon) <= 0.3 * people * (1 + 1e-9) + 1e-15
    assert delta <= float(budget.delta) * (1 + 1e-15) <= delta * (1 + 1e-9)
    assert float(for_people(Budget(800, 1e-7), 3).delta) < 1
    assert float(for_people(Budget(0, 1e-7), 3).delta) == pytest.approx(3e-7)
