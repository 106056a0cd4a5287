"""Randomized response: the survey coin (Warner 1965) and its general form for k answers
(Kairouz, Bonawitz, Ramage 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable.errors import InvalidParameter
from deniable.local.arrays import Booleans, Bytes, Integers
from deniable.local.odds import log_ratio, truth
from deniable.local.oracles.oracle import Oracle
from deniable.local.protocol import pack, unpack, width_of
from deniable.loss import Number, ResponseNoise, exact
from deniable.mechanism import Random


class _Response(Oracle):
    """The truth with probability `p`, else another answer at random."""

    @property
    def q(self) -> Fraction:
        return (1 - self.p) / (self.k - 1)

    @property
    def loss(self) -> ResponseNoise:
        return ResponseNoise(self.p, self.k)

    @property
    def payload(self) -> int:
        return width_of(self.k)

    @property
    def cells(self) -> int:
        return self.k

    def encode(self, inputs: Integers, rng: Random) -> Bytes:
        x = self.clamp_values(inputs, rng)
        other = rng.uniform_integers(self.k - 1, len(x))
        other += other >= x
        return pack(np.where(rng.bernoulli(self.p, len(x)), x, other), self.payload)

    def valid(self, payloads: Bytes) -> Booleans:
        return unpack(payloads) < self.k

    def tally(self, payloads: Bytes) -> Integers:
        return np.bincount(unpack(payloads), minlength=self.k)

    def supports(self, counts: Integers, users: int) -> Integers:
        return counts


@dataclass(frozen=True)
class GeneralisedResponse(_Response):
    """Answer the truth with probability e^ε/(e^ε + k − 1), else one of the other k − 1 answers at random.

    Guarantee: ε, stated as the exact rational probability of the truth.
    Wire:      the answer, ⌈log2(k)/8⌉ bytes.
    Error:     variance n·(e^ε + k − 2)/(e^ε − 1)² for a rare item; the best oracle if k < 3e^ε + 2.

    >>> GeneralisedResponse(k=4, epsilon=1).size
    3
    """

    k: int
    epsilon: Number
    code: ClassVar[int] = 1

    def __post_init__(self) -> None:
        self.check()

    @property
    def p(self) -> Fraction:
        return truth(self.epsilon, self.k)


@dataclass(frozen=True)
class SurveyCoin(_Response):
    """A yes-or-no question: answer truly if a coin of probability `heads` falls heads,
    else as a second, fair coin says.

    Guarantee: ε = ln((1 + heads)/(1 − heads)); two fair coins give ln 3.

    >>> SurveyCoin().loss, round(SurveyCoin().epsilon, 4)
    (ResponseNoise(truth=Fraction(3, 4), options=2), 1.0986)
    """

    heads: Number = Fraction(1, 2)
    code: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not 0 < exact(self.heads) < 1:
            raise InvalidParameter(f"Expected heads={self.heads!r} in (0, 1). Nothing was drawn.")

    k = 2

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        return log_ratio(self.p / (1 - self.p))

    @property
    def p(self) -> Fraction:
        return (1 + exact(self.heads)) / 2
