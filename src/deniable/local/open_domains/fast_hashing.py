"""Local hashing over an open domain, with a fixed set of keyed hash functions (Cormode,
Maddock, Maple 2021, FLH)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.local.arrays import Booleans, Bytes, Floats, Integers, Words
from deniable.local.estimate import Estimate
from deniable.local.hashing import HashFamily, digests, family
from deniable.local.law import shift
from deniable.local.odds import check_epsilon, check_whole, truth
from deniable.local.oracles.local_hashing import buckets_for
from deniable.local.protocol import Client, pack, unpack, width_of
from deniable.loss import Number
from deniable.mechanism import Random

ITEMS = 4096
"""Hashes in work at a time, so that estimating many items takes little memory: ITEMS × functions."""


def question_items(question: tuple[Any, ...]) -> Sequence[Any] | NDArray[Any]:
    """The one argument of `estimate` over an open domain."""
    if len(question) != 1 or isinstance(question[0], str | bytes):
        raise InvalidParameter("Expected the items to estimate as one sequence: server.estimate(items).")
    items: Sequence[Any] = question[0]
    return items


@dataclass(frozen=True)
class FastLocalHashing(Client[Estimate]):
    """Choose one of `functions` public hash functions at random, report it and the
    randomized response to the hashed value.

    Guarantee: ε: the function is drawn without looking at the value, the answer is
               randomized response among g.
    Values:    text, bytes or 64-bit whole numbers; the domain is open and asked about only at the server.
    Wire:      one number below functions·g; 2 bytes for the default and ε ≤ 1.
    Error:     variance n·(e^ε − 1 + g)²/((e^ε − 1)²(g − 1)), plus Σ_x n_x²/((g −
               1)·functions) from shared collisions.
    """

    epsilon: Number
    functions: int = 1 << 14
    key: bytes = b"deniable"
    code: ClassVar[int] = 6

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_whole("functions", self.functions, 1, 1 << 20)

    @property
    def g(self) -> int:
        return buckets_for(self.epsilon)

    @property
    def p(self) -> Fraction:
        return truth(self.epsilon, self.g)

    @property
    def family(self) -> HashFamily:
        return family(self.key, self.functions, self.g)

    @property
    def payload(self) -> int:
        return width_of(self.cells)

    @property
    def cells(self) -> int:
        return self.functions * self.g

    def inputs(self, values: Any) -> Words:
        return digests(values, self.key)

    def encode(self, inputs: Words, rng: Random) -> Bytes:
        function = rng.uniform_integers(self.functions, len(inputs))
        answer = self.family.hash_each(function, inputs) ^ shift(self.p, self.g).draw(rng, len(inputs))
        return pack(function * self.g + answer, self.payload)

    def valid(self, payloads: Bytes) -> Booleans:
        return unpack(payloads) < self.cells

    def tally(self, payloads: Bytes) -> Integers:
        return np.bincount(unpack(payloads), minlength=self.cells)

    def supports(self, counts: Integers, names: Words) -> Integers:
        """How many reports support each of the items."""
        table = counts.reshape(self.functions, self.g)
        rows = np.arange(self.functions)[:, None]
        step = max(1, (ITEMS << 8) // self.functions)
        parts = [
            table[rows, self.family.hash_all(names[i : i + step])].sum(axis=0)
            for i in range(0, len(names), step)
        ]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def estimate(self, counts: Integers, users: int, *question: Any) -> Estimate:
        names = digests(question_items(question), self.key)
        p, q = float(self.p), 1 / self.g
        estimates = np.asarray((self.supports(counts, names) - users * q) / (p - q), np.float64)
        share = np.clip(estimates / max(users, 1), 0, 1)
        return Estimate(
            estimates, np.sqrt(self.variance(users, share) + self._collisions(counts, users)), users
        )

    def variance(self, users: int, frequency: Floats | float = 0.0) -> Floats:
        """The noise of the reports, without shared collisions."""
        p, q = float(self.p), 1 / self.g
        each = np.asarray(frequency) * p * (1 - p) + (1 - np.asarray(frequency)) * q * (1 - q)
        return np.asarray(users * each / (p - q) ** 2)

    def collisions(self, second_moment: float) -> float:
        """Variance over the choice of functions, for Σ_x n_x² = second_moment."""
        return second_moment / ((self.g - 1) * self.functions)

    def _collisions(self, counts: Integers, users: int) -> float:
        """The same with Σ n_x² estimated: answers of one function pile up beyond chance
        where an item is frequent.

        For a function with N reports let S = Σ_y C(y)². E[S − N] counts pairs with equal
        answers: N(N − 1)/g, plus (pg − 1)²/(g(g − 1)) for each pair of users with the same
        value, less what distinct values lose (of order 1/g each, zero on the average over
        functions). Summed over functions this is unbiased for the share of equal pairs.
        """
        table = counts.reshape(self.functions, self.g).astype(np.float64)
        sizes = table.sum(axis=1)
        pairs = (sizes * (sizes - 1)).sum()
        equal = (table * (table - 1)).sum() - pairs / self.g
        p, g = float(self.p), self.g
        share = equal / max(pairs, 1) / ((p * g - 1) ** 2 / (g * (g - 1)))
        return self.collisions(users**2 * min(max(share, 0.0), 1.0))
