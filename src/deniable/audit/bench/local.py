"""RAPPOR: a value's Bloom filter of 20 bits and 4 hashes, each bit answered at random
(Erlingsson, Pihur, Korolova 2014)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.audit.bench.case import Array, Case, Generator
from deniable.audit.runs.pairs import Pair
from deniable.loss import Loss, Pure
from deniable.units import Unit

FILTERS = {0: (0, 3, 10, 13), 1: (1, 5, 11, 18)}
"""The bits of two values whose hashes do not collide: the worst case, in which 8 bits differ."""


@dataclass(frozen=True)
class OneTimeRappor(Case):
    """The permanent response alone, f = .95: a bit is kept with probability 1 − f, else it is a fair coin.

    True ε: a set bit is reported as 1 with probability 1 − f/2 = .525, a clear one with f/2 = .475; eight
    bits differ, so ε = 8·ln(.525/.475) = .8007 (their Theorem 1, 2h·ln((1 − f/2)/(f/2))).
    """

    true_epsilon: float = 8 * math.log(0.525 / 0.475)
    set_rate: float = 0.525
    clear_rate: float = 0.475

    @property
    def loss(self) -> Loss:
        return Pure(self.true_epsilon)

    @property
    def unit(self) -> Unit:
        return Unit.value()

    def pairs(self) -> list[Pair]:
        return [Pair(0, 1, "values with disjoint bits")]

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        rates = np.full(20, self.clear_rate, np.float32)
        rates[list(FILTERS[int(data)])] = self.set_rate
        return (rng.random((n, 20), dtype=np.float32) < rates).astype(np.float64)


@dataclass(frozen=True)
class Rappor(OneTimeRappor):
    """Permanent response with f = .75, then a report that is 1 with probability .55 for a 1 and .45 for a 0.

    True ε: a set bit is reported as 1 with probability .375 + .25·.55 = .5125, a clear one with .4875, both
    ways round: ε = 8·ln(.5125/.4875) = .4001 (their Theorem 2).
    """

    true_epsilon: float = 8 * math.log(0.5125 / 0.4875)
    set_rate: float = 0.5125
    clear_rate: float = 0.4875
