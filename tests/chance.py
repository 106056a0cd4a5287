"""How often a test that draws real noise fails though nothing is wrong: it states a chance, and gets its threshold here.

A test with a seed is the same each time and needs none of this. One that draws from the system's generator says

    assert chance.allows(stats.chisquare(counts).pvalue)

and fails in one run of 10⁹. Every call is counted, and so is every case of a parameter and every turn of a loop: a
run in which they sum to more than 10⁻⁶ fails (`tests/conftest.py`). A loop of a thousand checks states less for each.
"""

from __future__ import annotations

import math
from statistics import NormalDist

EACH = 1e-9
"""The largest chance that one check may have."""
ALL = 1e-6
"""The largest sum of the chances of all checks of a run."""

_stated: list[float] = []


def state(chance: float = EACH) -> float:
    """Count a chance of failing, and give it back."""
    if not 0 < chance <= EACH:
        raise ValueError(f"Expected a chance in (0, {EACH}], got {chance}.")
    _stated.append(chance)
    return chance


def take_sum() -> float:
    """The sum of what was stated since the last call."""
    total = math.fsum(_stated)
    _stated.clear()
    return total


def allows(pvalue: float, chance: float = EACH) -> bool:
    """Whether a p-value is no smaller than chance allows: under the hypothesis it is so with probability `chance`."""
    return pvalue > state(chance)


def reach(chance: float = EACH) -> float:
    """Standard deviations that normal noise exceeds, to either side, with probability `chance`.

    >>> round(reach(), 3)
    6.109
    """
    return -NormalDist().inv_cdf(state(chance) / 2)


def laplace_reach(scale: float, chance: float = EACH) -> float:
    """What integer Laplace noise of this scale exceeds, to either side, with probability at most `chance`.

    P(|X| > k) = 2 e^(−(k+1)/s) / (1 + e^(−1/s)) ≤ 2 e^(−(k+1)/s) for whole k (Ghosh et al. 2009).

    >>> laplace_reach(2.0)
    42.0
    """
    return float(math.ceil(scale * math.log(2 / state(chance))) - 1)


def most(trials: int, probability: float, chance: float = EACH) -> int:
    """The number of successes that is exceeded with probability at most `chance`.

    >>> most(100, 0.05)
    22
    """
    allowed, tail = state(chance), 0.0
    for successes in range(trials, -1, -1):
        ways = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
        tail += math.exp(
            ways + successes * math.log(probability) + (trials - successes) * math.log1p(-probability)
        )
        if tail > allowed:
            return successes
    return 0


def least(trials: int, probability: float, chance: float = EACH) -> int:
    """The number of successes that is fallen below with probability at most `chance`.

    >>> least(1000, 0.5)
    405
    """
    return trials - most(trials, 1 - probability, chance)
