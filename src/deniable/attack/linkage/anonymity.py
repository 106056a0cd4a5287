"""k-anonymity, t-closeness and swapping, and how they fail.

A table is k-anonymous if every row shares its quasi-identifiers (zip, age, …) with k − 1 others, its *class*.
What the class says about the secret is published exactly, and that is the failure: homogeneity (all secrets
of a class are the same), background knowledge (all but one can be excluded), and composition (several such
tables about the same people are exact subset counts, hence reconstructed). Reference: Sweeney 2002;
Machanavajjhala et al. 2006; Li, Li, Venkatasubramanian 2007; Ganta, Kasiviswanathan, Smith 2008.

>>> from deniable.datasets import hospital
>>> found = homogeneity(classes_of(generalise(hospital())), hospital()["disease"].to_pylist())
>>> found
{0: 'heart disease', 1: 'heart disease', 2: 'heart disease'}
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.attack.counts.solve import least_squares
from deniable.attack.learnt import Floats, Learnt, Whole, percent, percent_up
from deniable.errors import InvalidParameter

# --------------------------------------------------------------------------------------- making and measuring


def classes_of(keys: Sequence[Hashable]) -> Whole:
    """Number the classes: rows with equal keys get the same number, in the order of their first row."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def generalise(table: Any) -> list[tuple[str, str]]:
    """The 3-anonymous form of the hospital's nine rows that is taught: ages by decade
    (40 and over together), zips cut short."""
    rows = zip(table["zip"].to_pylist(), table["age"].to_pylist(), strict=True)
    return [(f"{z // 10}*", "≥ 40") if age >= 40 else (f"{z // 100}**", f"{age // 10}*") for z, age in rows]


def mondrian(columns: NDArray[Any], k: int, *, secrets: Whole | None = None, t: float | None = None) -> Whole:
    """Cut the rows at medians, widest column first, while every part keeps k rows (and
    lies t-close to the whole).

    Reference: LeFevre, DeWitt, Ramakrishnan 2006.
    """
    if k < 1 or len(columns) < k:
        raise InvalidParameter(f"Expected k={k} from 1 to the {len(columns)} rows.")
    if (t is None) is not (secrets is None):
        raise InvalidParameter("Expected t and secrets together: closeness is about the secrets.")
    if t is not None and not 0 <= t <= 1:
        raise InvalidParameter(f"Expected t={t:g} in [0, 1].")
    # Ranks make columns of different measures comparable.
    ranks = np.column_stack([np.unique(c, return_inverse=True)[1] for c in columns.T])
    ranks = ranks / np.maximum(ranks.max(axis=0), 1)
    parts, numbers = [np.arange(len(columns))], np.zeros(len(columns), np.int64)
    final = 0
    while parts:
        part = parts.pop()
        cut = _cut(ranks[part], k, None if secrets is None else secrets[part], secrets, t)
        if cut is None:
            numbers[part] = final
            final += 1
        else:
            parts += [part[cut], part[~cut]]
    return numbers


def _cut(
    ranks: Floats, k: int, part: Whole | None, population: Whole | None, t: float | None
) -> NDArray[np.bool_] | None:
    for column in np.argsort(-np.ptp(ranks, axis=0), kind="stable"):
        values = ranks[:, column]
        left = (
            values < np.median(values) if (values < np.median(values)).any() else values <= np.median(values)
        )
        if not k <= int(left.sum()) <= len(ranks) - k:
            continue
        if part is None or population is None or t is None:
            return np.asarray(left)
        if max(distance(part[left], population), distance(part[~left], population)) <= t:
            return np.asarray(left)
    return None


