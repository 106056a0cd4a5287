"""PrivUnit for vectors of norm at most 1, told as a seed and an index: exact, and a few
bytes whatever the dimension.

PrivUnit (Bhowmick et al. 2018) reports a direction from the cap around the input with
probability p, else from outside it. A continuous sampler on floats has no ε: its low bits may
tell all. Here a random public seed names K directions, the t nearest to the input are the cap,
and an index is drawn from a law with two levels and exact rational probabilities (Shah et al.
2022, minimal random coding with a cap of fixed size). Geometry is done in floats and decides
which t indices are in the cap, never their number: so it bears on accuracy, and on ε not at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy import special

from deniable.errors import InvalidParameter
from deniable.local.arrays import Booleans, Bytes, Floats, Integers, Words
from deniable.local.estimate import MeanVector
from deniable.local.law import source
from deniable.local.odds import check_epsilon, check_whole, share
from deniable.local.protocol import Client, pack, unpack
from deniable.loss import Number, exact
from deniable.mechanism import Random

POINT = 1 << 20
"""Sums are kept in whole multiples of 2^−20, so that they merge in any order."""
BLOCK = 1 << 18
"""Coordinates in work at a time."""


@dataclass(frozen=True)
class PrivUnit(Client[MeanVector]):
    """Mean of vectors with Euclidean norm at most 1 (longer ones are scaled down, what
    is no number counts as 0).

    Guarantee: ε: an index has probability p/t inside the cap or (1 − p)/(K − t) outside, in ratio at most
               e^ε; the seed is drawn without looking at the vector.
    Wire:      8 bytes of seed and 2 of index.
    Error:     one report has mean squared error 1/c² − ‖x‖², c = `shrink`; c² ≈ min(ε,
               1)·ε/d as for PrivUnit.
    """

    dimension: int
    epsilon: Number
    code: ClassVar[int] = 16

    payload = 10

    def __post_init__(self) -> None:
        check_whole("dimension", self.dimension, 1, 1 << 16)
        check_epsilon(self.epsilon)

    @property
    def directions(self) -> int:
        """K, the directions that a seed names: about 2e^ε, 64 to 1024; more would lower
        the error by at most some 3 %."""
        return 1 << min(10, max(6, math.ceil(float(exact(self.epsilon)) / math.log(2)) + 1))

    @property
    def cap(self) -> int:
        """t, chosen for the least error."""
        return _best_cap(self.dimension + 1, self.directions, exact(self.epsilon))

    @property
    def p(self) -> Fraction:
        return share(self.epsilon, self.cap, self.directions - self.cap)

    @property
    def shrink(self) -> float:
        """c with E[reported direction] = c·x, by symmetry around x."""
        return _shrink(self.dimension + 1, self.directions, self.cap, float(self.p))

    @property
    def cells(self) -> int:
        return 2 * self.dimension

    def inputs(self, values: Any) -> Floats:
        """Unit vectors with one coordinate more, which takes up what a shorter vector lacks."""
        x = np.asarray(values, np.float64)
        if x.ndim != 2 or x.shape[1] != self.dimension:
            raise InvalidParameter(f"Expected rows of {self.dimension} numbers. Nothing was drawn.")
        x = np.where(np.isfinite(x), x, 0.0)
        largest = np.maximum(np.abs(x).max(axis=1, keepdims=True), 1.0)
        x = x / largest
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1 / largest)
        rest = np.sqrt(np.maximum(0.0, 1 - (x * x).sum(axis=1, keepdims=True)))
        return np.hstack([x, rest])

    def encode(self, inputs: Floats, rng: Random) -> Bytes:
        n, k, t = len(inputs), self.directions, self.cap
        seeds = source(rng).bits(n)
        rank = np.where(
            rng.bernoulli(self.p, n), rng.uniform_integers(t, n), t + rng.uniform_integers(k - t, n)
        )
        index = np.empty(n, np.int64)
        step = max(1, BLOCK // (k * inputs.shape[1]))
        for i in range(0, n, step):
            index[i : i + step] = self._index_at_rank(
                seeds[i : i + step], inputs[i : i + step], rank[i : i + step]
            )
        return np.hstack([seeds.astype("<u8").view(np.uint8).reshape(n, 8), pack(index, 2)])

    def _index_at_rank(self, seeds: Words, inputs: Floats, rank: Integers) -> Integers:
        """The index whose direction is `rank`-th nearest to the input: a bijection of
        ranks and indices, whatever floats do."""
        every = np.arange(self.directions)
        z = directions(np.repeat(seeds, len(every)), np.tile(every, len(seeds)), inputs.shape[1])
        near = np.einsum("nkd,nd->nk", z.reshape(len(seeds), len(every), -1), inputs)
        return np.argsort(-near, axis=1, kind="stable")[np.arange(len(seeds)), rank]

    def valid(self, payloads: Bytes) -> Booleans:
        return unpack(payloads[:, 8:]) < self.directions

    def tally(self, payloads: Bytes) -> Integers:
        seeds = np.ascontiguousarray(payloads[:, :8]).view("<u8").reshape(-1).astype(np.uint64)
        index, total = unpack(payloads[:, 8:]), np.zeros(self.cells, np.int64)
        step = max(1, BLOCK // (self.dimension + 1))
        for i in range(0, len(seeds), step):
            z = directions(seeds[i : i + step], index[i : i + step], self.dimension + 1)[:, : self.dimension]
            total += np.rint(np.hstack([z, z * z]) * POINT).astype(np.int64).sum(axis=0)
        return total

    def estimate(self, counts: Integers, users: int, *question: Any) -> MeanVector:
        mean, square = counts.reshape(2, -1) / (POINT * max(users, 1))
        error = (
            np.sqrt(np.maximum(square - mean * mean, 0) / users) if users else np.full(self.dimension, np.inf)
        )
        return MeanVector(mean / self.shrink, error / self.shrink, users)


def directions(seeds: Words, index: Integers, dimension: int) -> Floats:
    """Direction number `index` of each seed: normal coordinates (Box, Muller 1958) from
    a mixed counter, scaled to norm 1."""
    pairs = -(-dimension // 2)
    start = _mix(seeds) + index.astype(np.uint64) * np.uint64(pairs)
    words = _mix(start[:, None] + np.arange(pairs, dtype=np.uint64))
    radius = np.sqrt(-2 * np.log(((words >> np.uint64(32)) + np.uint64(1)) * 2.0**-32))
    angle = (words & np.uint64(0xFFFF_FFFF)) * (2 * math.pi * 2.0**-32)
    z = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :dimension]
    return np.asarray(z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300))


def _mix(x: Words) -> Words:
    """SplitMix64 (Steele, Lea, Flood 2014): a public bijection of 64-bit words whose
    outputs look independent."""
    x = x * np.uint64(0x9E37_79B9_7F4A_7C15) + np.uint64(0x9E37_79B9_7F4A_7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D0_49BB_1331_11EB)
    return x ^ x >> np.uint64(31)


@lru_cache(maxsize=64)
def _top_means(dimension: int, k: int) -> Floats:
    """For t = 1, …, k − 1: the expected mean of the t largest of k independent inner
    products of a direction with a unit vector.

    (1 + u)/2 of an inner product u is Beta((d − 1)/2, (d − 1)/2); the one at level v of
    its law is among the t largest if at most t − 1 of the others lie above, a binomial
    tail. Integrated over v by Gauss and Legendre.
    """
    nodes, weights = np.polynomial.legendre.leggauss(600)
    v = (1 + nodes) / 2
    half = max((dimension - 1) / 2, 0.5)
    u = 2 * special.betaincinv(half, half, v) - 1
    t = np.arange(1, k)[:, None]
    chance = special.bdtr(t - 1, k - 1, 1 - v)
    return np.asarray(k / t[:, 0] * ((chance * u) @ (weights / 2)))


def _shrink(dimension: int, k: int, t: int, p: float) -> float:
    """c = (p − (1 − p)t/(k − t))·(mean of the t nearest): all k have mean 0, so the
    others have −t/(k − t) times theirs."""
    return float((p - (1 - p) * t / (k - t)) * _top_means(dimension, k)[t - 1])


@lru_cache(maxsize=64)
def _best_cap(dimension: int, k: int, epsilon: Fraction) -> int:
    t = np.arange(1, k)
    p = t / (t + (k - t) * math.exp(-float(epsilon)))
    shrink = (p - (1 - p) * t / (k - t)) * _top_means(dimension, k)
    return int(t[np.argmax(shrink)])
