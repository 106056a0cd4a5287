"""People from published tables: every count, median and mean is an equation, and a small
block has few solutions.

A block's people are a table of whole numbers, one for each (age, sex, group). What is
published about it are linear bounds on that table; HiGHS finds a table that meets them
all, and then either another one or the proof that there is none.
Reference: Garfinkel, Abowd, Martindale 2019 (Understanding database reconstruction
           attacks on public data); Abowd et al. 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from deniable.attack import asking
from deniable.attack.learnt import Floats, Learnt, Whole, percent
from deniable.datasets.blocks import GROUPS, OLDEST, SEXES, blocks
from deniable.errors import InvalidParameter
from deniable.mechanism import Random
from deniable.mechanisms import NoisyCounts
from deniable.units import Unit

ATTACK = "tables"
AGES = OLDEST + 1
SHAPE = (AGES, len(SEXES), len(GROUPS))
BAND = 10
BANDS = AGES // BAND

age_of, sex_of, group_of = (index.ravel() for index in np.indices(SHAPE))
EVERYBODY = np.ones(len(age_of), bool)
_HALF = 0.05 + 1e-6
"""How far a mean of one decimal may be off, and a trifle for rounding."""


@dataclass(frozen=True)
class PublishedStatistic:
    """Published: low ≤ Σ weights·table ≤ high."""

    weights: Floats
    low: float
    high: float


def people_of(table: Any, block: int) -> Whole:
    """The block's people as a table of counts by (age, sex, group), flat."""
    rows = [row for row in table.to_pylist() if row["block"] == block]
    cells = [(row["age"], SEXES.index(row["sex"]), GROUPS.index(row["group"])) for row in rows]
    flat = np.ravel_multi_index(tuple(np.array(cells, np.int64).reshape(-1, 3).T), SHAPE)
    return np.asarray(np.bincount(flat, minlength=len(EVERYBODY)), np.int64)


# ------------------------------------------------------------------------------------------------ publishing


def families() -> Iterator[NDArray[np.bool_]]:
    """Everybody; each sex; each group; each sex in each group."""
    sexes = [sex_of == s for s in range(len(SEXES))]
    groups = [group_of == g for g in range(len(GROUPS))]
    yield EVERYBODY
    yield from sexes
    yield from groups
    yield from (s & g for s in sexes for g in groups)


