"""Every protocol, client and server: the shape of a mechanism, the wire, what is
dropped, what merges, what is saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.errors import InvalidParameter
from deniable.local import Client, GeneralisedResponse, LocalHashing, OptimisedUnary, Server, SubsetSelection
from deniable.local.protocol import HEADER, VERSION
from deniable.mechanism import Mechanism
from deniable.randomness import SecureRandom, SeededRandom
from deniable.units import Unit
from tests import chance
from tests.local.clients import EVERY, IDS

every = pytest.mark.parametrize(("client", "values", "question"), EVERY, ids=IDS)


@every
def test_a_client_is_a_mechanism_whose_loss_is_known_beforehand(
    client: Client[Any], values: Any, question: Any
) -> None:
    assert isinstance(client, Mechanism)
    assert client.unit == Unit.value()
    assert client.loss.to_json()
    assert client.error() is None
    assert hash(client) == hash(client)


@every
def test_every_code_is_its_own(client: Client[Any], values: Any, question: Any) -> None:
    assert [c.code for c, _, _ in EVERY].count(client.code) == 1
    assert 0 < client.code < 32


@every
def test_reports_are_of_the_stated_size_and_all_accepted(
    client: Client[Any], values: Any, question: Any
) -> None:
    rng = SecureRandom()
    rows = client.reports(values, rng=rng)
    assert rows.shape == (4, client.size)
    server = client.server()
    assert server.add(rows) == 4
    assert server.add(client.report(values[0], rng=rng)) == 1
    assert server.add([client(v, rng=rng) for v in values]) == 4
    assert (server.users, server.dropped) == (9, 0)
    server.estimate(*question)


@every
def test_what_is_malformed_is_counted_dropped_and_changes_nothing(
    client: Client[Any], values: Any, question: Any
) -> None:
    server, rng = client.server(), SecureRandom()
    good = client.report(values[0], rng=rng)
    other_version = bytes([(VERSION + 1) << 5 | client.code]) + good[1:]
    other_protocol = bytes([VERSION << 5 | (client.code ^ 1)]) + good[1:]
    other_setting = bytes([good[0], good[1] ^ 1]) + good[2:]
    bad: list[Any] = [
        b"",
        good[:-1],
        good + b"\0",
        other_version,
        other_protocol,
        other_setting,
        None,
        7,
        "text",
    ]
    assert server.add(bad) == 0
    for alone in (b"", None, 7, "text", np.array(3)):
        assert server.add(alone) == 0  # type: ignore[arg-type]
    assert server.add(np.zeros((3, client.size + 1), np.uint8)) == 0
    assert server.add(np.zeros((2, client.size))) == 0
    assert server.add(np.zeros((2, client.size), np.uint8)) == 0
    assert (server.users, server.dropped) == (0, len(bad) + 5 + 3 + 2 + 2)
    assert not server.counts.any()


@every
def test_random_payloads_never_crash_a_server(client: Client[Any], values: Any, question: Any) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (500, client.size), dtype=np.uint8)
    noise[:, :HEADER] = np.frombuffer(client.header, np.uint8)
    server = client.server()
    assert server.add(noise) + server.dropped == 500
    server.estimate(*question)


@pytest.mark.parametrize(
    ("client", "payload"),
    [
        (GeneralisedResponse(1000, 1), (1000).to_bytes(2, "little")),
        (OptimisedUnary(13, 1), bytes([0, 0b0000_0100])),
        (SubsetSelection(21, 1), bytes([255, 255, 0b1111_1000])),
        (LocalHashing(1000, 1), (4096).to_bytes(2, "little")),
    ],
)
def test_a_payload_outside_the_domain_is_dropped(client: Client[Any], payload: bytes) -> None:
    server = client.server()
    assert server.add(client.header + payload) == 0
    assert server.dropped == 1


@every
@given(data=st.data())
def test_arbitrary_bytes_never_crash_a_server(
    client: Client[Any], values: Any, question: Any, data: st.DataObject
) -> None:
    reports = data.draw(st.lists(st.binary(max_size=client.size + 1), max_size=3))
    server = client.server()
    assert server.add(reports) + server.dropped == len(reports)


@every
def test_servers_merge_in_any_order_and_are_saved(client: Client[Any], values: Any, question: Any) -> None:
    rng = SecureRandom()
    a, b, c = (client.server() for _ in range(3))
    for server in (a, b, c):
        server.add(client.reports(values, rng=rng))
        server.add(b"junk")
    left, right = (a + b) + c, c + (b + a)
    assert np.array_equal(left.counts, right.counts)
    assert (left.users, left.dropped) == (right.users, right.dropped) == (12, 3)
    assert np.array_equal(left.counts, a.counts + b.counts + c.counts)
    loaded = Server.from_bytes(client, left.to_bytes())
    assert loaded.to_bytes() == left.to_bytes()
    assert (loaded.users, loaded.dropped) == (12, 3)


def test_a_summary_that_was_touched_or_is_of_another_protocol_is_refused() -> None:
    client = LocalHashing(64, 1)
    data = client.server().to_bytes()
    flipped = data[:60] + bytes([data[60] ^ 1]) + data[61:]
    for bad in (b"", data[:-1], data + b"\0", flipped):
        with pytest.raises(InvalidParameter, match="no whole summary"):
            Server.from_bytes(client, bad)
    with pytest.raises(InvalidParameter, match="other parameters"):
        Server.from_bytes(LocalHashing(64, 1.1), data)
    with pytest.raises(InvalidParameter, match="same parameters merge"):
        client.server().merge(LocalHashing(64, 1.1).server())


def test_the_memory_of_a_server_does_not_grow_with_reports() -> None:
    client, rng = LocalHashing(1024, 1), SeededRandom(0)
    server = client.server()
    before = len(server.to_bytes())
    server.add(client.reports(np.zeros(100_000, np.int64), rng=rng))
    assert len(server.to_bytes()) == before
    assert server.counts.nbytes == 8 * 4096


def test_equal_parameters_have_equal_headers_whatever_their_type() -> None:
    assert LocalHashing(64, 1).digest == LocalHashing(64, 1.0).digest
    assert LocalHashing(64, 1).digest != LocalHashing(65, 1).digest


def test_reports_of_one_header_byte_pair_stay_what_they_are() -> None:
    # The wire form is a promise: these bytes come from other machines.
    assert LocalHashing(1024, 1).header.hex() == "25a2"
    assert OptimisedUnary(1024, 1).reports([3], rng=SeededRandom(1)).shape == (1, 130)


def test_a_value_outside_the_domain_reports_as_a_random_one() -> None:
    client, rng = GeneralisedResponse(4, 30), SecureRandom()
    server = client.server()
    server.add(client.reports(np.full(40_000, 17), rng=rng))
    assert server.users == 40_000
    assert np.all(np.abs(server.estimate().counts - 10_000) < chance.reach(chance.EACH / 4) * 87)


@pytest.mark.parametrize("values", [["a", "b"], [0.5], [[1, 2]], [None]])
def test_values_of_another_type_are_refused_before_anything_is_drawn(values: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"whole numbers.*Nothing was drawn"):
        LocalHashing(4, 1).reports(values, rng=SecureRandom())


@pytest.mark.parametrize(
    ("k", "epsilon"),
    [(1, 1), (2.0, 1), (True, 1), (1 << 25, 1), (4, 0), (4, 41), (4, float("nan")), (4, True)],
)
def test_parameters_outside_their_range_are_refused(k: Any, epsilon: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"Expected .*Nothing was drawn"):
        GeneralisedResponse(k, epsilon)
