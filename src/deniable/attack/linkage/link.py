"""Linkage: a table without names, joined to one with names (Sweeney 2000).

Zip code, birth date and sex single most people out. Whoever has them from a register
finds the row, and with it the secret.
"""

from __future__ import annotations

import math

import numpy as np

from deniable.attack.learnt import Learnt, Whole, percent
from deniable.attack.linkage import hide
from deniable.attack.linkage.anonymity import guess_by_class, mondrian, swap_secrets
from deniable.datasets.people import FIRST_ZIP, ZIP_STEP, people
from deniable.errors import InvalidParameter
from deniable.mechanism import Random

ATTACK = "link"
DAYS = 365


def unique_share(columns: Whole) -> float:
    """The share of rows whose combination of values nobody else has."""
    _, counts = np.unique(columns, axis=0, return_counts=True)
    return float((counts == 1).sum() / len(columns)) if len(columns) else 0.0


def expected_unique_share(size: int, cells: int) -> float:
    """What `unique_share` is on average for `size` people in `cells` equally likely
    combinations: (1 − 1/cells)^(size − 1).

    >>> f"{expected_unique_share(7500, 365 * 80 * 2):.2f}"
    '0.88'
    """
    if size < 1 or cells < 1:
        raise InvalidParameter(f"Expected size={size} and cells={cells} to be at least 1.")
    return math.exp((size - 1) * math.log1p(-1 / cells)) if cells > 1 else float(size == 1)


def join(register: Whole, output: Whole) -> Whole:
    """For each row of the register the one row of the release that has the same values,
    −1 where there is none or several."""
    both, codes = np.unique(np.concatenate([register, output]), axis=0, return_inverse=True)
    codes = codes.reshape(-1)
    ours, theirs = codes[: len(register)], codes[len(register) :]
    counts = np.bincount(theirs, minlength=len(both))
    where = np.full(len(both), -1)
    where[theirs] = np.arange(len(theirs))
    return np.where(
        (counts[ours] == 1) & (np.bincount(ours, minlength=len(both))[ours] == 1), where[ours], -1
    )


def attack(register: Whole, secrets: Whole, output: Whole, output_secrets: Whole, *, release: str) -> Learnt:
    """Join names to the released rows, and read off the secret; row i of `register` is
    the person whose secret is `secrets[i]`.

    `output` are the quasi-identifiers of the release, `output_secrets` its secrets; its order is not used.
    Chance is the share that would be right if those who meet one row met a random one.
    """
    matches = join(register, output)
    links = matches >= 0
    right = int((output_secrets[matches[links]] == secrets[links]).sum())
    agree = float(((np.bincount(secrets) / len(secrets)) ** 2).sum())
    chance = float(links.mean()) * agree
    facts = {
        "linked": float(links.mean()),
        "wrong": int(links.sum()) - right,
        "unique": unique_share(output),
    }
    reading = (
        f"{release}: {percent(facts['linked'])} of {len(register):,} people in the register meet exactly one "
        f"row, and {right:,} ({percent(right / len(register))}) are told their true diagnosis by it; a "
        f"random row would have told {percent(chance)}."
    )
    return Learnt(ATTACK, release, right, len(secrets), chance, reading, facts=facts)


def compare(
    size: int = 20_000, k: int = 5, *, epsilon: float = 1.0, seed: int = 0, rng: Random | None = None
) -> list[Learnt]:
    """The join against the raw table, fewer columns, noise on dates, swapping,
    k-anonymity, and rows made of protected counts."""
    table = people(size, seed=seed)
    identity, secrets = hide.quasi_identifiers(table), hide.diagnoses(table)
    order = np.random.default_rng((seed, 3)).permutation(size)
    jitter = np.random.default_rng((seed, 4)).integers(-3, 4, size)
    rough_identity, classes = identity.copy(), mondrian(identity, k)
    rough_identity[:, 1] += jitter
    coarse = np.column_stack([identity[:, 0], identity[:, 1] // DAYS, identity[:, 2]])
    rows, diagnoses = synthetic(identity, secrets, epsilon, seed, rng)

    def against(name: str, people: Whole, output: Whole, output_secrets: Whole) -> Learnt:
        return attack(people, secrets, output[order], output_secrets[order], release=name)

    return [
        against("raw table", identity, identity, secrets),
        against("year of birth only", coarse, coarse, secrets),
        against("birth dates off by up to 3 days", identity, rough_identity, secrets),
        against("10 % of diagnoses swapped", identity, identity, swap_secrets(secrets, 0.1, seed)),
        against(f"{k}-anonymous, by the join", classes[:, None], classes[:, None], secrets),
        guess_by_class(classes, secrets, secrets, release=f"{k}-anonymous, by its classes"),
        attack(identity, secrets, rows, diagnoses, release=f"rows made from counts of ε = {epsilon:g}"),
    ]


def synthetic(
    identity: Whole, secrets: Whole, epsilon: float, seed: int = 0, rng: Random | None = None
) -> tuple[Whole, Whole]:
    """As many rows as the protected counts say, each with a random day within its cell:
    all that a protected release could offer.

    Drawing rows from released counts is post-processing, and costs nothing more.
    """
    counts = np.rint(hide.protect(hide.public_cells(identity), secrets, epsilon, rng)).astype(np.int64)
    cells, diagnoses = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    return _rows_of(cells, np.random.default_rng((seed, 5))), diagnoses


def _rows_of(cells: Whole, random: np.random.Generator) -> Whole:
    area, rest = np.divmod(cells, hide.PERIODS * 2)
    period, sex = np.divmod(rest, 2)
    born = hide.FIRST_DAY + period * hide.PERIOD + random.integers(0, hide.PERIOD, len(cells))
    return np.column_stack([FIRST_ZIP + ZIP_STEP * area, born, sex]).astype(np.int64)
