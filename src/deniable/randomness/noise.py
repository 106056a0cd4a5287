"""Integer noise of any rational scale: a table of blocks, a uniform place in the block,
and an exact rejection.

A scale of at most 8 is one table. Above it let B = 2^m with 4 < scale/B ≤ 8 and propose

    a block k ≥ 0 with P(k) ∝ exp(−f(kB)),   a place R uniform in [0, B),   a fair sign S in {0, 1},

where f(y) = y/scale (Laplace) or y²/2σ² (Gaussian). The value is X = kB + R if S = 0 and
−1 − (kB + R) if S = 1, so that every integer comes from exactly one (k, R, S) and |X| =
kB + r with r = R + S. Accept with probability exp(−γ), where

    γ = f(kB + r) − f(kB) = r/scale   or   r(2kB + r)/2σ²   (≥ 0).

Then P(X) ∝ exp(−f(kB))·exp(−γ) = exp(−f(|X|)): exact for every rational scale. At most 1
in 8 is rejected. How often is independent of the value that comes out, as always in
rejection sampling, so run time says nothing about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from deniable.randomness.certified import BitSource, complement, is_below
from deniable.randomness.table import Law, Table, table, unfold

DIRECT_UP_TO = 8
CHUNK = 1 << 16
WIDE_FROM = 1 << 52
"""Above this scale a vector holds Python integers (dtype object). Up to it, too, if a value lies beyond
±2^62, which has probability < 2^−1400; nothing ever wraps around or is clipped."""

HALF = 2.0**-32
"""One unit of a 32-bit uniform, and the margin of `_settle`."""


@dataclass(frozen=True)
class NoiseSampler:
    """Integers with P(x) ∝ exp(−f(|x|)), f(y) = y/scale, or y²/(2·scale²) if
    `quadratic`; x ≥ 0 only unless `signed`."""

    scale: Fraction
    quadratic: bool = False
    signed: bool = True

    @cached_property
    def shift(self) -> int:
        """m of the block size B = 2^m."""
        blocks = -(-self.scale.numerator // (DIRECT_UP_TO * self.scale.denominator))
        return (blocks - 1).bit_length()

    @cached_property
    def law(self) -> Law:
        step = (1 << self.shift) / self.scale
        is_folded = self.signed and self.shift == 0
        return (
            Law(step * step / 2, step * step, is_folded)
            if self.quadratic
            else Law(step, Fraction(0), is_folded)
        )

    @property
    def table(self) -> Table:
        return table(self.law)

    def draw(self, source: BitSource, n: int) -> NDArray[np.int64]:
        """`n` independent values, in chunks that stay in the processor's cache."""
        if n <= CHUNK:
            return self._chunk(source, n)
        return np.concatenate([self._chunk(source, min(CHUNK, n - start)) for start in range(0, n, CHUNK)])

    def _chunk(self, source: BitSource, n: int) -> NDArray[np.int64]:
        if self.shift == 0:
            index = self.table.draw(source, n)
            return unfold(index) if self.signed else index
        values, hits = self._propose(source, n)
        places = np.flatnonzero(~hits)
        # What is refused is drawn anew as a whole: block, place and sign.
        while len(places):
            again, hits = self._propose(source, len(places))
            if again.dtype != values.dtype:
                values = values.astype(object)
            values[places] = again
            places = places[~hits]
        return values

    def _propose(self, source: BitSource, n: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        block = self.table.draw(source, n)
        place = (
            uniform_bits(source, self.shift + 1, n)
            if self.signed
            else uniform_bits(source, self.shift, n) << 1
        )
        # Different bits of one uniform word, so sign and place are independent.
        sign, place = place & 1, place >> 1
        inside = place + sign
        hits = self._accept(source, block, inside)
        if self.scale > WIDE_FROM or block.max(initial=0) >= 1 << (62 - self.shift):
            block, place = block.astype(object), place.astype(object)
        return ((block << self.shift) + place) ^ -sign, hits

    def _accept(
        self, source: BitSource, block: NDArray[np.int64], inside: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Events of probability exp(−γ), one for each proposal: V ≥ 1 − exp(−γ) for a
        uniform V of 32 bits and more.

        γ is computed to a relative error below 8·2^−53, and 1 − exp(−γ) ≤ γ: whoever has V ≥ γ·(1 + 2^−40) is
        in. For the others, about one in ten, `_settle` decides.
        """
        gamma = self._gamma(block, inside)
        v = source.halves(len(block))
        hits = v >= gamma * (2.0**32 * (1 + 2.0**-40))
        late = np.flatnonzero(~hits)
        if len(late):
            hits[late] = self._settle(source, v[late], gamma[late], block[late], inside[late])
        return hits

    def _settle(
        self,
        source: BitSource,
        v: NDArray[np.uint32],
        gamma: NDArray[np.float64],
        block: NDArray[np.int64],
        inside: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """V ≥ 1 − exp(−γ): by Taylor's polynomial outside its margin, by integer
        brackets of the same V inside it.

        For γ ≤ 1 the polynomial of degree 12 is off by at most 1/13! < 2^−32.5, its
        evaluation and γ by less than 2^−46: 2^−32 bounds the sum. Only +, − and × of
        IEEE doubles are used, so a seed takes the same way on every platform.
        """
        limit = one_minus_exp(gamma)
        below = v * HALF
        hits = below >= limit + HALF
        # Above 1 the polynomial is not proved.
        unsure = ~hits & (below + HALF > limit - HALF) | (gamma > 1)
        for i in np.flatnonzero(unsure):
            exponent = self._exponent(int(block[i]), int(inside[i]))
            hits[i] = not is_below(source, int(v[i]), 32, complement(exponent))
        return hits

    def _gamma(self, block: NDArray[np.int64], inside: NDArray[np.int64]) -> NDArray[np.float64]:
        """γ as a double. All operands are positive, so the roundings (at most 8) add up
        to less than 2^−50 of γ."""
        step = float(1 / self.scale)
        near = inside.astype(np.float64)
        near *= step
        if not self.quadratic:
            return near
        far = block.astype(np.float64)
        far *= step * 2.0**self.shift
        far += 0.5 * near
        far *= near
        return far

    def _exponent(self, block: int, inside: int) -> Fraction:
        """γ itself."""
        if self.quadratic:
            return inside * ((block << (self.shift + 1)) + inside) / (2 * self.scale * self.scale)
        return inside / self.scale


def one_minus_exp(gamma: NDArray[np.float64]) -> NDArray[np.float64]:
    """γ − γ²/2! + γ³/3! − … − γ¹²/12!, by Horner's rule."""
    total = np.full_like(gamma, 1.0)
    for n in range(12, 1, -1):
        total *= gamma * (-1.0 / n)
        total += 1.0
    total *= gamma
    return total


def uniform_bits(source: BitSource, count: int, n: int) -> NDArray[np.int64]:
    """`n` uniform integers in [0, 2^count): int64, or Python integers where count > 62."""
    if count <= 16:
        return source.cells(n).astype(np.int64) >> (16 - count)
    if count <= 32:
        return source.halves(n).astype(np.int64) >> (32 - count)
    if count <= 62:
        return (source.bits(n) >> np.uint64(64 - count)).astype(np.int64)
    value = source.bits(n).astype(object)
    for _ in range((count - 1) // 64):
        value = (value << 64) + source.bits(n).astype(object)
    return np.asarray(value >> (-count % 64))


@lru_cache(maxsize=256)
def noise(scale: Fraction, quadratic: bool = False, signed: bool = True) -> NoiseSampler:
    """The sampler of a scale, kept for the next draws."""
    return NoiseSampler(scale, quadratic, signed)
