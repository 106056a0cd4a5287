"""Which group keys are released: all combinations of public lists, or private keys by optimal partition
selection."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from deniable.errors import InvalidQuery
from deniable.loss import Approximate, Loss, exact
from deniable.mechanism import Random
from deniable.numbers import plain
from deniable.sql.tree import Key

MOST_GROUPS = 100_000
_ONE = 1 << 128

Group = tuple[Any, ...]


@dataclass(frozen=True)
class KeySelection:
    """Release a private key with a probability that depends on how many units have it; each unit counts for
    `groups` keys.

    Guarantee: each key by itself is (ε, δ)-DP; a unit that comes or goes touches at most `groups` of them,
               one that is replaced twice as many, so `loss` is that many of them composed. What no unit has
               is never released.
    Assumes:   a unit counts once for each of at most `groups` keys.
    Error:     a key of n units is released with probability π(n), see `probability`; it is 1 from about
               2/ε·ln(1/δ) units on.
    Reference: Desfontaines, Voss, Gipson, Mandayam 2020 (arXiv 2006.03684), Theorem 1: no other rule under
               (ε, δ) releases any key with a higher probability."""

    epsilon: Fraction
    delta: Fraction
    groups: int
    replace: bool = False

    def __post_init__(self) -> None:
        _table(
            self.epsilon, self.delta
        )  # a share too small for any key is refused now, before anything is paid

    @property
    def loss(self) -> Loss:
        times = self.groups * (2 if self.replace else 1)
        return Approximate(plain(self.epsilon), plain(self.delta)) * times

    def probability(self, units: int) -> Fraction:
        """π(units), in 2^-128ths, rounded down."""
        table = _table(self.epsilon, self.delta)
        return Fraction(table[units] if units < len(table) else _ONE, _ONE)

    def __call__(self, units: Mapping[Group, int], *, rng: Random) -> list[Group]:
        """The released keys in the order of their values, which says nothing about the data behind them. Keys
        that as many units have draw their coins together: each is exact, and none depends on another."""
        groups = _ordered(group for group in units if units[group] > 0)
        alike: dict[int, list[int]] = defaultdict(list)
        certain = len(_table(self.epsilon, self.delta)) - 1
        for place, group in enumerate(groups):
            # From `certain` units on π is 1, so all of these are alike.
            alike[min(units[group], certain)].append(place)
        is_released = np.zeros(len(groups), np.bool_)
        for count in sorted(alike):
            is_released[alike[count]] = rng.bernoulli(self.probability(count), len(alike[count]))
        return [groups[place] for place in np.flatnonzero(is_released)]


@lru_cache(maxsize=64)
def _table(epsilon: Fraction, delta: Fraction) -> list[int]:
    """π(0) = 0, π(n + 1) = min(e^ε·π(n) + δ, 1 − e^−ε·(1 − π(n) − δ), 1), until it is 1.

    e^−ε is rounded up and π down. Both only lower π(n + 1), and π stays increasing (each right side is at
    least π(n), which lies on the grid), so the four conditions of (ε, δ)-DP between n and n + 1 hold exactly:
    the two that bound π(n + 1) from above are the two terms, the two others are implied by π(n) ≤ π(n + 1).
    """
    # Below e^-700 floats lose their digits; a larger e^-ε lowers π, which keeps every inequality.
    shrink = min(Fraction(1), Fraction(math.exp(-min(float(epsilon), 700.0))) * (1 + Fraction(1, 1 << 40)))
    top, bottom = shrink.numerator, shrink.denominator
    step = math.floor(exact(delta) * _ONE)
    table = [0]
    while table[-1] < _ONE:
        last = table[-1]
        grown = last * bottom // top + step
        # Twice negated, the floor is a ceiling: what is taken off is rounded up, so π is rounded down.
        mirror = _ONE - -(-max(0, _ONE - last - step) * top // bottom)
        table.append(min(grown, mirror, _ONE))
        # A δ below 2^-128 is no step at all, and a tiny ε needs more units than any table has.
        if table[-1] == last or len(table) > 1_000_000:
            raise InvalidQuery(
                "The share of ε and δ for private keys is too small to release any. Nothing was run and "
                "nothing was charged. Ask with a larger epsilon or delta, a smaller max_groups, or give the "
                "keys= publicly."
            )
    return table


def _ordered(groups: Iterable[Group]) -> list[Group]:
    """By value, NULL first."""
    items = list(groups)
    return sorted(items, key=_rank if any(None in group for group in items) else None)


def _rank(group: Group) -> tuple[tuple[bool, Any], ...]:
    """NULL first; the values of one column are of one type."""
    return tuple((value is not None, 0 if value is None else value) for value in group)


def combinations(keys: Sequence[Key]) -> list[Group]:
    """All combinations of the public lists, in their order."""
    # A value that is listed twice would be one group released twice, at the price of one.
    domains = [tuple(dict.fromkeys(key.domain or ())) for key in keys]
    count = math.prod(len(domain) for domain in domains)
    if count > MOST_GROUPS:
        raise InvalidQuery(
            f"The public keys of this query make {count:,} groups, more than {MOST_GROUPS:,}. Nothing was "
            "run and nothing was charged. Group by fewer keys, or by coarser ones."
        )
    return list(itertools.product(*domains))
