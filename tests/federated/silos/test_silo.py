"""Real silos over bytes: each pays from its own account in a ledger of its own, answers a round once, and goes on
after a kill; in every place of the noise, with secure sums, and with every content of one silo."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from torch import nn

from deniable import Budget, Ledger
from deniable.errors import (
    AccountFrozen,
    BudgetExceeded,
    InvalidParameter,
    InvalidQuery,
    LedgerError,
    ProtocolError,
)
from deniable.federated import (
    Central,
    CrossSilo,
    InProcess,
    LocalSteps,
    OnClient,
    RoundExecution,
    RowPrivacy,
    Shared,
    Silo,
    SiloPart,
    SiloRows,
    Silos,
    agreed,
    deploy,
    resume,
)
from deniable.federated.devices.deadline import Untimed
from deniable.federated.devices.messages import DeviceTask, Message, write_task
from deniable.federated.silos.settings import SiloPlacement
from deniable.federated.silos.silo import SiloTask
from deniable.ledger import Account
from deniable.randomness import SeededRandom
from deniable.units import Unit

AMPLE = Budget(100, 0.01)
SIZES, Z = (40, 24, 8), 2.0
PATIENT = Unit.column("patient", max_rows=3)
PLACES = [(Central(Z), 1), (OnClient(Z), 1), (OnClient(Z), 3), (Shared(Z, bits=32, least=2), 1)]
every_place = pytest.mark.parametrize(
    ("noise", "steps"), PLACES, ids=["central", "own", "local steps", "shared"]
)


def run_of(noise: SiloPlacement, steps: int = 1, rounds: int = 3, most: int = 2) -> CrossSilo:
    torch.manual_seed(0)
    return CrossSilo(
        nn.Linear(3, 2), nn.CrossEntropyLoss(), silos=Silos(SIZES, 0.5, rounds), local=LocalSteps(steps, 0.5),
        privacy=RowPrivacy(noise, unit=PATIENT, most_silos=most), how=RoundExecution(answer_after=30.0),
    )  # fmt: skip


def rows_of(silo: int) -> SiloRows:
    rng = np.random.default_rng(silo)
    x = rng.normal(size=(SIZES[silo], 3)).astype(np.float32)
    return SiloRows(x, (x[:, 0] > 0).astype(np.int64), np.arange(SIZES[silo]) // 2)


OPEN: list[Silo] = []


@pytest.fixture(autouse=True)
def leave_all() -> Iterator[None]:
    """Whatever a test leaves open lets go of its folder."""
    yield
    while OPEN:
        OPEN.pop().leave()


def note(silo: Silo) -> Silo:
    OPEN.append(silo)
    return silo


class World:
    """A study with three silos, each with a ledger in a file of its own."""

    def __init__(self, folder: Path, run: CrossSilo) -> None:
        self.folder, self.run = folder, run
        self.signers = {k: Ed25519PrivateKey.generate() for k in range(3)}
        roster = {k: signer.public_key().public_bytes_raw() for k, signer in self.signers.items()}
        self.agreement = agreed(run, roster) if isinstance(run.noise, Shared) else None
        self.study = self.account("study")

    def account(self, name: str, limit: Budget = AMPLE) -> Account:
        ledger = Ledger.open(f"sqlite:///{self.folder / name}.ledger")
        return ledger.create(name, self.run.unit, limit=limit)

    def join(self, silo: int, **changes: Any) -> Silo:
        terms: dict[str, Any] = {
            "rows": rows_of(silo), "account": self.account(f"silo {silo}"), "folder": self.folder / f"run {silo}",
            "agreement": self.agreement, "signer": self.signers[silo], "clock": Untimed(),
        } | changes  # fmt: skip
        return note(Silo.join(self.run, silo, **terms))

    def rejoin(self, silo: int) -> Silo:
        account = Ledger.open(f"sqlite:///{self.folder / f'silo {silo}'}.ledger").account(f"silo {silo}")
        silo_again = Silo.rejoin(
            self.run, silo, rows_of(silo), account, folder=self.folder / f"run {silo}", agreement=self.agreement,
            signer=self.signers.get(silo), clock=Untimed(),
        )  # fmt: skip
        return note(silo_again)


def task(run: CrossSilo, turn: int) -> bytes:
    numbers = torch.cat([p.detach().reshape(-1) for p in run.model.parameters()])
    return Message(DeviceTask.UPDATE, turn, write_task(numbers, 1.0)).to_bytes()


@every_place
def test_a_study_with_three_silos_pays_in_four_ledgers(
    tmp_path: Path, noise: SiloPlacement, steps: int
) -> None:
    world = World(tmp_path, run_of(noise, steps))
    silos = [world.join(k) for k in range(3)]
    link = InProcess({k: silo.handle for k, silo in enumerate(silos)})
    before = [p.detach().clone() for p in world.run.model.parameters()]
    with deploy(world.run, link, world.study, agreement=world.agreement) as study:
        rounds = [study.step().value for _ in range(3)]
    assert all(each.answered for each in rounds)
    assert not all(torch.equal(a, b) for a, b in zip(before, rounds[-1].model.parameters(), strict=True))
    own = world.run.silo_loss_of(3)
    for silo in silos:
        (entry,) = [e for e in silo._account.history() if e.loss_json == own.to_json()]
        assert silo.entry.startswith(f"{entry.seq}:")
        silo.close()
    # The study pays for patients in two silos, a silo for what its own rows reveal.
    assert world.study.spent().epsilon > silos[0]._account.spent().epsilon > 0


def test_a_silo_whose_own_budget_is_too_small_does_not_join(tmp_path: Path) -> None:
    world = World(tmp_path, run_of(OnClient(Z)))
    poor = world.account("poor", Budget(0.01, 1e-6))
    opened: list[int] = []

    def rows() -> SiloRows:
        opened.append(1)
        return rows_of(0)

    with pytest.raises(BudgetExceeded):
        world.join(0, account=poor, rows=rows)
    assert not opened
    assert not (tmp_path / "run 0" / "run.json").exists()


def test_a_round_is_answered_once_even_by_two_processes_after_a_kill(tmp_path: Path) -> None:
    world = World(tmp_path, run_of(OnClient(Z)))
    silo = world.join(0)
    assert silo.handle(task(world.run, 1))
    with pytest.raises(ProtocolError, match="no part in round 1"):
        silo.handle(task(world.run, 1))
    silo.leave()  # as a kill does
    again = world.rejoin(0)
    assert again.entry == silo.entry
    for turn in (0, 1, 4):
        with pytest.raises(ProtocolError, match="no part"):
            again.handle(task(world.run, turn))
    assert again.handle(task(world.run, 2))
    with pytest.raises(ProtocolError, match="no part in round 2"):  # whoever is still alive somewhere
        silo.handle(task(world.run, 2))


def test_a_silo_that_has_left_cannot_come_back(tmp_path: Path) -> None:
    world = World(tmp_path, run_of(OnClient(Z)))
    with world.join(0) as silo:
        silo.handle(task(world.run, 1))
    own, once = silo._account.spent().epsilon, world.account("once")
    part = SiloPart(world.run, 0)
    with once.open(part, rows_of(0)) as whole:
        assert once.spent().epsilon >= own  # what was not begun is given back
    del whole
    with pytest.raises(InvalidQuery, match="has left the run"):
        world.rejoin(0)
    with pytest.raises(ProtocolError):
        silo.handle(task(world.run, 2))


def test_rejoining_another_run_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, run_of(OnClient(Z)))
    world.join(0).leave()
    world.run = run_of(OnClient(Z), steps=3, rounds=1)  # of the same loss
    with pytest.raises(InvalidParameter, match="other steps"):
        world.rejoin(0)


def test_a_study_goes_on_after_a_kill_with_silos_that_were_killed_too(tmp_path: Path) -> None:
    world = World(tmp_path, run_of(Shared(Z, bits=32, least=2)))
    silos = [world.join(k) for k in range(3)]
    link = InProcess({k: silo.handle for k, silo in enumerate(silos)})
    study = deploy(world.run, link, world.study, agreement=world.agreement, checkpoint=tmp_path / "study run")
    assert study.step().value.answered
    study.leave()
    for silo in silos:
        silo.leave()
    silos = [world.rejoin(k) for k in range(3)]
    link = InProcess({k: silo.handle for k, silo in enumerate(silos)})
    with resume(
        world.run, link, world.study, agreement=world.agreement, checkpoint=tmp_path / "study run"
    ) as study:
        assert [study.step().value.number for _ in range(2)] == [2, 3]


KILLED = """
import sys
from pathlib import Path
from deniable.federated import OnClient
from tests.federated.silos.test_silo import World, run_of, task
world = World(Path(sys.argv[1]), run_of(OnClient(2.0)))
silo = world.join(0)
silo.handle(task(world.run, 1))
print("answered", flush=True)
sys.stdin.read()
"""


def test_a_silo_that_is_killed_by_the_system_rejoins_under_its_charge(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "answered\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    world = World.__new__(World)
    world.folder, world.run, world.agreement = tmp_path, run_of(OnClient(Z)), None
    world.signers = {}
    silo = world.rejoin(0)
    with pytest.raises(ProtocolError, match="no part in round 1"):
        silo.handle(task(world.run, 1))
    assert silo.handle(task(world.run, 2))
    assert len([e for e in silo._account.history() if e.loss_json]) == 1


# ------------------------------------------------------------------------------------------ what a patient moves


def contents() -> dict[str, SiloRows]:
    """What a silo may hold of one more patient: rows, opposite rows, none, and rows that fail."""
    x = np.random.default_rng(9).normal(size=(5, 3)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    return {
        "rows": SiloRows(100 * x, y, ["own"] * 5),
        "opposite rows": SiloRows(100 * x, 1 - y, ["own"] * 5),
        "no such labels": SiloRows(x, y + 9, ["own"] * 5),
        "no numbers": SiloRows(np.full_like(x, math.nan), y, ["own"] * 5),
        "numbers too large": SiloRows(1e30 * x, y, ["own"] * 5),
    }


def answer(run: CrossSilo, more: SiloRows | None) -> np.ndarray[Any, Any]:
    """What a silo sends with noise that is the same each time; all coins are up."""
    rows = rows_of(2)
    if more is not None:
        ids = [*map(str, rows.ids), *more.ids]
        rows = SiloRows(np.concatenate([rows.x, more.x]), np.concatenate([rows.y, more.y]), ids)
    else:
        rows = SiloRows(rows.x, rows.y, [*map(str, rows.ids)])
    conversation = SiloPart(run, 2, Untimed()).open(rows, rng=SeededRandom(5))
    weights = torch.cat([p.detach().reshape(-1) for p in run.model.parameters()])
    return conversation.ask(SiloTask(1, weights))


@pytest.mark.parametrize(
    "noise", [Central(Z), OnClient(Z), Shared(Z, bits=32, least=2)], ids=lambda n: type(n).__name__
)
def test_every_patient_moves_what_a_silo_sends_by_one_clip_at_most(noise: SiloPlacement) -> None:
    run = run_of(noise)
    object.__setattr__(run, "silos", Silos(SIZES, 1, 3))  # every coin is up
    nobody = answer(run, None)
    moved = {name: np.linalg.norm(answer(run, more) - nobody) for name, more in contents().items()}
    assert max(moved.values()) <= run.grid.sensitivity
    assert moved["rows"] > 0.97 * run.grid.sensitivity
    assert moved["no such labels"] == moved["no numbers"] == 0


class Slow:
    """A clock by which a lot takes so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._times = iter((100.0, 100.0 + seconds))
        self.left = 0.0

    def read_time(self) -> float:
        return next(self._times)

    def wait(self, until: float, ready: threading.Event) -> None:
        self.left = until


