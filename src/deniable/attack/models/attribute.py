"""Attribute inference: guess a sensitive column of a person from a model's confidence in
what is known about them.

For each value v of the column the model is asked how sure it is of the person's known label; the v with the
largest product of prior and confidence is guessed. A model that learnt only that smoking harms guesses
strangers as well as those it was trained on: that is knowledge about the world. What it guesses *better* for
its own training rows has leaked from them, so strangers are the chance level.
Reference: Fredrikson et al. 2014, 2015; Yeom et al. 2018 (attribute advantage).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable.attack import asking
from deniable.attack.learnt import Floats, Learnt, Whole, percent
from deniable.datasets.survey import AGE_BANDS, COLUMNS, SIZES, SMOKES, Survey, survey
from deniable.mechanism import Random
from deniable.mechanisms import NoisyCounts
from deniable.mechanisms.classify import NaiveBayes
from deniable.units import Unit

ATTACK = "attribute"
Model: TypeAlias = Callable[[Whole], Floats]
"""Rows → the probability that the label of each is 1."""


def infer(model: Model, rows: Whole, labels: Whole, *, column: int, prior: Floats) -> Whole:
    """The likeliest value of `column` for each row, given everything else and the label;
    the column itself is not looked at."""
    fits = []
    for value, weight in enumerate(prior):
        trial = rows.copy()
        trial[:, column] = value
        sure = model(trial)
        fits.append(weight * np.where(labels == 1, sure, 1 - sure))
    return np.asarray(np.argmax(fits, axis=0), np.int64)


def attack(
    model: Model, members: Survey, strangers: Survey, *, release: str, column: int = SMOKES, group: int = 0
) -> Learnt:
    """Infer `column` for those the model was trained on and for strangers; `facts` holds
    the shares by the values of `group`."""
    prior = np.bincount(strangers.rows[:, column], minlength=SIZES[column]) / len(strangers.rows)
    right, control = (
        infer(model, data.rows, data.labels, column=column, prior=prior) == data.rows[:, column]
        for data in (members, strangers)
    )
    names = AGE_BANDS if group == 0 else tuple(map(str, range(SIZES[group])))
    own = _share_by_group(members.rows[:, group], right, names)
    strange = _share_by_group(strangers.rows[:, group], control, names)
    leaks = {g: share - strange.get(g, 0.0) for g, share in own.items()}
    most, chance = max(leaks, key=lambda g: leaks[g]), float(control.mean())
    reading = (
        f'{release}: "{COLUMNS[column]}" is guessed right for {percent(float(right.mean()))} of the '
        f"{len(right):,} people it was made from, and for {percent(chance)} of people it never saw. By "
        f"{COLUMNS[group]} the difference is largest for {most}: {percent(own[most])} against "
        f"{percent(strange.get(most, 0.0))}."
    )
    facts = {"strangers": chance, "group": COLUMNS[group], "by_group": own, "strangers_by_group": strange}
    facts |= {"column": COLUMNS[column]}
    return Learnt(ATTACK, release, int(right.sum()), len(right), chance, reading, facts=facts)


def _share_by_group(groups: Whole, right: NDArray[np.bool_], names: Sequence[str]) -> dict[str, float]:
    """The share that is right in each group, by its name."""
    return {names[g]: float(right[groups == g].mean()) for g in np.unique(groups)}


def memorising(data: Survey) -> Model:
    """The overfitted model: the share of 1 among the training rows that are exactly
    alike, ½ where there is none."""
    shape = SIZES
    cells = np.ravel_multi_index(tuple(data.rows.T), shape)
    size = int(np.prod(shape))
    ones, all_ = np.bincount(cells, data.labels, size), np.bincount(cells, minlength=size)
    table = (ones + 0.05) / (all_ + 0.1)
    return lambda rows: np.asarray(table[np.ravel_multi_index(tuple(rows.T), shape)])


def bayes(labels: Floats, features: list[Floats]) -> Model:
    """Naive Bayes from counts, as probabilities of label 1."""
    model = NaiveBayes.from_counts(labels, features)

    def confidence(rows: Whole) -> Floats:
        logs = model.prior + sum(table[rows[:, i]] for i, table in enumerate(model.features))
        return np.asarray(1 / (1 + np.exp(logs[:, 0] - logs[:, 1])), np.float64)

    return confidence


def fit_exact(data: Survey) -> Model:
    """Naive Bayes from exact counts: a model too small to memorise, without a guarantee."""
    tables = [np.zeros((size, 2)) for size in SIZES]
    for column, table in enumerate(tables):
        np.add.at(table, (data.rows[:, column], data.labels), 1)
    return bayes(np.bincount(data.labels, minlength=2).astype(np.float64), tables)


def fit_private(data: Survey, epsilon: float, rng: Random | None = None) -> Model:
    """Naive Bayes from counts released by an account of ε."""
    domains = (*(tuple(range(size)) for size in SIZES), (0, 1))
    last = len(SIZES)
    tables = ((last,), *((column, last) for column in range(last)))
    mechanism = NoisyCounts.for_budget(epsilon, domains, tables)
    rows = [(*row, label) for row, label in zip(data.rows.tolist(), data.labels.tolist(), strict=True)]
    with asking.account(epsilon, unit=Unit.row()) as account:
        labels, *features = account.run(mechanism, lambda: rows, rng=rng).value
    return bayes(np.asarray(labels, np.float64), [np.asarray(f, np.float64) for f in features])


def compare(
    size: int = 2000, *, epsilon: float = 1.0, seed: int = 0, rng: Random | None = None
) -> list[Learnt]:
    """A model that memorises, one from exact counts, and one from protected counts."""
    members, strangers = survey(size, seed=seed), survey(size, seed=seed + 1)
    models = {
        "a model that memorises": memorising(members),
        "naive Bayes from exact counts": fit_exact(members),
        f"naive Bayes from an account of ε = {epsilon:g}": fit_private(members, epsilon, rng),
    }
    return [attack(model, members, strangers, release=name) for name, model in models.items()]
