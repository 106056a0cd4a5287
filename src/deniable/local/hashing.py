"""Public keyed hash functions: provably universal, the same on every platform, vectorised.

h_j(x) = (a_j·low(x) + b_j·high(x) + c_j mod 2^64) div 2^32 on the two 32-bit halves of x is strongly
universal (Dietzfelbinger 1996; Thorup 2015, §3.5): for x ≠ x' the two hashes are independent and uniform over
random (a, b, c). Its top bits are too. The coefficients come from SHAKE-256 of the key. The key is public: it
makes experiments repeatable and lets a deployment choose its own functions; privacy never rests on it.

>>> family(b"docs", functions=2, buckets=1024).hash_all(digests(["red", "green"], b"docs")).tolist()
[[..., ...], [..., ...]]
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.local.arrays import Integers, Words

LOW = np.uint64(0xFFFF_FFFF)
HALF = np.uint64(32)


def digests(items: Sequence[Any] | NDArray[Any], key: bytes) -> Words:
    """One 64-bit name for each item: whole numbers are their own, text and bytes are
    hashed by keyed BLAKE2b."""
    array = np.asarray(items) if not isinstance(items, np.ndarray) else items
    if array.ndim != 1:
        raise InvalidParameter(
            "Expected a sequence of items (text, bytes or whole numbers). Nothing was drawn."
        )
    if array.dtype.kind in "iu":
        return array.astype(np.uint64)
    return name_items(items, lambda item: _digest(item, key))


def name_items(items: Sequence[Any] | NDArray[Any], name: Callable[[Any], int]) -> Words:
    """The name of each item, computed once for each distinct one."""
    if isinstance(items, np.ndarray):
        distinct, place = np.unique(items, return_inverse=True)
        return np.array([name(item) for item in distinct.tolist()], np.uint64)[place]
    names = {item: name(item) for item in set(items)}
    return np.fromiter((names[item] for item in items), np.uint64, len(items))


def _digest(item: object, key: bytes) -> int:
    match item:
        case str():
            data = b"s" + item.encode("utf-8", "surrogatepass")  # an error would tell of the item
        case bytes():
            data = b"b" + item
        case _:
            raise InvalidParameter(
                f"Expected items of text, bytes or whole numbers, got {type(item).__name__}. Nothing was "
                "drawn."
            )
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=key[:64]).digest(), "little")


@dataclass(frozen=True, eq=False)
class HashFamily:
    """`functions` hash functions onto 0, …, buckets − 1 (a power of two up to 2^32)."""

    coefficients: Words
    buckets: int

    def hash_each(self, index: Integers, x: Words) -> Integers:
        """h_j(x) with a j of its own for each x."""
        a, b, c = self.coefficients.take(index, axis=1)
        return self._hash(a, b, c, x)

    def hash_all(self, x: Words) -> Integers:
        """h_j(x) for every j (rows) and every x (columns)."""
        a, b, c = self.coefficients[:, :, None]
        return self._hash(a, b, c, x)

    def _hash(self, a: Words, b: Words, c: Words, x: Words) -> Integers:
        word = a * (x & LOW) + b * (x >> HALF) + c
        return np.asarray(word >> np.uint64(65 - self.buckets.bit_length())).astype(np.int64)


@lru_cache(maxsize=32)
def family(key: bytes, functions: int, buckets: int) -> HashFamily:
    """The first `functions` functions of the key, kept for the next call."""
    if buckets < 2 or buckets & (buckets - 1) or buckets > 1 << 32:
        raise InvalidParameter(
            f"Expected buckets={buckets} to be a power of two in [2, 2^32]. Nothing was drawn."
        )
    stream = hashlib.shake_256(b"deniable.local.hashing:1:" + key).digest(24 * functions)
    return HashFamily(np.frombuffer(stream, "<u8").astype(np.uint64).reshape(functions, 3).T.copy(), buckets)
