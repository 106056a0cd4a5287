"""Inversion of a discrete law by table: 16 bits decide most draws, 64 nearly all, and
the rest get as many as they need."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from deniable.randomness.certified import CELL, WORD, BitSource, exp_bounds, invert, normalized

GUIDED_FROM = 2048
"""Draws of at least this many use the guide of 2^16 cells; fewer search the thresholds with 64 bits each."""


@dataclass(frozen=True)
class Law:
    """Weights on 0, 1, 2, … that fall as exp(−(first·k + second·k(k − 1)/2)), each but
    0's taken twice if `folded`.

    With second = 0 this is geometric; with first = h²/2σ² and second = h²/σ² it is exp(−(kh)²/2σ²). Folded,
    the order is 0, −1, 1, −2, 2, …: `unfold` gives the sign back.
    """

    first: Fraction
    second: Fraction
    folded: bool

    def cumulative(self, bits: int) -> tuple[list[int], int]:
        """2^bits·P(index < k) for k = 1, 2, … until what is left is about 2^−bits: lower
        bounds and their common slack.

        Proof, in units of 2^−width, true less computed: the ratio r(k) = r(k−1)·exp(−second) is off by a(k) ≤
        3k + 2, since a(0) ≤ 2, and a product of numbers ≤ 1 adds its factors' errors (exp(−second): 2) and 1
        for rounding down. So w(k+1) = w(k)·r(k) is off by e(k+1) ≤ e(k) + a(k) + 1, which gives e(k) ≤ 3k²,
        and a sum of n weights, each at most twice, by at most 2n³. As ratios never grow, all that follows
        w(n) is at most 2·w(n)/(1 − r(0)).
        """
        width, copies = bits + 48, 2 if self.folded else 1
        weights, ratio = self._weights(width)
        n = len(weights)
        rest = 2 * ((weights[-1] + 3 * n * n) << width) // ((1 << width) - ratio) + 1
        sums = list(accumulate(weights[:1] + [weight for weight in weights[1:] for _ in range(copies)]))
        return normalized(sums, sums[-1], 2 * n**3, rest, bits)

    def _weights(self, width: int) -> tuple[list[int], int]:
        """The weights, rounded down, until what follows is below 2^48 units; and the
        first ratio, rounded up."""
        ratio, most = exp_bounds(self.first, width)
        factor, _ = exp_bounds(self.second, width)
        end = (1 << 46) * ((1 << width) - most) >> width
        weights = [weight := 1 << width]
        while weight > end:
            weights.append(weight := weight * ratio >> width)
            if self.second:
                ratio = ratio * factor >> width
        return weights, most


def unfold(index: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, 2, 3, 4 … to 0, −1, 1, −2, 2 …"""
    return (index >> 1) ^ -(index & 1)


class Table:
    """⌊2^word·c⌋ for each cumulative probability c of a law, certified, up to the first that is 2^word − 1.

    A uniform whose first `word` bits differ from all of them is settled. One that equals
    some of them is not, which covers both ties and the tail, and `invert` goes on with
    the same uniform. `word` and `cell` are small only in tests.
    """

    def __init__(self, law: Law, word: int = WORD, cell: int = CELL) -> None:
        self.law, self.word, self.cell = law, word, cell
        self.thresholds = np.array(_floors(law, word), np.uint64)

    @cached_property
    def guide(self) -> NDArray[np.int64]:
        """The index for each value of the first `cell` bits; −1 where a threshold lies in that cell."""
        cells = (self.thresholds >> np.uint64(self.word - self.cell)).astype(np.int64)
        inside = np.bincount(cells, minlength=1 << self.cell)
        # No threshold inside a cell: all uniforms that begin with it have one index.
        return np.where(inside == 0, np.cumsum(inside), -1)

    def draw(self, source: BitSource, n: int) -> NDArray[np.int64]:
        """`n` independent indices."""
        if n < GUIDED_FROM:
            return self.search(source, source.bits(n) >> np.uint64(WORD - self.word))
        return self.look_up(source, source.cells(n) >> np.uint16(CELL - self.cell))

    def look_up(self, source: BitSource, cells: NDArray[np.uint16]) -> NDArray[np.int64]:
        """Indices of the uniforms that begin with `cells`."""
        index = self.guide.take(cells)
        open_ = np.flatnonzero(index < 0)
        # The same uniforms go on: the bits that did not decide are kept, and more follow them.
        later = source.bits(len(open_)) >> np.uint64(WORD - self.word + self.cell)
        index[open_] = self.search(
            source, cells[open_].astype(np.uint64) << np.uint64(self.word - self.cell) | later
        )
        return index

    def search(self, source: BitSource, u: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Indices of the uniforms whose first `word` bits are `u`."""
        index = np.searchsorted(self.thresholds, u, side="right").astype(np.int64)
        # Equal first bits settle nothing, so these uniforms get more.
        for i in np.flatnonzero(self.thresholds[np.maximum(index - 1, 0)] == u):
            index[i] = invert(source, int(u[i]), self.word, self.law.cumulative)
        return index


def _floors(law: Law, word: int) -> list[int]:
    """⌊2^word·c(k)⌋ for k = 1, 2, … to the first 2^word − 1. All c(k) < 1, since the support is infinite."""
    guard, top = 32, (1 << word) - 1
    while True:
        low, slack = law.cumulative(word + guard)
        floors = [x >> guard for x in low]
        if top in floors:
            end = floors.index(top)
            # A floor is certain where both ends of its bracket have it; else more guard bits.
            if all(x + slack >> guard == floor for x, floor in zip(low[:end], floors[:end], strict=True)):
                return floors[: end + 1]
        guard += WORD


@lru_cache(maxsize=64)
def table(law: Law) -> Table:
    """The table of a law, kept for the next draws; at most 64 of half a megabyte."""
    return Table(law)
