"""Unary encoding: one bit for each item, each bit turned over on its own (Wang, Blocki, Li, Jha 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from deniable.local import bits
from deniable.local.arrays import Booleans, Bytes, Integers
from deniable.local.odds import truth
from deniable.local.oracles.oracle import Oracle
from deniable.loss import Number, exact
from deniable.mechanism import Random

LARGEST = 1 << 16


class _Unary(Oracle):
    """The true item's bit is 1 with probability p, every other one with probability q.

    Two values differ in two bits, so the likelihood ratio is at most p(1 − q)/(q(1 − p)).
    """

    @property
    def payload(self) -> int:
        return bits.byte_width(self.k)

    @property
    def cells(self) -> int:
        return self.k

    def encode(self, inputs: Integers, rng: Random) -> Bytes:
        x = self.clamp_values(inputs, rng)
        rows = bits.coins(rng, self.q, len(x), self.k)
        bits.write(rows, x, rng.bernoulli(self.p, len(x)))
        return rows

    def valid(self, payloads: Bytes) -> Booleans:
        return bits.spare_bits_are_zero(payloads, self.k)

    def tally(self, payloads: Bytes) -> Integers:
        return bits.column_sums(payloads, self.k)

    def supports(self, counts: Integers, users: int) -> Integers:
        return counts


@dataclass(frozen=True)
class SymmetricUnary(_Unary):
    """Every bit keeps its value with probability e^(ε/2)/(e^(ε/2) + 1): RAPPOR's basic form.

    Guarantee: ε. Wire: ⌈k/8⌉ bytes. Error: variance n·e^(ε/2)/(e^(ε/2) − 1)².
    """

    k: int
    epsilon: Number
    code: ClassVar[int] = 3

    def __post_init__(self) -> None:
        self.check(LARGEST)

    @property
    def p(self) -> Fraction:
        return truth(exact(self.epsilon) / 2)

    @property
    def q(self) -> Fraction:
        return 1 - self.p


@dataclass(frozen=True)
class OptimisedUnary(_Unary):
    """The true bit is a fair coin, every other one is 1 with probability 1/(e^ε + 1).

    Guarantee: ε. Wire: ⌈k/8⌉ bytes. Error: variance n·4e^ε/(e^ε − 1)², whatever k is.

    >>> round(float(OptimisedUnary(k=1024, epsilon=1).variance(1)), 3)
    3.683
    """

    k: int
    epsilon: Number
    code: ClassVar[int] = 4

    def __post_init__(self) -> None:
        self.check(LARGEST)

    @property
    def p(self) -> Fraction:
        return Fraction(1, 2)

    @property
    def q(self) -> Fraction:
        return 1 - truth(self.epsilon)
