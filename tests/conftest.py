"""What every test shares: requirements that may be missing, reproducible random
examples, processes by spawn."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from typing import Any

import hypothesis
import pytest

from tests.requirements import REQUIREMENTS, VARIABLE, required

# The same examples in every run, so that a test neither flakes nor depends on the machine; `make soak` looks
# further.
hypothesis.settings.register_profile("test", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=2000, print_blob=True)

LOUD = pytest.StashKey[list[str]]()


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the tests in the background ignores Ctrl-C for them, and those that press it would
    # wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(name): runs only where a requirement of tests/requirements.py is met"
    )
    config.stash[LOUD] = []
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))
    # A forked child inherits locked locks and generator states; every process of ours starts afresh.
    multiprocessing.set_start_method("spawn", force=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot run here and remember to say so; what is required stays and
    fails in `pytest_runtest_setup`."""
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
    # Tests on Spark first, so that one of pytest-xdist's processes has them all: it alone needs a Java.
    items.sort(key=lambda item: "spark" not in _needs(item))


def pytest_collection_finish() -> None:
    """Twelve thousand tests and all they import stay to the end: collecting garbage need not look at them."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in sorted(_needs(item)):
        if sentence := REQUIREMENTS[name].lacking():
            pytest.fail(f"{VARIABLE} names {name}, but it is missing. {sentence}", pytrace=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.unfreeze()  # else libraries that count what is left at the end speak of leaks
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["loud"] = session.config.stash[LOUD]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker of pytest-xdist left out is said by the process that has the terminal."""
    node.config.stash[LOUD] += getattr(node, "workeroutput", {}).get("loud", [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in dict.fromkeys(config.stash[LOUD]):
        terminalreporter.write_line(line, red=True, bold=True)


def _needs(item: pytest.Item) -> set[str]:
    return {str(name) for mark in item.iter_markers("needs") for name in mark.args}


def _named(items: list[pytest.Item]) -> set[str]:
    return {name for item in items for name in _needs(item)}
