"""Local hashing (Wang et al. 2017, OLH) with a hash family that the server counts whole.

The usual server hashes all k items for each report, n·k hashes. Here the functions are x
↦ the low bits of a·x in GF(2^m), m = ⌈log2 k⌉: exactly universal, so p, q and the
variance are those of OLH, but only 2^m functions. A report (a, y) is one small number,
the server is one histogram, and the estimate is one Walsh–Hadamard transform.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable.local.arrays import Booleans, Bytes, Integers
from deniable.local.bits import walsh_hadamard
from deniable.local.law import shift, source
from deniable.local.odds import check_whole, truth
from deniable.local.oracles import field
from deniable.local.oracles.oracle import Oracle
from deniable.local.protocol import pack, unpack, width_of
from deniable.loss import Number, exact
from deniable.mechanism import Random

LARGEST = 1 << 22
"""Counters of a server at most (32 MiB); beyond it use FastLocalHashing, whose server does not grow with
k."""


def buckets_for(epsilon: Number) -> int:
    """The power of two up to 256 with the least variance (e^ε − 1 + g)²/(g − 1); within
    3 % of the real g = e^ε + 1."""
    e = math.exp(min(float(exact(epsilon)), 40.0))
    return min((1 << b for b in range(1, 9)), key=lambda g: (e - 1 + g) ** 2 / (g - 1))


@dataclass(frozen=True)
class LocalHashing(Oracle):
    """Draw a hash function, report it and the randomized response to the hashed value
    among g ≈ e^ε + 1 answers.

    Guarantee: ε: the function is drawn without looking at the value, the answer is randomized response.
    Wire:      one number below 2^m·g; 2 bytes for k = 1024 and ε = 1.
    Error:     variance n·(e^ε − 1 + g)²/((e^ε − 1)²(g − 1)), at its best 4e^ε/(e^ε − 1)², whatever k is.
    Reference: Wang, Blocki, Li, Jha 2017; universal family of Carter, Wegman 1979.

    >>> LocalHashing(k=1024, epsilon=1).size
    4
    """

    k: int
    epsilon: Number
    code: ClassVar[int] = 5

    def __post_init__(self) -> None:
        self.check(LARGEST)
        check_whole("the server's counters for these k and epsilon", self.cells, 2, LARGEST)

    @property
    def g(self) -> int:
        """Answers."""
        return buckets_for(self.epsilon)

    @property
    def m(self) -> int:
        """Bits of an item, and of the name of a hash function."""
        return max((self.k - 1).bit_length(), self.g.bit_length() - 1)

    @property
    def p(self) -> Fraction:
        return truth(self.epsilon, self.g)

    @property
    def q(self) -> Fraction:
        """A false item is hit with probability 1/g: p·P(collide) + (1 − p)/(g −
        1)·P(not) with P(collide) = 1/g exactly."""
        return Fraction(1, self.g)

    @property
    def payload(self) -> int:
        return width_of(self.cells)

    @property
    def cells(self) -> int:
        return self.g << self.m

    def encode(self, inputs: Integers, rng: Random) -> Bytes:
        x, m, g = self.clamp_values(inputs, rng), self.m, self.g
        a = (source(rng).halves(len(x)) >> np.uint32(32 - m)).astype(np.int32)
        buckets = field.multiply(a, x.astype(np.int32), m) & (g - 1)
        answer = buckets ^ shift(self.p, g).draw(rng, len(x))
        return pack((a * g + answer).astype(np.int64), self.payload)

    def valid(self, payloads: Bytes) -> Booleans:
        return unpack(payloads) < self.cells

    def tally(self, payloads: Bytes) -> Integers:
        return np.bincount(unpack(payloads), minlength=self.cells)

    def supports(self, counts: Integers, users: int) -> Integers:
        """#{(a, y): low(a·x) = y} = g⁻¹ Σ_(a,u) Ĉ(a, u)·(−1)^(u·low(a·x)), and
        u·low(a·x) = v(a, u)·x is linear in x.

        Ĉ(a, ·) is the transform of the answers of function a. Gathering it at v(a, u)
        leaves one transform over x.
        """
        per_function = walsh_hadamard(counts.reshape(1 << self.m, self.g))
        spectrum = np.zeros(1 << self.m, np.int64)
        for u, v in enumerate(self._functionals()):
            np.add.at(spectrum, v, per_function[:, u])
        return walsh_hadamard(spectrum)[: self.k] // self.g

    def _functionals(self) -> Iterator[Integers]:
        """v(·, u) for u = 0, …, g − 1: the exclusive or of the dual rows that u names."""
        rows = field.dual(np.arange(1 << self.m), self.m, self.g.bit_length() - 1)
        for u in range(self.g):
            parts = [row for i, row in enumerate(rows) if u >> i & 1]
            yield np.bitwise_xor.reduce(np.array([np.zeros_like(rows[0]), *parts]), axis=0)
