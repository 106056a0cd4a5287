"""A curator that cannot be confused: one test for each hole that an attack found, and for its neighbours."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.accounting import renyi
from deniable.accounting.filters import charges
from deniable.curator import Curator
from deniable.errors import BudgetExceeded, DeniableError, InvalidParameter, LedgerError
from deniable.guarantee import Budget
from deniable.ledger import EntryKind, Filter, Ledger
from deniable.ledger.journal import Draft
from deniable.mechanisms import Laplace
from deniable.randomness import SeededRandom
from deniable.sql.engines import Statement, open_engine
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.types import INTEGER
from deniable.units import Unit

COUNT = "SELECT COUNT(*) AS n FROM visits"
VISITS = pa.table({"patient_id": [1, 1, 2, 3], "days": [1, 2, 3, 4]})


@contextmanager
def opened(ledger: Ledger, **changes: Any) -> Iterator[Curator]:
    how = {"name": "visits", "unit": Unit.row(), "limit": Budget(1), "rng": SeededRandom(1)}
    with Curator.open(VISITS, ledger=ledger, **(how | changes)) as curator:
        yield curator


def forge(ledger: Ledger, name: str, parent: str | None, epsilon: float) -> None:
    """An account of any name, as an earlier version made it."""
    details = {"parent": parent, "owner": "ada", "filter": Filter.of(Budget(epsilon)).to_dict()}
    draft = Draft(
        EntryKind.CREATE, name, "ada", "Written by an earlier version.", Unit.row().to_json(), details
    )
    ledger._journal.append([name], lambda before: draft)


# ------------------------------------------------------------------------------------------------ names


def test_a_data_set_named_like_an_analysts_part_is_not_spent_on_another() -> None:
    with Ledger.open("sqlite://") as ledger:
        with opened(ledger) as curator:
            curator.sql(COUNT, epsilon=0.25)
        forge(ledger, "visits/b", None, 100)
        with pytest.raises(LedgerError, match='has the name of an analyst\'s part of "visits", and is none'):
            Curator.open(VISITS, name="visits", ledger=ledger, analyst="b", rng=SeededRandom(1))
        with opened(ledger) as curator, pytest.raises(LedgerError, match="and is none"):
            curator.as_analyst("b")


def test_a_part_is_not_opened_as_a_data_set() -> None:
    with Ledger.open("sqlite://") as ledger, opened(ledger) as curator:
        curator.share("b", Budget(0.5))
        with pytest.raises(InvalidParameter, match='is a part of "visits"'):
            Curator.open(VISITS, name="visits", account="visits/b", ledger=ledger)


def test_an_analyst_who_is_not_named_is_nobody_called_none() -> None:
    with Ledger.open("sqlite://") as ledger, opened(ledger) as curator:
        curator.share("None", Budget(0.5))
        with opened(ledger) as again:
            assert again.account.name == "visits"


CONFUSING = [
    "",
    "a/b",
    "/",
    "a\nb",
    "a\0b",
    "a\x7fb",
    "ada\u200b",  # a space of no width
    "ada\u202eb",  # from here to the left
    "ad\ufeffa",
    "\uff41da",  # a wide a
    "e\u0301va",  # é in two letters
    "\u0430da",  # a Cyrillic a
    "\u0430\u0440\u0435",  # all Cyrillic, and reads "ape"
    "\u03bf\u03bf",  # Greek, and reads "oo"
    "ad\u0251",  # a phonetic a
    "ada\u3164",  # a filler
    "ada\u034f",
    "ada\ufe0f",
    " ada",
    "ada ",
    "a  b",
    "a\u00a0b",
    "a\u2028b",
    "a\ue000b",
    "x" * 201,
    "\u2800",
]


@pytest.fixture(scope="module")
def untouched() -> Iterator[tuple[Ledger, Curator]]:
    """A ledger and a curator to which nothing ever happens."""
    with Ledger.open("sqlite://") as ledger, opened(ledger) as curator:
        yield ledger, curator


@pytest.mark.parametrize("name", CONFUSING, ids=ascii)
def test_a_name_that_can_be_taken_for_another_is_refused(
    name: str, untouched: tuple[Ledger, Curator]
) -> None:
    ledger, curator = untouched
    head = ledger.head()
    for act in (
        lambda: curator.share(name, Budget(0.5)),
        lambda: curator.as_analyst(name),
        lambda: ledger.create(name, Unit.row(), limit=Budget(1)),
        lambda: Curator.open(VISITS, name="visits", ledger=ledger, analyst=name),
    ):
        with pytest.raises(InvalidParameter, match="name"):
            act()
    assert ledger.head() == head


@pytest.mark.parametrize(
    "name", ["ada", "ada@example.org", "J. Müller-Óg", "Анна Жукова", "田中さん", "김철수", "CORP\\ada", "x1"]
)
def test_names_of_people_are_taken(name: str) -> None:
    with Ledger.open("sqlite://") as ledger, opened(ledger) as curator:
        assert curator.share(name, Budget(0.5)).account.name == f"visits/{name}"
        assert curator.as_analyst(name).account.parent == "visits"


NAMES = st.sampled_from(
    ["visits", "b", "visits/b", "visits/b/c", "b/visits", "None", "visits/None", "c", "visits+b"]
)


@given(
    accounts=st.lists(st.tuples(NAMES, st.none() | NAMES), max_size=5),
    account=st.none() | NAMES,
    analyst=st.none() | NAMES,
    found=st.booleans(),
)
def test_whatever_a_curator_releases_moves_its_root(
    accounts: list[tuple[str, str | None]], account: str | None, analyst: str | None, found: bool
) -> None:
    """Over any accounts that lie in a ledger: the data set that was named pays for what
    is released, or nothing is released."""
    with Ledger.open("sqlite://") as ledger:
        for name, parent in accounts:
            known = {each.name for each in ledger.accounts()}
            if name not in known and (parent is None or parent in known):
                forge(ledger, name, parent, 100)
        data = account or "visits"
        how: dict[str, Any] = (
            {} if data in {each.name for each in ledger.accounts()} else {"limit": Budget(1)}
        )
        try:
            named = None if found else analyst
            with Curator.open(
                VISITS, name="visits", account=account, ledger=ledger, unit=Unit.row(), analyst=named,
                rng=SeededRandom(1), **how,
            ) as curator:  # fmt: skip
                asking = curator.as_analyst(analyst) if found and analyst is not None else curator
                asking.sql(COUNT, epsilon=0.25)
        except DeniableError:
            assert all(each.spent().epsilon == 0 for each in ledger.accounts())
        else:
            assert ledger.account(data).parent is None
            assert ledger.account(data).spent().epsilon == 0.25


# ------------------------------------------------------------------------------------------------ analysts


ONE = Budget(1)


def shared(ledger: Ledger, limit: Budget = ONE) -> tuple[Curator, Curator, Curator]:
    """The owner's curator, and those of two analysts."""
    owner = Curator.open(
        VISITS,
        name="visits",
        unit=Unit.row(),
        limit=limit,
        ledger=ledger,
        rng=SeededRandom(1),
        analyst=ledger.analyst,
    )
    return owner, owner.share("ada", Budget(0.75)), owner.share("bob", Budget(0.75))


