"""One charge pays for one conversation: no copy, no second settling, no word of what failed inside."""

from __future__ import annotations

import ast
import copy
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest

import deniable
from deniable.accounting.filters.charges import Charge
from deniable.errors import AccountFrozen, LedgerError, Uncopyable
from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger, Session, Status
from deniable.ledger.journal import now
from deniable.ledger.journal.entries import apply
from deniable.ledger.journal.replay import Replay
from deniable.loss import Composed, Loss, Pure
from deniable.mechanism import Random
from deniable.mechanisms import SparseVector
from deniable.randomness import SecureRandom
from deniable.units import Unit
from tests.ledger.workers import Asking, Noisy
from tests.meta.source import list_nodes

ROW = Unit.row()
WAYS: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, pickle.dumps]


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.create("visits", ROW, limit=Budget(1))


def doubled(session: Session[Any]) -> Session[Any]:
    """A copy by force, past every refusal."""
    other = object.__new__(Session)
    other.__dict__.update(session.__dict__)
    return other


@pytest.mark.parametrize("way", WAYS)
def test_a_session_is_never_copied(memory: Ledger, way: Callable[[Any], Any]) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))
    session = account.open(SparseVector(threshold=0, epsilon=1, runs=1), [1, 2, 3])
    for thing in (session, [session], memory, memory._journal, memory._journal.store):
        if way is copy.copy and thing == [session]:
            continue
        with pytest.raises(Uncopyable, match=r"cannot be copied or pickled"):
            way(thing)


@pytest.mark.parametrize("way", WAYS)
def test_a_conversation_is_never_copied_either(way: Callable[[Any], Any]) -> None:
    conversation = SparseVector(threshold=0, epsilon=1).open([1, 2, 3], rng=SecureRandom())
    with pytest.raises(Uncopyable, match="may do once"):
        way(conversation)


def test_a_conversation_answers_in_its_own_process_alone() -> None:
    """A child that reached past its session was answered, for nothing."""
    conversation = SparseVector(threshold=0, epsilon=1).open([1, 2, 3], rng=SecureRandom())
    child = os.fork()
    if not child:
        try:
            conversation.ask(lambda _: 100)
            os._exit(0)
        except LedgerError:
            os._exit(4)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    conversation.ask(lambda _: 100)


def test_every_conversation_stays_where_it_was_opened() -> None:
    """Whatever has `ask` and `used` is one; what is shown as broken is left out."""
    source = Path(deniable.__file__).parent
    for path in source.rglob("*.py"):
        if path.name in ("cautionary.py", "mechanism.py"):
            continue
        for node in list_nodes(path):
            if isinstance(node, ast.ClassDef):
                methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
                if {"ask", "used"} <= methods.keys():
                    assert "Conversing" in {ast.unparse(base) for base in node.bases}, (path, node.name)
                    assert "self.stay()" in ast.unparse(methods["ask"]), (path, node.name)


def test_a_copied_account_is_the_same_account_and_is_not_pickled(account: Account) -> None:
    assert copy.copy(account) is account
    assert copy.deepcopy([account])[0] is account
    with pytest.raises(TypeError, match=r"open the ledger there and take the account by its name"):
        pickle.dumps(account)


def test_a_session_is_settled_once_whoever_holds_it(ledger: Ledger, account: Account) -> None:
    session = account.open(Asking(Pure(0.1), 10), 1)
    session.ask(lambda data: data)
    twin = doubled(session)
    session.close()
    assert account.spent().epsilon == 0.1
    with pytest.raises(
        LedgerError, match=r"The session of entry 2 is settled already. Nothing was given back"
    ):
        twin.close()
    with pytest.raises(LedgerError, match=r"settled already"):
        account.settle(twin._payment, Composed(()))
    assert account.spent().epsilon == 0.1
    assert ledger.verify().ok


def test_threads_that_close_at_once_settle_once(account: Account) -> None:
    session = account.open(Asking(Pure(0.1), 10), 1)
    twins, errors = [session, *(doubled(session) for _ in range(5))], []

    def close(twin: Session[Any]) -> None:
        try:
            twin.close()
        except LedgerError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=close, args=(twin,)) for twin in twins]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 5
    assert account.spent().epsilon == 0


def test_nothing_is_given_back_for_what_was_not_charged(account: Account) -> None:
    """A refund is taken from the journal's own entry, whatever the session says that it paid."""
    session = account.open(Asking(Pure(0.1), 5), 1)
    account.run(Noisy(Pure(0.5)), 5)
    paid = session._payment
    richer = copy.copy(paid)
    object.__setattr__(richer, "charges", {name: charge * 2 for name, charge in paid.charges.items()})
    with pytest.raises(LedgerError, match=r"charged something else than this session says"):
        account.settle(richer, Composed(()))
    run = account.history()[-1]
    object.__setattr__(richer, "entry", run)
    with pytest.raises(LedgerError, match=r"did not open this session"):
        account.settle(richer, Composed(()))
    assert account.spent().epsilon == 1


def test_the_books_refuse_what_brings_an_account_below_nothing(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))
    account.open(Asking(Pure(0.1), 10), 1).close()
    created, opened, settled = memory.history()
    after = apply(created, {})
    after |= apply(opened, after)
    again = apply(settled, after)
    with pytest.raises(LedgerError, match=r"below nothing"):
        apply(settled, again)
    more = {
        "session": 2,
        "returned": {"visits": (Charge.from_dict(opened.details["charges"]["visits"]) * 2).to_dict()},
    }
    with pytest.raises(LedgerError, match=r"below nothing"):
        apply(settled._replace(details_json=_json(more)), after)


