"""Noise per condition, and the arithmetic query that tricks it.

Some systems seed their noise by the text of each condition of a query, and add a layer for every condition:
asking again tells nothing, and naming half of n people one by one costs n/2 layers. But one *arithmetic*
condition, such as `floor(sqrt(id * 17.3) * 1000) % 2 = 0`, picks a set that is as good as random at the price
of one layer. Reconstruction does the rest. Reference: Francis, Probst, Munz 2017 (the noise); Cohen, Nissim
2018 (Linear program reconstruction in practice).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from deniable.attack import asking
from deniable.attack.asking import Subsets
from deniable.attack.counts.baselines import hashed_normal
from deniable.attack.counts.reconstruct import ceiling, secret
from deniable.attack.counts.solve import SolvingMethod, solve
from deniable.attack.learnt import Bits, Learnt, percent, percent_up
from deniable.errors import BudgetExceeded
from deniable.ledger import Account
from deniable.mechanism import Random
from deniable.mechanisms import Gaussian

ATTACK = "trick query"
Conditions = Sequence[str]


@dataclass(frozen=True)
class Layered:
    """A curator of one table in DuckDB: for each condition a noise layer fixed by its
    text, and one by whom the answer counts."""

    connection: duckdb.DuckDBPyConnection
    deviation: float
    secret: str

    @classmethod
    def from_bits(cls, bits: Bits, deviation: float = 1.0, secret: str = "salt") -> Layered:
        """A table `patients` with the columns id and sick, in memory."""
        connection = duckdb.connect()
        table = pa.table({"id": np.arange(1, len(bits) + 1), "sick": bits.astype(np.int64)})
        connection.register("patients", table)
        return cls(connection, deviation, secret)

    def count(self, conditions: Conditions) -> float:
        """How many rows meet all conditions, with two layers of noise for each."""
        text = f"SELECT list(id ORDER BY id) FROM patients WHERE {' AND '.join(conditions)}"
        ((members,),) = self.connection.execute(text).fetchall()
        ids = list(members or ())
        layers = [hashed_normal(self.secret, c.encode()) for c in conditions]
        layers += [hashed_normal(self.secret, f"{c}|{ids}".encode()) for c in conditions]
        return len(ids) + self.deviation * sum(layers)


@dataclass(frozen=True)
class Trick:
    """One arithmetic condition that picks about half of the ids."""

    factor: float
    scale: int = 1000

    @property
    def condition(self) -> str:
        return f"floor(sqrt(id * {self.factor!r}) * {self.scale}) % 2 = 0"

    def members(self, ids: asking.Answers) -> Subsets:
        """Whom it picks: products, roots and floors of doubles are the same in every
        engine that follows IEEE 754."""
        return np.asarray(np.floor(np.sqrt(ids * self.factor) * self.scale) % 2 == 0, np.uint8)


def tricks(queries: int, seed: int = 0) -> list[Trick]:
    factors = np.random.default_rng(seed).uniform(2, 3, queries)
    return [Trick(round(float(factor), 9)) for factor in factors]


def attack(
    count: Callable[[Conditions], float],
    bits: Bits,
    queries: int,
    *,
    release: str,
    method: SolvingMethod = SolvingMethod.LEAST_SQUARES,
    bound: float | None = None,
    seed: int = 0,
) -> Learnt:
    """Ask `count` for the sick among those whom each trick picks, and reconstruct."""
    ids = np.arange(1, len(bits) + 1, dtype=np.float64)
    questions = tricks(queries, seed)
    subsets = np.array([trick.members(ids) for trick in questions])
    answers: list[float] = []
    for trick in questions:
        try:
            answers.append(count(["sick = 1", trick.condition]))
        except BudgetExceeded:
            break
    return _score(solve(subsets, np.array(answers), method), bits, len(answers), release, bound)


def by_name(
    count: Callable[[Conditions], float], bits: Bits, queries: int, *, release: str, seed: int = 0
) -> Learnt:
    """The same with sets that are named, a condition `id <> …` for everybody left out:
    what the layers were made against."""
    subsets = asking.random_subsets(queries, len(bits), seed)
    answers = [
        count(["sick = 1", *(f"id <> {i + 1}" for i in np.flatnonzero(subset == 0))]) for subset in subsets
    ]
    return _score(solve(subsets, np.array(answers)), bits, len(answers), release)


def _score(guess: Bits, bits: Bits, answers: int, release: str, bound: float | None = None) -> Learnt:
    right = int((guess == bits).sum())
    promise = "" if bound is None else f" No attack on that account can expect more than {percent_up(bound)}."
    reading = (
        f"{release}: {answers:,} answers give {percent(right / len(bits))} of {len(bits)} patients' "
        f"secrets; guessing gets 50 %.{promise}"
    )
    return Learnt(ATTACK, release, right, len(bits), 0.5, reading, bound, {"answered": answers})


def compare(
    people: int = 40, queries: int = 200, *, epsilon: float = 1.0, seed: int = 0, rng: Random | None = None
) -> list[Learnt]:
    """The trick on exact counts, layered noise, counts with the small ones suppressed,
    and an account; and named sets."""
    bits = secret(people, seed)
    curator, truth = Layered.from_bits(bits), Layered.from_bits(bits, deviation=0)
    results = [
        attack(truth.count, bits, queries, release="exact counts, arithmetic", seed=seed),
        attack(curator.count, bits, queries, release="noise per condition, arithmetic", seed=seed),
        attack(
            suppress_small(truth.count),
            bits,
            queries,
            release="counts under 5 left out, arithmetic",
            seed=seed,
        ),
        by_name(curator.count, bits, queries, release="noise per condition, people named", seed=seed),
    ]
    with asking.account(epsilon, 1e-6) as account:
        sigma = math.sqrt(queries / (2 * account.remaining().rho)) * (1 + 1e-9)
        mechanism = Gaussian(sigma, unit=asking.PERSON)

        def count_by_account(conditions: Conditions) -> float:
            return float(account_count(account, truth, mechanism, conditions, rng))

        name, bound = f"account of ε = {epsilon:g}, arithmetic", ceiling(epsilon, 1e-6)
        return [*results, attack(count_by_account, bits, queries, release=name, bound=bound, seed=seed)]


def suppress_small(count: Callable[[Conditions], float], least: int = 5) -> Callable[[Conditions], float]:
    """k-anonymity for counts: 0 is said where fewer than `least` people meet the conditions."""

    def answer(conditions: Conditions) -> float:
        size = count(conditions)
        return size if size >= least else 0.0

    return answer


def account_count(
    account: Account, table: Layered, mechanism: Gaussian, conditions: Conditions, rng: Random | None = None
) -> int:
    """One exact count, released through an account: what a condition looks like makes no
    difference to its noise."""
    return int(account.run(mechanism, lambda: int(table.count(conditions)), rng=rng).value)
