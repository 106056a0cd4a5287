"""A server that is killed in the middle of a round: a new process takes the run up;
nothing is charged twice or played twice."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from torch import nn

from deniable import Account, Budget, Ledger
from deniable.errors import InvalidParameter, InvalidQuery, LedgerError
from deniable.federated import (
    Central,
    Device,
    FedAvg,
    InProcess,
    OnClient,
    Shared,
    agreed,
    deploy,
    iid,
    resume,
)
from deniable.federated.secure_sum import Agreement
from deniable.federated.train import parameters_of
from deniable.federated.train.recipe import flat
from deniable.ledger import EntryKind
from tests.federated.ready import LIMITS, ready_device
from tests.federated.runs import run_of

COUNT = 6
PLACES = [Central(2.0), OnClient(3.0, participations=5), Shared(3.0, bits=32, least=4, participations=5)]


def federated(noise: Central | OnClient | Shared, **settings: object) -> FedAvg:
    torch.manual_seed(0)
    given = {"clients": COUNT, "rate": 1, "rounds": 5, "noise": noise, "progress": False} | LIMITS
    momentum = {"server": lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9)}
    return run_of(nn.Linear(4, 2), nn.CrossEntropyLoss(), **(given | momentum | settings))


class Phones:
    """Devices that outlive the server: each with its key, its rows and its memory on disk."""

    def __init__(self, run: FedAvg, folder: Path) -> None:
        self.run, self.folder = run, folder
        folder.mkdir(exist_ok=True)
        self.signers = {k: Ed25519PrivateKey.generate() for k in range(COUNT)}
        roster = {k: signer.public_key().public_bytes_raw() for k, signer in self.signers.items()}
        shared = isinstance(run.noise, Shared)
        self.agreement: Agreement | None = agreed(run, roster, threshold=4) if shared else None

    def switched_on(self) -> dict[int, Device]:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(COUNT * 10, 4)).astype(np.float32)
        data = iid(x, (x[:, 0] > 0).astype(np.int64), clients=COUNT)
        return {
            k: ready_device(self.run, k, *data.rows(k), agreement=self.agreement, signer=self.signers[k],
                      memory=self.folder / f"{k}.txt")
            for k in range(COUNT)
        }  # fmt: skip

    def visits(self) -> list[list[int]]:
        """For each phone the last round it saw, and how many it took part in."""
        return [[int(word) for word in (self.folder / f"{k}.txt").read_text().split()] for k in range(COUNT)]


class Deadly(InProcess):
    """Kills this process at its n-th exchange, after the devices have answered."""

    def __init__(self, devices: Mapping[int, Device], last: int) -> None:
        super().__init__({k: device.handle for k, device in devices.items()})
        self.left = last

    def exchange(self, messages: Mapping[int, bytes]) -> dict[int, bytes]:
        replies = super().exchange(messages)
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return replies


def alive(devices: Mapping[int, Device]) -> InProcess:
    return InProcess({k: device.handle for k, device in devices.items()})


def killed(url: str, phones: Phones, checkpoint: Path, exchanges: int) -> None:
    """A server in a process of its own, killed at its n-th exchange with the devices."""
    child = os.fork()
    if child == 0:
        try:
            with Ledger.open(url) as ledger:
                account = ledger.account("phones")
                transport = Deadly(phones.switched_on(), exchanges)
                deployment = deploy(
                    phones.run, transport, account, agreement=phones.agreement, checkpoint=checkpoint
                )
                while True:
                    deployment.step()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def charges(account: Account) -> int:
    return sum(entry.kind is EntryKind.OPEN for entry in account.history())


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DENIABLE_LEDGER_KEY", str(tmp_path / "key"))
    return f"sqlite:///{tmp_path / 'privacy.db'}"


@pytest.mark.parametrize("noise", PLACES, ids=lambda noise: type(noise).__name__)
def test_a_new_process_takes_a_killed_run_up_under_the_same_charge(
    noise: Central | OnClient | Shared, url: str, tmp_path: Path
) -> None:
    run = federated(noise)
    phones = Phones(run, tmp_path / "phones")
    with Ledger.open(url) as ledger:
        ledger.create("phones", run.unit, limit=Budget(100, 1e-4))
    exchanges = 5 * 2 + 3 if isinstance(noise, Shared) else 3  # in the third round
    killed(url, phones, tmp_path / "run", exchanges)
    with Ledger.open(url) as ledger:
        account = ledger.account("phones")
        spent = account.spent().epsilon
        transport = alive(phones.switched_on())
        with resume(
            run, transport, account, checkpoint=tmp_path / "run", agreement=phones.agreement
        ) as deployment:
            assert deployment.taken == 3  # the third was begun, and is lost
            saved = flat(parameters_of(deployment.model))
            assert not torch.equal(saved, flat(parameters_of(run.model)))
            rounds = [deployment.step().value for _ in range(2)]
            assert [each.number for each in rounds] == [4, 5]
            assert all(each.answered for each in rounds)
            assert not torch.equal(saved, flat(parameters_of(deployment.model)))
            with pytest.raises(InvalidQuery, match="All 5 rounds"):
                deployment.step()
        assert charges(account) == 1
        assert account.spent().epsilon == spent
    assert phones.visits() == [[5, 5]] * COUNT


def test_a_run_that_was_closed_plays_no_more_rounds_and_keeps_its_model(url: str, tmp_path: Path) -> None:
    run = federated(Central(2.0))
    phones = Phones(run, tmp_path / "phones")
    account = Ledger.open(url).create("phones", run.unit, limit=Budget(100, 1e-4))
    with deploy(run, alive(phones.switched_on()), account, checkpoint=tmp_path / "run") as deployment:
        released = deployment.step().value.model
    again = resume(run, alive(phones.switched_on()), account, checkpoint=tmp_path / "run")
    assert torch.equal(flat(parameters_of(again.model)), flat(parameters_of(released)))
    with pytest.raises(InvalidQuery, match="rounds of this run are played"):
        again.step()
    again.close()
    assert charges(account) == 1


def test_an_error_in_the_block_leaves_the_run_to_be_resumed(tmp_path: Path) -> None:
    run = federated(Central(2.0))
    account = Ledger.open("sqlite://").create("phones", run.unit, limit=Budget(100, 1e-4))
    phones = Phones(run, tmp_path / "phones")

    def broken() -> None:
        with deploy(run, alive(phones.switched_on()), account, checkpoint=tmp_path / "run") as deployment:
            deployment.step()
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        broken()
    with resume(run, alive(phones.switched_on()), account, checkpoint=tmp_path / "run") as again:
        assert again.step().value.number == 2


def test_rounds_that_another_process_played_are_not_given_back(tmp_path: Path) -> None:
    """A copy of the folder, resumed while the first server still lives: what both began
    stays charged, once each."""
    run = federated(Central(2.0))
    prices = {}
    for rounds in (3, 5):
        other = Ledger.open("sqlite://").create("price", run.unit, limit=Budget(100, 1e-4))
        other.open(_Rounds(run, rounds), None)
        prices[rounds] = other.spent().epsilon
    account = Ledger.open("sqlite://").create("phones", run.unit, limit=Budget(100, 1e-4))
    first = deploy(
        run, alive(Phones(run, tmp_path / "a").switched_on()), account, checkpoint=tmp_path / "run"
    )
    first.step()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    second = resume(
        run, alive(Phones(run, tmp_path / "b").switched_on()), account, checkpoint=tmp_path / "copy"
    )
    assert [second.step().value.number for _ in range(2)] == [2, 3]
    assert account.spent().epsilon == prices[5]
    first.close()
    assert account.spent().epsilon == pytest.approx(prices[3])
    with pytest.raises(LedgerError, match="closed"):
        second.step()
    with pytest.raises(LedgerError):
        second.close()
    assert account.spent().epsilon == pytest.approx(prices[3])


class _Rounds:
    """Some rounds of a run as a conversation that is never asked: only its price is looked at."""

    def __init__(self, run: FedAvg, rounds: int) -> None:
        self.loss, self.unit = run.loss_of(rounds), run.unit

    def open(self, data: object, *, rng: object) -> _Rounds:
        return self


def test_two_servers_do_not_share_a_folder_and_an_older_folder_repeats_nothing(tmp_path: Path) -> None:
    run = federated(Central(2.0))
    account = Ledger.open("sqlite://").create("phones", run.unit, limit=Budget(100, 1e-4))
    phones = Phones(run, tmp_path / "phones")
    deployment = deploy(run, alive(phones.switched_on()), account, checkpoint=tmp_path / "run")
    with pytest.raises(LedgerError, match="Another process"):
        resume(run, alive(phones.switched_on()), account, checkpoint=tmp_path / "run")
    deployment.step()
    shutil.copytree(tmp_path / "run", tmp_path / "old")
    deployment.step()
    deployment.leave()
    with resume(run, alive(phones.switched_on()), account, checkpoint=tmp_path / "old") as again:
        assert again.step().value.number == 3


def test_another_run_or_another_account_does_not_take_it_up(tmp_path: Path) -> None:
    run = federated(Central(2.0))
    ledger = Ledger.open("sqlite://")
    account = ledger.create("phones", run.unit, limit=Budget(100, 1e-4))
    phones = Phones(run, tmp_path / "phones")
    deploy(run, alive(phones.switched_on()), account, checkpoint=tmp_path / "run").leave()
    transport = alive(phones.switched_on())
    with pytest.raises(InvalidParameter, match="another loss"):
        resume(federated(Central(2.0), rounds=6), transport, account, checkpoint=tmp_path / "run")
    stranger = ledger.create("others", run.unit, limit=Budget(100, 1e-4))
    with pytest.raises(LedgerError, match="paid for this run"):
        resume(run, transport, stranger, checkpoint=tmp_path / "run")
    with pytest.raises(InvalidParameter, match="holds a run"):
        deploy(run, transport, account, checkpoint=tmp_path / "run")


def test_a_run_that_is_not_granted_leaves_no_folder_behind(tmp_path: Path) -> None:
    run = federated(Central(0.5))
    account = Ledger.open("sqlite://").create("phones", run.unit, limit=Budget(0.1, 1e-6))
    with pytest.raises(Exception, match="over its limit"):
        deploy(run, alive(Phones(run, tmp_path / "p").switched_on()), account, checkpoint=tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()
