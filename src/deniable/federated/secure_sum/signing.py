"""Signatures of clients on their keys and on the list of survivors."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from deniable.federated.secure_sum.agreement import Agreement
from deniable.federated.secure_sum.messages import Keys, write_clients


def keys_statement(agreement: Agreement, turn: int, client: int, keys: bytes) -> bytes:
    """What a client signs when it offers its keys: they are its own, for this session and this round."""
    return b"deniable secure sum 1 keys\0" + agreement.fingerprint + struct.pack(">QI", turn, client) + keys


def survivors_statement(transcript: bytes, holders: Sequence[int], survivors: Sequence[int]) -> bytes:
    """What a client signs before it opens anything: who shared secrets, and whose vectors are in the sum."""
    digest = hashlib.sha256(write_clients(holders) + write_clients(survivors)).digest()
    return b"deniable secure sum 1 survivors\0" + transcript + digest


def is_signed(public_key: bytes, signature: bytes, statement: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, statement)
    except (InvalidSignature, ValueError):
        return False
    return True


def are_keys_signed(agreement: Agreement, turn: int, client: int, keys: Keys) -> bool:
    """Whether the keys come from the client of that number in the roster."""
    public_key = agreement.roster.get(client)
    if public_key is None:
        return False
    return is_signed(public_key, keys.signature, keys_statement(agreement, turn, client, keys.signed_bytes))


def commitment(seed: bytes, client: int) -> bytes:
    """Binds a client to the seed of its own mask. The seed has 256 random bits, so its
    hash does not tell it."""
    return hashlib.sha256(b"deniable secure sum 1 seed\0" + struct.pack(">I", client) + seed).digest()
