"""The same made-up town, published in six ways, and what its neighbours learn from each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from deniable.attack import asking
from deniable.attack.learnt import Floats, Learnt, Whole
from deniable.attack.linkage.anonymity import closeness, compose, guess_by_class, mondrian, swap_secrets
from deniable.datasets.people import DIAGNOSES, FIRST, FIRST_ZIP, ZIP_STEP, people
from deniable.datasets.sizes import at_least
from deniable.mechanism import Random
from deniable.mechanisms import NoisyCounts
from deniable.units import Unit


def quasi_identifiers(table: Any) -> Whole:
    """Zip, birth as days, sex as 0 or 1: one row of whole numbers per person."""
    born = table["birth"].cast(pa.int32()).to_numpy()
    sex = np.array(table["sex"].to_pylist()) == "M"
    return np.column_stack([table["zip"].to_numpy(), born, sex]).astype(np.int64)


def diagnoses(table: Any) -> Whole:
    """The diagnosis as a position in `DIAGNOSES`."""
    return np.array([DIAGNOSES.index(name) for name in table["diagnosis"].to_pylist()], np.int64)


ZIPS, PERIODS, PERIOD = 4, 2, 14_610
FIRST_DAY = int(FIRST.astype(int))


def public_cells(identity: Whole) -> Whole:
    """The cell of each person in a grid of zip, birth before or after 1970 and sex that
    is fixed before any row is seen.

    The classes of `mondrian` depend on the rows, so counts over them would leak through
    the cuts, whatever their noise.
    """
    area = np.clip((identity[:, 0] - FIRST_ZIP) // ZIP_STEP, 0, ZIPS - 1)
    period = np.clip((identity[:, 1] - FIRST_DAY) // PERIOD, 0, PERIODS - 1)
    return np.asarray((area * PERIODS + period) * 2 + identity[:, 2], np.int64)


def compare(
    size: int = 4000,
    k: int = 5,
    *,
    t: float = 0.2,
    epsilon: float = 1.0,
    seed: int = 0,
    rng: Random | None = None,
) -> list[Learnt]:
    """Guess diagnoses from the raw table and from k-anonymous, t-close, swapped, naively
    noisy and protected ones."""
    at_least(100, people=size)
    table = people(size, seed=seed)
    identity, secrets = quasi_identifiers(table), diagnoses(table)
    alone, classes = np.arange(size), mondrian(identity, k)
    close = mondrian(identity, k, secrets=secrets, t=t)
    noise = np.random.default_rng(seed).integers(-1, 2, (int(classes.max()) + 1, len(DIAGNOSES)))
    noisy = np.maximum(_counts(classes, secrets) + noise, 0)
    cells = public_cells(identity)
    counts = protect(cells, secrets, epsilon, rng)
    return [
        guess_by_class(alone, secrets, secrets, release="raw table"),
        guess_by_class(alone, secrets, swap_secrets(secrets, 0.1, seed), release="raw table, 10 % swapped"),
        guess_by_class(classes, secrets, secrets, release=f"{k}-anonymous"),
        guess_by_class(classes, secrets, noisy, release=f"{k}-anonymous, counts off by up to one"),
        guess_by_class(
            close, secrets, secrets, release=f"{k}-anonymous and {closeness(close, secrets):.2f}-close"
        ),
        link_across_tables(min(size, 400), 12, t=0.3, seed=seed),
        guess_by_class(cells, secrets, counts, release=f"account of ε = {epsilon:g}", epsilon=epsilon),
    ]


def link_across_tables(size: int, tables: int, *, k: int = 20, t: float = 0.3, seed: int = 0) -> Learnt:
    """`tables` t-close tables about the same people, each grouped by other attributes,
    reconstructed together."""
    secrets = diagnoses(people(size, seed=seed))
    partitions = [
        mondrian(np.random.default_rng((seed, r)).random((size, 2)), k, secrets=secrets, t=t)
        for r in range(tables)
    ]
    worst = max(closeness(p, secrets) for p in partitions)
    return compose(
        partitions, [secrets] * tables, secrets, release=f"{tables} tables, each {worst:.2f}-close"
    )


def protect(cells: Whole, secrets: Whole, epsilon: float, rng: Random | None = None) -> Floats:
    """Counts by (public cell, diagnosis) through a ledger account of ε."""
    domains = (tuple(range(ZIPS * PERIODS * 2)), tuple(range(len(DIAGNOSES))))
    mechanism = NoisyCounts.for_budget(epsilon, domains)
    rows = list(zip(cells.tolist(), secrets.tolist(), strict=True))
    with asking.account(epsilon, unit=Unit.row()) as account:
        (counts,) = account.run(mechanism, lambda: rows, rng=rng).value
    return np.maximum(counts, 0).astype(np.float64)


def _counts(classes: Whole, secrets: Whole) -> Whole:
    cells = np.bincount(
        classes * len(DIAGNOSES) + secrets, minlength=(int(classes.max()) + 1) * len(DIAGNOSES)
    )
    return cells.reshape(-1, len(DIAGNOSES))
