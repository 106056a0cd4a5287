"""Whole rounds: the sum is right or the round is over, for every way of dropping out and for many a lie."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import os
import pickle
import random
from collections.abc import Iterable

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable.errors import InvalidParameter, ProtocolError
from deniable.federated.secure_sum import (
    Adversary,
    Agreement,
    Stage,
    SumClient,
    SumServer,
    generated,
    signing,
    simulate,
)
from deniable.federated.secure_sum.messages import BOX_BYTES, read_by_client, write_by_client, write_clients


def vectors(clients: int, length: int) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(3)
    return {client: rng.integers(-1000, 1000, length) for client in range(clients)}


class Round:
    """A round under way, stopped before the step a test wants to break."""

    def __init__(self, clients: int = 5, **terms: object) -> None:
        settings = {"length": 3, "threshold": 3, "least": 3} | terms
        self.agreement, self.signers = generated(clients=clients, **settings)  # type: ignore[arg-type]
        self.vectors = vectors(clients, self.agreement.length)
        self.clients = {v: SumClient(self.agreement, v, self.signers[v], 7) for v in range(clients)}
        self.server = SumServer(self.agreement, 7)

    def opened(self) -> dict[int, bytes]:
        return self.server.open({v: client.advertise() for v, client in self.clients.items()})

    def forwarded(self) -> dict[int, bytes]:
        return self.server.forward({v: self.clients[v].share(part) for v, part in self.opened().items()})

    def asked(self, missing: tuple[int, ...] = ()) -> dict[int, bytes]:
        for v, part in self.forwarded().items():
            masked = self.clients[v].mask(part, self.vectors[v])
            if v not in missing:
                assert self.server.add(v, masked)
        return self.server.survivors()

    def confirmed(self, missing: tuple[int, ...] = ()) -> dict[int, bytes]:
        return self.server.confirm({v: self.clients[v].sign(part) for v, part in self.asked(missing).items()})


def expected(stages: tuple[Stage, ...], threshold: int, least: int) -> list[int] | None:
    """The survivors, or None if the round must end without a sum."""
    present = [[v for v, stage in enumerate(stages) if stage > step] for step in Stage]
    cohort, holders, senders, signers, openers = present[:5]
    if min(map(len, (cohort, holders, senders, signers))) < least:
        return None
    enough = all(len(set(openers) - {owner}) >= threshold for owner in holders)
    neighbours = min(len(cohort) - 1, len(holders) - 1)
    return senders if enough and neighbours >= threshold else None


def sums_checked(clients: int, bits: int, ways: Iterable[tuple[Stage, ...]]) -> int:
    """Plays every way of dropping out and counts the rounds that gave a sum."""
    agreement, signers = generated(
        clients=clients, length=3, threshold=2, least=2, bits=bits, adversary=Adversary.CURIOUS
    )
    given = vectors(clients, 3)
    sums = 0
    for stages in ways:
        survivors = expected(stages, 2, 2)
        dropouts = dict(enumerate(stages))
        if survivors is None:
            with pytest.raises(ProtocolError):
                simulate(agreement, signers, given, dropouts=dropouts)
            continue
        outcome = simulate(agreement, signers, given, dropouts=dropouts)
        assert list(outcome.survivors) == survivors
        np.testing.assert_array_equal(outcome.signed(), sum(given[v] for v in survivors))
        sums += 1
    return sums


def test_the_sum_is_right_for_every_way_of_dropping_out_of_four() -> None:
    assert sums_checked(4, 32, itertools.product(Stage, repeat=4)) == 21


def test_the_sum_is_right_for_every_number_of_dropouts_of_six_at_every_stage() -> None:
    order = random.Random(5)
    ways = [order.sample(stages, 6) for stages in itertools.combinations_with_replacement(Stage, 6)]
    assert sums_checked(6, 16, map(tuple, ways)) > 50


@pytest.mark.parametrize("neighbours", [None, 6])
@pytest.mark.parametrize("length", [1, 200_001])
def test_many_clients_and_long_vectors(neighbours: int | None, length: int) -> None:
    agreement, signers = generated(
        clients=12, length=length, threshold=3, least=8, neighbours=neighbours, adversary=Adversary.CURIOUS
    )
    given = vectors(12, length)
    dropouts = {2: Stage.SHARE, 5: Stage.MASK, 7: Stage.SIGN}
    outcome = simulate(agreement, signers, given, dropouts=dropouts)
    assert outcome.survivors == (0, 1, 3, 4, 6, 7, 8, 9, 10, 11)
    np.testing.assert_array_equal(outcome.signed(), sum(given[v] for v in outcome.survivors))


def test_sums_wrap_around() -> None:
    agreement, signers = generated(clients=3, length=1, threshold=2, least=2, bits=16)
    outcome = simulate(agreement, signers, {v: np.array([30_000]) for v in range(3)})
    assert outcome.total.tolist() == [90_000 % 2**16]


def test_a_masked_vector_looks_uniform_whatever_it_hides() -> None:
    """Chi-squared over bytes at p = 1e-9, for vectors of zeros; and two maskings of one
    vector have nothing in common."""
    messages = []
    for _ in range(2):
        stage = Round(length=50_000)
        parts = stage.forwarded()
        messages.append(np.frombuffer(stage.clients[0].mask(parts[0], np.zeros(50_000, int)), np.uint8))
    counts = np.bincount(messages[0], minlength=256)
    statistic = float(((counts - 200_000 / 256) ** 2 / (200_000 / 256)).sum())
    assert statistic < 410  # the 1 - 1e-9 quantile of chi-squared with 255 degrees of freedom is 404
    assert (messages[0] == messages[1]).mean() < 0.01


def test_masks_differ_between_rounds_and_sessions() -> None:
    agreement, _ = generated(clients=3, length=3, threshold=2, least=2)
    other, _ = generated(clients=3, length=3, threshold=2, least=2)
    cohort = (0, 1, 2)
    names = {agreement.transcript(0, cohort), agreement.transcript(1, cohort), other.transcript(0, cohort)}
    assert len({*names, agreement.transcript(0, (0, 1))}) == 4


# ------------------------------------------------------------------------------------------------ both secrets, never


def test_a_client_opens_once() -> None:
    stage = Round()
    parts = stage.confirmed()
    stage.clients[0].unmask(parts[0])
    with pytest.raises(ProtocolError, match="out of turn"):
        stage.clients[0].unmask(parts[0])


def test_of_each_neighbour_one_share_is_given() -> None:
    stage = Round()
    parts = stage.confirmed(missing=(4,))
    content = stage.clients[0].unmask(parts[0])
    seeds, keys = stage.clients[0]._shares[1][0], stage.clients[0]._shares[4][1]
    assert seeds in content
    assert keys in content
    assert stage.clients[0]._shares[1][1] not in content
    assert stage.clients[0]._shares[4][0] not in content


def test_a_client_signs_one_list() -> None:
    stage = Round()
    asked = stage.asked()
    stage.clients[0].sign(asked[0])
    with pytest.raises(ProtocolError, match="out of turn"):
        stage.clients[0].sign(write_clients([0, 1, 2]))


def test_two_lists_of_survivors_open_nothing() -> None:
    """The server tells half of the clients that client 4 survived, and the others that it did not."""
    stage = Round(threshold=3, least=4)
    stage.asked()
    lists = {v: range(5) if v < 2 else range(4) for v in range(4)}
    signatures = {v: stage.clients[v].sign(write_clients(listed)) for v, listed in lists.items()}
    for v in range(4):
        with pytest.raises(ProtocolError, match="signed the same list"):
            stage.clients[v].unmask(write_by_client(signatures))


def test_a_list_signed_by_too_few_opens_nothing() -> None:
    stage = Round()
    asked = stage.asked()
    signatures = {v: stage.clients[v].sign(asked[v]) for v in range(2)}
    with pytest.raises(ProtocolError, match="2 survivors signed"):
        stage.clients[0].unmask(write_by_client(signatures))


def test_signatures_of_strangers_and_repeated_ones_do_not_count() -> None:
    stage = Round()
    asked = stage.asked()
    own = stage.clients[0].sign(asked[0])
    stranger = Ed25519PrivateKey.generate().sign(b"anything")
    with pytest.raises(ProtocolError, match="1 survivors signed"):
        stage.clients[0].unmask(write_by_client({0: own, 1: own, 2: stranger, 3: own, 99: own}))


@pytest.mark.parametrize("listed", [[0, 1], [1, 2, 3], [0, 1, 2, 77], []])
def test_survivors_that_are_too_few_or_others_are_not_signed(listed: list[int]) -> None:
    stage = Round()
    stage.asked()
    with pytest.raises(ProtocolError):
        stage.clients[0].sign(write_clients(listed))


# ------------------------------------------------------------------------------------------------ messages that are not ours


def test_a_box_for_another_does_not_open() -> None:
    stage = Round()
    parts = stage.forwarded()
    swapped = bytearray(parts[0])
    width = 4 + 4 * 5 + 4 + 4 * 4
    first, second = slice(width, width + 82), slice(width + 82, width + 164)
    swapped[first], swapped[second] = swapped[second], swapped[first]
    with pytest.raises(ProtocolError, match="does not open"):
        stage.clients[0].mask(bytes(swapped), stage.vectors[0])


def test_a_box_of_another_round_does_not_open() -> None:
    stage = Round()
    stage.forwarded()
    again = {v: SumClient(stage.agreement, v, stage.signers[v], 8) for v in range(5)}
    server = SumServer(stage.agreement, 8)
    opening = server.open({v: client.advertise() for v, client in again.items()})
    old = server.forward({v: again[v].share(part) for v, part in opening.items()})
    with pytest.raises(ProtocolError, match="does not open"):
        stage.clients[0].mask(old[0], stage.vectors[0])


def test_keys_of_another_round_are_refused() -> None:
    stage = Round(least=5)
    old = SumClient(stage.agreement, 1, stage.signers[1], 6).advertise()
    adverts = {v: client.advertise() for v, client in stage.clients.items()}
    with pytest.raises(ProtocolError, match="4 clients"):
        stage.server.open(adverts | {1: old})


def test_a_key_put_in_by_the_server_is_refused() -> None:
    stage = Round()
    parts = stage.opened()
    other = Round()
    foreign = other.clients[1].advertise()
    content = parts[0]
    start = 4 + 4 * 5 + 4 + 4 * 4
    with pytest.raises(ProtocolError, match="not signed"):
        stage.clients[0].share(content[:start] + foreign + content[start + len(foreign) :])


def test_a_cohort_shown_differently_opens_no_box() -> None:
    """Client 0 is told of a cohort without client 4: its keys then fit nobody's."""
    stage = Round(clients=6, threshold=4, least=4)
    adverts = {v: client.advertise() for v, client in stage.clients.items()}
    whole = stage.server.open(adverts)
    smaller = SumServer(stage.agreement, 7).open({v: adverts[v] for v in range(5)})
    shared = {v: stage.clients[v].share(whole[v]) for v in range(1, 5)}
    boxes = {v: _box(shared[v], 0) for v in range(1, 5)}
    stage.clients[0].share(smaller[0])
    with pytest.raises(ProtocolError, match="does not open"):
        stage.clients[0].mask(write_clients(range(5)) + write_by_client(boxes), stage.vectors[0])


