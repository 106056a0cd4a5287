"""What every test shares: requirements that may be missing, reproducible random
examples, processes by spawn."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

from tests import chance
from tests.requirements import REQUIREMENTS, VARIABLE, required
from tests.running import chancy, costs, order, sampling

EXAMPLES = 30
"""Random examples of a property in `make test`, a few of the 2000 of `make soak`."""

# The same examples in every run, so that a test neither flakes nor depends on the machine; `make soak` looks
# further.
hypothesis.settings.register_profile(
    "test", deadline=None, derandomize=True, print_blob=True, max_examples=EXAMPLES
)
hypothesis.settings.register_profile("sure", deadline=None, print_blob=True, max_examples=EXAMPLES)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=2000, print_blob=True)

LOUD = pytest.StashKey[list[str]]()
COSTS = pytest.StashKey[Counter[str]]()
CHANCE = pytest.StashKey[list[float]]()
FOLDERS = 10
"""A run of fewer folders says nothing about what each of them costs."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the tests in the background ignores Ctrl-C for them, and those that press it would
    # wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _remembered_tables() -> Iterator[None]:
    """New ledgers by the thousand: their tables are migrated once in a process."""
    from deniable.ledger.store import migrate
    from tests.running import remembered

    migrate._upgrade = remembered.upgrade
    yield
    migrate._upgrade = remembered.by_migrations


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(name): runs only where a requirement of tests/requirements.py is met"
    )
    config.addinivalue_line(
        "markers",
        "sampled(most): of its cases these many run in `make test`, or one for each value; the rest is soak",
    )
    config.stash[LOUD] = []
    config.stash[COSTS] = Counter()
    config.stash[CHANCE] = []
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))
    # A forked child inherits locked locks and generator states; every process of ours starts afresh.
    multiprocessing.set_start_method("spawn", force=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """All that is imported stays to the end: looking for garbage meanwhile takes a tenth of the collection."""
    gc.disable()
    result = yield
    gc.enable()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Leave out what cannot run here and remember to say so; what is required stays and
    fails in `pytest_runtest_setup`."""
    sampling.mark_surplus(items)
    if "chancy" in config.getoption("markexpr"):
        chancy.mark_chancy(items)
    missing = {
        name: sentence for name in _named(items) - required() if (sentence := REQUIREMENTS[name].lacking())
    }
    left_out = [item for item in items if missing.keys() & _needs(item)]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
        config.stash[LOUD] += [
            f"NOT TESTED: {name}. {sentence}" for name, sentence in sorted(missing.items())
        ]
    yield
    spark = {item for item in items if "spark" in _needs(item)}
    items[:] = order.deal(items, spark, order.count_workers())


def pytest_collection_finish(session: pytest.Session) -> None:
    """Twelve thousand tests and all they import stay to the end: collecting garbage need not look at them."""
    gc.collect()
    gc.freeze()
    session.config.stash[COSTS][costs.COLLECTION] = costs.read_clock()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = costs.read_clock()
    result = yield
    item.config.stash[COSTS][costs.name_folder(item.nodeid)] += costs.read_clock() - before
    item.config.stash[CHANCE] += [chance.take_sum()]
    return result


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in sorted(_needs(item)):
        if sentence := REQUIREMENTS[name].lacking():
            pytest.fail(f"{VARIABLE} names {name}, but it is missing. {sentence}", pytrace=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.unfreeze()  # else libraries that count what is left at the end speak of leaks
    if costs.COLLECTION in session.config.stash[COSTS]:  # tests ran in this process
        session.config.stash[COSTS][costs.SERVERS] = costs.read_children(os.getpid())
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["loud"] = session.config.stash[LOUD]
        session.config.workeroutput["costs"] = dict(session.config.stash[COSTS])
        session.config.workeroutput["chance"] = sum(session.config.stash[CHANCE])
    elif sum(session.config.stash[CHANCE]) > chance.ALL:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker of pytest-xdist left out is said by the process that has the terminal."""
    output = getattr(node, "workeroutput", {})
    node.config.stash[LOUD] += output.get("loud", [])
    node.config.stash[COSTS].update(output.get("costs", {}))
    node.config.stash[CHANCE] += [output.get("chance", 0.0)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if len(config.stash[COSTS]) > FOLDERS:
        for line in costs.report(config.stash[COSTS]):
            terminalreporter.write_line(line)
    if (together := sum(config.stash[CHANCE])) > chance.ALL:
        sentence = f"Tests state chances of failing that sum to {together:.1e}, over {chance.ALL:.0e}: see tests/chance.py."
        terminalreporter.write_line(sentence, red=True, bold=True)
    for line in dict.fromkeys(config.stash[LOUD]):
        terminalreporter.write_line(line, red=True, bold=True)


def _needs(item: pytest.Item) -> set[str]:
    return {str(name) for mark in item.iter_markers("needs") for name in mark.args}


def _named(items: list[pytest.Item]) -> set[str]:
    return {name for item in items for name in _needs(item)}
