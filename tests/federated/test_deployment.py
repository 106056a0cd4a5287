"""Rounds with devices: real secure sums over a transport, charged once, noted before they begin."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from torch import nn

from deniable import Budget, Ledger
from deniable.errors import InvalidParameter, InvalidQuery, LedgerError, ProtocolError
from deniable.federated import (
    Central,
    Clients,
    Device,
    FedAvg,
    InProcess,
    OnClient,
    Shared,
    agreed,
    deploy,
    iid,
)
from deniable.federated.devices.coordinator import Coordinator, Federation
from deniable.federated.devices.messages import DeviceTask, Message, write_task
from deniable.federated.devices.transport import Handler
from deniable.federated.secure_sum import Agreement
from deniable.federated.train import parameters_of
from deniable.federated.train.recipe import flat
from deniable.ledger.journal.chain import Head
from deniable.randomness import SecureRandom
from tests.federated.ready import LIMITS, ready_device
from tests.federated.runs import run_of

CRITERION = nn.CrossEntropyLoss()
COUNT = 8


def clients() -> Clients:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(COUNT * 20, 4)).astype(np.float32)
    return iid(x, (x[:, 0] > 0).astype(np.int64), clients=COUNT)


def run(noise: Central | OnClient | Shared, **settings: object) -> FedAvg:
    torch.manual_seed(0)
    given = {
        "clients": COUNT,
        "rate": 1,
        "rounds": 4,
        "clip": 1.0,
        "noise": noise,
        "progress": False,
    } | LIMITS
    return run_of(nn.Linear(4, 2), CRITERION, **(given | settings))


def shared(multiplier: float = 1e-6, **terms: int) -> Shared:
    return Shared(multiplier, bits=32, least=5, participations=4, **terms)


def devices(federated: FedAvg) -> tuple[dict[int, Device], Agreement | None]:
    data = clients()
    signers = {k: Ed25519PrivateKey.generate() for k in range(COUNT)}
    agreement = None
    if isinstance(federated.noise, Shared):
        roster = {k: signer.public_key().public_bytes_raw() for k, signer in signers.items()}
        agreement = agreed(federated, roster)
    made = {
        k: ready_device(federated, k, *data.rows(k), agreement=agreement, signer=signers[k])
        for k in range(COUNT)
    }
    return made, agreement


def handlers(made: dict[int, Device]) -> dict[int, Handler]:
    return {k: device.handle for k, device in made.items()}


@pytest.mark.parametrize("noise", [Central(2.0), OnClient(3.0, participations=4), shared(3.0)])
def test_rounds_are_charged_once_and_noted_before_they_begin(noise: Central | OnClient | Shared) -> None:
    federated = run(noise)
    made, agreement = devices(federated)
    paying = Ledger.open("sqlite://").create("phones", federated.unit, limit=Budget(100, 1e-4))
    with deploy(federated, InProcess(handlers(made)), paying, agreement=agreement) as deployment:
        spent = paying.spent().epsilon
        for number in range(1, 5):
            release = deployment.step()
            assert release.value.number == number == deployment.taken
            assert release.value.answered
        with pytest.raises(InvalidQuery, match="All 4 rounds"):
            deployment.step()
    assert paying.spent().epsilon == spent


def test_a_secure_round_gives_the_mean_of_clipped_updates() -> None:
    """With next to no noise: the same mean as clients trained here, within what the grid rounds."""
    federated = run(shared(), rounds=1, clip=0.05)
    made, agreement = devices(federated)
    coordinator = _coordinator(federated, made, agreement)
    before = flat(parameters_of(coordinator.model))
    released = coordinator.ask(1)
    moved = (flat(parameters_of(released.model)) - before).double().numpy()
    norms = np.linalg.norm(moved)
    assert released.answered
    assert 0 < norms <= 0.05 * (1 + 1e-3)


def _coordinator(federated: FedAvg, made: dict[int, Device], agreement: Agreement | None) -> Coordinator:
    return Federation(federated, agreement).open(InProcess(handlers(made)), rng=SecureRandom())


@pytest.mark.parametrize("silent", [1, 2, 3])
def test_devices_that_fall_silent_lose_the_round_only_where_too_few_shares_are_left(silent: int) -> None:
    """Five shares of a device's secret must come from others."""
    federated = run(shared(3.0))
    made, agreement = devices(federated)
    calls = dict.fromkeys(range(COUNT), 0)

    def dropping(k: int) -> Handler:
        def handle(message: bytes) -> bytes:
            calls[k] += 1
            if k < silent and calls[k] > 2:
                raise ProtocolError("gone")
            return made[k].handle(message)

        return handle

    transport = InProcess({k: dropping(k) for k in range(COUNT)})
    coordinator = Federation(federated, agreement).open(transport, rng=SecureRandom())
    assert coordinator.ask(1).answered is (COUNT - silent - 1 >= 5)


