"""Apple's sketches for an open domain: Private Count Mean Sketch and its Hadamard form.

Reference: Apple Differential Privacy Team 2017, "Learning with Privacy at Scale",
           Algorithms 1–6. Each user draws one of
`hashes` public functions onto `width` places. Values are text, bytes or 64-bit whole numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from deniable.errors import InvalidParameter
from deniable.local import bits
from deniable.local.arrays import Booleans, Bytes, Floats, Integers, Words
from deniable.local.estimate import Estimate
from deniable.local.hashing import HashFamily, digests, family
from deniable.local.law import source
from deniable.local.odds import check_epsilon, check_whole, truth
from deniable.local.open_domains.fast_hashing import question_items
from deniable.local.protocol import Client, pack, unpack, width_of
from deniable.loss import Number, exact
from deniable.mechanism import Random

ITEMS = 1 << 20
"""Table cells in work at a time when many items are estimated."""


class _Sketch(Client[Estimate]):
    """A table M[j, h] with E M[j, h_j(x)] = n_x + (n − n_x)/width; its mean over j, less
    n/width, estimates n_x."""

    hashes: int
    width: int
    key: bytes

    def check(self) -> None:
        check_epsilon(self.epsilon)
        check_whole("hashes", self.hashes, 8, 1 << 16)
        check_whole("width", self.width, 16, 1 << 16)
        if self.width & (self.width - 1):
            raise InvalidParameter(f"Expected width={self.width} to be a power of two. Nothing was drawn.")

    @property
    def family(self) -> HashFamily:
        return family(self.key, self.hashes, self.width)

    def inputs(self, values: Any) -> Words:
        return digests(values, self.key)

    @abstractmethod
    def table(self, counts: Integers) -> Floats:
        """M, one row for each hash function."""

    @property
    @abstractmethod
    def row_moment(self) -> float:
        """The expected sum of squares of one report's entries in its row of M, before scaling by `hashes`."""

    @abstractmethod
    def variance(self, users: int, second_moment: float = 0.0) -> float:
        """Variance of an estimate; `second_moment` is Σ_x n_x², whose share collides
        under the public functions."""

    def estimate(self, counts: Integers, users: int, *question: Any) -> Estimate:
        names = digests(question_items(question), self.key)
        table, rows = self.table(counts), np.arange(self.hashes)[:, None]
        step = max(1, ITEMS // self.hashes)
        means, spreads = [np.empty(0)], [np.empty(0)]
        for i in range(0, len(names), step):
            cells = table[rows, self.family.hash_all(names[i : i + step])]
            means.append(cells.mean(axis=0))
            spreads.append(cells.var(axis=0, ddof=1))
        scale = self.width / (self.width - 1)
        estimates = scale * (np.concatenate(means) - users / self.width)
        # The rows are independent looks at an item: their spread shows who met a heavy item, theory who might
        # have.
        spread = scale**2 * np.concatenate(spreads) / self.hashes
        theory = self.variance(users, self._second_moment(table, users))
        return Estimate(estimates, np.sqrt(np.maximum(spread, theory)), users)

    def _second_moment(self, table: Floats, users: int) -> float:
        """Σ_x n_x², estimated by what the squares of a row exceed those of its noise by."""
        squares = ((table - users / self.width) ** 2).sum(axis=1).mean()
        return max(0.0, float(squares) - self.hashes * users * self.row_moment)

    def _expected_collisions(self, users: int, second_moment: float) -> float:
        return (users + second_moment / self.hashes) / self.width


@dataclass(frozen=True)
class CountMeanSketch(_Sketch):
    """Report a hash function and the one-hot row of the hashed value, every bit turned
    over with probability 1/(e^(ε/2) + 1).

    Guarantee: ε: two values differ in two bits, each worth ε/2.
    Wire:      2 bytes for the function, width/8 for the row; 132 in all for width 1024.
    Error:     variance n·e^(ε/2)/(e^(ε/2) − 1)², and what collides: (n + Σ_x n_x²/hashes)/width.
    """

    epsilon: Number
    hashes: int = 64
    width: int = 1024
    key: bytes = b"deniable"
    code: ClassVar[int] = 9

    def __post_init__(self) -> None:
        self.check()

    @property
    def keep_chance(self) -> Fraction:
        """P(a bit is not turned over)."""
        return truth(exact(self.epsilon) / 2)

    @property
    def payload(self) -> int:
        return 2 + self.width // 8

    @property
    def cells(self) -> int:
        return self.hashes * (self.width + 1)

    def encode(self, inputs: Words, rng: Random) -> Bytes:
        function = rng.uniform_integers(self.hashes, len(inputs))
        rows = bits.coins(rng, 1 - self.keep_chance, len(inputs), self.width)
        bits.flip(rows, self.family.hash_each(function, inputs))
        return np.hstack([pack(function, 2), rows])

    def valid(self, payloads: Bytes) -> Booleans:
        return unpack(payloads[:, :2]) < self.hashes

    def tally(self, payloads: Bytes) -> Integers:
        """The ones of each column of each function's rows, and the number of rows of each."""
        return bits.grouped_sums(unpack(payloads[:, :2]), self.hashes, payloads[:, 2:], self.width)

    def table(self, counts: Integers) -> Floats:
        ones = counts[: self.hashes * self.width].reshape(self.hashes, self.width)
        sizes = counts[self.hashes * self.width :, None]
        probability = float(self.keep_chance)
        return np.asarray(self.hashes * (ones - (1 - probability) * sizes) / (2 * probability - 1))

    @property
    def row_moment(self) -> float:
        probability = float(self.keep_chance)
        return self.width * probability * (1 - probability) / (2 * probability - 1) ** 2 + 1

    def variance(self, users: int, second_moment: float = 0.0) -> float:
        probability = float(self.keep_chance)
        noise = users * probability * (1 - probability) / (2 * probability - 1) ** 2
        return (self.width / (self.width - 1)) ** 2 * (
            noise + self._expected_collisions(users, second_moment)
        )


@dataclass(frozen=True)
class HadamardSketch(_Sketch):
    """Report a hash function, a place l and one entry of the transformed row, turned
    over with probability 1/(e^ε + 1).

    Guarantee: ε: function and place are drawn without looking at the value, the entry is
               randomized response of two.
    Wire:      one number below 2·hashes·width; 3 bytes for 64 × 1024.
    Error:     variance n·((e^ε + 1)/(e^ε − 1))², and Σ_x n_x²/(hashes·width) from collisions.
    """

    epsilon: Number
    hashes: int = 64
    width: int = 1024
    key: bytes = b"deniable"
    code: ClassVar[int] = 10

    def __post_init__(self) -> None:
        self.check()

    @property
    def keep_chance(self) -> Fraction:
        return truth(self.epsilon)

    @property
    def payload(self) -> int:
        return width_of(2 * self.cells)

    @property
    def cells(self) -> int:
        return self.hashes * self.width

    def encode(self, inputs: Words, rng: Random) -> Bytes:
        function = rng.uniform_integers(self.hashes, len(inputs))
        place = (source(rng).cells(len(inputs)) >> np.uint16(17 - self.width.bit_length())).astype(np.int64)
        minus = bits.parity(self.family.hash_each(function, inputs) & place)
        sign = minus ^ (1 - rng.bernoulli(self.keep_chance, len(inputs)).astype(np.int64))
        return pack((function * self.width + place) << 1 | sign, self.payload)

    def valid(self, payloads: Bytes) -> Booleans:
        return unpack(payloads) < 2 * self.cells

    def tally(self, payloads: Bytes) -> Integers:
        """How often each entry was told as +1, less how often as −1."""
        tallies = np.bincount(unpack(payloads), minlength=2 * self.cells)
        return tallies[::2] - tallies[1::2]

    def table(self, counts: Integers) -> Floats:
        spectrum = bits.walsh_hadamard(counts.reshape(self.hashes, self.width))
        return np.asarray(self.hashes * spectrum / (2 * float(self.keep_chance) - 1))

    @property
    def row_moment(self) -> float:
        return self.width / (2 * float(self.keep_chance) - 1) ** 2

    def variance(self, users: int, second_moment: float = 0.0) -> float:
        noise = users * (1 / (2 * float(self.keep_chance) - 1) ** 2 - 1 / self.width)
        return (self.width / (self.width - 1)) ** 2 * (
            noise + self._expected_collisions(users, second_moment)
        )
