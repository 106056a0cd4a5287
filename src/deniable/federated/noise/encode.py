"""Updates as integers: rotated, scaled to a grid, rounded by coin, their norm checked
where it counts, in integers.

A rotation by random signs and a Hadamard matrix spreads an update evenly over its coordinates, so that few
bits hold the sum (Suresh et al. 2017). It is public and keeps norms. Rounding each coordinate up or down by a
coin of its fraction keeps the mean; it is drawn again until the integer norm is within `sensitivity` (mostly
at once: Kairouz, Liu, Steinke 2021, Proposition 26). Nothing of floating point bears on the guarantee: what
is sent is an integer vector whose norm was checked in integers.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.errors import InvalidParameter

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]

DRAWS = 20
"""Roundings tried before an update is sent as zeros. Each stays within the bound with
probability 1 − e^-½ at the least."""
BLOCK = 1 << 16
"""The largest block of a rotation: longer vectors are rotated block by block, so padding stays small."""

FINEST = 1 << 30
"""Grid units in a clip, at the most: the square of a norm, checked in integers, then stays below 2⁶³."""

MATRIX = functools.reduce(np.kron, [np.array([[1.0, 1.0], [1.0, -1.0]])] * 4)
"""Hadamard's matrix of sixteen rows. Its upper left corners are those of 2, 4 and 8."""


@dataclass(frozen=True)
class Encoding:
    """Vectors of `dimension` numbers and norm at most `clip` as integers on a grid of `step`.

    `seed` is public: all clients and the server rotate alike.
    """

    dimension: int
    clip: float
    step: float
    seed: bytes = b""

    def __post_init__(self) -> None:
        checks.whole("dimension", self.dimension, at_least=1)
        checks.number("clip", self.clip, above=0)
        checks.number("step", self.step, above=0)
        if self.clip / self.step > FINEST:
            raise InvalidParameter(
                f"Expected a step of at least {self.clip / FINEST:.3g}, a clip over 2**30, got "
                f"{self.step:.3g}: norms on a finer grid are too large to be checked in integers of 64 bits."
            )

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """Lengths of the rotated blocks, powers of two: whole blocks, then what is left,
        padded to the next power of two."""
        count, rest = divmod(self.dimension, BLOCK)
        full = (BLOCK,) * count
        if not rest:
            return full
        return (*full, 1 << (rest - 1).bit_length())

    @property
    def length(self) -> int:
        """Integers in an encoded vector."""
        return sum(self.blocks)

    @cached_property
    def sensitivity(self) -> int:
        """The largest norm of what is sent, in grid units (Kairouz, Liu, Steinke 2021,
        Proposition 26, β = e^-½)."""
        units, root = self.clip / self.step, math.sqrt(self.length)
        likely = math.sqrt(units**2 + self.length / 4 + (units + root / 2))
        return math.ceil(min(units + root, likely))

    def encode(self, update: Floats, coins: np.random.Generator) -> Integers:
        """Integers of norm at most `sensitivity`; zeros for an update that is no number,
        or that no rounding fits."""
        norm = norm_of(update)
        if update.shape != (self.dimension,):
            raise InvalidParameter(
                f"Expected an update of {self.dimension:,} numbers, got shape {update.shape}."
            )
        if not math.isfinite(norm):
            return np.zeros(self.length, np.int64)
        factor = 1.0
        if norm > self.clip:
            factor = self.clip / norm
        vector = self._rotate(update * factor) / self.step
        low = np.floor(vector)
        fraction = vector - low
        for _ in range(DRAWS):
            integers: Integers = (low + (coins.random(self.length) < fraction)).astype(np.int64)
            if int(integers @ integers) <= self.sensitivity**2:
                return integers
        return np.zeros(self.length, np.int64)

    def decode(self, total: Integers) -> Floats:
        """The sum of updates that a sum of encoded ones stands for."""
        parts = [hadamard(part) for part in self._split(total.astype(np.float64) * self.step)]
        return (np.concatenate(parts) * self._signs)[: self.dimension]

    def _rotate(self, update: Floats) -> Floats:
        vector = np.zeros(self.length)
        vector[: self.dimension] = update
        return np.concatenate([hadamard(part) for part in self._split(vector * self._signs)])

    def _split(self, vector: Floats) -> Iterator[Floats]:
        place = 0
        for length in self.blocks:
            yield vector[place : place + length]
            place += length

    @cached_property
    def _signs(self) -> Floats:
        stream = hashlib.shake_256(b"deniable federated rotation 1\0" + self.seed).digest(
            -(-self.length // 8)
        )
        bits = np.unpackbits(np.frombuffer(stream, np.uint8), count=self.length)
        return 2.0 * bits - 1.0


def norm_of(update: Floats) -> float:
    """The norm of what a client computed, in silence: a warning about numbers that overflow would tell of its
    rows, and where warnings are errors it would end the round."""
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(update))


def hadamard(vector: Floats) -> Floats:
    """The orthonormal Walsh–Hadamard transform of a vector whose length is a power of
    two. It is its own inverse.

    >>> hadamard(np.array([1.0, 0.0, 0.0, 0.0])).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    out, left = vector.astype(np.float64), len(vector)
    while left > 1:  # sixteen at a time: the first factor of the index becomes the last
        base = min(left, len(MATRIX))
        out = (out.reshape(base, -1).T @ MATRIX[:base, :base]).reshape(-1)
        left //= base
    return out / math.sqrt(len(out))


def centre(total: Integers, bits: int) -> Integers:
    """Residues modulo 2**bits as the numbers nearest to zero. A sum that wrapped around
    is wrong, never less private."""
    half = 1 << (bits - 1)
    return (total + half) % (1 << bits) - half
