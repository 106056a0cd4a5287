"""Subset selection (Ye, Barg 2018; Wang et al. 2016): report a random set of items that
likely holds the true one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable.local import bits
from deniable.local.arrays import Booleans, Bytes, Integers
from deniable.local.odds import share
from deniable.local.oracles.oracle import Oracle
from deniable.loss import Number, exact
from deniable.mechanism import Random


@dataclass(frozen=True)
class SubsetSelection(Oracle):
    """Report `set_size` ≈ k/(e^ε + 1) of the k items: with probability p the true one and
    others, else others only, uniformly.

    Guarantee: ε: a set has probability p/C(k−1, w−1) or (1 − p)/C(k−1, w), w = chosen;
               their ratio p(k − w)/((1 − p)w) ≤ e^ε.
    Wire:      a bit for each item, ⌈k/8⌉ bytes.
    Error:     the least variance of all oracles for every ε, a little below 4e^ε/(e^ε − 1)² for large k.
    """

    k: int
    epsilon: Number
    code: ClassVar[int] = 8

    def __post_init__(self) -> None:
        self.check(1 << 16)

    @property
    def set_size(self) -> int:
        """w, the size of a set. Any size from 1 to k − 1 is private; this one has about the least
        variance."""
        return min(max(1, round(self.k / (math.exp(float(exact(self.epsilon))) + 1))), self.k - 1)

    @property
    def p(self) -> Fraction:
        """The largest multiple of 2^−64 certified to be at most w/(w + (k − w)e^−ε)."""
        return share(self.epsilon, self.set_size, self.k - self.set_size)

    @property
    def q(self) -> Fraction:
        return (self.p * (self.set_size - 1) + (1 - self.p) * self.set_size) / (self.k - 1)

    @property
    def payload(self) -> int:
        return bits.byte_width(self.k)

    @property
    def cells(self) -> int:
        return self.k

    def encode(self, inputs: Integers, rng: Random) -> Bytes:
        """A set of independent coins, mended to its size; given its size either is
        uniform, so the result is too."""
        x = self.clamp_values(inputs, rng)
        true = rng.bernoulli(self.p, len(x))
        rows = bits.coins(rng, Fraction(self.set_size, self.k), len(x), self.k)
        bits.write(rows, x, true)
        self._mend(rows, x, bits.count_ones(rows) - self.set_size, rng)
        return rows

    def _mend(self, rows: Bytes, x: Integers, excess: Integers, rng: Random) -> None:
        """Turn random bits other than the true one over, each towards the right size,
        until all sets have it."""
        todo = np.flatnonzero(excess)
        while len(todo):
            column = rng.uniform_integers(self.k, len(todo))
            part = rows[todo]
            useful = (column != x[todo]) & (bits.read(part, column) == (excess[todo] > 0))
            bits.flip(part, np.where(useful, column, 0))
            rows[todo[useful]] = part[useful]
            excess[todo] -= np.where(useful, np.sign(excess[todo]), 0)
            todo = todo[excess[todo] != 0]

    def valid(self, payloads: Bytes) -> Booleans:
        right_size = bits.count_ones(payloads) == self.set_size
        return np.asarray(bits.spare_bits_are_zero(payloads, self.k) & right_size)

    def tally(self, payloads: Bytes) -> Integers:
        return bits.column_sums(payloads, self.k)

    def supports(self, counts: Integers, users: int) -> Integers:
        return counts
