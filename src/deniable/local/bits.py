"""Rows of packed bits (bit 0 is the highest of byte 0, as in `numpy.packbits`), and the
Walsh–Hadamard transform."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable.local.arrays import Booleans, Bytes, Integers
from deniable.local.law import byte_of_coins
from deniable.mechanism import Random

ROWS = 4096
"""Rows counted at a time: they stay in the processor's cache."""


def byte_width(width: int) -> int:
    """Bytes that hold `width` bits."""
    return -(-width // 8)


def coins(rng: Random, p: Fraction, n: int, width: int) -> Bytes:
    """`n` rows of `width` independent bits, each 1 with probability exactly p; the bits
    that fill up the last byte are 0."""
    rows = byte_of_coins(p).draw(rng, n * byte_width(width)).reshape(n, byte_width(width))
    if width % 8:
        rows[:, -1] &= np.uint8(0xFF << (8 - width % 8) & 0xFF)
    return rows


def spare_bits_are_zero(rows: Bytes, width: int) -> Booleans:
    """Whether the bits that fill up the last byte of each row are 0."""
    return np.asarray((rows[:, -1] & (0xFF >> ((width - 1) % 8 + 1))) == 0)


def read(rows: Bytes, columns: Integers) -> Booleans:
    """The bit of each row at its own column."""
    byte = rows[np.arange(len(rows)), columns >> 3]
    return np.asarray((byte & _mask(columns)) != 0)


def write(rows: Bytes, columns: Integers, values: Booleans) -> None:
    """Set the bit of each row at its own column."""
    place, mask = (np.arange(len(rows)), columns >> 3), _mask(columns)
    rows[place] = np.where(values, rows[place] | mask, rows[place] & ~mask)


def flip(rows: Bytes, columns: Integers) -> None:
    """Turn over the bit of each row at its own column."""
    rows[np.arange(len(rows)), columns >> 3] ^= _mask(columns)


def _mask(columns: Integers) -> Bytes:
    return np.uint8(0x80) >> (columns & 7).astype(np.uint8)


def column_sums(rows: Bytes, width: int) -> Integers:
    """How many rows have a 1 in each of `width` columns.

    Eight rows become four bit planes by carry-save adders (ones, twos, fours, eights),
    so half as many bits are unpacked.
    """
    total = np.zeros(8 * rows.shape[1], np.int64)
    for start in range(0, len(rows), ROWS):
        block = rows[start : start + ROWS]
        end = len(block) // 8 * 8
        total += _sum_of_eights(block[:end]) + _plain_sum(block[end:])
    return total[:width]


def grouped_sums(group: Integers, groups: int, rows: Bytes, width: int) -> Integers:
    """`column_sums` of the rows of each group, one after the other, followed by the number of rows of
    each."""
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group, minlength=groups)
    ends = np.cumsum(sizes)
    sums = [column_sums(rows[order[end - size : end]], width) for end, size in zip(ends, sizes, strict=True)]
    return np.concatenate([*sums, sizes])


def _sum_of_eights(rows: Bytes) -> Integers:
    a, b, c, d, e, f, g, h = (rows[i::8] for i in range(8))
    (s0, c0), (s1, c1), (s2, c2) = _add(a, b, c), _add(d, e, f), (g ^ h, g & h)
    ones, c3 = _add(s0, s1, s2)
    carries, d0 = _add(c0, c1, c2)
    twos, d1 = carries ^ c3, carries & c3
    fours, eights = d0 ^ d1, d0 & d1
    return _plain_sum(ones) + 2 * _plain_sum(twos) + 4 * _plain_sum(fours) + 8 * _plain_sum(eights)


def _add(a: Bytes, b: Bytes, c: Bytes) -> tuple[Bytes, Bytes]:
    """Sum and carry of three bits."""
    half = a ^ b
    return half ^ c, (a & b) | (half & c)


def _plain_sum(rows: Bytes) -> Integers:
    total = np.zeros(8 * rows.shape[1], np.int64)
    for start in range(0, len(rows), 255):
        total += np.unpackbits(rows[start : start + 255], axis=1).sum(axis=0, dtype=np.uint8)
    return total


def count_ones(rows: Bytes) -> Integers:
    """How many bits of each row are 1."""
    return np.asarray(np.bitwise_count(rows).sum(axis=1, dtype=np.int64))


def parity(x: NDArray[np.int64]) -> NDArray[np.int64]:
    """The parity of the number of ones of each number of at most 63 bits."""
    return (np.bitwise_count(x) & 1).astype(np.int64)


def walsh_hadamard(a: Integers) -> Integers:
    """Σ_y (−1)^(x·y) a[…, y] for all x, x·y the parity of x & y; exact on integers. The
    last axis is a power of two long."""
    a = a.copy()
    size, half = a.shape[-1], 1
    while half < size:
        pair = a.reshape(*a.shape[:-1], -1, 2, half)
        pair[..., 0, :], pair[..., 1, :] = (
            pair[..., 0, :] + pair[..., 1, :],
            pair[..., 0, :] - pair[..., 1, :],
        )
        half *= 2
    return a
