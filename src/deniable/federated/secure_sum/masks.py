"""Masks: the keystream of AES-256 in counter mode, read as integers modulo 2ᵇ, one key for one use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

Vector = NDArray[np.unsignedinteger]

BLOCK = 1 << 18
"""Bytes of keystream made at a time: they stay in the processor's cache until they are added."""
ZEROS = memoryview(bytes(BLOCK))
SPARE = 15
"""Bytes beyond what it writes that the cipher asks for."""
WIDTHS: dict[int, np.dtype[np.unsignedinteger]] = {
    16: np.dtype("<u2"),
    32: np.dtype("<u4"),
    64: np.dtype("<u8"),
}
"""The modulus is 2 to one of these: a sum wraps around by itself."""


def derive_key(secret: bytes, label: bytes, transcript: bytes, *clients: int) -> bytes:
    """A key for one purpose in one round between the named clients, in this order."""
    names = b"".join(client.to_bytes(4, "big") for client in clients)
    return HKDF(
        hashes.SHA256(), 32, None, b"deniable secure sum 1 " + label + b"\0" + transcript + names
    ).derive(secret)


def add(total: Vector, key: bytes) -> None:
    """total ← total + mask, in place."""
    for part, stream in _blocks(total, key):
        np.add(part, stream, out=part)


def subtract(total: Vector, key: bytes) -> None:
    """total ← total − mask, in place."""
    for part, stream in _blocks(total, key):
        np.subtract(part, stream, out=part)


def _blocks(total: Vector, key: bytes) -> Iterator[tuple[Vector, Vector]]:
    # The counter starts at 0 for every key: a key is derived anew for each round, pair and direction, so none
    # is used twice.
    cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    room = bytearray(BLOCK + SPARE)
    width = total.dtype.itemsize
    for start in range(0, len(total), BLOCK // width):
        part = total[start : start + BLOCK // width]
        cipher.update_into(ZEROS[: part.nbytes], room)
        yield part, np.frombuffer(room, total.dtype, len(part))
