"""Graphs that are safe and seldom lost, against exact counting."""

from __future__ import annotations

import math

import pytest
from scipy.stats import hypergeom

from deniable.errors import InvalidParameter
from deniable.federated.secure_sum import Adversary, generated, neighbourhood


@pytest.mark.parametrize(("clients", "share"), [(1000, 0.05), (1000, 0.1), (10_000, 0.05)])
def test_the_promised_tails_hold_for_neighbours_drawn_without_replacement(clients: int, share: float) -> None:
    plan = neighbourhood(clients, colluding=share, dropping=share)
    assert plan.neighbours is not None
    count = int(share * clients)
    surrounded = clients * hypergeom.sf(plan.threshold - 1, clients - 1, count, plan.neighbours)
    lost = clients * hypergeom.cdf(plan.threshold - 1, clients - 1, clients - 1 - count, plan.neighbours)
    assert surrounded <= 2**-40
    assert lost <= 2**-20
    assert 2 * math.log2(clients) - 1 + plan.neighbours * math.log2(2 * share) <= -40


def test_few_clients_need_everybody() -> None:
    plan = neighbourhood(30, colluding=0.2, dropping=0.2)
    assert plan.neighbours is None
    assert 6 < plan.threshold <= 23


def test_hopeless_shares_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="both safe and"):
        neighbourhood(20, colluding=0.6, dropping=0.5)
    with pytest.raises(InvalidParameter, match="colluding in"):
        neighbourhood(20, colluding=1.5, dropping=0.5)


def test_the_graph_is_regular_symmetric_and_new_in_every_round() -> None:
    agreement, _ = generated(
        clients=40, length=1, threshold=3, least=5, neighbours=8, adversary=Adversary.CURIOUS
    )
    cohort = tuple(range(40))
    graph = agreement.graph(0, cohort)
    for client in cohort:
        neighbours = graph.neighbours(client)
        assert len(set(neighbours) - {client}) == 8
        assert all(client in graph.neighbours(other) for other in neighbours)
    assert graph.ring != agreement.graph(1, cohort).ring
