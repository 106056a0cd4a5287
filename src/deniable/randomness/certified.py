"""Integer brackets around real numbers, and the uniform number that is only as long as a comparison needs.

A real x in [0, 1] is known through `Bounds`: for every number of bits b, integers low ≤
2^b·x ≤ high. A uniform U is known through its first b bits u, so that U lies in [u, u +
1)/2^b. If u + 1 ≤ low then U < x, if u ≥ high then U ≥ x, else the *same* U gets more
bits. No bit is thrown away and none is drawn twice, so P(U < x) = x exactly: the event
is decided by the first b at which the brackets part, and they part with probability one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bounds: TypeAlias = Callable[[int], tuple[int, int]]
Cumulative: TypeAlias = Callable[[int], tuple[Sequence[int], int]]

WORD = 64
CELL = 16


class BitSource(Protocol):
    """Independent fair bits, read as unsigned integers of three widths."""

    def bits(self, n: int) -> NDArray[np.uint64]: ...
    def halves(self, n: int) -> NDArray[np.uint32]: ...
    def cells(self, n: int) -> NDArray[np.uint16]: ...


def exp_bounds(gamma: Fraction, bits: int) -> tuple[int, int]:
    """Integers low ≤ 2^bits · exp(−gamma) ≤ high for gamma ≥ 0, at most 2 apart.

    Proof. Let x = gamma/2^j < 2^−8 and X = ⌊2^w·x⌋. The loop sums the alternating series of exp(−X/2^w) in
    units of 2^−w. Each term is rounded down: its error e obeys e' ≤ e·x/n + 1 < 1.01, and the series is cut
    where the true term is below 1.01, which bounds the rest. So n terms are off by less than 1.01·(n + 1),
    and replacing x by X/2^w costs less than 1 since |d exp(−x)/dx| ≤ 1: in all less than 2n + 3. Squaring j
    times with outward rounding keeps the bracket, doubles its width and adds 2 each time: at most 2^j·(4n +
    8) units. A term has 8 bits less than the one before, so n ≤ w/8 + 1, and 4n + 8 ≤ 2^(w − bits − j): the
    bracket is at most 1 wide before the last rounding. Where gamma ≥ 0.7·(bits + 1), which is more than ln 2
    · (bits + 1), the value is below ½.
    """
    if gamma == 0:
        return 1 << bits, 1 << bits
    if 10 * gamma.numerator >= 7 * (bits + 1) * gamma.denominator:
        return 0, 1
    halvings = (gamma.numerator // gamma.denominator).bit_length() + 8
    width = bits + halvings + 8 + bits.bit_length()
    x = (gamma.numerator << (width - halvings)) // gamma.denominator
    total, term, n = 0, 1 << width, 0
    while term:
        total += -term if n & 1 else term
        n += 1
        term = (term * x >> width) // n
    # What the series may be off, on either side (first half of the proof).
    low, high = total - (2 * n + 3), total + (2 * n + 3)
    for _ in range(halvings):
        # Outward at every squaring, so that the bracket holds the number throughout.
        low, high = low * low >> width, -(-high * high >> width)
    # exp(−gamma) ≤ 1, so the upper end need not exceed 2^bits.
    return low >> (width - bits), min(-(-high >> (width - bits)), 1 << bits)


def exponential(gamma: Fraction) -> Bounds:
    """The real number exp(−gamma), gamma ≥ 0."""
    return lambda bits: exp_bounds(gamma, bits)


def complement(gamma: Fraction) -> Bounds:
    """The real number 1 − exp(−gamma), gamma ≥ 0."""

    def bounds(bits: int) -> tuple[int, int]:
        low, high = exp_bounds(gamma, bits)
        return (1 << bits) - high, (1 << bits) - low

    return bounds


def rational(p: Fraction) -> Bounds:
    """The rational number p in [0, 1]."""
    return lambda bits: ((p.numerator << bits) // p.denominator, -((-p.numerator << bits) // p.denominator))


def extend(source: BitSource, u: int, bits: int) -> tuple[int, int]:
    """More of the same uniform: at least 64 bits, and about twice as many in all, so
    that deep tails take few rounds."""
    for word in source.bits(max(1, bits // WORD)).tolist():
        u, bits = u << WORD | word, bits + WORD
    return u, bits


def is_below(source: BitSource, u: int, bits: int, x: Bounds) -> bool:
    """Whether U < x, where U is the uniform whose first `bits` bits are `u`."""
    while True:
        low, high = x(bits)
        # For integers u < low is u + 1 ≤ low: all of U's interval lies below x.
        if u < low:
            return True
        if u >= high:
            return False
        u, bits = extend(source, u, bits)


def coins(source: BitSource, x: Bounds, n: int) -> NDArray[np.bool_]:
    """`n` independent events of probability x: 16 bits each, and more where 16 do not
    decide (one in 2^15 at most)."""
    u = source.cells(n)
    low, high = x(CELL)
    heads = u < low
    if low < high:
        for i in np.flatnonzero((u >= low) & (u < high)):
            heads[i] = is_below(source, int(u[i]), CELL, x)
    return heads


def invert(source: BitSource, u: int, bits: int, cumulative: Cumulative) -> int:
    """The k with c(k) ≤ U < c(k + 1), c(0) = 0, where U is the uniform whose first `bits` bits are `u`.

    `cumulative(b)` gives integers low(1) ≤ low(2) ≤ … and a slack, with low(k) ≤ 2^b·c(k) ≤ low(k) + slack.
    The list may end anywhere: beyond its end nothing is decided and U gets more bits, for which it reaches
    further. So an infinite tail is never folded.
    """
    while True:
        low, slack = cumulative(bits)
        # low(k) + slack ≤ u proves c(k) ≤ U, and u < low(k + 1) proves U < c(k + 1).
        k = bisect_right(low, u - slack)
        if k < len(low) and u < low[k]:
            return k
        u, bits = extend(source, u, bits)


def normalized(parts: Sequence[int], total: int, slack: int, rest: int, bits: int) -> tuple[list[int], int]:
    """Brackets of 2^bits·C/T from parts ≤ C ≤ parts + slack and total ≤ T ≤ total +
    slack + rest, with C ≤ T, parts ≤ total.

    Proof. C/T ≥ part/(total + slack + rest). And C/T ≤ (part + slack)/total, which is larger by at most
    (2·slack + rest)/total; rounding the first down costs less than 1, rounding the difference up less than 1.
    """
    most = total + slack + rest
    return [(part << bits) // most for part in parts], ((2 * slack + rest) << bits) // total + 2


def weighted(gammas: Sequence[Fraction]) -> Cumulative:
    """Cumulative probabilities of the finite law P(k) ∝ exp(−gammas[k]). Each weight is
    off by at most 2 units."""
    # Measured from the least exponent the largest weight is 1, and no sum is lost to rounding.
    least = min(gammas)

    def cumulative(bits: int) -> tuple[list[int], int]:
        width = bits + 8 + len(gammas).bit_length()
        weights = {gamma: exp_bounds(gamma - least, width)[0] for gamma in set(gammas)}
        sums = list(accumulate(weights[gamma] for gamma in gammas))
        low, slack = normalized(sums[:-1], sums[-1], 2 * len(gammas), 0, bits)
        # The last cumulative probability is 1, exactly.
        return [*low, 1 << bits], slack

    return cumulative
