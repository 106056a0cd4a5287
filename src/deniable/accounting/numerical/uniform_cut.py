"""A Poisson sample that is cut uniformly: how likely the others fill it, and its own unit is then kept.

Proof: docs/theory/batches.md, "A cap that cuts uniformly".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import bdtrc

from deniable.accounting.numerical.pairs.continuous import Gaussian, Pair
from deniable.accounting.numerical.pairs.either import Either
from deniable.accounting.numerical.pairs.shifted import GaussianMixture
from deniable.accounting.numerical.rounding import Array
from deniable.accounting.numerical.samples import KnownPairs, capped, mix, over

FINE = np.concatenate([np.arange(0.05, 4.0, 0.05), np.arange(4.0, 12.0, 0.5)])
"""Ends of the ranges of full lots, in deviations of their size above the cap."""
COARSE = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5, 7.0, math.inf)
"""Where the pair of noise is taken; what lies between is split between the two ends."""
LARGEST_CAP = 10**6
MOST_ROWS = 2**53
"""Beyond them counts of units are no doubles, or sums over them are long."""
RARE = 1e-30
"""Lots that are less likely count as the fullest ones do, whose cost is larger."""


@dataclass(frozen=True)
class FullLots:
    """Chances that the others fill the lot, and beside each at least how likely its own unit is kept where
    its coin is up; likely to unlikely. Tables of any number of units up to the declared one reveal no
    more."""

    chances: Array
    shares: Array
    deviations: Array

    @property
    def total(self) -> float:
        return min(1.0, float(self.chances.sum()))


def uniformly_capped(inside: KnownPairs, twice: KnownPairs, rate: float, cap: int, rows: int) -> KnownPairs:
    """A Poisson sample of which `cap` are kept, drawn uniformly from those whose coin was up."""
    chance = over(cap, rows, rate)
    if inside.upper is None or twice.upper is None or chance == 0 or cap > LARGEST_CAP or rows > MOST_ROWS:
        return capped(inside, twice, rate, cap, rows)  # a uniform cut is one of those
    lots = full_lots(cap, rows, rate, chance)
    lowers = inside.each_lower(lambda pair: mix(pair, rate))
    return KnownPairs(_cut_pair(inside.upper, twice.upper, rate, lots), lowers)


def full_lots(cap: int, rows: int, rate: float, total: float) -> FullLots:
    """What to charge for lots that are cut; `total`: the chance that one is."""
    others = rows - 1
    width = math.sqrt(cap * (1 - rate)) + 1
    ends = {min(others, cap - 1 + math.ceil(at * width)) for at in FINE.tolist()} | {others}
    edges = [cap - 1, *sorted(end for end in ends if end >= cap)]
    between = [_most_between(cap, end, others, rate) for end in edges[1:-1]]
    upto = np.minimum(np.maximum.accumulate([0.0, *between]), total)
    chances = np.diff(np.append(upto, total))
    first = np.array([start + 1 for start, _ in pairwise(edges)], dtype=np.float64)
    return FullLots(chances, cap / (first + 1), (first - cap) / width)


def _most_between(cap: int, last: int, others: int, rate: float) -> float:
    """The most that P(cap ≤ Binomial(n, rate) ≤ last) comes to for any n ≤ others, rounded up.

    One more unit changes it by rate·(P(cap − 1) − P(last)), whose sign changes once. The quotient is right to
    1e-9, so the chance at a neighbour of the best n is too, and `over` allows for more.
    """
    n = others
    if rate == 1:
        n = min(others, last)
    elif _log_quotient(cap, last, others - 1, rate) > 0:
        low, high = last, others  # P(last) = 0 for fewer units
        while high - low > 1:
            middle = (low + high) // 2
            if _log_quotient(cap, last, middle - 1, rate) > 0:
                high = middle
            else:
                low = middle
        n = low
    above = over(cap, n + 1, rate)
    beyond = 0.0
    if n > last and rate < 1:
        beyond = float(bdtrc(last, n, rate))
    return above - beyond + 1e-6 * above


def _log_quotient(cap: int, last: int, n: int, rate: float) -> float:
    """ln P(Binomial(n, rate) = last) − ln P(Binomial(n, rate) = cap − 1)."""
    if n < last:
        return -math.inf
    j = np.arange(cap, last + 1, dtype=np.float64)
    return float((np.log((n - j + 1) / j) + (math.log(rate) - math.log1p(-rate))).sum())


def _cut_pair(once: Pair, twice: Pair, rate: float, lots: FullLots) -> Pair:
    """A pair that dominates the step, given those of one step for one unit and for two."""
    if isinstance(once, Gaussian) and not once.left and isinstance(twice, Gaussian) and not twice.left:
        parts = _gaussian_parts(once, once.sigma / twice.sigma, rate, lots)
    else:
        kept_share = min(1.0, float((lots.chances * lots.shares).sum()) * (1 + 1e-12))
        parts = [(1 - kept_share, mix(once, rate)), (kept_share, mix(twice, rate))]
    return Either(tuple(part for part in parts if part[0] > 0))


def _gaussian_parts(once: Gaussian, moved: float, rate: float, lots: FullLots) -> list[tuple[float, Pair]]:
    """In a full lot the own unit moves noise by `moved` if it is kept; if not, it is charged as if by 1."""
    parts: list[tuple[float, Pair]] = [(1 - lots.total, mix(once, rate))]
    for chance, share in _split(lots):
        atoms = ((0.0, 1 - rate), (1.0, rate * (1 - share)), (moved, rate * share))
        shifts, weights = zip(*((at, weight) for at, weight in atoms if weight > 0), strict=True)
        parts.append((chance, GaussianMixture(once.sigma, shifts, weights)))
    return parts


def _split(lots: FullLots) -> list[tuple[float, float]]:
    """Few shares instead of many: a curve is convex in the share, so each may be split between two around it
    that have its mean."""
    places = np.unique(np.searchsorted(lots.deviations, COARSE[:-1]))
    places = np.unique(np.append(places[places < len(lots.shares)], len(lots.shares) - 1))
    nodes = lots.shares[places][::-1]  # increasing
    at = np.clip(np.searchsorted(nodes, lots.shares) - 1, 0, max(0, len(nodes) - 2))
    chances = np.zeros(len(nodes))
    if len(nodes) == 1:
        chances[0] = lots.total
    else:
        upper = np.clip((lots.shares - nodes[at]) / (nodes[at + 1] - nodes[at]), 0.0, 1.0)
        np.add.at(chances, at, lots.chances * (1 - upper))
        np.add.at(chances, at + 1, lots.chances * upper)
    rare = chances < RARE
    rare[-1] = False
    chances[-1] += chances[rare].sum()
    chances[rare] = 0
    return [(float(chance), float(share)) for chance, share in zip(chances, nodes, strict=True) if chance > 0]
