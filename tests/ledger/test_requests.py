"""A request is paid at most once: its key stands or falls with the charge."""

from __future__ import annotations

import threading

import pytest

from deniable.errors import AlreadyPaid, BudgetExceeded, InvalidParameter
from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger
from deniable.ledger.requests import paid_once
from deniable.mechanisms import Laplace
from deniable.units import Unit

COUNT = Laplace.for_budget(epsilon=0.25)


@pytest.fixture
def visits(ledger: Ledger) -> Account:
    return ledger.create("visits", Unit.row(), limit=Budget(3, 1e-6))


def test_the_second_charge_of_a_request_is_refused_and_names_the_first(
    ledger: Ledger, visits: Account
) -> None:
    with paid_once("key", "body"):
        visits.run(COUNT, 1234)
        head = ledger.head()
        with pytest.raises(AlreadyPaid, match=r"Entry 2 was paid .* new charge") as refused:
            visits.run(COUNT, 1234)
    assert refused.value.entry == 2
    assert (ledger.head(), visits.spent().epsilon) == (head, 0.25)
    assert ledger.history()[-1].details["request"] == "key"
    assert ledger.verify().ok


def test_a_key_is_bound_to_its_body(ledger: Ledger, visits: Account) -> None:
    with paid_once("key", "body"):
        visits.run(COUNT, 1234)
    with paid_once("key", "another"), pytest.raises(InvalidParameter, match="used for another request"):
        visits.run(COUNT, 1234)
    assert visits.spent().epsilon == 0.25


def test_outside_the_block_and_under_another_key_a_charge_is_a_charge(visits: Account) -> None:
    for key in ("a", "b"):
        with paid_once(key, "body"):
            visits.run(COUNT, 1234)
    visits.run(COUNT, 1234)
    assert visits.spent().epsilon == 0.75


def test_a_refused_charge_uses_no_key_up(visits: Account) -> None:
    with paid_once("key", "body"):
        with pytest.raises(BudgetExceeded):
            visits.run(Laplace.for_budget(epsilon=4), 1234)
        visits.run(COUNT, 1234)
    assert visits.spent().epsilon == 0.25


def test_whoever_reads_a_kept_answer_pays_for_it_once(ledger: Ledger, visits: Account) -> None:
    visits.keep("q", visits.run(COUNT, 1234), "said")
    ada = ledger.create("visits/ada", limit=Budget(1), parent="visits")
    view = ada.view("q")
    with paid_once("key", "body"):
        ada.read(view)
        with pytest.raises(AlreadyPaid):
            ada.read(view)  # the process died before it wrote down that she has paid
    assert ada.spent().epsilon == 0.25


def test_of_many_at_once_one_pays(visits: Account) -> None:
    outcomes: list[str] = []

    def ask() -> None:
        with paid_once("key", "body"):
            try:
                visits.run(COUNT, 1234)
                outcomes.append("paid")
            except AlreadyPaid:
                outcomes.append("refused")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["paid"] + ["refused"] * 7
    assert visits.spent().epsilon == 0.25
