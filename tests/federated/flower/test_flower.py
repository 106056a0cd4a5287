"""Rounds over a real Flower on loopback, with TLS and node authentication: killed, late
and lying devices, a killed server.

In the slow suite: a round takes from six seconds to a minute, since Flower polls and
starts a process for every message.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip(
    "flwr", reason="Flower tests need the package flwr: make soak runs them in an environment of their own."
)

from deniable import Budget, Ledger
from deniable.ledger import Entry, EntryKind
from tests.federated.flower import scene
from tests.federated.flower.loopback import Loopback, loopback

pytestmark = pytest.mark.soak
PATIENCE = 1200.0
"""Seconds for three rounds on a busy machine."""


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DENIABLE_LEDGER_KEY", str(tmp_path / "key"))
    return f"sqlite:///{tmp_path / 'privacy.db'}"


def opened(folder: Path, url: str, *, shared: bool, timeout: float) -> None:
    run = scene.write(folder, shared=shared, url=url, timeout=timeout)
    with Ledger.open(url) as ledger:
        ledger.create("phones", run.unit, limit=Budget(100, 1e-4))


def history(url: str) -> list[Entry]:
    with Ledger.open(url) as ledger:
        return ledger.account("phones").history()


def begun(entries: list[Entry]) -> list[int]:
    return [entry.details["stop"] for entry in entries if entry.kind is EntryKind.BEGIN]


def curtain(stage: Loopback, manners: dict[int, str], **environment: str) -> None:
    stage.superlink(**environment)
    for number in range(scene.DEVICES):
        stage.device(number, manners.get(number, "honest"))
        stage.supernode(number)


def test_late_and_lying_devices_count_as_silent(tmp_path: Path, url: str) -> None:
    opened(tmp_path, url, shared=False, timeout=40)
    with loopback(tmp_path) as stage:
        curtain(stage, {2: "lying", 3: "late"})
        stranger = stage.stranger(0)
        stage.play()
        stage.wait("done", PATIENCE)
        rounds = stage.rounds()
        assert stranger.wait(PATIENCE) != 0  # a node whose key is not registered is not let in
    assert [told["number"] for told in rounds] == [1, 2, 3]
    assert all(told["answered"] for told in rounds)
    assert rounds[-1]["missing"] >= 1  # said, not swallowed
    entries = history(url)
    assert sum(entry.kind is EntryKind.OPEN for entry in entries) == 1
    assert begun(entries) == [1, 2, 3]


def test_a_killed_server_goes_on_with_secure_sums_and_without_a_killed_device(
    tmp_path: Path, url: str
) -> None:
    """Killed in the second round, with one device gone for good: the second is lost, the
    third is played, one charge stands."""
    opened(tmp_path, url, shared=True, timeout=90)
    with loopback(tmp_path) as stage:
        curtain(stage, {}, SCENE_EXCHANGES="8")
        stage.play()
        stage.wait("killed", PATIENCE)
        assert [told["number"] for told in stage.rounds()] == [1]
        stage.gone(3)
        stage.play()
        stage.wait("done", PATIENCE)
        rounds = stage.rounds()
    assert [(told["number"], told["answered"]) for told in rounds] == [(1, True), (3, True)]
    entries = history(url)
    assert sum(entry.kind is EntryKind.OPEN for entry in entries) == 1
    assert begun(entries) == [1, 2, 3]
    seen = [(tmp_path / f"memory-{number}.txt").read_text(encoding="ascii").split() for number in range(3)]
    assert seen == [["3", "3"]] * 3
