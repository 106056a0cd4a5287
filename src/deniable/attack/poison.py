"""Liars among local reports: how far a few of them lift an item, what bounds it, and which defences help.

Randomized reports are weak evidence each, so an estimate multiplies what they say: a liar who sends the
report that speaks most for an item is multiplied too. A liar's report is one that an honest person may send,
so no check of single reports finds it.

Theorem. In a pure protocol (`local.Oracle`) a report adds (1[it supports the item] − q)/(p − q)/n to the
item's estimated share: m liars among n move it by at most m/n · 1/(p − q), and reports that support the item
attain (1 − q)/(p − q) each. No unbiased sum of ε-private reports has less reach than
m/n · (e^ε + 1)/(e^ε − 1): if a report y adds g(y)/n, then 1 = E[g | item] − E[g | another] ≤ (max g − min
g)·TV, and TV ≤ (e^ε − 1)/(e^ε + 1) for two ε-close laws. (Cheu, Smith, Ullman 2021 prove it for every
protocol; the attack is that of Cao, Jia, Gong 2021 with one target.)

>>> round(reach(protocol("grr", 100, 1), 0.02), 3), round(least_reach(1, 0.02), 4)
(1.184, 0.0433)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from deniable import checks
from deniable.attack.learnt import Whole
from deniable.errors import InvalidParameter
from deniable.local.arrays import Bytes, Floats
from deniable.local.consistency import norm_sub
from deniable.local.oracles.oracle import Oracle
from deniable.local.simulate import protocol, zipf
from deniable.mechanism import Random
from deniable.randomness import SecureRandom

PROTOCOLS = ("grr", "oue", "olh", "hr", "ss")
GROUPS = 25
"""Parts of the reports, in the order in which they came, of whose estimates the median is taken."""
CHUNK = 256


@dataclass(frozen=True)
class Poisoned:
    """The estimated share of one item: without liars, with them, and behind each defence.

    `most` bounds what any liars could have added; `consistent` is the estimate after Norm-Sub; `median` that
    of groups of reports if liars come at random, `median_together` if they come one after another.
    """

    protocol: str
    truth: float
    honest: float
    lied: float
    most: float
    consistent: float
    median: float
    median_together: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def reach(client: Oracle, liars: float) -> float:
    """The most that a share `liars` of all reports can move an item's estimated share."""
    return liars / float(client.p - client.q)


def least_reach(epsilon: float, liars: float) -> float:
    """The same for the protocol that liars can move least, among all unbiased ones that keep ε."""
    return liars / math.tanh(epsilon / 2)


def compare(
    items: int = 100,
    users: int = 20_000,
    *,
    liars: float = 0.02,
    epsilon: float = 1.0,
    protocols: Sequence[str] = PROTOCOLS,
    seed: int = 0,
    rng: Random | None = None,
) -> list[Poisoned]:
    """Made-up users with Zipf values; liars speak for the item whose share is nearest to .05."""
    checks.whole("items", items, at_least=2)
    if users < 2 * GROUPS or not 0 < liars < 0.5:
        raise InvalidParameter(
            f"Expected users={users} of at least {2 * GROUPS} and a share liars={liars} of them in (0, 0.5)."
        )
    values = np.random.default_rng(seed).choice(items, users, p=zipf(items))
    target = int(np.argmin(np.abs(zipf(items) - 0.05)))
    draws = SecureRandom() if rng is None else rng
    return [_attack_protocol(name, items, epsilon, values, target, liars, draws) for name in protocols]


def _attack_protocol(
    name: str, items: int, epsilon: float, values: Whole, target: int, liars: float, rng: Random
) -> Poisoned:
    client = protocol(name, items, epsilon)
    if not isinstance(client, Oracle):
        raise InvalidParameter(
            f"Expected protocol={name!r} over a closed list of items: {', '.join(PROTOCOLS)}."
        )
    honest = client.reports(values, rng=rng)
    lies = supporting(client, target, round(liars * len(values)), rng)
    together = honest.copy()
    together[: len(lies)] = lies
    mixture = together[rng.permutation(len(together))]
    shares = _shares(client, together)
    return Poisoned(
        protocol=name,
        truth=float(np.mean(values == target)),
        honest=float(_shares(client, honest)[target]),
        lied=float(shares[target]),
        most=reach(client, len(lies) / len(values)),
        consistent=float(norm_sub(shares)[target]),
        median=_median(client, mixture, target),
        median_together=_median(client, together, target),
    )


def supporting(client: Oracle, target: int, number: int, rng: Random) -> Bytes:
    """So many reports that an honest owner of `target` might send, all of which support it."""
    picks: list[Bytes] = []
    while len(picks) < number:
        rows = client.reports(np.full(CHUNK, target), rng=rng)
        picks += [row for row in rows if _shares(client, row[None])[target] > 0]
    return np.array(picks[:number], np.uint8).reshape(number, client.size)


def _shares(client: Oracle, reports: Bytes) -> Floats:
    server = client.server()
    server.add(reports)
    return server.estimate().frequencies


def _median(client: Oracle, reports: Bytes, target: int) -> float:
    parts = np.array_split(reports, GROUPS)
    return float(np.median([_shares(client, part)[target] for part in parts]))
