"""A server that shows two lists of survivors: what it reads of clients that trust it, and that it reads
nothing by default."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from deniable.errors import InvalidParameter, ProtocolError
from deniable.federated.secure_sum import Adversary, Agreement, Quorum, SumClient, generated, masks, shamir
from deniable.federated.secure_sum.messages import (
    BOX_BYTES,
    SIGNATURE_BYTES,
    read_by_client,
    read_keys,
    write_by_client,
    write_clients,
)

CLIENTS, VICTIM = 9, 0
SECRET = np.array([1234, -77, 31_337])


class TwoFaced:
    """A server that plays a round without one check of its own, and tells two halves of the clients of two
    lists of survivors: one with the victim, who opens its seed, and one without it, who opens its key."""

    def __init__(self, agreement: Agreement, signers: Mapping[int, Ed25519PrivateKey]) -> None:
        self.agreement = agreement
        self.everybody = sorted(signers)
        self.clients = {v: SumClient(agreement, v, signers[v], 1) for v in self.everybody}
        self.transcript = agreement.transcript(1, self.everybody)

    def masked(self) -> dict[int, bytes]:
        adverts = {v: client.advertise() for v, client in self.clients.items()}
        self.keys = {v: read_keys(advert) for v, advert in adverts.items()}
        cohort = write_clients(self.everybody)
        boxes = {
            v: read_by_client(client.share(cohort + write_by_client(_without(adverts, v))), BOX_BYTES)
            for v, client in self.clients.items()
        }
        return {
            v: client.mask(
                cohort + write_by_client({w: boxes[w][v] for w in self.everybody if w != v}), SECRET
            )
            for v, client in self.clients.items()
        }

    def opened(self, group: Sequence[int], survivors: Sequence[int]) -> list[dict[int, bytes]]:
        """What the clients of a group open, having been shown this list."""
        signatures = {v: self.clients[v].sign(write_clients(survivors)) for v in group}
        answers = [self.clients[v].unmask(write_by_client(signatures)) for v in group]
        return [read_by_client(answer, shamir.SHARE_BYTES) for answer in answers]

    def read_victim(self, believers: Sequence[int], others: Sequence[int]) -> list[int]:
        """The victim's vector, with all masks taken off."""
        message = self.masked()[VICTIM]
        rest = [v for v in self.everybody if v != VICTIM]
        seeds, keys = self.opened(believers, self.everybody), self.opened(others, rest)
        seed = _joined(dict(zip(believers, seeds, strict=True)))
        own = X25519PrivateKey.from_private_bytes(_joined(dict(zip(others, keys, strict=True))))
        total = np.frombuffer(message, self.agreement.dtype).copy()
        masks.subtract(total, masks.derive_key(seed, b"own", self.transcript, VICTIM))
        for other in rest:  # the victim has the smallest number, so it added all of these
            pair = own.exchange(X25519PublicKey.from_public_bytes(self.keys[other].mask))
            masks.subtract(total, masks.derive_key(pair, b"pair", self.transcript, VICTIM, other))
        return [int(number) for number in total.view("<i4")]


def _without(parts: Mapping[int, bytes], client: int) -> dict[int, bytes]:
    return {v: part for v, part in parts.items() if v != client}


def _joined(answers: Mapping[int, Mapping[int, bytes]]) -> bytes:
    shares = {holder: int.from_bytes(parts[VICTIM], "big") for holder, parts in answers.items()}
    return shamir.join(shares).to_bytes(shamir.SECRET_BYTES, "big")


def test_clients_that_trust_the_server_are_read_by_two_lists_of_survivors() -> None:
    """Nine clients, four of whom must agree: the reason why this needs a name."""
    agreement, signers = generated(
        clients=CLIENTS, length=3, threshold=4, least=4, adversary=Adversary.CURIOUS
    )
    server = TwoFaced(agreement, signers)
    assert server.read_victim([1, 2, 3, 4], [5, 6, 7, 8]) == SECRET.tolist()


def test_by_default_such_numbers_are_refused_and_others_are_named() -> None:
    with pytest.raises(InvalidParameter, match="use least=5 and threshold=6, or more") as refusal:
        generated(clients=CLIENTS, length=3, threshold=4, least=4)
    assert "adversary=Adversary.CURIOUS" in str(refusal.value)
    with pytest.raises(InvalidParameter, match="neighbours=None against a lying server"):
        generated(clients=CLIENTS, length=3, threshold=4, least=5, neighbours=6)


def test_clients_refuse_such_numbers_themselves() -> None:
    """Whoever made the agreement, and whatever the server leaves unchecked."""
    agreement, signers = generated(clients=CLIENTS, length=3)
    weak = dataclasses.replace(agreement, least=4, threshold=4)
    with pytest.raises(ProtocolError, match="least=5 and threshold=6"):
        TwoFaced(weak, signers).read_victim([1, 2, 3, 4], [5, 6, 7, 8])


def test_by_default_two_lists_open_nothing_however_clients_are_divided() -> None:
    agreement, signers = generated(clients=CLIENTS, length=3)
    assert (agreement.adversary, agreement.quorum) == (Adversary.LYING, Quorum(5, 6))
    for count in range(1, CLIENTS - 1):
        server = TwoFaced(agreement, signers)
        with pytest.raises(ProtocolError, match="signed the same list, fewer than least=5"):
            server.read_victim(range(1, count + 1), range(count + 1, CLIENTS))


