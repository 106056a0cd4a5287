"""A protocol on made-up users: how far off its estimates are, beside theory, and how fast it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deniable.errors import InvalidParameter
from deniable.local.arrays import Floats, Integers
from deniable.local.estimate import Estimate
from deniable.local.odds import check_whole
from deniable.local.open_domains.fast_hashing import FastLocalHashing
from deniable.local.open_domains.sketch import CountMeanSketch, HadamardSketch
from deniable.local.oracles.choose import best
from deniable.local.oracles.hadamard import HadamardResponse
from deniable.local.oracles.local_hashing import LocalHashing
from deniable.local.oracles.oracle import Oracle
from deniable.local.oracles.response import GeneralisedResponse
from deniable.local.oracles.subset import SubsetSelection
from deniable.local.oracles.unary import OptimisedUnary, SymmetricUnary
from deniable.loss import Number
from deniable.mechanism import Random

Oracles = Oracle | FastLocalHashing | CountMeanSketch | HadamardSketch

PROTOCOLS: dict[str, Callable[[int, Number], Oracles]] = {
    "best": best,
    "grr": GeneralisedResponse,
    "sue": SymmetricUnary,
    "oue": OptimisedUnary,
    "olh": LocalHashing,
    "flh": lambda k, epsilon: FastLocalHashing(epsilon),
    "hr": HadamardResponse,
    "ss": SubsetSelection,
    "cms": lambda k, epsilon: CountMeanSketch(epsilon),
    "hcms": lambda k, epsilon: HadamardSketch(epsilon),
}
"""The frequency protocols by the names of the literature."""

BATCH = 1 << 17


@dataclass(frozen=True, eq=False)
class Simulation:
    """`mse` is the mean over items of the squared error of the estimated number of
    users; `mse_theory` its expectation."""

    client: Oracles
    users: int
    truth: Integers
    estimate: Estimate
    mse: float
    mse_theory: float
    encode_seconds: float
    add_seconds: float

    @property
    def reports_per_second(self) -> float:
        """Reports encoded and counted in one second of processor time."""
        return self.users / max(self.encode_seconds + self.add_seconds, 1e-9)


def protocol(name: str, k: int, epsilon: Number) -> Oracles:
    """The client of that name."""
    if name not in PROTOCOLS:
        raise InvalidParameter(
            f"Expected protocol={name!r} to be one of {', '.join(PROTOCOLS)}. Nothing was drawn."
        )
    return PROTOCOLS[name](k, epsilon)


def zipf(k: int, exponent: float = 1.1) -> Floats:
    """Shares that fall as rank^−exponent."""
    weights = np.arange(1, k + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


def simulate(client: Oracles, k: int, users: int, *, rng: Random, seed: int = 0) -> Simulation:
    """Users with Zipf values (made up from `seed`) report through `rng`; batch by batch,
    so memory stays small."""
    check_whole("users", users, 1, 10**10)
    people, truth = np.random.default_rng(seed), np.zeros(k, np.int64)
    server, encode, add = client.server(), 0.0, 0.0
    for start in range(0, users, BATCH):
        values = people.choice(k, min(BATCH, users - start), p=zipf(k))
        truth += np.bincount(values, minlength=k)
        begun = time.process_time()
        reports = client.reports(values, rng=rng)
        middle = time.process_time()
        server.add(reports)
        encode, add = encode + middle - begun, add + time.process_time() - middle
    estimate = server.estimate(*(() if isinstance(client, Oracle) else (np.arange(k),)))
    mse = float(((estimate.counts - truth) ** 2).mean())
    return Simulation(client, users, truth, estimate, mse, theory(client, truth), encode, add)


def theory(client: Oracles, truth: Integers) -> float:
    """The expected mean squared error of an item's estimated number of users."""
    users, second = int(truth.sum()), float((truth.astype(np.float64) ** 2).sum())
    match client:
        case Oracle():
            return float(client.variance(users, truth / users).mean())
        case FastLocalHashing():
            return float(client.variance(users, truth / users).mean()) + client.collisions(second)
        case _:
            return client.variance(users, second)
