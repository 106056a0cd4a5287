"""A server that lies at random: by default it reads one sum or nothing, and of clients that trust it more."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from deniable.federated.secure_sum import Adversary, generated
from tests.federated.secure_sum.liars import Liar


def findings(seed: int, rounds: int, **terms: object) -> Counter[str]:
    draw, found = random.Random(seed), Counter[str]()
    for _ in range(rounds):
        clients = draw.randint(3, 12)
        colluders = draw.choice([0, draw.randint(0, clients - 2)])
        own = terms | ({"least": colluders + 2, "threshold": colluders + 1} if terms else {})
        agreement, signers = generated(clients=clients, length=1, colluders=colluders, **own)  # type: ignore[arg-type]
        liar = Liar(agreement, signers, frozenset(draw.sample(range(clients), colluders)), draw)
        liar.play()
        found[liar.finding()] += 1
    return found


def test_a_server_that_lies_at_random_reads_no_client_by_default() -> None:
    """Lists of who shared and who survived of each client's own, signatures mixed and forged by colluders."""
    found = findings(0, 60)
    assert set(found) == {"nothing", "sum"}  # by the seed


def test_the_same_lies_read_clients_that_trust_the_server() -> None:
    """So the search finds what there is to find."""
    assert findings(0, 60, adversary=Adversary.CURIOUS)["leak"] > 3


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 21))
def test_a_server_that_lies_often_reads_no_client_by_default(seed: int) -> None:
    assert not findings(seed, 500)["leak"]