def test_a_signature_on_one_list_does_not_count_for_the_other() -> None:
    """Half of the clients sign each list, and the server mixes what they signed."""
    agreement, signers = generated(clients=CLIENTS, length=3)
    server = TwoFaced(agreement, signers)
    server.masked()
    lists = {v: range(CLIENTS) if v < 5 else range(1, CLIENTS) for v in range(1, CLIENTS)}
    mixed = write_by_client({v: server.clients[v].sign(write_clients(listed)) for v, listed in lists.items()})
    assert len(read_by_client(mixed, SIGNATURE_BYTES)) == 8
    for v in range(1, CLIENTS):
        with pytest.raises(ProtocolError, match="4 survivors signed"):
            server.clients[v].unmask(mixed)


def two_lists(cohort: int, colluders: int, least: int) -> bool:
    """Whether some division of the honest clients gives two lists `least` signatures each; colluders sign
    both."""
    honest = cohort - colluders
    return any(min(first, honest - first) + colluders >= least for first in range(honest + 1))


def both_secrets(cohort: int, colluders: int, threshold: int) -> bool:
    """Whether some division of an honest client's honest holders gives `threshold` shares of both secrets."""
    return two_lists(cohort - 1, colluders, threshold)


def test_the_numbers_that_are_named_are_the_smallest_that_leave_no_two_lists() -> None:
    """By listing every division of every cohort of up to fourteen."""
    for cohort in range(2, 15):
        for colluders in range(cohort - 1):
            numbers = Quorum.of(cohort, colluders)
            assert numbers.holds(cohort, colluders)
            assert numbers.least <= cohort
            assert not two_lists(cohort, colluders, numbers.least)
            if numbers.least > colluders + 2:
                assert two_lists(cohort, colluders, numbers.least - 1)
            # The second lock holds by itself for up to a third of colluders.
            if 3 * colluders <= cohort - 1:
                assert not both_secrets(cohort, colluders, numbers.threshold)


def test_an_agreement_is_made_just_for_numbers_that_no_division_defeats() -> None:
    for least, threshold in itertools.product(range(2, 10), range(1, 9)):
        if Quorum(least, threshold).holds(CLIENTS, 0):
            assert not two_lists(CLIENTS, 0, least)
            assert not both_secrets(CLIENTS, 0, threshold)
            generated(clients=CLIENTS, length=1, least=least, threshold=threshold)
        else:
            with pytest.raises(InvalidParameter, match="two lists of survivors"):
                generated(clients=CLIENTS, length=1, least=least, threshold=threshold)


def test_numbers_that_a_refusal_names_are_accepted_and_open_sums() -> None:
    """For every cohort of up to sixty and every number of colluders; where none would do, that is said."""
    keys = [client.to_bytes(32, "big") for client in range(60)]

    def agreement_of(cohort: int, colluders: int, least: int, threshold: int) -> Agreement:
        roster = dict(enumerate(keys[:cohort]))
        agreement = Agreement(bytes(16), roster, 1, threshold, least, colluders=colluders)
        agreement.check_expected(cohort)
        return agreement

    def refusal_of(*terms: int) -> str:
        try:
            agreement_of(*terms)
        except InvalidParameter as refusal:
            return str(refusal)
        return ""

    for colluders, cohort in itertools.combinations(range(61), 2):
        fair = Quorum.of(cohort, colluders)
        attempts = [(fair.least - 1, fair.threshold), (fair.least, fair.threshold - 1), (61, 60)]
        for text in (refusal_of(cohort, colluders, *attempt) for attempt in attempts):
            named = re.search(r"use least=(\d+) and threshold=(\d+), or more", text)
            if colluders > cohort - 2:
                assert "use more clients" in text
                continue
            assert named is not None, text
            numbers = agreement_of(cohort, colluders, int(named[1]), int(named[2]))
            numbers.check_cohort(range(cohort))
            assert max(numbers.least, numbers.threshold + 1) <= cohort


def test_numbers_that_no_cohort_reaches_are_refused() -> None:
    for terms in ({"colluders": 2}, {"least": 4}, {"threshold": 3}):
        with pytest.raises(InvalidParameter, match="no sum would ever be opened"):
            generated(clients=3, length=1, **terms)


def test_what_clients_learned_from_older_files_still_opens() -> None:
    """Version 0.2.0 wrote its default, "curious", into the JSON: it is named there, and means the same."""
    text = (
        '{"session": "00112233445566778899aabbccddeeff", "length": 3, "threshold": 2, "least": 2, "bits": 32, '
        '"neighbours": null, "colluders": 0, "adversary": "curious", "roster": {"0": "' + "aa" * 32 + '", "1": "'
        + "bb" * 32 + '", "2": "' + "cc" * 32 + '"}}'
    )  # fmt: skip
    agreement = Agreement.from_json(text)
    assert agreement.adversary is Adversary.CURIOUS
    assert agreement.to_json() == text
    # What 0.2.0 computed: keys and signatures of a session under way go on.
    assert agreement.fingerprint.hex() == FINGERPRINT


FINGERPRINT = "6fd84048d2e32df9615fd099143eebb6ebf1115f24b605db43b429d5c27468ff"
