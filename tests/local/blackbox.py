"""A small black-box audit: reports of two values, an event learned on one half, its odds
bounded on the other half.

The outcome of a report is any function of its bytes. Outcomes are ranked by how much more often they come
from the first value; the best threshold of that ranking is one event, chosen on the training half only. On
the other half Clopper–Pearson bounds give P(event | first) ≥ low and P(event | second) ≤ high with confidence
1 − 2·ALPHA, hence ε ≥ ln(low/high).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from deniable.local import Client
from deniable.local.protocol import HEADER
from deniable.randomness import SecureRandom

ALPHA = 5e-10
Outcome = Callable[[NDArray[np.uint8]], NDArray[np.int64]]


def whole_payload(payloads: NDArray[np.uint8]) -> NDArray[np.int64]:
    """All bytes of a payload of at most 3 bytes as one number."""
    return sum(payloads[:, i].astype(np.int64) << 8 * i for i in range(payloads.shape[1]))  # type: ignore[return-value]


def lower_bound(
    client: Client[Any], first: Any, second: Any, outcome: Outcome = whole_payload, reports: int = 200_000
) -> float:
    """An ε that the client surely exceeds or attains between the two values, in either order."""
    rng = SecureRandom()
    seen = [outcome(client.reports([v] * reports, rng=rng)[:, HEADER:]) for v in (first, second)]
    return max(_one_way(seen[0], seen[1]), _one_way(seen[1], seen[0]))


def _one_way(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    size, half = int(max(a.max(), b.max())) + 1, len(a) // 2
    (train_a, test_a), (train_b, test_b) = (
        (np.bincount(x[:half], minlength=size), np.bincount(x[half:], minlength=size)) for x in (a, b)
    )
    order = np.argsort(-(train_a + 0.5) / (train_b + 0.5))
    caught, false = np.cumsum(train_a[order]), np.cumsum(train_b[order])
    scores = [_bound(int(c), int(f), half) for c, f in _thinned(caught, false)]
    cut = _places(len(order))[int(np.argmax(scores))]
    event = order[: cut + 1]
    return _bound(int(test_a[event].sum()), int(test_b[event].sum()), len(a) - half)


def _places(n: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, n - 1, min(n, 64)).astype(np.int64))


def _thinned(caught: NDArray[np.int64], false: NDArray[np.int64]) -> list[tuple[int, int]]:
    return [(int(caught[i]), int(false[i])) for i in _places(len(caught))]


def _bound(hits: int, alarms: int, n: int) -> float:
    low = float(beta.ppf(ALPHA, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - ALPHA, alarms + 1, n - alarms)) if alarms < n else 1.0
    return math.log(low / high) if low > 0 else 0.0