def _box(content: bytes, target: int) -> bytes:
    return read_by_client(content, BOX_BYTES)[target]


@pytest.mark.parametrize(
    "change", [lambda m: m[:-1], lambda m: m + b"\0", lambda m: b"", lambda m: m[:4], lambda m: b"\xff" * 40]
)
@pytest.mark.parametrize("step", ["share", "mask", "sign", "unmask"])
def test_messages_of_another_length_end_the_round(step: str, change: object) -> None:
    stage = Round()
    client = stage.clients[0]
    parts = {"share": stage.opened, "mask": stage.forwarded, "sign": stage.asked, "unmask": stage.confirmed}[
        step
    ]()
    broken = change(parts[0])  # type: ignore[operator]
    arguments = (broken, stage.vectors[0]) if step == "mask" else (broken,)
    with pytest.raises(ProtocolError):
        getattr(client, step)(*arguments)
    with pytest.raises(ProtocolError, match="out of turn"):
        getattr(client, step)(*((parts[0], stage.vectors[0]) if step == "mask" else (parts[0],)))


def test_the_server_leaves_out_what_is_not_well_formed() -> None:
    stage = Round()
    parts = stage.forwarded()
    masked = {v: stage.clients[v].mask(part, stage.vectors[v]) for v, part in parts.items()}
    assert not stage.server.add(0, masked[0][:-4])
    assert not stage.server.add(99, masked[0])
    assert all(stage.server.add(v, masked[v]) for v in range(1, 5))
    assert not stage.server.add(1, masked[1])
    asked = stage.server.survivors()
    assert not stage.server.add(0, masked[0])
    confirmed = stage.server.confirm({v: stage.clients[v].sign(asked[v]) for v in range(1, 5)} | {0: b"?"})
    total = stage.server.finish(
        {v: stage.clients[v].unmask(part) for v, part in confirmed.items()} | {0: b"?"}
    )
    np.testing.assert_array_equal(total.view("<i4"), sum(stage.vectors[v] for v in range(1, 5)))


