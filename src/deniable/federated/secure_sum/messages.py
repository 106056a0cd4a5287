"""Messages as bytes: fixed widths, exact lengths, one form for one meaning. Nothing is
unpickled and nothing is guessed."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deniable.errors import ProtocolError
from deniable.federated.secure_sum.shamir import SHARE_BYTES

SIGNATURE_BYTES = 64
BOX_BYTES = 2 * SHARE_BYTES + 16
"""Two shares and the tag of AES-GCM."""


@dataclass(frozen=True)
class Keys:
    """A client's keys for one round: for boxes, for masks, and a hash of the seed of its own mask; signed."""

    box: bytes
    mask: bytes
    commitment: bytes
    signature: bytes

    @property
    def signed_bytes(self) -> bytes:
        return self.box + self.mask + self.commitment

    def to_bytes(self) -> bytes:
        return self.signed_bytes + self.signature


KEYS_BYTES = 3 * 32 + SIGNATURE_BYTES


def read_keys(content: bytes) -> Keys:
    if len(content) != KEYS_BYTES:
        raise ProtocolError(f"Expected keys of {KEYS_BYTES} bytes, got {len(content)}. This round is over.")
    return Keys(content[:32], content[32:64], content[64:96], content[96:])


class BoxReader:
    """Takes a message apart from the front. What is left over or missing is refused."""

    def __init__(self, content: bytes) -> None:
        if not isinstance(content, bytes | bytearray | memoryview):
            raise ProtocolError(f"Expected bytes, got {type(content).__name__}. This round is over.")
        self._content = bytes(content)
        self._place = 0

    def take(self, count: int) -> bytes:
        part = self._content[self._place : self._place + count]
        if len(part) != count:
            raise ProtocolError("Expected a longer message: this one was cut off. This round is over.")
        self._place += count
        return part

    def clients(self) -> tuple[int, ...]:
        (count,) = struct.unpack(">I", self.take(4))
        # Before anything of that size is made: the number is whatever the sender wrote.
        if 4 * count > len(self._content) - self._place:
            raise ProtocolError("Expected a longer message: this one was cut off. This round is over.")
        numbers = struct.unpack(f">{count}I", self.take(4 * count))
        # One meaning, one form: signatures and transcripts are over bytes, and two orders of a list would be
        # two.
        if any(late <= early for early, late in itertools.pairwise(numbers)):
            raise ProtocolError("Expected clients in rising order, each named once. This round is over.")
        return numbers

    def by_client(self, width: int) -> dict[int, bytes]:
        return {client: self.take(width) for client in self.clients()}

    def end(self) -> None:
        if self._place != len(self._content):
            raise ProtocolError("Expected a shorter message: something follows its end. This round is over.")


def write_by_client(parts: Mapping[int, bytes]) -> bytes:
    """A list of clients, then the part of each, in the same order."""
    clients = sorted(parts)
    return write_clients(clients) + b"".join(parts[client] for client in clients)


def write_clients(clients: Iterable[int]) -> bytes:
    numbers = sorted(clients)
    return struct.pack(f">I{len(numbers)}I", len(numbers), *numbers)


def read_by_client(content: bytes, width: int) -> dict[int, bytes]:
    reader = BoxReader(content)
    parts = reader.by_client(width)
    reader.end()
    return parts


def share_bytes(shares: Sequence[int]) -> bytes:
    return b"".join(share.to_bytes(SHARE_BYTES, "big") for share in shares)