def test_what_another_asked_looks_like_a_new_answer() -> None:
    with Ledger.open("sqlite://") as ledger:
        owner, ada, bob = shared(ledger)
        first = ada.sql(COUNT, epsilon=0.25)
        assert not bob.preview(COUNT, epsilon=0.25).free
        second = bob.sql(COUNT, epsilon=0.25)
        assert second.value.equals(first.value)
        assert (second.again, second.notes) == (False, first.notes)
        assert second.entry == str(ledger.head()) != first.entry
        assert bob.account.history()[-1].description == ada.account.history()[-1].description
        assert owner.account.spent().epsilon == 0.25
        for asking, entry in ((ada, first.entry), (bob, second.entry)):
            again = asking.sql(COUNT, epsilon=0.25)
            assert (again.again, again.entry) == (True, entry)
            assert asking.account.spent().epsilon == 0.25
        assert ledger.verify().ok


def test_what_another_asked_takes_the_time_that_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    lingered: list[float] = []
    monkeypatch.setattr("deniable.curator.stop.Pace.linger", lambda self, seconds: lingered.append(seconds))
    with Ledger.open("sqlite://") as ledger:
        _, ada, bob = shared(ledger)
        ada.sql(COUNT, epsilon=0.25)
        ada.sql(COUNT, epsilon=0.25)
        assert lingered == []
        bob.sql(COUNT, epsilon=0.25)
        assert len(lingered) == 1
        assert 0 < lingered[0] < 30