def test_a_wrong_share_is_found_and_gives_no_wrong_sum() -> None:
    stage = Round()
    parts = stage.confirmed()
    opened = {v: stage.clients[v].unmask(part) for v, part in parts.items()}
    forged = opened[0][:-1] + bytes([opened[0][-1] ^ 1])
    with pytest.raises(ProtocolError, match="do not fit"):
        stage.server.finish({0: forged} | {v: opened[v] for v in (1, 2, 3)})


# ------------------------------------------------------------------------------------------------ terms


@pytest.mark.parametrize("order", [0, 1, 2**255 - 19])
def test_keys_of_small_order_are_left_out_and_the_round_goes_on(order: int) -> None:
    """Nobody agrees on a secret with them: neighbours would fall silent, and the server end in an error."""
    stage = Round()
    offers = {v: client.advertise() for v, client in stage.clients.items()}
    for place in (0, 32):  # the key for boxes, and the key for masks
        content = offers[0][:place] + order.to_bytes(32, "little") + offers[0][place + 32 : 96]
        forged = content + stage.signers[0].sign(signing.keys_statement(stage.agreement, 7, 0, content))
        opening = SumServer(stage.agreement, 7).open(offers | {0: forged})
        assert set(opening) == {1, 2, 3, 4}


def test_a_client_is_not_copied() -> None:
    stage = Round()
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ProtocolError, match="not copied"):
            attempt(stage.clients[0])


