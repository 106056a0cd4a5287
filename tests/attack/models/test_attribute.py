"""A model that memorises gives a sensitive column away; what it tells about strangers is no leak."""

from __future__ import annotations

import math

import numpy as np

from deniable.attack import attribute
from deniable.datasets import survey
from deniable.datasets.survey import SMOKES
from deniable.randomness import SeededRandom

MEMBERS, STRANGERS = survey(3000, seed=1), survey(3000, seed=2)


def gap(model: attribute.Model) -> float:
    found = attribute.attack(model, MEMBERS, STRANGERS, release="x")
    return found.share - found.chance


def test_the_column_itself_is_not_looked_at() -> None:
    model, prior = attribute.fit_exact(MEMBERS), np.array([0.5, 0.5])
    blind = MEMBERS.rows.copy()
    blind[:, SMOKES] = 0
    assert (
        attribute.infer(model, blind, MEMBERS.labels, column=SMOKES, prior=prior)
        == attribute.infer(model, MEMBERS.rows, MEMBERS.labels, column=SMOKES, prior=prior)
    ).all()


def test_a_perfect_model_of_the_column_is_read_off() -> None:
    labels = MEMBERS.rows[:, SMOKES]
    found = attribute.infer(
        lambda rows: 0.1 + 0.8 * rows[:, SMOKES],
        MEMBERS.rows,
        labels,
        column=SMOKES,
        prior=np.array([0.7, 0.3]),
    )
    assert (found == labels).all()


def test_memorising_leaks_and_counting_does_not() -> None:
    deviation = math.sqrt(2 * 0.25 / 3000)
    assert gap(attribute.memorising(MEMBERS)) > 6.2 * deviation
    assert abs(gap(attribute.fit_exact(MEMBERS))) < 6.2 * deviation
    assert abs(gap(attribute.fit_private(MEMBERS, 1.0, SeededRandom(1)))) < 6.2 * deviation


def test_naive_bayes_gives_the_probability_of_a_naive_product() -> None:
    model = attribute.fit_exact(MEMBERS)
    row = MEMBERS.rows[:1]
    weight = []
    for label in (0, 1):
        inside = MEMBERS.rows[MEMBERS.labels == label]
        p = (len(inside) + 1) / (len(MEMBERS.rows) + 2)
        for column, size in enumerate(attribute.SIZES):
            p *= ((inside[:, column] == row[0, column]).sum() + 1) / (len(inside) + size)
        weight.append(p)
    assert math.isclose(float(model(row)[0]), weight[1] / sum(weight), rel_tol=1e-9)


def test_shares_are_told_by_group() -> None:
    found = attribute.attack(attribute.memorising(MEMBERS), MEMBERS, STRANGERS, release="x", group=2)
    groups = MEMBERS.rows[:, 2]
    assert found.facts["group"] == "job"
    strange = STRANGERS.rows[:, 2]
    control = sum(
        share * (strange == int(g)).mean() for g, share in found.facts["strangers_by_group"].items()
    )
    assert math.isclose(control, found.chance, rel_tol=1e-9)
    own, others = found.facts["by_group"], found.facts["strangers_by_group"]
    most = max(own, key=lambda g: own[g] - others[g])
    assert f"By job the difference is largest for {most}:" in found.reading
    mean = sum(share * (groups == int(g)).mean() for g, share in found.facts["by_group"].items())
    assert math.isclose(mean, found.share, rel_tol=1e-9)


def test_models_are_compared() -> None:
    memorised, counted, paid = attribute.compare(1500, rng=SeededRandom(2))
    assert memorised.share - memorised.chance > max(counted.share - counted.chance, paid.share - paid.chance)
    assert '"smokes" is guessed right' in memorised.reading
