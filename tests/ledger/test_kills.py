"""kill -9 at every moment of a run: what was handed out is in the journal, the journal
verifies, the next charge works."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections.abc import Callable
from typing import Any

import pytest

from deniable.guarantee import Budget
from deniable.ledger import Ledger
from deniable.loss import Pure
from deniable.units import Unit
from tests.ledger.workers import Noisy, key, run_and_die

MOMENTS = (
    "inside the transaction",
    "between statements",
    "before the commit",
    "between charge and data",
    "during data",
    "before return",
)
AT_RANDOM = "at random"
AFTER = range(3)
"""Releases before the one in which a process dies."""
CHARGED = {"between charge and data", "during data", "before return"}


def kills(each: int, at_random: int, draw: random.Random) -> list[tuple[str, int]]:
    """Moments, and the releases before them, in any order: those that are met exactly `each` times, and so many at random."""
    exact = [(moment, after) for moment in MOMENTS for after in AFTER] * each
    chosen = exact + [(AT_RANDOM, draw.choice(AFTER)) for _ in range(at_random)]
    draw.shuffle(chosen)
    return chosen


def kill_once(crowd: Callable[..., Any], url: str, moment: str, after: int, draw: random.Random) -> list[str]:
    """Let a process release a few times and die. Returns the entries of what it handed out."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    victim = crowd(target=run_and_die, args=(url, key(), "visits", moment, after, sender))
    victim.start()
    sender.close()
    handed: list[str] = []
    assert receiver.poll(60)
    assert receiver.recv() == "ready"
    if moment == AT_RANDOM:
        victim.join(draw.uniform(0.0, 0.02))
        os.kill(victim.pid, signal.SIGKILL)
    try:
        while receiver.poll(60):
            handed.append(receiver.recv())
    except EOFError:
        pass
    victim.join(600)
    assert victim.exitcode == -signal.SIGKILL
    return handed


@pytest.mark.parametrize(
    ("backend", "each", "at_random"),
    [("sqlite", 3, 44), pytest.param("postgresql", 1, 12, marks=pytest.mark.needs("postgres"))],
)
def test_no_kill_loses_or_doubts_a_release(
    backend: str,
    each: int,
    at_random: int,
    request: pytest.FixtureRequest,
    crowd: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:
    monkeypatch.setenv("DENIABLE_LEDGER_KEY", str(tmp_path / "ledger.key"))
    url = str(request.getfixturevalue("sqlite_url" if backend == "sqlite" else "postgres_url"))
    draw = random.Random(4)
    with Ledger.open(url) as ledger:
        account = ledger.create("visits", Unit.row(), limit=Budget(100))
        known = 1
        for moment, after in kills(each, at_random, draw):
            handed = kill_once(crowd, url, moment, after, draw)
            verdict = ledger.verify()
            assert verdict.ok, (moment, verdict.problems)
            entries = ledger.history()[known:]
            found = [f"{entry.seq}:{entry.mac}" for entry in entries]
            assert found[: len(handed)] == handed, (
                moment
            )  # every release that was handed out is in the journal
            if moment != AT_RANDOM:
                assert len(found) - len(handed) == (moment in CHARGED), (
                    moment
                )  # charged before data, never without a commit
            assert len(found) - len(handed) <= 1
            release = account.run(Noisy(Pure(0.001)), 5)  # the next charge works
            assert release.entry == str(ledger.head())
            known += len(found) + 1
        assert round(1000 * account.spent().epsilon) == known - 1
