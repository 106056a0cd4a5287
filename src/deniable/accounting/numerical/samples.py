"""What is known of a node, and how pairs of batches follow from the pair of one step.
Proofs: docs/theory/batches.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import bdtrc

from deniable.accounting.numerical.pairs import allocation, copies
from deniable.accounting.numerical.pairs.continuous import Gaussian, Pair, SampledShape, Symmetrised
from deniable.accounting.numerical.pairs.either import Either
from deniable.accounting.numerical.pairs.finite import Finite, Sided, response
from deniable.accounting.numerical.pairs.shifted import GaussianMixture
from deniable.accounting.numerical.pairs.triangle import triangle
from deniable.accounting.numerical.rounding import Array
from deniable.accounting.refusals import collect_lowers

RARE = 1e-40
"""Counts of records rarer than this together are charged as revealed."""
TAIL = allocation.TAIL
MOST_STEPS = 10**6
"""Steps of one pass: their roundings add up."""
LOUD = 100.0
"""A step that may lose more is not averaged over the steps: a mean of e^100 and nothings is that of the
one."""
MOST_COUNTS = 300
"""Different numbers of records that one sample may hold of one unit."""


FREQUENT = 10_000
"""Beyond this variance of a count of records its probabilities are over MOST_COUNTS: they are not listed."""


PairBuilder = Callable[[], Iterable[Pair]]


def no_pairs() -> Iterable[Pair]:
    """Nothing is known from below."""
    return ()


@dataclass(frozen=True)
class KnownPairs:
    """What is known of a node: a pair that dominates it (None: none known) and pairs
    that some mechanism attains.

    The latter are built on demand and apart from the first: where building one fails, the upper pair stands.
    """

    upper: Pair | None
    build: PairBuilder = no_pairs
    why: str = ""

    @cached_property
    def lowers(self) -> tuple[Pair, ...]:
        return collect_lowers(self.build)

    @property
    def is_exact(self) -> bool:
        """Whether the pair that dominates is the one that is attained."""
        return self.lowers == (self.upper,)

    def each_lower(self, change: Callable[[Pair], Pair]) -> PairBuilder:
        """What builds every pair below, changed."""
        return lambda: map(change, self.lowers)


def attained(pair: Pair) -> KnownPairs:
    """A pair that dominates and is attained."""
    return KnownPairs(pair, lambda: (pair,))


def unknown(why: str, build: PairBuilder = no_pairs) -> KnownPairs:
    """A node without a pair that is known to dominate it."""
    return KnownPairs(None, build, why)


def mix(pair: Pair, rate: float) -> Pair:
    """The pair behind a sample that holds the record with probability `rate`."""
    if rate == 1:
        return pair
    if isinstance(pair, Sided):
        return pair.sampled(rate)
    return SampledShape(pair, rate)


_allocated: Callable[..., Pair] = lru_cache(maxsize=64)(allocation.allocated)


def allocated(inside: KnownPairs, steps: int) -> KnownPairs:
    """A pass whose single step is `inside`, both its orders alike."""
    if inside.upper is None or steps == 1:
        return inside
    # Every loss is 0: neither one step nor a pass of them reveals anything.
    if isinstance(inside.upper, Finite) and not inside.upper.losses.any():
        return inside
    lowers = inside.each_lower(lambda pair: _allocated(pair, steps, upper=False))
    return KnownPairs(_allocated(inside.upper, steps, upper=True), lowers)


def told(inside: KnownPairs, steps: int) -> KnownPairs:
    """A pass whose noise is too small for sums of ratios: above, the step of the unit is
    told; below, one step alone is seen."""
    return KnownPairs(inside.upper, inside.each_lower(lambda pair: mix(pair, 1 / steps)), inside.why)


def capped(inside: KnownPairs, twice: KnownPairs, rate: float, cap: int, rows: int) -> KnownPairs:
    """A Poisson sample cut to `cap`: with probability τ or less the unit displaces
    another, which moves twice as far."""
    if inside.upper is None or twice.upper is None:
        return unknown(inside.why or twice.why)
    lowers = inside.each_lower(lambda pair: mix(pair, rate))
    passing = over(cap, rows, rate)
    if passing in (0, 1):
        return KnownPairs(mix(twice.upper if passing else inside.upper, rate), lowers)
    # `passing` is rounded up: weight moves to the pair that dominates the other, never away from it.
    parts = ((1 - passing, mix(inside.upper, rate)), (passing, mix(twice.upper, rate)))
    return KnownPairs(Either(parts), lowers)


def silenced(inside: KnownPairs, twice: KnownPairs, rate: float, cap: int, rows: int) -> KnownPairs:
    """A Poisson sample cut to `cap`, whose own unit is silenced but keeps its place: with probability τ or
    less another unit is put out wherever its coin is up."""
    if inside.upper is None:
        return unknown(inside.why)
    lowers = inside.each_lower(lambda pair: mix(pair, rate))
    passing = over(cap, rows, rate)
    if passing == 0 or rate == 1:  # nobody is put out, or in both tables the same one always is
        return KnownPairs(mix(inside.upper, rate), lowers)
    in_place = _pair_in_place(inside.upper, twice.upper, rate)
    if passing == 1:
        return KnownPairs(in_place, lowers)
    # Both pairs of a cut lot dominate that of a lot with room, so weight may move to it.
    return KnownPairs(Either(((1 - passing, mix(inside.upper, rate)), (passing, in_place))), lowers)


def _pair_in_place(once: Pair, twice: Pair | None, rate: float) -> Pair:
    """A full lot with the unit against the same with it silent, by the coin or in spite of it. Either bound
    holds; the smaller second moment decides which is taken."""
    by_coin = Either(((1 - rate, response(0.0)), (rate, once)))
    if twice is None or twice.sided or _spread(once) * rate < _spread(twice) * rate**2:
        return by_coin
    return Symmetrised(SampledShape(twice, rate))


def _spread(pair: Pair) -> float:
    """About E_Q(Λ − 1)², on a grid: it serves to choose between two bounds, never as one."""
    _, p, q = pair.atoms
    if pair.smooth:
        p_cells, q_cells = pair.cells(np.unique(pair.grid(TAIL)))
        p, q = np.concatenate([p, p_cells]), np.concatenate([q, q_cells])
    if (p[q <= 0] > 0).any():
        return math.inf
    return float(((p - q)[q > 0] ** 2 / q[q > 0]).sum())


def over(cap: int, rows: int, rate: float) -> float:
    """P(Binomial(rows − 1, rate) ≥ cap), rounded up: that the others alone fill the lot."""
    if rows <= cap:
        return 0.0
    tail = 1.0
    if rate < 1:
        tail = float(bdtrc(cap - 1, rows - 1, rate))
    # bdtrc errs by far less than 1e-6 of itself, and 1e-300 covers what underflows.
    return min(1.0, tail * (1 + 1e-6) + 1e-300)


def drawn(inside: Callable[[int], KnownPairs], draws: int, rows: int) -> KnownPairs:
    """With replacement: the record comes a binomial number of times, k copies of it move k times as far."""
    if rows == 1:
        return inside(draws)
    often = "the record is drawn too often for its counts to be told apart"
    if draws / rows > FREQUENT:
        return unknown(often)
    first, weights = counts(draws, 1 / rows)
    if first > 0 or len(weights) > MOST_COUNTS:
        return unknown(often)
    pairs = []
    for k in range(1, len(weights)):
        answer = inside(k)
        if answer.upper is None or answer.upper.sided:
            return unknown(answer.why or "its content is not symmetric")
        pairs.append(answer.upper)
    single = pairs[0]
    if isinstance(single, Gaussian) and not single.left and len(weights) > 2:
        shares = tuple(weights.tolist())
        return KnownPairs(
            copies.gaussian(single.sigma, shares, 2 * RARE), lambda: _lines_and_triangles(single, shares)
        )
    # 1 − (1 − 1/rows)^draws, without cancelling: that the record is drawn at all.
    chance = -math.expm1(draws * math.log1p(-1 / rows))
    parts = tuple((float(weight) / chance, pair) for weight, pair in zip(weights[1:], pairs, strict=True))
    upper = Symmetrised(SampledShape(Either(parts, 2 * RARE / chance), chance))
    if isinstance(single, Gaussian) and len(weights) == 2:
        return KnownPairs(upper, lambda: _lines_and_triangles(single, (1 - chance, chance)))
    return KnownPairs(upper)


def _lines_and_triangles(single: Gaussian, shares: tuple[float, ...]) -> Iterator[Pair]:
    """A record that comes k times with probability shares[k] and is replaced: the others equal the new one,
    or differ from both."""
    if len(shares) == 2:
        yield mix(single, shares[1])
    else:
        yield GaussianMixture(single.sigma, tuple(map(float, range(len(shares)))), shares)
    yield triangle(single.sigma, shares)


def counts(trials: int, rate: float) -> tuple[int, Array]:
    """The least count kept and the binomial probabilities from it on; beyond them lies
    less than RARE on either side.

    By the ratios of neighbours, from the likeliest count outwards, so that no factorial loses digits.
    """
    if rate == 1:
        return trials, np.ones(1)
    mode = min(trials, math.floor((trials + 1) * rate))
    odds = rate / (1 - rate)
    # Fifteen deviations and 300 counts: beyond them a binomial has less than RARE, whatever its rate.
    reach = math.ceil(15 * math.sqrt(trials * rate * (1 - rate))) + 300
    up = np.arange(mode, min(trials, mode + reach), dtype=np.float64)
    down = np.arange(mode, max(0, mode - reach), -1, dtype=np.float64)
    above = np.cumprod((trials - up) / (up + 1) * odds)
    below = np.cumprod(down / (trials - down + 1) / odds)
    weights = np.concatenate([below[::-1], [1.0], above])
    # What was cut off weighs less than a rounding, so the kept weights stand for all.
    weights /= weights.sum()
    places = np.flatnonzero(weights > RARE / (len(weights) + 1))
    return mode - len(down) + int(places[0]), weights[places[0] : places[-1] + 1]


def caught(sigma: float, size: int, rate: float) -> Pair | None:
    """How many of `size` records a Poisson sample caught, each moving Gaussian noise by
    1; None if the counts are too many."""
    if size * rate * (1 - rate) > FREQUENT:
        return None
    first, weights = counts(size, rate)
    if len(weights) > MOST_COUNTS:
        return None
    shifts = np.arange(first, first + len(weights), dtype=np.float64)
    return GaussianMixture(
        sigma, tuple(shifts.tolist()), tuple(weights.tolist()), 0.0 if len(weights) > size else 2 * RARE
    )
