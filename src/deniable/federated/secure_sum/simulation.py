"""A whole round in one process: for tests, benchmarks and simulations. No step is left out."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable.errors import ProtocolError
from deniable.federated.secure_sum.agreement import SESSION_BYTES, Adversary, Agreement, Quorum
from deniable.federated.secure_sum.client import SumClient
from deniable.federated.secure_sum.masks import Vector
from deniable.federated.secure_sum.server import SumServer, read_signed


class Stage(IntEnum):
    """The message that a client that drops out no longer sends."""

    ADVERTISE = 0
    SHARE = 1
    MASK = 2
    SIGN = 3
    UNMASK = 4
    NEVER = 5


@dataclass(frozen=True)
class Outcome:
    """The sum over `survivors` modulo 2**bits."""

    total: Vector
    survivors: tuple[int, ...]

    def signed(self) -> np.ndarray[Any, np.dtype[np.signedinteger]]:
        """The sum as signed numbers: right if it lies within ± 2**(bits − 1)."""
        return read_signed(self.total)


def generated(
    *,
    clients: int,
    length: int,
    threshold: int | None = None,
    least: int | None = None,
    bits: int = 32,
    neighbours: int | None = None,
    colluders: int = 0,
    adversary: Adversary = Adversary.LYING,
) -> tuple[Agreement, dict[int, Ed25519PrivateKey]]:
    """A session with new identities for clients 0, 1, 2, …: the agreement, and each
    client's key for signing.

    `least` and `threshold` are by default the smallest numbers that hold against a lying server when all
    clients take part; numbers that do not are refused, and need adversary=Adversary.CURIOUS by name.
    """
    quorum = Quorum.of(clients, colluders)
    signers = {client: Ed25519PrivateKey.generate() for client in range(clients)}
    roster = {client: signer.public_key().public_bytes_raw() for client, signer in signers.items()}
    session = secrets.token_bytes(SESSION_BYTES)
    agreement = Agreement(
        session,
        roster,
        length,
        quorum.threshold if threshold is None else threshold,
        quorum.least if least is None else least,
        bits,
        neighbours,
        colluders,
        adversary,
    )
    agreement.check_expected(clients)
    return agreement, signers


def simulate(
    agreement: Agreement,
    signers: Mapping[int, Ed25519PrivateKey],
    vectors: Mapping[int, Any],
    *,
    turn: int = 0,
    dropouts: Mapping[int, Stage] | None = None,
    seen: Callable[[int, Vector], None] | None = None,
) -> Outcome:
    """The sum of `vectors` of all clients that did not drop out before they sent theirs.

    `seen` is told what the server receives of each client in place of its vector.
    """
    silent = {} if dropouts is None else dropouts
    clients = {v: SumClient(agreement, v, signers[v], turn) for v in vectors}
    server = SumServer(agreement, turn)

    def present(stage: Stage, candidates: Iterable[int]) -> list[int]:
        return [v for v in candidates if silent.get(v, Stage.NEVER) > stage]

    def answers(
        stage: Stage, questions: Mapping[int, bytes], act: Callable[[SumClient, bytes], bytes]
    ) -> dict[int, bytes]:
        return {v: act(clients[v], questions[v]) for v in present(stage, questions)}

    opening = server.open({v: clients[v].advertise() for v in present(Stage.ADVERTISE, clients)})
    boxes = server.forward(answers(Stage.SHARE, opening, SumClient.share))
    for v in present(Stage.MASK, boxes):
        message = clients[v].mask(boxes[v], vectors[v])
        if seen is not None:
            seen(v, np.frombuffer(message, agreement.dtype))
        if not server.add(v, message):
            raise ProtocolError(f"The vector of client {v} was not taken. This round is over.")
    survivors = server.survivors()
    signatures = server.confirm(answers(Stage.SIGN, survivors, SumClient.sign))
    total = server.finish(answers(Stage.UNMASK, signatures, SumClient.unmask))
    return Outcome(total, tuple(survivors))
