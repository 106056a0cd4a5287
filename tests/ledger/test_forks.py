"""A forked child opens its own connection, sees the same limit, and takes nothing of its parent's with it.

These are real forks (`os.fork`, and multiprocessing's), of a process that holds an open ledger.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from datetime import datetime

import pytest

from deniable.errors import BudgetExceeded, LedgerError
from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger
from deniable.ledger.journal import now
from deniable.loss import Pure
from deniable.units import Unit
from tests.ledger.workers import Asking, Noisy

ROW = Unit.row()
ONE = Noisy(Pure(1))


def forked(act: Callable[[], object]) -> int:
    """Run `act` in a forked child. Exit code 0 if it returned, 3 if the limit refused, 4
    if the ledger did, 1 otherwise."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        act()
        code = 0
    except BudgetExceeded:
        code = 3
    except LedgerError:
        code = 4
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
    raise AssertionError


def code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def spent(url: str) -> float:
    with Ledger.open(url) as fresh:
        assert fresh.verify().ok, fresh.verify().problems
        return fresh.account("visits").spent().epsilon


@pytest.mark.parametrize("parent", ["closes first", "closes last", "charges between", "never closes"])
def test_a_charge_in_a_forked_child_is_never_lost(url: str, parent: str) -> None:
    ledger = Ledger.open(url)
    account = ledger.create("visits", ROW, limit=Budget(3))
    ready, go = os.pipe(), os.pipe()

    def work() -> None:
        account.run(ONE, 5)
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        account.run(ONE, 5)

    child = forked(work)
    os.read(ready[0], 1)
    if parent == "closes first":
        ledger.close()
    if parent == "charges between":
        account.run(ONE, 5)
    os.write(go[1], b"x")
    assert code(child) == 0
    if parent == "closes last":
        ledger.close()
    expected = 3 if parent == "charges between" else 2
    assert spent(url) == expected
    assert account.spent().epsilon == expected  # a closed ledger connects again
    ledger.close()


def test_forked_workers_share_one_limit(url: str) -> None:
    with Ledger.open(url) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(3))
        children = [forked(lambda: account.run(ONE, 5)) for _ in range(5)]
        assert sorted(map(code, children)) == [0, 0, 0, 3, 3]
        assert account.spent().epsilon == 3
        with pytest.raises(BudgetExceeded):
            account.run(ONE, 5)
    assert spent(url) == 3


HELD: list[Account] = []


def run_held(_: int) -> bool:
    try:
        HELD[-1].run(Noisy(Pure(0.1)), 5)
    except BudgetExceeded:
        return False
    return True


def test_a_pool_of_forked_workers_with_an_inherited_account_keeps_the_limit(url: str) -> None:
    with Ledger.open(url) as ledger:
        HELD.append(ledger.create("visits", ROW, limit=Budget(1)))
        with multiprocessing.get_context("fork").Pool(3) as pool:
            assert sum(pool.map(run_held, range(20))) == 10
    assert spent(url) == 1


ENDINGS = """
import os, sys
from deniable.guarantee import Budget
from deniable.ledger import Ledger
from deniable.units import Unit
from tests.ledger.test_forks import ONE, code

with Ledger.open(sys.argv[1]) as ledger:
    account = ledger.create("visits", Unit.row(), limit=Budget(9))
    account.run(ONE, 5)
    for way in ("exit", "return", "close"):
        child = os.fork()
        if not child and way == "exit":
            sys.exit(0)  # through the block, which closes the ledger, and through every finalizer of Python
        if not child and way == "close":
            ledger.close()
            os._exit(0)
        if not child:
            break
        assert code(child) == 0
        account.run(ONE, 5)
"""


def test_a_child_that_ends_leaves_its_parents_connection_alone(url: str) -> None:
    ended = subprocess.run([sys.executable, "-c", ENDINGS, url], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert spent(url) == 4


def test_a_child_that_is_killed_and_a_grandchild_lose_nothing(url: str) -> None:
    with Ledger.open(url) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(5))

        def generations() -> None:
            account.run(ONE, 5)
            assert code(forked(lambda: account.run(ONE, 5))) == 0
            account.run(ONE, 5)
            os.kill(os.getpid(), signal.SIGKILL)

        assert code(forked(generations)) == -signal.SIGKILL
        account.run(ONE, 5)
        assert account.spent().epsilon == 4
    assert spent(url) == 4