def distance(part: Whole, population: Whole) -> float:
    """The earth mover's distance of the two distributions of secrets, all values equally
    far apart: total variation."""
    size = int(max(part.max(), population.max())) + 1
    shares = [np.bincount(x, minlength=size) / len(x) for x in (part, population)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def anonymity(classes: Whole) -> int:
    """k: the size of the smallest class."""
    return int(np.unique(classes, return_counts=True)[1].min())


def diversity(classes: Whole, secrets: Sequence[Any]) -> int:
    """l: the fewest different secrets in a class."""
    return min(len(values) for values in _values(classes, secrets).values())


def closeness(classes: Whole, secrets: Whole) -> float:
    """t: the largest distance between a class and the whole table."""
    return max(distance(secrets[classes == c], secrets) for c in np.unique(classes))


def swap_secrets(secrets: Whole, rate: float, seed: int = 0) -> Whole:
    """Exchange the secrets of about `rate` of the rows in random pairs, as statistical offices do."""
    if not 0 <= rate <= 1:
        raise InvalidParameter(f"Expected rate={rate:g} in [0, 1].")
    rng = np.random.default_rng(seed)
    picks = rng.permutation(len(secrets))[: 2 * round(rate * len(secrets) / 2)]
    result = secrets.copy()
    result[picks] = secrets[np.concatenate([picks[len(picks) // 2 :], picks[: len(picks) // 2]])]
    return result


# ------------------------------------------------------------------------------------------------ one table


def _values(classes: Whole, secrets: Sequence[Any]) -> dict[int, set[Any]]:
    groups: dict[int, set[Any]] = {}
    for number, value in zip(classes.tolist(), secrets, strict=True):
        groups.setdefault(number, set()).add(value)
    return groups


def homogeneity(classes: Whole, secrets: Sequence[Any]) -> dict[int, Any]:
    """Row → secret, for the rows whose whole class has the same one: whoever finds the
    class knows it for certain."""
    return background(classes, secrets, {})


def background(
    classes: Whole, secrets: Sequence[Any], impossible: Mapping[int, Collection[Any]]
) -> dict[int, Any]:
    """Row → secret, for the rows with one possible secret left, where `impossible[row]`
    are known not to be theirs."""
    values = _values(classes, secrets)
    left = {row: values[c] - set(impossible.get(row, ())) for row, c in enumerate(classes.tolist())}
    return {row: next(iter(options)) for row, options in left.items() if len(options) == 1}


def guess_by_class(
    classes: Whole, secrets: Whole, output: Whole | Floats, *, release: str, epsilon: float | None = None
) -> Learnt:
    """Guess each person's secret as the commonest one of their class in what was `output`.

    `output` is a secret per row (as in a k-anonymous table), or counts by (class,
    secret). Chance is the same guess made from a release without the person's own row:
    what others' rows say is not learnt from theirs. Where the release is ε-DP, no guess
    is right more than e^ε times as often as it would be without that row.
    """
    size = int(secrets.max()) + 1
    shape = (int(classes.max()) + 1, size)
    rows = output.ndim == 1
    table = _histogram(classes, output.astype(np.int64), shape) if rows else output.astype(np.float64)
    overall = table.sum(axis=0) / max(table.sum(), 1.0)
    with_row = table[classes]
    own = np.zeros_like(with_row)
    own[np.arange(len(secrets)), output.astype(np.int64) if rows else secrets] = 1.0
    # Ties, and classes that say nothing, are decided by the table as a whole.
    right = (with_row + 0.5 * overall).argmax(axis=1) == secrets
    without = (with_row - own + 0.5 * overall).argmax(axis=1) == secrets
    certain = (np.count_nonzero(with_row > 0.5, axis=1) == 1) & right
    facts = {"certain": float(certain.mean()), "classes": shape[0]}
    chance = float(without.mean())
    ceiling = None if epsilon is None else min(1.0, math.exp(epsilon) * chance)
    bound = (
        "" if ceiling is None else f"; with a row more, no guess can expect more than {percent_up(ceiling)}"
    )
    reading = (
        f"{release}: the commonest diagnosis of a person's class is theirs for "
        f"{percent(float(right.mean()))} of {len(secrets):,} people, and certain for "
        f"{percent(facts['certain'])}; from the others' rows alone the guess is right for "
        f"{percent(chance)}{bound}."
    )
    return Learnt("anonymity", release, int(right.sum()), len(secrets), chance, reading, ceiling, facts)


def _histogram(classes: Whole, secrets: Whole, shape: tuple[int, int]) -> Floats:
    return (
        np.bincount(classes * shape[1] + secrets, minlength=shape[0] * shape[1])
        .reshape(shape)
        .astype(np.float64)
    )


# --------------------------------------------------------------------------------------------- several tables


def compose(partitions: Sequence[Whole], outputs: Sequence[Whole], secrets: Whole, *, release: str) -> Learnt:
    """Several tables about the same people, each cut into other classes: every class is
    an exact count over a known set.

    `outputs[r]` is the secret of each row as table r shows it (shuffled within
    classes, which changes no count). For each value of the secret the counts are solved
    for one indicator per person; the largest decides.
    """
    size = int(secrets.max()) + 1
    subsets = np.concatenate([(p[None, :] == np.unique(p)[:, None]).astype(np.uint8) for p in partitions])
    scores = []
    for value in range(size):
        answers = [np.bincount(p, weights=s == value) for p, s in zip(partitions, outputs, strict=True)]
        scores.append(least_squares(subsets, np.concatenate(answers), tolerance=1e-4, max_steps=2000))
    right = int((np.argmax(scores, axis=0) == secrets).sum())
    chance = float(np.bincount(secrets).max() / len(secrets))
    reading = (
        f"{release}: {len(partitions)} tables about the same {len(secrets):,} people together give the "
        f"secrets of {percent(right / len(secrets))}; the commonest value is that of {percent(chance)}."
    )
    return Learnt(
        "composition", release, right, len(secrets), chance, reading, facts={"tables": len(partitions)}
    )