def test_a_client_says_nothing_in_another_process() -> None:
    stage = Round()
    child = os.fork()
    if child == 0:
        try:
            stage.clients[0].advertise()
        except ProtocolError:
            os._exit(17)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"threshold": 1, "colluders": 1, "least": 3}, "above the number of colluders"),
        ({"threshold": 3, "colluders": 2, "least": 3}, "least ≥ colluders"),
        ({"threshold": 3, "least": 3, "neighbours": 5}, "even number"),
        ({"threshold": 3, "least": 3, "neighbours": 4, "adversary": Adversary.LYING}, "neighbours=None"),
        ({"threshold": 3, "least": 3, "bits": 20}, "16, 32 or 64"),
        ({"threshold": 3, "least": 3, "length": 0}, "at least one number"),
    ],
)
def test_terms_that_keep_no_promise_are_refused(terms: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        generated(**({"clients": 6, "length": 3} | terms))  # type: ignore[arg-type]


@pytest.mark.parametrize(("threshold", "least"), [(3, 3), (2, 5)])
def test_against_a_lying_server_more_must_agree(threshold: int, least: int) -> None:
    with pytest.raises(InvalidParameter, match="use least=4 and threshold=3, or more"):
        generated(clients=5, length=3, threshold=threshold, least=least, colluders=1)
    agreement, signers = generated(clients=5, length=3, colluders=1)
    simulate(agreement, signers, vectors(5, 3))
    with pytest.raises(ProtocolError, match="use least=4 and threshold=3, or more"):
        simulate(dataclasses.replace(agreement, least=least, threshold=threshold), signers, vectors(5, 3))


def test_a_roster_is_fixed_once() -> None:
    agreement, signers = generated(clients=3, length=1, threshold=2, least=2)
    roster = dict(agreement.roster)
    second = Agreement(agreement.session, roster, 1, 2, 2)
    before = second.fingerprint
    roster[0] = roster.pop(1)
    assert second.fingerprint == before == agreement.fingerprint
    with pytest.raises(InvalidParameter, match="the key of client 1"):
        SumClient(agreement, 1, signers[0], 0)


@pytest.mark.parametrize("vector", [np.zeros(4, int), np.zeros(3), np.zeros((3, 1), int), "abc"])
def test_a_vector_of_another_kind_is_not_sent(vector: object) -> None:
    stage = Round()
    parts = stage.forwarded()
    with pytest.raises(InvalidParameter, match="3 integers"):
        stage.clients[0].mask(parts[0], vector)
    stage.clients[0].mask(parts[0], stage.vectors[0])


@pytest.mark.parametrize("neighbours", [None, 4])
def test_an_agreement_reads_back_as_it_was_written(neighbours: int | None) -> None:
    adversary = Adversary.LYING if neighbours is None else Adversary.CURIOUS
    agreement, _ = generated(
        clients=6, length=3, threshold=4, least=4, neighbours=neighbours, colluders=1, adversary=adversary
    )
    again = Agreement.from_json(agreement.to_json())
    assert again == agreement
    assert again.fingerprint == agreement.fingerprint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"least": 4', '"least": 4.0'),
        ('"least": 4', '"least": 1'),
        ('"least": 4', '"least": true'),
        ('"adversary": "lying"', '"adversary": "kind"'),
        ('"bits": 32', '"bits": 32, "bits": 16'),
        ('"bits": 32', '"bits": 32, "more": 1'),
        ('"session": "', '"session": "00'),
    ],
)
def test_an_agreement_that_was_tampered_with_is_not_read(old: str, new: str) -> None:
    agreement, _ = generated(clients=6, length=3, threshold=4, least=4)
    text = agreement.to_json()
    assert old in text
    with pytest.raises(InvalidParameter):
        Agreement.from_json(text.replace(old, new))
