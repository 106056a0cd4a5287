"""Heavy hitters in a domain too large to list: grow a tree of prefixes, keep the
frequent ones (Wang, Li, Jha 2018, PEM).

Users are split over prefix lengths; each reports its prefix of that length by fast local
hashing, with all of ε. The server asks about all short prefixes, extends those that are
there by `step` bits, asks again, and so on to full length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.local.arrays import Booleans, Bytes, Floats, Integers, Words
from deniable.local.estimate import Estimate
from deniable.local.odds import check_epsilon, check_whole
from deniable.local.open_domains.fast_hashing import FastLocalHashing
from deniable.local.protocol import Client
from deniable.local.split import Split, scale_estimate, side_by_side
from deniable.loss import Number
from deniable.mechanism import Random

ALPHA = 0.01
"""The chance that a level keeps a prefix nobody has."""


@dataclass(frozen=True, eq=False)
class HeavyHitters:
    """Values that were found, most frequent first, with estimated users and standard errors."""

    values: Words
    counts: Floats
    standard_errors: Floats
    users: int


@dataclass(frozen=True)
class PrefixTree(Client[HeavyHitters]):
    """Values are whole numbers below 2^bits (words: see `words.spell`); higher bits are cut off.

    Guarantee: ε, by `Split`.
    Wire:      1 byte for the length, 2 or 3 for the hashed prefix.
    Error:     finds values of more than a few times √(levels·4e^ε/(e^ε − 1)²·n) users;
               each level sees n/levels of them.
    """

    bits: int
    epsilon: Number
    start: int = 10
    step: int = 5
    functions: int = 1 << 12
    key: bytes = b"deniable"
    code: ClassVar[int] = 18

    def __post_init__(self) -> None:
        check_whole("bits", self.bits, 2, 64)
        check_whole("start", self.start, 1, min(self.bits, 20))
        check_whole("step", self.step, 1, 12)
        check_whole("functions", self.functions, 1, 1 << 16)
        check_epsilon(self.epsilon)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Prefix lengths, the last one all bits."""
        return (*range(self.start, self.bits, self.step), self.bits)

    @cached_property
    def split(self) -> Split:
        keys = (self.key + bytes([length]) for length in self.lengths)
        return Split(tuple(FastLocalHashing(self.epsilon, self.functions, key) for key in keys))

    @property
    def payload(self) -> int:
        return self.split.payload

    @property
    def cells(self) -> int:
        return self.split.cells

    def inputs(self, values: Any) -> Words:
        array = np.asarray(values)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InvalidParameter(
                f"Expected a sequence of whole numbers, got {array.dtype}. Nothing was drawn."
            )
        return array.astype(np.uint64) & np.uint64((1 << self.bits) - 1)

    def encode(self, inputs: Words, rng: Random) -> Bytes:
        return self.split.encode(self._prefixes(inputs), rng)

    def _prefixes(self, values: Words) -> NDArray[Any]:
        return side_by_side([values >> np.uint64(self.bits - length) for length in self.lengths])

    def valid(self, payloads: Bytes) -> Booleans:
        return self.split.valid(payloads)

    def tally(self, payloads: Bytes) -> Integers:
        return self.split.tally(payloads)

    def estimate(self, counts: Integers, users: int, *question: Any) -> HeavyHitters:
        """The values found; the optional question is how many prefixes to keep on each level (64)."""
        keep = int(question[0]) if question else 64
        prefixes, last = np.arange(1 << self.lengths[0], dtype=np.uint64), self.lengths[0]
        outcome = Estimate(np.empty(0), np.empty(0), users)
        for length, (part, mine, n) in zip(self.lengths, self.split.shares(counts), strict=True):
            prefixes, last = _extend(prefixes, length - last), length
            level = scale_estimate(part.estimate(mine, n, prefixes), users)
            places = _frequent(level, keep)
            prefixes = prefixes[places]
            outcome = Estimate(level.counts[places], level.standard_errors[places], users)
        return HeavyHitters(prefixes, outcome.counts, outcome.standard_errors, users)


def _extend(prefixes: Words, bits: int) -> Words:
    """Every prefix with every ending of `bits` bits."""
    endings = np.arange(1 << bits, dtype=np.uint64)
    return (prefixes[:, None] << np.uint64(bits) | endings).ravel()


def _frequent(level: Estimate, keep: int) -> Integers:
    """The `keep` most frequent of those that are significantly there, most frequent first."""
    z = NormalDist().inv_cdf(1 - ALPHA / max(len(level.counts), 2))
    order = np.argsort(-level.counts, kind="stable")[:keep]
    return order[level.counts[order] > z * level.standard_errors[order]]