def test_a_child_outlives_a_parent_that_was_killed(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url) as ledger:
        ledger.create("visits", ROW, limit=Budget(5))
    done = os.pipe()

    def parent() -> None:
        account = Ledger.open(sqlite_url).account("visits")
        account.run(ONE, 5)
        above = os.getpid()

        def child() -> None:
            account.run(ONE, 5)
            os.kill(above, signal.SIGKILL)
            while os.getppid() == above:
                pass
            account.run(ONE, 5)
            os.write(done[1], b"x")

        code(forked(child))

    assert code(forked(parent)) == -signal.SIGKILL
    assert os.read(done[0], 1) == b"x"
    assert spent(sqlite_url) == 3


def test_threads_that_charge_while_another_forks_lose_nothing(url: str) -> None:
    with Ledger.open(url) as ledger:
        account, over = ledger.create("visits", ROW, limit=Budget(100_000)), threading.Event()
        counts, errors = [0, 0], []

        def work(i: int) -> None:
            while not over.is_set():
                try:
                    account.run(ONE, 5)
                    counts[i] += 1
                except Exception as error:
                    errors.append(repr(error))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        children = [forked(lambda: account.run(ONE, 5)) for _ in range(6)]
        codes = [code(child) for child in children]
        over.set()
        for thread in threads:
            thread.join()
        assert errors == []
        assert codes == [0] * 6
        assert account.spent().epsilon == sum(counts) + 6
    assert spent(url) == sum(counts) + 6


def test_a_fork_inside_a_transaction_charges_once(url: str) -> None:
    children: list[int] = []

    def clock() -> datetime:
        if armed and not children:
            children.append(os.fork())
        return now()

    armed: list[bool] = []
    ledger = Ledger.open(url, clock=clock)
    account = ledger.create("visits", ROW, limit=Budget(5))
    armed.append(True)
    try:
        account.run(ONE, 5)
    except LedgerError:
        if (
            children[0] == 0
        ):  # the child: it may not go on with its parent's transaction, nor use the file beside it
            try:
                if url.startswith("sqlite"):
                    with pytest.raises(LedgerError, match=r"forked in the middle of a transaction"):
                        account.run(ONE, 5)
                    with pytest.raises(LedgerError, match=r"forked in the middle of a transaction"):
                        Ledger.open(url)
                else:
                    account.run(ONE, 5)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        raise
    if children[0] == 0:
        os._exit(2)
    assert code(children[0]) == 0
    account.run(ONE, 5)
    ledger.close()
    assert spent(url) == (2 if url.startswith("sqlite") else 3)


def test_a_ledger_in_memory_refuses_a_child(memory: Ledger) -> None:
    account = memory.create("visits", ROW, limit=Budget(1))
    assert code(forked(lambda: account.run(ONE, 5))) == 4
    assert code(forked(lambda: account.spent())) == 4
    assert code(forked(lambda: memory.verify())) == 4
    assert account.spent().epsilon == 0


def test_a_session_refuses_a_child_and_is_settled_once(url: str) -> None:
    with Ledger.open(url) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(1))
        with account.open(Asking(Pure(0.1), 10), 1) as session:
            session.ask(lambda data: data)
            assert code(forked(lambda: session.ask(lambda data: data))) == 4
            assert code(forked(session.close)) == 4
            assert code(forked(lambda: session.__exit__(None, None, None))) == 0  # left to the parent
            assert account.spent().epsilon == 1
        assert account.spent().epsilon == 0.1
    assert spent(url) == 0.1


def test_a_fork_inside_what_was_paid_for_gives_one_answer(url: str) -> None:
    """A reader of data, or a mechanism, that forks: both processes came back with an answer for one charge."""
    parent = os.getpid()
    with Ledger.open(url) as ledger:
        account = ledger.create("visits", ROW, limit=Budget(3))
        child: list[int] = []

        def opening() -> int:
            child.append(os.fork())
            return 1

        try:
            account.run(ONE, opening)
            answered = 0
        except LedgerError as refusal:
            answered = 4 if "paid for belongs to the process" in str(refusal) else 1
        finally:
            if os.getpid() != parent:
                os._exit(answered)
        assert (answered, code(child[0])) == (0, 4)
        assert account.status == "open"
    assert spent(url) == 1