@pytest.mark.parametrize(("seconds", "left"), [(0.5, 130.0), (29.0, 130.0), (31.0, 160.0), (100.0, 220.0)])
def test_a_late_lot_is_sent_whole_at_the_next_step_of_time(seconds: float, left: float) -> None:
    """A lot that was left out for being late would tell of the one slow patient by all the others."""
    run, clock = run_of(OnClient(Z)), Slow(seconds)
    weights = torch.cat([p.detach().reshape(-1) for p in run.model.parameters()])
    sent = [
        SiloPart(run, 2, each).open(rows_of(2), rng=SeededRandom(5)).ask(SiloTask(1, weights))
        for each in (Untimed(), clock)
    ]
    assert np.array_equal(*sent)
    assert clock.left == left


def test_a_silo_that_cannot_add_up_a_lot_freezes_its_account_and_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silo = World(tmp_path, run_of(OnClient(Z))).join(0)

    def fail(weights: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(silo._conversation._worker._lots, "add_up", fail)
    for turn in (1, 2):
        with pytest.raises(ProtocolError, match="takes no part") as caught:
            silo.handle(task(silo.run, turn))
        assert caught.value.__cause__ is None
    with pytest.raises(AccountFrozen):
        silo._account.begin(silo.entry, 2, 3)


def test_a_silo_that_trusts_no_server_needs_a_time_at_which_it_answers(tmp_path: Path) -> None:
    world = World(tmp_path, run_of(OnClient(Z)))
    object.__setattr__(world.run, "how", RoundExecution())
    with pytest.raises(InvalidParameter, match="answer_after"):
        world.join(0)


def test_two_processes_do_not_hold_one_folder(tmp_path: Path) -> None:
    world = World(tmp_path, run_of(OnClient(Z)))
    holder = world.join(0)
    with pytest.raises(LedgerError, match="Another process"):
        world.rejoin(0)
    holder.leave()
