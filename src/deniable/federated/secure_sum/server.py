"""The server of one round: it forwards boxes it cannot open, adds masked vectors, and
takes the masks off their sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from deniable.errors import InvalidParameter, ProtocolError
from deniable.federated.secure_sum import masks, shamir, signing
from deniable.federated.secure_sum.agreement import Agreement
from deniable.federated.secure_sum.messages import (
    BOX_BYTES,
    SIGNATURE_BYTES,
    Keys,
    read_by_client,
    read_keys,
    write_by_client,
    write_clients,
)


class SumServer:
    """`open`, `forward`, `add` for each vector as it comes, `survivors`, `confirm`, `finish`, in this order.

    Each method takes what arrived, by client, and returns what goes to each client. A client whose message is
    missing or not well-formed counts as dropped from there on; the round is over (ProtocolError) only when
    too few are left. A vector is added when it arrives and not kept, so a round needs room for one sum.
    """

    def __init__(self, agreement: Agreement, turn: int) -> None:
        self.agreement = agreement
        self.turn = turn
        self._total = np.zeros(agreement.length, agreement.dtype)
        self._senders: set[int] = set()
        self._probe = X25519PrivateKey.generate()

    def open(self, advertisements: Mapping[int, bytes]) -> dict[int, bytes]:
        """From the offered keys: the cohort, and to each client its neighbours' keys."""
        self._keys = {
            client: keys for client, keys in map(self._read_offer, advertisements.items()) if keys is not None
        }
        cohort = sorted(self._keys)
        self.agreement.check_cohort(cohort)
        self._transcript = self.agreement.transcript(self.turn, cohort)
        self._graph = self.agreement.graph(self.turn, cohort)
        client_list = write_clients(cohort)
        texts = {client: keys.to_bytes() for client, keys in self._keys.items()}
        return {
            client: client_list + write_by_client({v: texts[v] for v in self._graph.neighbours(client)})
            for client in cohort
        }

    def _read_offer(self, advertisement: tuple[int, bytes]) -> tuple[int, Keys | None]:
        client, content = advertisement
        try:
            keys = read_keys(content)
        except ProtocolError:
            return client, None
        is_usable = (
            signing.are_keys_signed(self.agreement, self.turn, client, keys)
            and self._can_agree(keys.box)
            and self._can_agree(keys.mask)
        )
        return client, keys if is_usable else None

    def _can_agree(self, public: bytes) -> bool:
        """Whether a secret can be agreed on with this key. With one of the few of small order nobody can:
        whoever offers one would end the round for all its neighbours."""
        try:
            self._probe.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            return False
        return True

    def forward(self, shared: Mapping[int, bytes]) -> dict[int, bytes]:
        """From the boxes that clients packed: who shared, and to each the boxes addressed to it."""
        boxes = {
            client: parts for client, parts in map(self._unpack_boxes, shared.items()) if parts is not None
        }
        self._holders = sorted(boxes)
        self._require_enough(self._holders, "shared their secrets")
        client_list = write_clients(self._holders)
        return {
            client: client_list
            + write_by_client({v: boxes[v][client] for v in self._graph.neighbours(client) if v in boxes})
            for client in self._holders
        }

    def _unpack_boxes(self, message: tuple[int, bytes]) -> tuple[int, dict[int, bytes] | None]:
        client, content = message
        if client not in self._keys:
            return client, None
        try:
            boxes = read_by_client(content, BOX_BYTES)
        except ProtocolError:
            return client, None
        return client, boxes if boxes.keys() == set(self._graph.neighbours(client)) else None

    def add(self, client: int, masked: bytes) -> bool:
        """Add a masked vector to the sum. False, and nothing is added, if it is not of
        the agreed length or comes twice."""
        fits = len(masked) == self._total.nbytes
        if not fits or client in self._senders or client not in self._holders:
            return False
        np.add(self._total, np.frombuffer(masked, self._total.dtype), out=self._total)
        self._senders.add(client)
        return True

    def survivors(self) -> dict[int, bytes]:
        """No more vectors are added from here on: the list of those that were, for each of them to sign."""
        self._survivors = frozenset(self._senders)
        self._require_enough(self._survivors, "sent their vectors")
        self.agreement.check_survivors(self._graph, self._survivors)
        # From here on every holder counts as arrived, so a vector that comes late is never added: its owner
        # is not among those who sign, and its key may be opened.
        self._senders.update(self._holders)
        return dict.fromkeys(sorted(self._survivors), write_clients(self._survivors))

    def confirm(self, signatures: Mapping[int, bytes]) -> dict[int, bytes]:
        """The survivors' signatures on that list, for each of those who signed."""
        statement = signing.survivors_statement(self._transcript, self._holders, sorted(self._survivors))
        roster = self.agreement.roster
        valid = {
            client: signature
            for client, signature in signatures.items()
            if client in self._survivors
            and len(signature) == SIGNATURE_BYTES
            and signing.is_signed(roster[client], signature, statement)
        }
        self._require_enough(valid, "signed the list of survivors")
        content = write_by_client(valid)
        return dict.fromkeys(valid, content)

    def finish(self, opened: Mapping[int, bytes]) -> masks.Vector:
        """The sum of the survivors' vectors modulo 2**bits, once enough shares of every secret have come."""
        shares = {
            client: self._shares(client, content)
            for client, content in opened.items()
            if client in self._survivors
        }
        for client in sorted(self._survivors):
            seed = self._secret(client, shares)
            if signing.commitment(seed, client) != self._keys[client].commitment:
                raise _wrong_shares(client)
            masks.subtract(self._total, masks.derive_key(seed, b"own", self._transcript, client))
        for client in set(self._holders) - self._survivors:
            self._unpair(client, self._secret(client, shares))
        return self._total

    def _shares(self, client: int, content: bytes) -> dict[int, int]:
        """Shares of others' secrets that `client` held; none of them if its message is not well-formed."""
        try:
            parts = read_by_client(content, shamir.SHARE_BYTES)
        except ProtocolError:
            return {}
        return {owner: int.from_bytes(part, "big") for owner, part in parts.items()}

    def _secret(self, owner: int, shares: Mapping[int, Mapping[int, int]]) -> bytes:
        pieces = {
            v: shares[v][owner] for v in self._graph.neighbours(owner) if v in shares and owner in shares[v]
        }
        threshold = self.agreement.threshold
        if len(pieces) < threshold:
            raise ProtocolError(
                f"{len(pieces)} shares of a secret of client {owner} came, fewer than threshold={threshold}: "
                "the sum cannot be opened. This round is over; begin another."
            )
        # Any `threshold` shares give the secret: with more of them the formula is only slower.
        secret = shamir.join(dict(list(pieces.items())[:threshold]))
        # The field has 297 elements beyond 32 bytes, which no honest secret is.
        if secret >> (8 * shamir.SECRET_BYTES):
            raise _wrong_shares(owner)
        return secret.to_bytes(shamir.SECRET_BYTES, "big")

    def _unpair(self, absentee: int, secret: bytes) -> None:
        """Take off the masks that survivors share with a client whose vector never came."""
        own = X25519PrivateKey.from_private_bytes(secret)
        # A wrong share gives another key, and its masks would garble the sum unseen.
        if own.public_key().public_bytes_raw() != self._keys[absentee].mask:
            raise _wrong_shares(absentee)
        for other in self._graph.neighbours(absentee):
            if other not in self._survivors:
                continue
            low, high = sorted((absentee, other))
            pair = own.exchange(X25519PublicKey.from_public_bytes(self._keys[other].mask))
            key = masks.derive_key(pair, b"pair", self._transcript, low, high)
            # What the survivor did, taken back.
            change = masks.subtract if other == low else masks.add
            change(self._total, key)

    def _require_enough(self, clients: Iterable[int], act: str) -> None:
        count = len(tuple(clients))
        if count < self.agreement.least:
            raise ProtocolError(
                f"{count} clients {act}, fewer than least={self.agreement.least}. This round is over; begin "
                "another."
            )


def _wrong_shares(client: int) -> ProtocolError:
    return ProtocolError(
        f"The shares of a secret of client {client} do not fit its keys: a client sent a wrong one. "
        "The sum is not opened. This round is over; begin another."
    )


def read_signed(total: masks.Vector) -> np.ndarray[tuple[int], np.dtype[np.signedinteger]]:
    """Residues read as signed numbers, the nearest to zero."""
    if total.dtype.kind != "u":
        raise InvalidParameter(f"Expected unsigned residues, got {total.dtype}.")
    return total.view(total.dtype.str.replace("u", "i"))