def test_a_device_that_lies_about_shapes_counts_as_silent() -> None:
    federated = run(Central(2.0), rounds=1)
    made, _ = devices(federated)
    lying = handlers(made) | {0: lambda message: b"\0" * 7, 1: lambda message: b"\xff" * 40}
    released = Federation(federated).open(InProcess(lying), rng=SecureRandom()).ask(1)
    assert torch.isfinite(flat(parameters_of(released.model))).all()


def test_a_round_is_not_played_twice_after_a_crash(tmp_path: Path) -> None:
    """A child plays rounds until it dies in the third; the ledger then says that three
    were begun, and none is repeated."""
    federated = run(Central(2.0))
    url = f"sqlite:///{tmp_path}/ledger.db"
    child = os.fork()
    if child == 0:
        made, _ = devices(federated)
        count = 0

        def dying(message: bytes) -> bytes:
            nonlocal count
            count += 1
            if count == 3:
                os._exit(9)
            return made[0].handle(message)

        ledger = Ledger.open(url)
        paying = ledger.create("phones", federated.unit, limit=Budget(100, 1e-4))
        deployment = deploy(federated, InProcess(handlers(made) | {0: dying}), paying)
        while True:
            deployment.step()
    os.waitpid(child, 0)
    paying = Ledger.open(url).account("phones")
    entry = next(e for e in paying.history() if e.kind == "open")
    name = str(Head(entry.seq, entry.mac))
    assert paying.begun(name) == 3
    with pytest.raises(LedgerError):
        paying.begin(name, 2, 3)
    assert paying.spent().epsilon > 0


# ------------------------------------------------------------------------------------------------ devices


def asked(federated: FedAvg, turn: int, step: DeviceTask = DeviceTask.UPDATE) -> bytes:
    return Message(step, turn, write_task(flat(parameters_of(federated.model)), 1.0)).to_bytes()


def test_a_device_takes_part_in_a_round_once() -> None:
    federated = run(OnClient(3.0, participations=2))
    device = devices(federated)[0][0]
    device.handle(asked(federated, 2))
    for turn in (2, 1, 0, 5):
        with pytest.raises(ProtocolError, match="takes no part"):
            device.handle(asked(federated, turn))
    device.handle(asked(federated, 3))
    with pytest.raises(ProtocolError, match="takes no part"):
        device.handle(asked(federated, 4))


def test_a_device_remembers_over_a_restart(tmp_path: Path) -> None:
    federated = run(OnClient(3.0, participations=2))
    rows = clients().rows(0)
    ready_device(federated, 0, *rows, memory=tmp_path / "device").handle(asked(federated, 2))
    again = ready_device(federated, 0, *rows, memory=tmp_path / "device")
    with pytest.raises(ProtocolError, match="takes no part"):
        again.handle(asked(federated, 2))
    again.handle(asked(federated, 3))
    with pytest.raises(ProtocolError, match="takes no part"):
        ready_device(federated, 0, *rows, memory=tmp_path / "device").handle(asked(federated, 4))


def test_a_server_cannot_ask_a_device_of_a_secure_run_for_its_bare_update() -> None:
    federated = run(shared(3.0))
    device = devices(federated)[0][0]
    with pytest.raises(ProtocolError, match="does not allow"):
        device.handle(asked(federated, 1))


def test_whether_a_device_answers_does_not_depend_on_its_rows() -> None:
    federated = run(OnClient(3.0, participations=4))
    x, y = clients().rows(0)
    lengths = set()
    for rows in (
        (x, y),
        (torch.full_like(x, torch.nan), y),
        (x, torch.full_like(y, 99)),
        (x[:0], y[:0]),
        (x[:, :2], y),
    ):
        lengths.add(len(ready_device(federated, 0, *rows).handle(asked(federated, 1))))
    assert lengths == {8 * federated.shape.dimension}


@pytest.mark.parametrize(
    "text", [b"", b"\x01", b"\x09" + bytes(8), b"\x01" + bytes(8) + b"short", b"\x01" + b"\xff" * 200]
)
def test_a_device_says_nothing_to_messages_of_another_kind(text: bytes) -> None:
    federated = run(OnClient(3.0, participations=4))
    with pytest.raises(ProtocolError):
        devices(federated)[0][0].handle(text)


def test_shared_noise_needs_an_agreement() -> None:
    federated = run(shared(3.0))
    with pytest.raises(InvalidParameter, match="an agreement and a signer"):
        ready_device(federated, 0, *clients().rows(0))
    paying = Ledger.open("sqlite://").create("phones", federated.unit, limit=Budget(100, 1e-4))
    with pytest.raises(InvalidParameter, match="agreement="):
        deploy(federated, InProcess({}), paying)
    assert paying.spent().epsilon == 0
    with pytest.raises(InvalidParameter, match="noise=Shared"):
        agreed(run(Central(2.0)), {}, threshold=3)


def test_a_device_refuses_an_agreement_that_opens_smaller_sums() -> None:
    federated = run(shared(3.0))
    _, agreement = devices(federated)
    assert agreement is not None
    signer = Ed25519PrivateKey.generate()
    with pytest.raises(InvalidParameter, match="least=5"):
        ready_device(federated, 0, *clients().rows(0), agreement=replace(agreement, least=2), signer=signer)
