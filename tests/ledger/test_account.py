"""Accounts: charge first, then open the data; refuse in words; never give back what may have been seen."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa
import pytest

from deniable.accounting import verify as verify_certificate
from deniable.accounting.filters import Filter, charges
from deniable.errors import (
    AccountFrozen,
    BudgetExceeded,
    DataError,
    InvalidParameter,
    InvalidQuery,
    LedgerError,
    Unaccountable,
    UnitMismatch,
)
from deniable.guarantee import Budget
from deniable.ledger import Bounded, EntryKind, Ledger, Status
from deniable.loss import Approximate, GaussianNoise, Grouped, Loss, Pure, Shuffled, Zcdp
from deniable.mechanism import Random
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.ledger.workers import Asking, Failing, Noisy

ROW = Unit.row()


def test_a_release_names_the_entry_that_paid_for_it(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(3))
    release = account.run(Noisy(Pure(0.1)), 5, description="How many?")
    assert isinstance(release.value, int)
    assert release.private
    assert (release.loss, release.unit) == (Pure(0.1), ROW)
    entry = account.history()[-1]
    assert release.entry == f"{entry.seq}:{entry.mac}" == str(ledger.head())
    assert (entry.kind, entry.analyst, entry.description, entry.loss, entry.unit) == (
        EntryKind.RUN,
        "ada",
        "How many?",
        Pure(0.1),
        ROW,
    )


def test_what_was_quoted_is_priced_once(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(3, 1e-6))
    loss = Pure(Fraction(1, 7))
    quote = account.price(loss, 1e-6)
    lookups = _lookups()
    account.preview(loss)
    account.run(Noisy(loss), 5)
    assert _lookups() == lookups
    assert account.standing().spent == quote.charge


def test_equal_numbers_of_another_meaning_are_priced_apart(ledger: Ledger) -> None:
    # A float means the decimal it prints; the fraction equals the float and is another number.
    account = ledger.create("visits", ROW, limit=Budget(3, 1e-2))
    epsilons = [account.price(Pure(epsilon), 1e-6).charge.epsilon for epsilon in (0.1, Fraction(0.1))]
    assert epsilons == [Fraction(1, 10), Fraction(0.1)]
    deltas = [account.price(GaussianNoise(5), delta).charge.delta for delta in (1e-3, Fraction(1e-3))]
    assert deltas == [Fraction(1, 1000), Fraction(1e-3)]


def _lookups() -> int:
    info = charges._charge.cache_info()
    return info.hits + info.misses


def test_thirty_tenths_fill_a_limit_of_three_exactly(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(3))
    for _ in range(30):
        account.run(Noisy(Pure(0.1)), 5)
    assert account.spent().epsilon == 3
    assert account.remaining().epsilon == 0
    with pytest.raises(BudgetExceeded) as refused:
        account.run(Noisy(Pure(0.1)), 5)
    assert str(refused.value) == (
        'This query would bring the account "visits" to ε = 3.1, over its limit ε = 3 (spent: 3, asked: 0.1). '
        "Nothing was run and nothing was charged. Use another account."
    )


def test_a_refusal_says_what_would_fit_and_that_fits(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(3))
    account.run(Noisy(Pure(2.51)), 5)
    with pytest.raises(
        BudgetExceeded,
        match=r"to ε = 3\.51, over its limit ε = 3 \(spent: 2\.51, asked: 1\).*Ask with ε ≤ 0\.49,",
    ) as refused:
        account.run(Noisy(Pure(1)), 5)
    assert (refused.value.asked, refused.value.spent, refused.value.total, refused.value.limit) == (
        1,
        2.51,
        3.51,
        3,
    )
    account.run(Noisy(Pure(0.49)), 5)
    assert account.spent().epsilon == 3


def test_a_refused_charge_leaves_no_trace_and_opens_no_data(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(1))
    before, opened = ledger.head(), []
    with pytest.raises(BudgetExceeded):
        account.run(Noisy(Pure(2)), lambda: opened.append(1))
    assert ledger.head() == before
    assert not opened


def test_data_is_opened_after_the_charge_stands(ledger: Ledger, url: str) -> None:
    account = ledger.create("visits", ROW, limit=Budget(1))

    def data() -> int:
        with Ledger.open(url, create=False) as other:  # another connection sees it: it is committed
            assert other.account("visits").spent().epsilon == 0.5
        return 7

    assert isinstance(account.run(Noisy(Pure(0.5)), data).value, int)


def test_a_failing_mechanism_is_paid_for_tells_nothing_and_freezes(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(1))
    said = []
    for secret in ("blue", "red"):
        with pytest.raises(AccountFrozen) as failure:
            account.run(Failing(Pure(0.1)), secret)
        said.append(str(failure.value).replace(str(account.history()[-2].seq), "n"))
        assert failure.value.__cause__ is None
        assert failure.value.__context__ is None
        assert account.status is Status.FROZEN
        with pytest.raises(AccountFrozen, match=r"is frozen until its owner, ada, looks. Nothing was run"):
            account.run(Noisy(Pure(0.1)), 5)
        account.unfreeze()
    assert said[0] == said[1]
    assert account.spent().epsilon == 0.2
    assert "blue" not in str(ledger.history())
    assert [entry.kind for entry in account.history()][-3:] == [
        EntryKind.RUN,
        EntryKind.FREEZE,
        EntryKind.THAW,
    ]


@pytest.mark.parametrize("kind", [DataError, InvalidParameter, InvalidQuery, MemoryError, OSError])
def test_no_error_of_a_mechanism_passes_to_the_analyst(memory: Ledger, kind: type[Exception]) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))
    with pytest.raises(AccountFrozen) as failure:
        account.run(Failing(Pure(0.1), kind=kind), "blue")
    assert "blue" not in str(failure.value)
    assert account.status is Status.FROZEN


def test_the_owner_is_told_why_through_her_own_door(url: str) -> None:
    told: list[Exception] = []
    with Ledger.open(url, on_failure=told.append) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(1))
        with pytest.raises(AccountFrozen):
            account.run(Failing(Pure(0.1)), "blue")
    assert str(told[0]) == "The secret is blue."


def test_data_that_cannot_be_opened_freezes_too(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))

    def data() -> int:
        raise ConnectionError("host secret-7 is down")

    with pytest.raises(AccountFrozen) as failure:
        account.run(Noisy(Pure(0.1)), data)
    assert "secret-7" not in str(failure.value)
    assert account.spent().epsilon == 0.1


def test_an_interrupt_passes_and_the_charge_stays(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))

    def data() -> int:
        signal.raise_signal(signal.SIGINT)
        return 5

    with pytest.raises(KeyboardInterrupt):
        account.run(Noisy(Pure(0.1)), data)
    assert (account.spent().epsilon, account.status) == (0.1, Status.OPEN)


def test_a_failure_in_a_part_freezes_the_whole(memory: Ledger) -> None:
    whole = memory.create("visits", ROW, limit=Budget(1))
    part, sibling = (memory.create(name, limit=Budget(1), parent="visits") for name in ("ada", "ben"))
    with pytest.raises(AccountFrozen):
        part.run(Failing(Pure(0.1)), 5)
    for account in (part, whole, sibling):
        with pytest.raises(AccountFrozen):
            account.run(Noisy(Pure(0.1)), 5)
    part.unfreeze()
    sibling.run(Noisy(Pure(0.1)), 5)


def test_only_the_owner_raises_unfreezes_and_closes(url: str) -> None:
    with Ledger.open(url, analyst="owner") as ledger:
        ledger.create("visits", ROW, limit=Budget(1))
    with Ledger.open(url, analyst="ada") as ledger:
        account = ledger.account("visits")
        account.freeze()
        for act in (account.unfreeze, account.close, lambda: account.raise_limit(Budget(2))):
            with pytest.raises(LedgerError, match=r"Only owner, the owner of the account .* you are ada"):
                act()
        account.unfreeze(owner="owner")


# ------------------------------------------------------------------------------------------------ parts


def test_a_charge_counts_in_both_or_in_neither(ledger: Ledger) -> None:
    whole = ledger.create("visits", ROW, limit=Budget(1))
    ada = ledger.create("visits/ada", limit=Budget(0.5), parent="visits")
    ben = ledger.create("visits/ben", limit=Budget(0.9), parent="visits")
    ada.run(Noisy(Pure(0.4)), 5)
    assert (ada.spent().epsilon, ben.spent().epsilon, whole.spent().epsilon) == (0.4, 0, 0.4)
    with pytest.raises(BudgetExceeded, match=r'account "visits/ada"'):
        ada.run(Noisy(Pure(0.2)), 5)
    with pytest.raises(BudgetExceeded, match=r'account "visits" to ε = 1.1'):
        ben.run(Noisy(Pure(0.7)), 5)
    assert (ada.spent().epsilon, ben.spent().epsilon, whole.spent().epsilon) == (0.4, 0, 0.4)
    assert ben.remaining().epsilon == 0.6
    assert [entry.account for entry in whole.history()] == ["visits", "visits/ada"]
    assert [entry.kind for entry in ada.history()] == [EntryKind.CREATE, EntryKind.RUN]


def test_a_part_of_a_part_is_charged_all_the_way_up(memory: Ledger) -> None:
    memory.create("a", ROW, limit=Budget(3, 1e-6))
    memory.create("b", limit=Budget(2, 1e-7), parent="a")
    c = memory.create("c", limit=Budget(1, 1e-8), parent="b")
    c.run(Noisy(GaussianNoise(20)), 5)
    assert all(memory.account(name).spent().share > 0 for name in "abc")
    assert memory.verify().ok


def test_a_part_protects_whom_the_whole_protects(memory: Ledger) -> None:
    memory.create("visits", Unit.column("patient_id"), limit=Budget(1))
    assert memory.create("part", limit=Budget(1), parent="visits").unit == Unit.column("patient_id")
    with pytest.raises(UnitMismatch, match=r"no part of it can protect one row"):
        memory.create("other", ROW, limit=Budget(1), parent="visits")
    with pytest.raises(LedgerError, match=r'no account "nobody"'):
        memory.create("other", ROW, limit=Budget(1), parent="nobody")


def test_names_and_units_are_asked_for(ledger: Ledger) -> None:
    ledger.create("visits", ROW, limit=Budget(1))
    with pytest.raises(LedgerError, match=r'There is an account "visits" already'):
        ledger.create("visits", ROW, limit=Budget(9))
    assert ledger.account("visits").limit == Budget(1)
    with pytest.raises(InvalidParameter, match=r"whom does it protect"):
        ledger.create("other", limit=Budget(1))
    with pytest.raises(LedgerError, match=r'no account "nobody"'):
        ledger.account("nobody")
    for bad in ("", "nul\0", "x" * 20_000, "\ud800"):
        with pytest.raises(InvalidParameter):
            ledger.create(bad, ROW, limit=Budget(1))
    assert ledger.verify().ok


# ------------------------------------------------------------------------------------------------ limits


def test_raising_a_limit_is_an_entry_and_opens_room(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(1, 1e-6))
    account.run(Noisy(Pure(1)), 5)
    with pytest.raises(BudgetExceeded):
        account.run(Noisy(Pure(0.5)), 5)
    account.raise_limit(Budget(1.5, 1e-6))
    account.run(Noisy(Pure(0.5)), 5)
    raised = account.history()[-2]
    assert (raised.kind, raised.description) == (
        EntryKind.RAISE,
        "Limit raised from ε = 1 at δ = 1e-06 to ε = 1.5 at δ = 1e-06.",
    )
    with pytest.raises(InvalidParameter, match=r"never lowered"):
        account.raise_limit(Budget(1, 1e-6))
    assert ledger.verify().ok


def test_a_closed_account_runs_nothing(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(1))
    account.close()
    with pytest.raises(LedgerError, match=r'"visits" is closed. Nothing was run'):
        account.run(Noisy(Pure(0.1)), 5)


def test_gaussian_charges_fill_the_curve_and_stop(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(3, 1e-6))
    rho = account.remaining().rho
    quarter = Noisy(Zcdp(rho / 4))
    for _ in range(4):
        account.run(quarter, 5)
    assert account.spent().share > 0.999
    with pytest.raises(BudgetExceeded, match=r"over its limit ε = 3 "):
        account.run(quarter, 5)
    assert account.odometer().epsilon >= account.spent().epsilon


def test_a_preview_charges_nothing_and_tells_the_truth(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(1))
    before = ledger.head()
    fits, not_so = account.preview(Pure(0.4)), account.preview(Pure(1.4))
    assert (fits.fits, fits.after.epsilon, fits.left.epsilon) == (True, 0.4, 0.6)
    assert (not_so.fits, not_so.left.epsilon) == (False, 1)
    assert "over its limit" in str(not_so.refusal)
    assert ledger.head() == before
    account.run(Noisy(Pure(0.4)), 5)
    assert account.spent() == fits.after


def test_a_loss_without_a_curve_is_charged_at_a_named_delta(ledger: Ledger) -> None:
    replaced = Unit.row(replace=True)
    account = ledger.create("visits", replaced, limit=Budget(1, 1e-6))
    shuffled = Noisy(Shuffled(10_000, Pure(1)), replaced)
    account.run(shuffled, 5, delta=1e-8)
    charged = account.standing().spent
    assert charged.delta == Fraction(1, 10**8)
    assert account.history()[-1].details["delta"] == "1/100000000"
    with pytest.raises(BudgetExceeded, match=r"the δ of the account .* over the 5e-07 that its limit keeps"):
        account.run(shuffled, 5, delta=6e-7)


def test_a_pure_account_refuses_what_has_no_epsilon_with_the_way_out(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(3))
    with pytest.raises(Unaccountable, match=r"no ε of its own.*Name a δ"):
        account.run(Noisy(GaussianNoise(3)), 5)
    assert len(memory.history()) == 1


def test_the_basic_rule_grants_one_charge_of_the_whole_limit(memory: Ledger) -> None:
    account = memory.create("model", ROW, limit=Budget(3, 1e-6), filter=Filter.basic)
    account.run(Noisy(Approximate(3, 1e-6)), 5)
    assert account.spent().share == 1


def test_a_rule_for_another_limit_is_refused(memory: Ledger) -> None:
    """One limit was written down, and another granted."""
    with pytest.raises(
        InvalidParameter, match=r"keeps the limit ε = 1, got one for ε = 100. Nothing was created"
    ):
        memory.create("visits", ROW, limit=Budget(1), filter=lambda _: Filter.basic(Budget(100)))
    assert memory.accounts() == []


def test_the_rule_is_fixed_in_the_journal(ledger: Ledger, url: str) -> None:
    account = ledger.create("visits", ROW, limit=Budget(3, 1e-6))
    made = Filter.from_dict(account.history()[0].details["filter"])
    assert made == account.standing().filter == Filter.of(Budget(3, 1e-6))
    with Ledger.open(url) as again:
        assert again.account("visits").standing() == account.standing()


# ------------------------------------------------------------------------------------------------ units and generators


@pytest.mark.parametrize(
    ("account", "loss", "reason"),
    [
        (
            Unit.column("patient_id", max_rows=4),
            ROW,
            "needs a bound on them that the mechanism enforces, not one that is declared",
        ),
        (Unit.row(replace=True), ROW, "Replacing is removing and adding"),
        (Unit.client(), ROW, "Losses of different units do not add up"),
        (Unit.column("patient_id", max_rows=4), Unit.column("patient_id", max_rows=8), "do not add up"),
    ],
)
def test_units_never_mix(memory: Ledger, account: Unit, loss: Unit, reason: str) -> None:
    made = memory.create("visits", account, limit=Budget(1))
    with pytest.raises(UnitMismatch, match=reason):
        made.run(Noisy(Pure(0.1), loss), 5)
    assert len(memory.history()) == 1


def test_a_loss_of_the_other_neighbour_relation_is_refused(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(8, 1e-6))
    replaced = GaussianNoise(2).sampled(0.1, replace=True)
    for act in (lambda: account.run(Noisy(replaced), 5), lambda: account.preview(replaced)):
        with pytest.raises(UnitMismatch, match=r"stated for a unit that is replaced.*Nothing was charged"):
            act()
    assert len(memory.history()) == 1


@dataclass(frozen=True)
class Rows:
    """The true number of rows: no noise, to see what the bound lets through."""

    loss: Loss = Pure(0.1)
    unit: Unit = ROW

    def error(self, confidence: float = 0.95) -> None:
        return None

    def __call__(self, data: pa.Table, *, rng: Random) -> list[int]:
        return list(data.column("visit").to_pylist())


def test_a_bound_that_is_enforced_turns_rows_into_people(memory: Ledger) -> None:
    unit = Unit.column("patient_id", max_rows=2)
    table = pa.table({"patient_id": [7, 8, 7, None, 7, None, None], "visit": [1, 2, 3, 4, 5, 6, 7]})
    account = memory.create("visits", unit, limit=Budget(1))
    release = account.run(Bounded(Rows(), unit), table)
    assert release.value == [1, 2, 3, 4, 6]
    assert release.loss == Grouped(2, Pure(0.1))
    assert account.spent().epsilon == 0.2
    assert Bounded(Rows(), unit)(table.slice(0, 0), rng=SeededRandom(1)) == []


def test_a_bound_needs_a_unit_that_has_one(memory: Ledger) -> None:
    for unit in (Unit.column("patient_id"), ROW, Unit.column("patient_id", max_rows=2, replace=True)):
        with pytest.raises(InvalidParameter, match=r"max_rows=4"):
            Bounded(Rows(), unit)
    with pytest.raises(UnitMismatch):
        Bounded(Rows(unit=Unit.client()), Unit.column("patient_id", max_rows=2))


def test_a_durable_ledger_refuses_a_seed_before_it_charges(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(1))
    for act in (
        lambda: account.run(Noisy(Pure(0.1)), 5, rng=SeededRandom(1)),
        lambda: account.open(Asking(Pure(0.1), 2), 5, rng=SeededRandom(1)),
    ):
        with pytest.raises(InvalidParameter, match=r"Expected a secure generator"):
            act()
    assert len(ledger.history()) == 1


def test_a_ledger_in_memory_takes_a_seed_and_says_so(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))
    release = account.run(Noisy(Pure(0.1)), 5, rng=SeededRandom(1))
    assert not release.private
    with pytest.raises(InvalidParameter, match=r"drawn from a seed"):
        account.certificate(release)


def test_a_certificate_checks_and_carries_the_head(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(3, 1e-6))
    release = account.run(Noisy(GaussianNoise(10)), 5)
    certificate = account.certificate(release)
    assert (certificate.head, certificate.delta, certificate.loss) == (release.entry, 1e-6, GaussianNoise(10))
    assert verify_certificate(certificate).upper < 1
    assert ledger.verify(certificate.head).ok


# ------------------------------------------------------------------------------------------------ sessions


def test_a_session_reserves_all_and_settles_what_was_answered(ledger: Ledger) -> None:
    account = ledger.create("visits", ROW, limit=Budget(1))
    with account.open(Asking(Pure(0.1), 10), 40) as session:
        assert account.spent().epsilon == 1
        with pytest.raises(BudgetExceeded):
            account.run(Noisy(Pure(0.1)), 5)
        first = session.ask(lambda data: data + 2)
        session.ask(lambda data: data)
        assert (first.loss, first.entry) == (Pure(0.1) * 10, session.entry)
    assert account.spent().epsilon == 0.2
    assert ledger.verify().ok
    session.close()  # once more does nothing
    assert account.spent().epsilon == 0.2
    with pytest.raises(LedgerError, match=r"is closed. Nothing was asked"):
        session.ask(lambda data: data)


def test_a_session_of_gaussian_noise_settles_to_the_bit(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(3, 1e-6))
    with account.open(Asking(GaussianNoise(50), 100), 40) as session:
        for _ in range(7):
            session.ask(lambda data: data)
    direct = memory.create("other", ROW, limit=Budget(3, 1e-6))
    for _ in range(7):
        direct.run(Noisy(GaussianNoise(50)), 5)
    assert account.standing().spent.renyi == direct.standing().spent.renyi
    assert account.standing().spent.impure == 7


def test_a_session_that_was_never_closed_stays_charged_in_full(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(1))
        account.open(Asking(Pure(0.1), 10), 40).ask(lambda data: data)
    with Ledger.open(sqlite_url) as ledger:
        assert ledger.account("visits").spent().epsilon == 1


def test_interleaved_sessions_each_pay(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))
    one, two = account.open(Asking(Pure(0.1), 5), 1), account.open(Asking(Pure(0.05), 8), 2)
    one.ask(lambda d: d)
    two.ask(lambda d: d)
    one.ask(lambda d: d)
    one.close()
    two.close()
    assert account.spent().epsilon == 0.25


def test_a_session_charged_at_a_delta_keeps_all_of_it(memory: Ledger) -> None:
    # ε at a δ is by a theorem for fixed parameters; stopping early by what one saw is not covered by it.
    account = memory.create("visits", ROW, limit=Budget(3, 1e-6))
    with account.open(Asking(GaussianNoise(50), 100), 40, delta=1e-8) as session:
        before = account.standing().spent
        session.ask(lambda d: d)
    assert account.standing().spent == before


def test_a_question_that_fails_on_data_freezes_and_keeps_the_charge(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))
    with account.open(Asking(Pure(0.1), 5), 1) as session:
        with pytest.raises(AccountFrozen) as failure:
            session.ask(lambda data: 1 // (data - 1))
        assert "division" not in str(failure.value)
    assert (account.status, account.spent().epsilon) == (Status.FROZEN, 0.5)


def test_a_question_refused_by_its_words_costs_and_freezes_nothing(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))

    def refused(data: int) -> int:
        raise InvalidQuery("No such column.")

    with account.open(Asking(Pure(0.1), 5), 1) as session:
        with pytest.raises(InvalidQuery):
            session.ask(refused)
        assert account.status is Status.OPEN


@pytest.mark.parametrize("used", [None, "all", Pure(9)])
def test_a_conversation_that_cannot_say_what_it_used_is_charged_in_full(memory: Ledger, used: object) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))

    class Mute:
        def __init__(self) -> None:
            if used is not None:
                self.used = used

        def ask(self, question: object) -> int:
            return 1

    @dataclass(frozen=True)
    class Wordless:
        loss: Loss = Pure(0.5)
        unit: Unit = ROW

        def open(self, data: object, *, rng: Random) -> Mute:
            return Mute()

    account.open(Wordless(), 1).close()
    assert account.spent().epsilon == 0.5


def test_an_opener_is_a_function_and_other_callables_are_data(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))

    class Engine(int):
        def __call__(self) -> int:
            raise AssertionError("An engine is data, not a way to open it.")

    opened: Callable[[], int] = lambda: 7  # noqa: E731
    assert isinstance(account.run(Noisy(Pure(0.1)), Engine(7)).value, int)
    assert isinstance(account.run(Noisy(Pure(0.1)), opened).value, int)