def publish(people: Whole, *, least: int = 1, base: int = 1) -> list[PublishedStatistic]:
    """Count, median and mean age of every family, and counts by sex and ten years of age.

    Nothing is said about families of fewer than `least` people; with `base` above 1
    counts are rounded to its multiples.
    """
    statistics: list[PublishedStatistic] = []
    for family in families():
        size = int(people[family].sum())
        if size >= least:
            statistics.append(_count(family, size, base))
            statistics += _ages(people, family) if size else []
    bands = [(age_of // BAND == b) & (sex_of == s) for b in range(BANDS) for s in range(len(SEXES))]
    sizes = [int(people[band].sum()) for band in bands]
    return statistics + [
        _count(b, n, base) for b, n in zip(bands, sizes, strict=True) if n >= least or (n == 0 and least == 1)
    ]


def _count(members: NDArray[np.bool_], size: int, base: int = 1) -> PublishedStatistic:
    """A count, exact or rounded to the nearest multiple of `base` (halves up)."""
    multiple = (2 * size + base) // (2 * base) * base
    inside = [
        n
        for n in range(max(0, multiple - base), multiple + base + 1)
        if (2 * n + base) // (2 * base) * base == multiple
    ]
    return PublishedStatistic(members.astype(np.float64), inside[0], inside[-1])


def _ages(people: Whole, family: NDArray[np.bool_]) -> list[PublishedStatistic]:
    """The lower median, and the mean to one decimal, as bounds that do not need the family's size.

    At least half of the family are of the median age m or younger, less than half are younger than m.
    """
    ages = np.repeat(age_of[family], people[family])
    median, mean = int(np.sort(ages)[(len(ages) - 1) // 2]), round(float(ages.mean()), 1)
    at_most, below = family & (age_of <= median), family & (age_of < median)
    return [
        PublishedStatistic(2.0 * at_most - family, 0, np.inf),
        PublishedStatistic(2.0 * below - family, -np.inf, -1),
        PublishedStatistic(np.where(family, age_of - mean - _HALF, 0.0), -np.inf, 0),
        PublishedStatistic(np.where(family, age_of - mean + _HALF, 0.0), 0, np.inf),
    ]


def perturb_counts(
    statistics: Sequence[PublishedStatistic], rng: np.random.Generator
) -> list[PublishedStatistic]:
    """Naive noise: every count is published off by −1, 0 or 1. Whoever knows the rule is
    left with an interval."""
    numbers = [max(0.0, s.low + int(rng.integers(-1, 2))) if s.low == s.high else None for s in statistics]
    return [
        s if n is None else PublishedStatistic(s.weights, max(0.0, n - 1), n + 1)
        for s, n in zip(statistics, numbers, strict=True)
    ]


def protect(
    table: Any, count: int, epsilon: float, rng: Random | None = None
) -> list[list[PublishedStatistic]]:
    """Counts of `count` blocks by sex and age, sex and group, group and age, through a
    ledger account of ε for a person.

    Which blocks there are is public: it is given, and not read from where people live.
    """
    block_numbers = tuple(range(count))
    domains = (block_numbers, tuple(range(BANDS)), tuple(range(len(SEXES))), tuple(range(len(GROUPS))))
    mechanism = NoisyCounts.for_budget(epsilon, domains, ((0, 1, 2), (0, 2, 3), (0, 1, 3)))
    people = [
        (r["block"], r["age"] // BAND, SEXES.index(r["sex"]), GROUPS.index(r["group"]))
        for r in table.to_pylist()
    ]
    with asking.account(epsilon, unit=Unit.row()) as account:
        counts = account.run(mechanism, lambda: people, rng=rng).value
    values = (None, age_of // BAND, sex_of, group_of)
    return [
        [
            s
            for axes, count in zip(((1, 2), (2, 3), (1, 3)), counts, strict=True)
            for s in _noisy(count[b], axes, values)
        ]
        for b in block_numbers
    ]


def _noisy(counts: Whole, axes: Sequence[int], values: Sequence[Any]) -> Iterator[PublishedStatistic]:
    for place, number in np.ndenumerate(counts):
        cell = reduce(np.logical_and, (values[a] == p for a, p in zip(axes, place, strict=True)))
        value = max(0.0, float(number))
        yield PublishedStatistic(cell.astype(np.float64), value, value)


def swap(table: Any, rate: float, seed: int = 0) -> Any:
    """Exchange the blocks of about `rate` of the people in random pairs, before anything is tabulated."""
    if not 0 <= rate <= 1:
        raise InvalidParameter(f"Expected rate={rate:g} in [0, 1].")
    where = table["block"].to_numpy().copy()
    picks = np.random.default_rng(seed).permutation(len(where))[: 2 * round(rate * len(where) / 2)]
    half = len(picks) // 2
    where[picks] = where[np.concatenate([picks[half:], picks[:half]])]
    return table.set_column(0, "block", [where])


# ------------------------------------------------------------------------------------------------ solving


def solve(statistics: Sequence[PublishedStatistic], *, nodes: int = 500) -> Whole:
    """People whom nothing published contradicts; if none are found, people contradicted
    as little as possible."""
    weights, low, high = _rules(statistics)
    people = _integers(np.zeros(len(EVERYBODY)), [LinearConstraint(weights, low, high)], nodes)
    return _nearest(weights, low, high, nodes) if people is None else people


def _rules(statistics: Sequence[PublishedStatistic]) -> tuple[Floats, Floats, Floats]:
    return (
        np.array([s.weights for s in statistics]),
        np.array([s.low for s in statistics]),
        np.array([s.high for s in statistics]),
    )


def _integers(cost: Floats, rules: Sequence[LinearConstraint], nodes: int) -> Whole | None:
    """The cheapest table of whole numbers under the rules; variables beyond the table's cells are real."""
    integrality = (np.arange(len(cost)) < len(EVERYBODY)).astype(np.int64)
    solution = milp(
        cost,
        constraints=rules,
        integrality=integrality,
        bounds=Bounds(0, np.inf),
        options={"node_limit": nodes},
    )
    return None if solution.x is None else np.rint(solution.x[: len(EVERYBODY)]).astype(np.int64)


def _nearest(weights: Floats, low: Floats, high: Floats, nodes: int) -> Whole:
    """The least sum of violations, one slack for each statistic."""
    slack = np.eye(len(low))
    rules = [
        LinearConstraint(np.hstack([weights, slack]), lb=low),
        LinearConstraint(np.hstack([weights, -slack]), ub=high),
    ]
    people = _integers(np.r_[np.zeros(len(EVERYBODY)), np.ones(len(low))], rules, nodes)
    return np.zeros(len(EVERYBODY), np.int64) if people is None else people


def unique(statistics: Sequence[PublishedStatistic], table: Whole, *, nodes: int = 500) -> bool:
    """Whether `table` is proved to be the only table that meets every statistic.

    Asks for the most people who can stand where `table` has none, and then for each cell it uses how far that
    can rise; another table of the same size would need one or the other.
    """
    rule = LinearConstraint(*_rules(statistics))
    goals = [
        (table == 0).astype(np.float64),
        *(np.arange(len(table)) == cell for cell in np.flatnonzero(table)),
    ]
    for goal in goals:
        solution = milp(
            -np.asarray(goal, np.float64),
            constraints=[rule],
            integrality=np.ones(len(table)),
            bounds=Bounds(0, np.inf),
            options={"node_limit": nodes},
        )
        if solution.status != 0 or -solution.fun > float(goal @ table) + 0.5:
            return False
    return True


# ------------------------------------------------------------------------------------------------ attacking


def attack(
    truth: Sequence[Whole],
    statistics: Sequence[Sequence[PublishedStatistic]],
    *,
    release: str,
    proofs: bool = False,
) -> Learnt:
    """Solve every block and count the people found with their exact age, sex and group.
    Chance: another block's people."""
    solutions = [solve(block) for block in statistics]
    right = sum(int(np.minimum(t, f).sum()) for t, f in zip(truth, solutions, strict=True))
    of = int(sum(t.sum() for t in truth))
    other = sum(int(np.minimum(t, u).sum()) for t, u in zip(truth, [*truth[1:], truth[0]], strict=True))
    facts: dict[str, Any] = {"blocks": len(truth)}
    proof = ""
    if proofs:
        facts["proved_unique"] = sum(unique(s, f) for s, f in zip(statistics, solutions, strict=True))
        proof = f" In {facts['proved_unique']} of {len(truth)} blocks this is proved to be the only solution."
    reading = (
        f"{release}: {right} of {of} people ({percent(right / of)}) were found with their exact age, sex and "
        f"group; the people of another block would be right for {percent(other / of)}.{proof}"
    )
    return Learnt(ATTACK, release, right, of, other / of, reading, facts=facts)


def plans(
    count: int = 20, *, epsilon: float = 1.0, seed: int = 0, rng: Random | None = None
) -> list[Callable[[], Learnt]]:
    """Full tables, small cells suppressed, rounded counts, swapped people, noisy counts,
    and an account: one attack each."""
    table = blocks(count, seed=seed)
    truth, noise = each_block(table, count), np.random.default_rng((seed, 12))

    def exact(release: str, people: list[Whole], proofs: bool = False, **rules: int) -> Callable[[], Learnt]:
        return lambda: attack(truth, [publish(p, **rules) for p in people], release=release, proofs=proofs)

    return [
        exact("counts, medians and means", truth, proofs=True),
        exact("the same, cells under 3 suppressed", truth, least=3),
        exact("counts rounded to threes, medians and means", truth, base=3),
        exact("full tables, 10 % of people swapped", each_block(swap(table, 0.1, seed), count)),
        lambda: attack(
            truth,
            [perturb_counts(publish(p), noise) for p in truth],
            release="counts off by up to one, medians and means",
        ),
        lambda: attack(
            truth, protect(table, count, epsilon, rng), release=f"counts from an account of ε = {epsilon:g}"
        ),
    ]


def compare(
    count: int = 20, *, epsilon: float = 1.0, seed: int = 0, rng: Random | None = None
) -> list[Learnt]:
    """All of `plans`."""
    return [plan() for plan in plans(count, epsilon=epsilon, seed=seed, rng=rng)]


def each_block(table: Any, count: int) -> list[Whole]:
    return [people_of(table, block) for block in range(count)]
