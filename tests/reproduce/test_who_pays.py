"""Who pays: the noise is what ε asks for, clipping bounds every row, and errors in SQL
fall with a group's size."""

from __future__ import annotations

import numpy as np
import pytest

from deniable.accounting import calibrate_noise
from deniable.datasets import blocks
from deniable.reproduce import who_pays, who_pays_sql
from deniable.reproduce._groups import DELTA, GroupSteps, People, groups, scores


def made_up(rows: int = 3000, seed: int = 0) -> People:
    """Two groups whose labels follow opposite signs of the second feature; the second is a tenth."""
    g = np.random.default_rng(seed)
    named = np.where(g.random(rows) < 0.1, "white women", "white men")
    x = g.normal(size=(rows, 3))
    x[:, 2] = named == "white women"
    labels = (x[:, 0] + 0.3 * g.normal(size=rows) > 0).astype(np.int64)
    x *= np.minimum(1, 2 / np.linalg.norm(x, axis=1, keepdims=True))
    return People(x.astype(np.float32), labels, named)


def test_the_noise_is_what_epsilon_asks_for_and_what_the_longest_gradient_needs() -> None:
    multiplier = calibrate_noise(2.0, DELTA, rate=0.1, steps=50)
    assert GroupSteps(2.0, clip=0.5, steps=50, lot=100).noise(1000) == pytest.approx(0.5 * multiplier)
    favoured = GroupSteps(2.0, clip=0.5, steps=50, lot=100, favourite="white women", favour=3.0)
    assert favoured.noise(1000) == pytest.approx(1.5 * multiplier)
    assert GroupSteps(clip=None).noise(1000) == 0


def test_one_row_moves_one_step_by_at_most_its_clip() -> None:
    data = made_up(200)
    steps = GroupSteps(clip=0.1, steps=1, lot=200, learning_rate=1.0)
    # Without noise and with all rows in the lot, removing the last row changes nothing else that is drawn.
    last = np.linalg.norm(steps.train(data, 0) - steps.train(data.select(np.arange(199)), 0)) * 200
    assert 0 < last <= 0.1 + 1e-6


def test_noise_costs_and_rows_pay_it_back() -> None:
    test = made_up(4000, 9)

    def right(rows: int, epsilon: float | None) -> float:
        weights = GroupSteps(epsilon, steps=100, lot=rows // 4).train(made_up(rows), 0)
        return float(((scores(weights, test.rows) >= 0.5) == test.labels).mean())

    plain, few, many = right(2000, None), right(2000, 0.03), right(20_000, 0.3)
    assert plain > few + 0.02
    assert many > plain - 0.02


def test_groups_are_named_by_race_and_sex() -> None:
    named = groups([" White", "Black", "Amer-Indian-Eskimo"], ["Female ", "Male", "Female"])
    assert named.tolist() == ["white women", "black men", "other women"]


def test_arms_share_their_steps_and_differ_in_one_thing() -> None:
    arms = who_pays.arms("adult", 4000)
    assert len({(arm.steps.steps, arm.steps.lot) for arm in arms}) == 1
    assert [arm.steps.epsilon for arm in arms[3:]] == list(who_pays.EPSILONS)
    assert who_pays.label(arms[0]) == "plain"


def test_relative_errors_in_sql_are_the_noise_over_the_size() -> None:
    question = who_pays_sql.PricedQuestion.from_column("blocks", blocks(300), "block")
    errors = question.errors()
    off = [error * question.sizes[key] for key, error in errors.items()]
    # Integer Laplace noise of scale 1 is 1/sinh(1) = .851 on average, with a deviation of 1.05.
    assert np.mean(off) == pytest.approx(0.851, abs=6.2 * 1.05 / np.sqrt(300))
    rows = who_pays_sql._bands(question, errors)
    assert sum(int(str(row[2])) for row in rows) == 300


def test_means_by_group_are_asked_with_their_bounds() -> None:
    question = who_pays_sql.PricedQuestion.from_column("blocks", blocks(20), "block", "age")
    assert question.aggregate == "AVG(age)"
    assert set(question.errors()) == set(question.sizes)
