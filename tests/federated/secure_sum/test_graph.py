"""A sparse graph must not fall apart: the server would open the sums of the parts, over fewer than agreed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from deniable.errors import ProtocolError
from deniable.federated.secure_sum import Adversary, SumClient, SumServer, generated, neighbourhood
from deniable.federated.secure_sum.agreement import Graph
from deniable.federated.secure_sum.messages import write_clients


def parts(graph: Graph, clients: set[int]) -> list[set[int]]:
    """What hangs together, by walking the graph."""
    left, found = set(clients), []
    while left:
        part, edge = set(), {min(left)}
        while edge:
            part |= edge
            edge = {v for u in edge for v in graph.neighbours(u) if v in clients} - part
        found.append(part)
        left -= part
    return found


@pytest.mark.parametrize(("count", "half"), [(7, 1), (8, 2), (9, 3)])
def test_a_graph_holds_together_just_when_no_colluders_part_it(count: int, half: int) -> None:
    """Every set of survivors of a small ring, and every set of colluders among them."""
    graph = Graph(tuple(np.random.default_rng(count).permutation(count).tolist()), half)
    for survivors in map(set, _subsets(range(count), count)):
        fewest = min(
            (
                len(colluders)
                for colluders in _subsets(sorted(survivors), 3)
                if len(parts(graph, survivors - set(colluders))) > 1
            ),
            default=4,
        )
        for colluders in range(4):
            assert graph.holds_together(survivors, colluders) == (colluders < fewest)


def _subsets(of: range | list[int], most: int) -> list[tuple[int, ...]]:
    return [chosen for size in range(most + 1) for chosen in itertools.combinations(of, size)]


def test_everybody_with_everybody_always_holds_together() -> None:
    assert Graph((3, 1, 2), None).holds_together({1, 2}, 5)


def test_clients_do_not_open_a_sum_that_falls_into_two() -> None:
    """Twelve on a ring, joined to two on either side, of whom four drop out in two places: each half would be
    opened by itself, over four where eight were agreed."""
    agreement, signers = generated(
        clients=12, length=2, threshold=2, least=8, neighbours=4, adversary=Adversary.CURIOUS
    )
    clients = {v: SumClient(agreement, v, signers[v], 1) for v in range(12)}
    server = SumServer(agreement, 1)
    opening = server.open({v: client.advertise() for v, client in clients.items()})
    boxes = server.forward({v: clients[v].share(part) for v, part in opening.items()})
    ring = agreement.graph(1, range(12)).ring
    survivors = {v for place, v in enumerate(ring) if place not in (0, 1, 6, 7)}
    graph = agreement.graph(1, range(12))
    assert sorted(map(len, parts(graph, survivors))) == [4, 4]
    for v in survivors:
        assert server.add(v, clients[v].mask(boxes[v], np.zeros(2, int)))
    with pytest.raises(ProtocolError, match="sums of both parts"):
        server.survivors()
    for v in survivors:  # a server that asks all the same
        with pytest.raises(ProtocolError, match="sums of both parts"):
            clients[v].sign(write_clients(survivors))


def chance_of_two_gaps(count: int, half: int, gone: float) -> float:
    """That one client is there and the others on the ring have two gaps of at least `half`, step by step
    around it: of every way to fall apart with this client left."""
    chances = {(0, 0): 1 - gone}
    for _ in range(count - 1):
        following: dict[tuple[int, int], float] = {}
        for (gap, gaps), chance in chances.items():
            stays = (0, min(2, gaps + (gap >= half)))
            leaves = (min(half, gap + 1), gaps)
            following[stays] = following.get(stays, 0.0) + chance * (1 - gone)
            following[leaves] = following.get(leaves, 0.0) + chance * gone
        chances = following
    return sum(chance for (gap, gaps), chance in chances.items() if gaps + (gap >= half) >= 2)


def test_the_walk_around_the_ring_counts_what_enumeration_counts() -> None:
    count, half, gone = 9, 2, 0.4
    graph, total = Graph(tuple(range(count)), half), 0.0
    for survivors in map(set, _subsets(range(count), count)):
        if 0 in survivors and len(parts(graph, survivors)) > 1:
            total += (1 - gone) ** len(survivors) * gone ** (count - len(survivors))
    assert chance_of_two_gaps(count, half, gone) == pytest.approx(total)


@pytest.mark.parametrize(("clients", "dropping"), [(1000, 0.5), (300, 0.4), (5000, 0.3)])
def test_a_planned_graph_falls_apart_no_more_often_than_promised(clients: int, dropping: float) -> None:
    plan = neighbourhood(clients, colluding=0.0, dropping=dropping)
    assert plan.neighbours is not None
    assert chance_of_two_gaps(clients, plan.neighbours // 2, dropping) <= 2**-40


def test_a_list_of_who_shared_shown_to_one_client_alone_gives_no_sum() -> None:
    """The others sign and open all the same; what is left of the one's masks hides the sum."""
    agreement, signers = generated(
        clients=5, length=400, threshold=3, least=4, colluders=1, adversary=Adversary.LYING
    )
    clients = {v: SumClient(agreement, v, signers[v], 1) for v in range(5)}
    server = SumServer(agreement, 1)
    opening = server.open({v: client.advertise() for v, client in clients.items()})
    shared = {v: clients[v].share(part) for v, part in opening.items()}
    boxes = server.forward(shared)
    fewer = SumServer(agreement, 1)
    fewer.open({v: keys.to_bytes() for v, keys in server._keys.items()})
    boxes[0] = fewer.forward({v: shared[v] for v in range(4)})[0]
    for v in range(5):
        assert server.add(v, clients[v].mask(boxes[v], np.ones(400, int)))
    asked = server.survivors()
    with pytest.raises(ProtocolError, match="names others"):
        clients[0].sign(asked[0])
    signatures = server.confirm({v: clients[v].sign(asked[v]) for v in range(1, 5)})
    total = server.finish({v: clients[v].unmask(part) for v, part in signatures.items()})
    assert len(np.unique(total)) > 390  # uniform residues of 32 bits, where a sum would be 5 everywhere
