"""A simple black-box audit: run on two neighbours, and bound ε from below by how often
an event is seen on each.

The event is chosen on a first half of the runs, as the set of outcomes that speak most
for one side, and counted on a second half. Exact (Clopper–Pearson) bounds on both
probabilities give ε ≥ ln((p − δ)/q) with confidence 1 − 2·10⁻⁹.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

from scipy import special

ALPHA = 1e-9

Run = Callable[[Any], Hashable]


def epsilon_at_least(run: Run, data: Any, neighbour: Any, *, runs: int, delta: float = 0.0) -> float:
    """A lower bound on ε at δ for the mechanism behind `run`, valid with confidence 1 −
    4·10⁻⁹; 0 if none is found."""
    seen = [[Counter(run(x) for _ in range(runs)) for _ in range(2)] for x in (data, neighbour)]
    return max(0.0, *(_one_side(*pair, runs, delta) for pair in (seen, seen[::-1])))


def _one_side(
    ours: list[Counter[Hashable]], theirs: list[Counter[Hashable]], runs: int, delta: float
) -> float:
    event = _event(ours[0], theirs[0], runs, delta)
    p = _lower(sum(ours[1][o] for o in event), runs)
    q = _upper(sum(theirs[1][o] for o in event), runs)
    return math.log((p - delta) / q) if p > delta else 0.0


def _event(ours: Counter[Hashable], theirs: Counter[Hashable], runs: int, delta: float) -> list[Hashable]:
    """Outcomes by their likelihood ratio, as many as make the bound largest."""
    order = sorted(ours | theirs, key=lambda o: (ours[o] + 1) / (theirs[o] + 1), reverse=True)
    best, event, p, q = -math.inf, order[:1], 0, 0
    for i, outcome in enumerate(order):
        p, q = p + ours[outcome], q + theirs[outcome]
        low, high = _lower(p, runs), _upper(q, runs)
        if low > delta and math.log((low - delta) / high) > best:
            best, event = math.log((low - delta) / high), order[: i + 1]
    return event


def _lower(count: int, n: int) -> float:
    return float(special.betaincinv(count, n - count + 1, ALPHA)) if count else 0.0


def _upper(count: int, n: int) -> float:
    return float(special.betaincinv(count + 1, n - count, 1 - ALPHA)) if count < n else 1.0
