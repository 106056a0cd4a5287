"""Hadamard response (Acharya, Sun, Zhang 2019): one row of a Hadamard matrix instead of a list of items."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable.local.arrays import Booleans, Bytes, Integers
from deniable.local.bits import parity, walsh_hadamard
from deniable.local.law import source
from deniable.local.odds import truth
from deniable.local.oracles.oracle import Oracle
from deniable.local.protocol import pack, unpack, width_of
from deniable.loss import Number
from deniable.mechanism import Random


@dataclass(frozen=True)
class HadamardResponse(Oracle):
    """Report a random y below K = 2^b > k from the half of them with (x + 1)·y even with
    probability e^ε/(e^ε + 1), else odd.

    Guarantee: ε: every y has probability 2p/K or 2(1 − p)/K under every value.
    Wire:      one number below K; 2 bytes for k = 1024.
    Error:     variance n·((e^ε + 1)/(e^ε − 1))²; for small ε near the best, and the
               transform is the whole decoding.
    """

    k: int
    epsilon: Number
    code: ClassVar[int] = 7

    def __post_init__(self) -> None:
        self.check(1 << 22)

    @property
    def p(self) -> Fraction:
        return truth(self.epsilon)

    @property
    def q(self) -> Fraction:
        """Two distinct rows agree in half of the places."""
        return Fraction(1, 2)

    @property
    def cells(self) -> int:
        return 1 << self.k.bit_length()

    @property
    def payload(self) -> int:
        return width_of(self.cells)

    def encode(self, inputs: Integers, rng: Random) -> Bytes:
        row = self.clamp_values(inputs, rng) + 1
        bits = self.k.bit_length()
        y = (source(rng).halves(len(row)) >> np.uint32(32 - bits)).astype(np.int64)
        odd = parity(row & y).astype(bool)
        wrong = odd == rng.bernoulli(self.p, len(row))
        # Turning the lowest bit of the row over in y maps the two halves onto each other, so y stays uniform
        # in its half.
        return pack(np.where(wrong, y ^ (row & -row), y), self.payload)

    def valid(self, payloads: Bytes) -> Booleans:
        return unpack(payloads) < self.cells

    def tally(self, payloads: Bytes) -> Integers:
        return np.bincount(unpack(payloads), minlength=self.cells)

    def supports(self, counts: Integers, users: int) -> Integers:
        return (users + walsh_hadamard(counts)[1 : self.k + 1]) // 2