@pytest.mark.parametrize("spent", [0.0, 0.7])
@pytest.mark.parametrize("epsilon", [0.25, 0.5])
def test_a_preview_agrees_with_the_answer_whoever_asked_before(spent: float, epsilon: float) -> None:
    with Ledger.open("sqlite://") as ledger:
        owner, ada, bob = shared(ledger)
        ada.sql(COUNT, epsilon=0.25)
        if spent:
            owner.sql(f"{COUNT} WHERE days > 1", epsilon=spent)
        told = bob.preview(COUNT, epsilon=epsilon)
        said = None
        try:
            bob.sql(COUNT, epsilon=epsilon)
        except BudgetExceeded as error:
            said = str(error)
        assert (told.fits, told.refusal) == (said is None, said)
        if said is None:
            assert bob.account.remaining().epsilon == told.left.epsilon


def test_the_numbers_of_the_data_set_are_the_owners() -> None:
    with Ledger.open("sqlite://") as ledger:
        owner, ada, _ = shared(ledger)
        owner.sql(COUNT, epsilon=0.9)
        assert ada.account.remaining().epsilon == 0.75
        assert ada.preview(f"{COUNT} WHERE days > 1", epsilon=0.05).left.epsilon == pytest.approx(0.7)
        with pytest.raises(BudgetExceeded) as caught:
            ada.sql(f"{COUNT} WHERE days > 1", epsilon=0.5)
        refused = ada.preview(f"{COUNT} WHERE days > 1", epsilon=0.5)
        for text in (str(caught.value), refused.refusal or ""):
            assert 'The data set that "visits/ada" is a part of has not enough left' in text
            assert "0.9" not in text
            assert "0.1" not in text
        assert (caught.value.spent, caught.value.limit) == (0.0, 0.75)
        assert refused.left.epsilon == 0.75
        with pytest.raises(BudgetExceeded, match=r"spent: 0\.9, asked: 0\.5"):
            owner.sql(f"{COUNT} WHERE days > 1", epsilon=0.5)
        assert ledger.account("visits/ada").remaining().epsilon == pytest.approx(0.1)


# ------------------------------------------------------------------------------------------------ cost


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> Iterator[list[str]]:
    """Every call of a function in this block."""
    calls: list[str] = []
    inner = getattr(where, name)

    def call(*args: Any, **named: Any) -> Any:
        calls.append(name)
        return inner(*args, **named)

    with monkeypatch.context() as patched:
        patched.setattr(where, name, call)
        yield calls


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("noise", ["laplace", "gaussian", "auto"])
def test_an_ask_makes_three_transactions_and_a_preview_one(
    monkeypatch: pytest.MonkeyPatch, noise: str, part: bool
) -> None:
    with Ledger.open("sqlite://") as ledger:
        owner, ada, _ = shared(ledger, Budget(3, 1e-6))
        asking, store = (ada if part else owner), ledger._journal.store
        terms: dict[str, Any] = {
            "epsilon": 0.25,
            "noise": noise,
            "delta": 1e-8 if noise == "gaussian" else None,
        }
        if noise == "gaussian" and part:
            asking = owner.share("eve", Budget(1, 1e-7))
        asking.sql(COUNT, **terms)
        for act, most in ((asking.preview, 1), (asking.sql, 3), (asking.sql, 1)):
            with counted(monkeypatch, store, "_transaction") as calls:
                act(f"{COUNT} WHERE days > 1", **terms)
            assert len(calls) <= most


@pytest.mark.parametrize(("act", "epsilon"), [("preview", 0.51), ("sql", 0.52)])
def test_a_loss_is_priced_once(monkeypatch: pytest.MonkeyPatch, act: str, epsilon: float) -> None:
    """Twenty counts come out better with Gaussian noise, whose ε takes numerical work;
    what is left takes one more price."""
    counts = ", ".join(f"COUNT(*) FILTER (WHERE days > {i}) AS n{i}" for i in range(20))
    with Ledger.open("sqlite://") as ledger:
        owner, _, _ = shared(ledger, Budget(3, 1e-4))
        asking = owner.share("eve", Budget(1, 1e-4))
        with (
            counted(monkeypatch, charges, "best_epsilon") as epsilons,
            counted(monkeypatch, renyi, "curve") as curves,
        ):
            getattr(asking, act)(f"SELECT {counts} FROM visits", epsilon=epsilon)
        assert len(epsilons) == 1
        assert len(curves) <= 6


