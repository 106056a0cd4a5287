"""A finite law with rational weights, drawn exactly and fast: two random bytes and one
look-up for most draws.

A uniform U is read 16 bits at a time. If no cumulative probability lies in the cell of its first 16 bits, the
cell's outcome is the answer; else U gets 48 more bits, and in the rare tie with a threshold as many as it
takes. So P(i) is weights[i] exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from math import lcm

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.local.arrays import Bytes
from deniable.mechanism import Random
from deniable.randomness import Generator

CELL, WORD = 16, 64
OPEN = 1 << 15
CHUNK = 1 << 16


def source(rng: Random) -> Generator:
    """The stream of bits behind `rng`."""
    if not isinstance(rng, Generator):
        raise InvalidParameter(
            f"Expected rng={rng!r} to be a generator of deniable.randomness. Nothing was drawn."
        )
    return rng


@dataclass(frozen=True)
class FiniteLaw:
    """P(i) = weights[i], i below 256; the weights are rational and add up to 1."""

    weights: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.weights) <= 256 or sum(self.weights) != 1 or min(self.weights) < 0:
            raise InvalidParameter(
                "Expected at most 256 weights of at least 0 that add up to 1. Nothing was drawn."
            )

    @cached_property
    def _sums(self) -> tuple[list[int], int]:
        """Numerators of the cumulative probabilities c(1), …, c(m) = 1, and their denominator."""
        bottom = lcm(*(w.denominator for w in self.weights))
        return list(accumulate(w.numerator * (bottom // w.denominator) for w in self.weights)), bottom

    def _cumulative(self, bits: int) -> tuple[list[int], list[int]]:
        sums, bottom = self._sums
        return [(s << bits) // bottom for s in sums], [-((-s << bits) // bottom) for s in sums]

    @cached_property
    def _thresholds(self) -> NDArray[np.uint64]:
        """⌊2^64·c⌋ for each c below 1. A trailing outcome of weight 0 has none and is never drawn."""
        return np.array([t for t in self._cumulative(WORD)[0] if t < 1 << WORD], np.uint64)

    @cached_property
    def _guide(self) -> NDArray[np.uint16]:
        """The outcome for each value of the first 16 bits; OPEN where a threshold lies in that cell."""
        low, high = self._cumulative(CELL)
        edges = np.arange(1 << CELL)
        index = np.searchsorted(np.array(high), edges, side="right")
        is_certain = edges < np.append(np.array(low), 1 << CELL)[index]
        return np.where(is_certain, index, OPEN).astype(np.uint16)

    def draw(self, rng: Random, n: int) -> Bytes:
        """`n` independent outcomes."""
        bits, out = source(rng), np.empty(n, np.uint8)
        for start in range(0, n, CHUNK):
            out[start : start + CHUNK] = self._chunk(bits, min(CHUNK, n - start))
        return out

    def _chunk(self, bits: Generator, n: int) -> NDArray[np.uint16]:
        cells = bits.cells(n)
        index = self._guide.take(cells)
        late = np.flatnonzero(index == OPEN)
        if len(late):
            index[late] = self._search(bits, cells[late])
        return index

    def _search(self, bits: Generator, cells: NDArray[np.uint16]) -> NDArray[np.int64]:
        """Outcomes of the uniforms that begin with `cells`."""
        later = bits.bits(len(cells)) >> np.uint64(CELL)
        u = cells.astype(np.uint64) << np.uint64(WORD - CELL) | later
        index = np.searchsorted(self._thresholds, u, side="right").astype(np.int64)
        for i in np.flatnonzero(self._thresholds[np.maximum(index - 1, 0)] == u):
            index[i] = self._settle(bits, int(u[i]))
        return index

    def _settle(self, bits: Generator, u: int, length: int = WORD) -> int:
        """The i with c(i) ≤ U < c(i + 1), where U is the uniform that begins with `u`:
        it gets bits until that is sure."""
        while True:
            low, high = self._cumulative(length)
            i = bisect_right(high, u)
            if u < low[i]:
                return i
            u, length = u << WORD | int(bits.bits(1)[0]), length + WORD


@lru_cache(maxsize=128)
def byte_of_coins(p: Fraction) -> FiniteLaw:
    """Eight independent coins of probability p as the bits of one byte."""
    return FiniteLaw(tuple(p ** i.bit_count() * (1 - p) ** (8 - i.bit_count()) for i in range(256)))


@lru_cache(maxsize=128)
def shift(truth: Fraction, options: int) -> FiniteLaw:
    """0 with probability `truth`, else uniform on 1, …, options − 1: what randomized
    response adds or xors to the truth."""
    return FiniteLaw((truth, *[(1 - truth) / (options - 1)] * (options - 1)))
