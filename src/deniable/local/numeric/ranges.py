"""Range queries by hierarchy: a tree of intervals, each user reports one level (Cormode,
Kulkarni, Srivastava 2019)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidParameter
from deniable.local.arrays import Booleans, Bytes, Integers
from deniable.local.estimate import Estimate, Mean
from deniable.local.odds import check_epsilon, check_whole
from deniable.local.oracles.choose import best
from deniable.local.protocol import Client, whole_numbers
from deniable.local.split import Split, side_by_side
from deniable.loss import Number
from deniable.mechanism import Random


@dataclass(frozen=True, eq=False)
class RangeEstimate:
    """Estimated users per node of the tree: `levels[0]` are the items, each level above
    joins `fanout` nodes into one."""

    levels: tuple[Estimate, ...]
    k: int
    fanout: int
    users: int

    def range(self, low: int, high: int) -> Mean:
        """Estimated number of users with low ≤ value < high, and its standard error."""
        if not 0 <= low <= high <= self.k:
            raise InvalidParameter(f"Expected 0 ≤ low={low} ≤ high={high} ≤ {self.k}.")
        if (low, high) == (0, self.k):
            return Mean(float(self.users), 0.0, self.users)
        value = variance = 0.0
        for level, start, end in self._nodes(low, high):
            value += float(self.levels[level].counts[start:end].sum())
            variance += float((self.levels[level].standard_errors[start:end] ** 2).sum())
        return Mean(value, variance**0.5, self.users)

    def _nodes(self, low: int, high: int) -> list[tuple[int, int, int]]:
        """(level, first node, end) of disjoint nodes that make up the range: at most
        2(fanout − 1) on each level."""
        nodes: list[tuple[int, int, int]] = []
        level, b = 0, self.fanout
        while low < high and level < len(self.levels):
            if level == len(self.levels) - 1:
                return [*nodes, (level, low, high)]
            left, right = min(high, -(-low // b) * b), max(low, high // b * b)
            if left > right:
                return [*nodes, (level, low, high)]
            nodes += [(level, low, left), (level, right, high)]
            low, high, level = left // b, right // b, level + 1
        return nodes

    def quantile(self, share: float) -> int:
        """The least item below or at which at least this share of the users lies, by
        bisection on range estimates."""
        low, high = 0, self.k - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if self.range(0, middle + 1).value >= share * self.users else (middle + 1, high)
            )
        return low

    def consistent(self) -> RangeEstimate:
        """The same tree with every node the sum of its children and the root all users
        (Hay et al. 2010): less error.

        Standard errors are kept as they were, which is on the safe side.
        """
        b, counts = self.fanout, [level.counts.astype(np.float64) for level in self.levels]
        for i in range(1, len(counts)):
            below, own = b**i, b ** (i + 1)
            children = counts[i - 1].reshape(-1, b).sum(axis=1)
            counts[i] = (own - below) / (own - 1) * counts[i] + (below - 1) / (own - 1) * children
        parent = np.array([float(self.users)])
        for i in range(len(counts) - 1, -1, -1):
            families = counts[i].reshape(len(parent), -1)
            counts[i] = (families + (parent - families.sum(axis=1))[:, None] / families.shape[1]).ravel()
            parent = counts[i]
        levels = tuple(
            dataclasses.replace(level, counts=c) for level, c in zip(self.levels, counts, strict=True)
        )
        return dataclasses.replace(self, levels=levels)


@dataclass(frozen=True)
class Ranges(Client[RangeEstimate]):
    """Users split over the levels of a tree of `fanout` over k items; each reports its
    node on one level with all of ε.

    Guarantee: ε, by `Split`. Wire: 1 byte for the level, then the longest report of a level.
    Error:     a range takes at most 2(fanout − 1) nodes of each level, so its variance
               grows with (log k)², not with its length.
    """

    k: int
    epsilon: Number
    fanout: int = 4
    code: ClassVar[int] = 17

    def __post_init__(self) -> None:
        check_whole("k", self.k, 2, 1 << 20)
        check_whole("fanout", self.fanout, 2, 64)
        check_epsilon(self.epsilon)
        check_whole("the items filled up to a power of the fanout", self.fanout**self.depth, 2, 1 << 20)

    @property
    def depth(self) -> int:
        """Levels below the root."""
        depth = 1
        while self.fanout**depth < self.k:
            depth += 1
        return depth

    @cached_property
    def split(self) -> Split:
        return Split(tuple(best(self.fanout ** (self.depth - i), self.epsilon) for i in range(self.depth)))

    @property
    def payload(self) -> int:
        return self.split.payload

    @property
    def cells(self) -> int:
        return self.split.cells

    def inputs(self, values: Any) -> Integers:
        return whole_numbers(values)

    def encode(self, inputs: Integers, rng: Random) -> Bytes:
        outside = np.flatnonzero((inputs < 0) | (inputs >= self.k))
        if len(outside):
            inputs = inputs.copy()
            inputs[outside] = rng.uniform_integers(self.k, len(outside))
        return self.split.encode(self._nodes(inputs), rng)

    def _nodes(self, items: Integers) -> NDArray[Any]:
        return side_by_side([items // self.fanout**i for i in range(self.depth)])

    def valid(self, payloads: Bytes) -> Booleans:
        return self.split.valid(payloads)

    def tally(self, payloads: Bytes) -> Integers:
        return self.split.tally(payloads)

    def estimate(self, counts: Integers, users: int, *question: Any) -> RangeEstimate:
        levels: tuple[Estimate, ...] = self.split.estimate(counts, users)
        return RangeEstimate(levels, self.k, self.fanout, users)
