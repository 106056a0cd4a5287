"""One client in one round: five messages out, four in, each once and in order."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from deniable.errors import InvalidParameter, ProtocolError
from deniable.federated.secure_sum import masks, shamir, signing
from deniable.federated.secure_sum.agreement import Agreement
from deniable.federated.secure_sum.messages import (
    BOX_BYTES,
    KEYS_BYTES,
    SIGNATURE_BYTES,
    BoxReader,
    Keys,
    read_by_client,
    read_keys,
    share_bytes,
    write_by_client,
)

NONCE = bytes(12)
"""Every box has a key of its own, used once, so its nonce may be the same."""


class SumClient:
    """Adds a vector to a secure sum and helps to open the sum, never a single vector.

    `advertise`, `share`, `mask`, `sign`, `unmask`, in this order. An unexpected message
    ends the round for this client: it then says nothing more. Its keys live for one
    round. Whoever holds a client refuses a number of a round that came before: a vector
    that is summed twice with other companions can be told from the difference.
    """

    def __init__(self, agreement: Agreement, client: int, signer: Ed25519PrivateKey, turn: int) -> None:
        if agreement.roster.get(client) != signer.public_key().public_bytes_raw():
            raise InvalidParameter(
                f"Expected the key of client {client} in the roster to be its signer's. Nothing was sent."
            )
        if not 0 <= turn < 2**64:
            raise InvalidParameter(f"Expected the number of a round from 0 to 2**64 - 1, got {turn}.")
        self.agreement = agreement
        self.client = client
        self.turn = turn
        self._signer = signer
        # Two key pairs: the one for masks is given away in shares if this client drops out, and with it the
        # boxes would open.
        self._box_key = X25519PrivateKey.generate()
        self._mask_key = X25519PrivateKey.generate()
        # A mask of its own beside those of pairs: a vector that comes late, after its pairs were opened,
        # would else be bare (Bonawitz et al. 2017, Section 4.0.3).
        self._seed = secrets.token_bytes(shamir.SECRET_BYTES)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._next = "advertise"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ProtocolError(
            "The secrets of a client are not copied or pickled: two clients could be asked for one share "
            "each."
        )

    @contextmanager
    def _step(self, name: str, following: str) -> Iterator[None]:
        """Each step once, in order, in the process that began, by one thread at a time. Whatever goes wrong,
        nothing more is said."""
        # A lock that was held while the process forked is never free again: the child does not wait for it.
        if os.getpid() != self._process:
            raise self._out_of_turn(name)
        with self._lock:
            # Set before the work, not after it: a step that fails half-way has been taken and cannot be tried
            # again.
            is_next, self._next = self._next == name, "nothing"
            if not is_next:
                raise self._out_of_turn(name)
            yield
            self._next = following

    def _out_of_turn(self, name: str) -> ProtocolError:
        return ProtocolError(
            f"A client was asked to {name} out of turn. This round is over for client {self.client}."
        )

    def advertise(self) -> bytes:
        """Offer keys for this round, signed."""
        with self._step("advertise", "share"):
            box = self._box_key.public_key().public_bytes_raw()
            mask = self._mask_key.public_key().public_bytes_raw()
            content = box + mask + signing.commitment(self._seed, self.client)
            self._own_keys = content
            return content + self._signer.sign(
                signing.keys_statement(self.agreement, self.turn, self.client, content)
            )

    def share(self, opening: bytes) -> bytes:
        """Given the cohort and the neighbours' keys: shares of both secrets in a box for each neighbour."""
        with self._step("share", "mask"):
            reader = BoxReader(opening)
            cohort = reader.clients()
            self._join(cohort)
            self._keys = self._neighbour_keys(
                {v: read_keys(part) for v, part in reader.by_client(KEYS_BYTES).items()}
            )
            reader.end()
            return write_by_client(self._boxes())

    def _join(self, cohort: Sequence[int]) -> None:
        self.agreement.check_cohort(cohort)
        if self.client not in cohort:
            raise ProtocolError(
                f"The cohort leaves out client {self.client}, which was asked to share. This round is over."
            )
        self._transcript = self.agreement.transcript(self.turn, cohort)
        self._graph = self.agreement.graph(self.turn, cohort)
        self._neighbours = frozenset(self._graph.neighbours(self.client))
        self._cohort = frozenset(cohort)
        if len(self._neighbours) < self.agreement.threshold:
            raise ProtocolError(
                f"A client with {len(self._neighbours)} neighbours cannot share a secret at threshold "
                f"{self.agreement.threshold}. This round is over."
            )

    def _neighbour_keys(self, offers: dict[int, Keys]) -> dict[int, Keys]:
        if offers.keys() != self._neighbours:
            raise ProtocolError(
                "Expected the keys of exactly the neighbours of this client. This round is over."
            )
        for client, keys in offers.items():
            if not signing.are_keys_signed(self.agreement, self.turn, client, keys):
                raise ProtocolError(f"The keys of client {client} are not signed by it. This round is over.")
        # A key that stands for two clients would make one mask of two, which cancel or add up out of turn.
        publics = [part for keys in offers.values() for part in (keys.box, keys.mask)]
        if len({*publics, self._own_keys[:32], self._own_keys[32:64]}) != len(publics) + 2:
            raise ProtocolError(
                "Expected different keys of different clients, got one twice. This round is over."
            )
        return offers

    def _boxes(self) -> dict[int, bytes]:
        threshold = self.agreement.threshold
        of_seed = shamir.split(int.from_bytes(self._seed, "big"), self._neighbours, threshold)
        mask_secret = int.from_bytes(self._mask_key.private_bytes_raw(), "big")
        of_mask_key = shamir.split(mask_secret, self._neighbours, threshold)
        self._box_secrets = {v: _exchange(self._box_key, keys.box, v) for v, keys in self._keys.items()}
        return {
            v: self._cipher(self.client, v, v).encrypt(NONCE, share_bytes([of_seed[v], of_mask_key[v]]), None)
            for v in self._keys
        }

    def _cipher(self, source: int, target: int, peer: int) -> AESGCM:
        """The key for the one box from `source` to `target`: re-addressed or from
        another round, a box does not open."""
        return AESGCM(masks.derive_key(self._box_secrets[peer], b"box", self._transcript, source, target))

    def mask(self, forwarded: bytes, vector: Any) -> bytes:
        """Given the boxes for this client: its vector, masked with every neighbour that
        shared and with its own seed."""
        # Before the step begins: a wrong vector is the holder's mistake, and does not cost the round.
        total = self._check_vector(vector)
        with self._step("mask", "sign"):
            reader = BoxReader(forwarded)
            self._holders = frozenset(reader.clients())
            boxes = reader.by_client(BOX_BYTES)
            reader.end()
            self._check_holders(boxes)
            self._shares = {v: self._open_box(v, box) for v, box in boxes.items()}
            masks.add(total, masks.derive_key(self._seed, b"own", self._transcript, self.client))
            for v in self._shares:
                self._mask_with(v, total)
            return total.tobytes()

    def _check_vector(self, vector: Any) -> masks.Vector:
        values = np.asarray(vector)
        if values.shape != (self.agreement.length,) or values.dtype.kind not in "iu":
            raise InvalidParameter(
                f"Expected a vector of {self.agreement.length:,} integers, got {values.dtype} of shape "
                f"{values.shape}. Nothing was sent."
            )
        return values.astype(self.agreement.dtype)  # wraps around: the sum is modulo 2**bits

    def _check_holders(self, boxes: dict[int, bytes]) -> None:
        if (
            not self._holders <= self._cohort
            or len(self._holders) < self.agreement.least
            or self.client not in self._holders
        ):
            raise ProtocolError(
                "The list of those who shared is too short, or names others. This round is over."
            )
        if boxes.keys() != self._neighbours & self._holders or len(boxes) < self.agreement.threshold:
            raise ProtocolError(
                "Expected a box from each neighbour that shared, and enough of them. This round is over."
            )

    def _open_box(self, sender: int, box: bytes) -> tuple[bytes, bytes]:
        try:
            content = self._cipher(sender, self.client, sender).decrypt(NONCE, box, None)
        except InvalidTag:
            raise ProtocolError(f"The box from client {sender} does not open. This round is over.") from None
        return content[: shamir.SHARE_BYTES], content[shamir.SHARE_BYTES :]

    def _mask_with(self, peer: int, total: masks.Vector) -> None:
        """Of a pair the one with the smaller number adds, the other subtracts."""
        low, high = sorted((self.client, peer))
        # Opposite signs cancel in the sum of both modulo 2**bits, and only there.
        secret = _exchange(self._mask_key, self._keys[peer].mask, peer)
        key = masks.derive_key(secret, b"pair", self._transcript, low, high)
        change = masks.add if self.client == low else masks.subtract
        change(total, key)

    def sign(self, survivors: bytes) -> bytes:
        """Given whose vectors arrived: a signature on that list. A client signs one list."""
        with self._step("sign", "unmask"):
            reader = BoxReader(survivors)
            clients = reader.clients()
            reader.end()
            self._check_survivors(frozenset(clients))
            self._survivors = frozenset(clients)
            # Who shared is signed too: else a server could show other holders to some, and open by another
            # list.
            self._statement = signing.survivors_statement(self._transcript, sorted(self._holders), clients)
            return self._signer.sign(self._statement)

    def _check_survivors(self, survivors: frozenset[int]) -> None:
        if self.client not in survivors or not survivors <= self._holders:
            raise ProtocolError(
                "The list of survivors leaves this client out, or names others. This round is over."
            )
        self.agreement.check_survivors(self._graph, survivors)

    def unmask(self, confirmations: bytes) -> bytes:
        """Given the survivors' signatures on one list: of each neighbour one share, of its seed if it
        survived, else of its key. Never both, since a client gets here once."""
        with self._step("unmask", "nothing"):
            self._check_confirmed(read_by_client(confirmations, SIGNATURE_BYTES))
            return write_by_client(
                {v: shares[v not in self._survivors] for v, shares in self._shares.items()}
            )

    def _check_confirmed(self, signatures: dict[int, bytes]) -> None:
        # `least` signatures on one list leave too few honest clients for a second one (`Quorum`).
        valid = 0
        for signer, signature in signatures.items():
            is_survivor = signer in self._survivors
            valid += is_survivor and signing.is_signed(
                self.agreement.roster[signer], signature, self._statement
            )
            if valid >= self.agreement.least:
                return
        raise ProtocolError(
            f"{valid} survivors signed the same list, fewer than least={self.agreement.least}: nothing is "
            "opened. This round is over."
        )


def _exchange(private: X25519PrivateKey, public: bytes, client: int) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise ProtocolError(f"The key of client {client} is none. This round is over.") from None
