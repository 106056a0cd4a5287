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
    "at random",
)
CHARGED = {"between charge and data", "during data", "before return"}


def kill_once(crowd: Callable[..., Any], url: str, moment: str, draw: random.Random) -> list[str]:
    """Let a process release a few times and die. Returns the entries of what it handed out."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    after = draw.randrange(3)
    victim = crowd(target=run_and_die, args=(url, key(), "visits", moment, after, sender))
    victim.start()
    sender.close()
    handed: list[str] = []
    assert receiver.poll(60)
    assert receiver.recv() == "ready"
    if moment == "at random":
        victim.join(draw.uniform(0.0, 0.02))
        os.kill(victim.pid, signal.SIGKILL)
    try:
        while receiver.poll(60):
            handed.append(receiver.recv())
    except EOFError:
        pass
    victim.join(60)
    assert victim.exitcode == -signal.SIGKILL
    return handed


@pytest.mark.parametrize(
    ("backend", "kills"),
    [("sqlite", 308), pytest.param("postgresql", 42, marks=pytest.mark.needs("postgres"))],
)
def test_no_kill_loses_or_doubts_a_release(
    backend: str,
    kills: int,
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
        for i in range(kills):
            moment = MOMENTS[i % len(MOMENTS)]
            handed = kill_once(crowd, url, moment, draw)
            verdict = ledger.verify()
            assert verdict.ok, (moment, verdict.problems)
            entries = ledger.history()[known:]
            found = [f"{entry.seq}:{entry.mac}" for entry in entries]
            assert found[: len(handed)] == handed, (
                moment
            )  # every release that was handed out is in the journal
            if moment != "at random":
                assert len(found) - len(handed) == (moment in CHARGED), (
                    moment
                )  # charged before data, never without a commit
            assert len(found) - len(handed) <= 1
            release = account.run(Noisy(Pure(0.001)), 5)  # the next charge works
            assert release.entry == str(ledger.head())
            known += len(found) + 1
        assert round(1000 * account.spent().epsilon) == known - 1