# ------------------------------------------------------------------------------------------------ processes


def in_a_child(act: Callable[[], object]) -> str:
    """What a forked child says of doing it."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        said = "done"
        try:
            act()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


def test_a_curator_and_its_engine_refuse_to_work_in_a_forked_child(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/privacy.db"
    with Curator.open(VISITS, name="visits", unit=Unit.row(), limit=Budget(1), ledger=url) as curator:
        curator.sql(COUNT, epsilon=0.25)
        for act in (curator.sql, curator.preview):
            said = in_a_child(partial(act, f"{COUNT} WHERE days > 1", epsilon=0.25))
            assert said.startswith("LedgerError: This curator belongs to the process that opened it")
        said = in_a_child(lambda: curator._desk.engine.run(Statement((), "SELECT 1")))
        assert "belongs to the process that opened it" in said
        assert curator.account.spent().epsilon == 0.25
        assert curator.sql(f"{COUNT} WHERE days > 1", epsilon=0.25).epsilon == 0.25
        for double in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(LedgerError, match="cannot be copied"):
                double(curator)


def test_a_plan_run_in_a_forked_child_is_refused_before_its_charge(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/privacy.db"
    table = TableInfo("visits", (ColumnInfo("days", INTEGER),))
    with Ledger.open(url) as ledger:
        account = ledger.create("visits", Unit.row(), limit=Budget(1))
        engine = open_engine({"visits": pa.table({"days": [1, 2]})}, Schema((table,)))
        count = plan(check(COUNT, Schema((table,)), Unit.row()), Unit.row(), Terms(epsilon=0.25))
        said = in_a_child(partial(account.run, count, engine))
        assert "This engine belongs to the process that opened it" in said
        assert account.spent().epsilon == 0
        account.run(count, engine)
        engine.close()


ELSEWHERE = """
import sys
from deniable.ledger import Ledger
for url in sys.stdin:
    with Ledger.open(url.strip()) as ledger:
        print(sum(float(account.spent().epsilon) for account in ledger.accounts()), flush=True)
"""


@pytest.fixture
def seen_elsewhere() -> Iterator[Callable[[str], float]]:
    """What another process says is spent, which opens and closes the ledger each time it is asked."""
    with subprocess.Popen(
        [sys.executable, "-c", ELSEWHERE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        questions, answers = other.stdin, other.stdout
        assert questions is not None
        assert answers is not None

        def ask(url: str) -> float:
            print(url, file=questions, flush=True)
            return float(answers.readline())

        yield ask
        questions.close()


def test_looking_for_other_ledgers_beside_the_data_lets_go_of_no_lock(
    tmp_path: Path, seen_elsewhere: Callable[[str], float]
) -> None:
    """POSIX drops all locks of a process on a file when the process closes it, however it had opened it. A
    ledger whose locks are gone has its write-ahead log removed by the next process that closes it, and its
    charges go into a deleted file."""
    data, url = tmp_path / "visits.parquet", f"sqlite:///{tmp_path}/privacy.db"
    pq.write_table(VISITS, data)
    with Ledger.open(f"sqlite:///{tmp_path}/other.db") as other, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        account = other.create("other", Unit.row(), limit=Budget(1))
        with Curator.open(data, unit=Unit.row(), limit=Budget(1), ledger=url) as curator:
            for spent in (0.25, 0.5):
                assert seen_elsewhere(url) == spent - 0.25
                assert seen_elsewhere(f"sqlite:///{tmp_path}/other.db") == spent - 0.25
                curator.sql(f"{COUNT} WHERE days > {spent}", epsilon=0.25)
                account.run(Laplace(scale=4, sensitivity=1), 1)
            assert seen_elsewhere(url) == 0.5
            assert seen_elsewhere(f"sqlite:///{tmp_path}/other.db") == 0.5
