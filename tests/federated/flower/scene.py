"""What the server, the devices and the test agree on: written into a folder once, read
by each of their processes."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from torch import nn

from deniable.federated import Central, Clients, Device, FedAvg, Shared, agreed, iid
from deniable.federated.devices.relay import Relay
from deniable.federated.secure_sum import Adversary, Agreement
from tests.federated.runs import run_of

DEVICES = 4
ROUNDS = 3
LEAST = 3
"""Answers without which no sum is opened."""


@dataclass(frozen=True)
class Scene:
    """One play: the run, its agreement, and how long an exchange may take."""

    run: FedAvg
    agreement: Agreement | None
    signers: dict[int, Ed25519PrivateKey]
    url: str
    timeout: float


def federated(shared: bool) -> FedAvg:
    torch.manual_seed(0)
    # Four devices, of which one goes: against a lying server three shares would be needed, and two are left.
    secure = Shared(3.0, bits=32, least=LEAST, participations=ROUNDS, adversary=Adversary.CURIOUS)
    noise = secure if shared else Central(2.0)
    return run_of(
        nn.Linear(4, 2),
        nn.CrossEntropyLoss(),
        clients=DEVICES,
        rate=1,
        rounds=ROUNDS,
        noise=noise,
        progress=False,
        local_steps=100,
        answer_after=1.0 if shared else None,
    )


def rows() -> Clients:
    x = np.random.default_rng(0).normal(size=(DEVICES * 10, 4)).astype(np.float32)
    return iid(x, (x[:, 0] > 0).astype(np.int64), clients=DEVICES)


def write(folder: Path, *, shared: bool, url: str, timeout: float) -> FedAvg:
    run, signers = federated(shared), {k: Ed25519PrivateKey.generate() for k in range(DEVICES)}
    roster = {k: signer.public_key().public_bytes_raw() for k, signer in signers.items()}
    facts = {
        "shared": shared,
        "agreement": agreed(run, roster, threshold=2).to_json() if shared else None,
        "signers": {k: signer.private_bytes_raw().hex() for k, signer in signers.items()},
        "url": url,
        "timeout": timeout,
    }
    (folder / "scene.json").write_text(json.dumps(facts), encoding="utf-8")
    return run


def load(folder: Path) -> Scene:
    facts = json.loads((folder / "scene.json").read_text(encoding="utf-8"))
    signers = {
        int(k): Ed25519PrivateKey.from_private_bytes(bytes.fromhex(v)) for k, v in facts["signers"].items()
    }
    agreement = None if facts["agreement"] is None else Agreement.from_json(facts["agreement"])
    return Scene(federated(facts["shared"]), agreement, signers, facts["url"], facts["timeout"])


def device(folder: Path, number: int, manner: str) -> None:
    """A device in a process of its own. Manners: honest, lying (about shapes), late."""
    scene = load(folder)
    own = Device(
        scene.run, number, *rows().rows(number), agreement=scene.agreement, signer=scene.signers[number],
        memory=folder / f"memory-{number}.txt",
    )  # fmt: skip

    def handle(message: bytes) -> bytes:
        if manner == "late":
            time.sleep(3 * scene.timeout)
        return b"\0" * 7 if manner == "lying" else own.handle(message)

    Relay(handle, number, folder / f"device-{number}.sock").serve()


if __name__ == "__main__":
    device(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