def test_the_replay_names_a_second_settle_a_refund_too_large_and_one_of_nothing(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(9))
    account.run(Noisy(Pure(1)), 5)
    account.open(Asking(Pure(0.1), 10), 1).close()
    created, run, opened, settled = memory.history()
    large = {
        "session": 3,
        "returned": {"visits": (Charge.from_dict(opened.details["charges"]["visits"]) * 2).to_dict()},
    }
    stray = {"session": 2, "returned": settled.details["returned"]}
    for entries, told in (
        (
            [created, run, opened, settled, settled],
            'settles the session of entry 3 of the account "visits" a second time',
        ),
        ([created, run, opened, settled._replace(details_json=_json(large))], "more than entry 3 charged"),
        (
            [created, run, opened, settled._replace(details_json=_json(stray))],
            "a session that was never opened",
        ),
    ):
        replay = Replay()
        problems = [problem for entry in entries for problem in replay.enter(entry)]
        assert len(problems) == 1
        assert told in problems[0]
        assert replay.accounts["visits"].spent.epsilon == (1 if entries[-2:] == [settled, settled] else 2)


def _json(value: object) -> str:
    import json

    return json.dumps(value)


# ------------------------------------------------------------------------------------------------ asking at once


class Slow:
    """Fails if two questions meet in it."""

    def __init__(self) -> None:
        self.inside, self.asked = 0, 0

    def ask(self, question: Any) -> int:
        self.inside += 1
        if self.inside > 1:
            raise RuntimeError("Two at once.")
        time.sleep(0.002)
        self.inside -= 1
        self.asked += 1
        return int(question(0)) if callable(question) else 0

    @property
    def used(self) -> Loss:
        return Pure(0.01) * max(self.asked, 1)


@dataclass(frozen=True)
class Slowly:
    loss: Loss = Pure(1)
    unit: Unit = ROW

    def open(self, data: object, *, rng: Random) -> Slow:
        return Slow()


def test_threads_that_ask_at_once_are_answered_in_turn(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))
    session, errors = account.open(Slowly(), 1), []

    def work() -> None:
        try:
            for _ in range(10):
                session.ask(None)
        except Exception as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    session.close()
    assert account.spent().epsilon == 0.4
    assert account.status is Status.OPEN


def test_a_question_inside_an_answer_is_a_failure_not_a_second_answer(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))
    session = account.open(Slowly(), 1)
    with pytest.raises(AccountFrozen):
        session.ask(lambda _: session.ask(None).value)
    assert account.spent().epsilon == 1


# ------------------------------------------------------------------------------------------------ what ends a mechanism


@dataclass(frozen=True)
class Ending(Noisy):
    """Ends in its own way, with a text that gives the data away."""

    kind: type[BaseException] = KeyboardInterrupt

    def __call__(self, data: Any, *, rng: Random) -> NoReturn:
        raise self.kind(f"The secret is {data}.")


def told(error: BaseException) -> str:
    """All that an error carries out."""
    parts: list[object] = [
        error,
        *error.args,
        error.__context__,
        error.__cause__,
        getattr(error, "code", None),
    ]
    return " ".join(map(repr, parts))


@pytest.mark.parametrize(
    "kind", [KeyboardInterrupt, SystemExit, GeneratorExit, type("Own", (BaseException,), {})]
)
def test_what_a_mechanism_raises_of_any_type_carries_nothing_out(
    memory: Ledger, kind: type[BaseException]
) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))
    with pytest.raises(AccountFrozen) as failure:
        account.run(Ending(Pure(0.1), kind=kind), 4711)
    assert "4711" not in told(failure.value)
    assert (account.status, account.spent().epsilon) == (Status.FROZEN, 0.1)


@dataclass(frozen=True)
class Stopped(Noisy):
    """The person presses Ctrl-C while it works."""

    def __call__(self, data: Any, *, rng: Random) -> NoReturn:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(f"The secret is {data}.") from error
        raise AssertionError


def test_a_person_who_stops_a_mechanism_freezes_nothing_and_learns_nothing(memory: Ledger) -> None:
    account, handler = memory.create("visits", ROW, limit=Budget(1)), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as stopped:
        account.run(Stopped(Pure(0.1)), 4711)
    assert "4711" not in told(stopped.value)
    assert stopped.value.args == ()
    assert (account.status, account.spent().epsilon) == (Status.OPEN, 0.1)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_session_that_was_stopped_on_the_way_is_over_and_charged(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))

    def stop(data: int) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
        return data

    with account.open(Asking(Pure(0.1), 5), 1) as session:
        with pytest.raises(KeyboardInterrupt):
            session.ask(stop)
        with pytest.raises(LedgerError, match=r"is closed"):
            session.ask(lambda data: data)
    assert (account.status, account.spent().epsilon) == (Status.OPEN, 0.5)


def test_ctrl_c_does_not_come_between_a_failure_and_its_freeze() -> None:
    """The ledger's clock, which the entry of the freeze asks, stands for the moment after the failure."""
    pressed = False

    def clock() -> datetime:
        if pressed:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        return now()

    @dataclass(frozen=True)
    class Failing(Noisy):
        def __call__(self, data: Any, *, rng: Random) -> NoReturn:
            nonlocal pressed
            pressed = True
            raise KeyboardInterrupt

    with Ledger.open("sqlite://", clock=clock) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(1))
        with pytest.raises(AccountFrozen):
            account.run(Failing(Pure(0.1)), 4711)
        assert account.status is Status.FROZEN
