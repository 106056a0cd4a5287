"""A sensitive column: guessed through a model that memorises, not through a private one; never beyond the
bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from deniable.accounting import epsilon as priced
from deniable.accounting.meaning import advantage as most
from deniable.attack import sensitive
from deniable.attack.members.shadow import append_ones
from deniable.attack.models.sensitive import DELTA, Learner, advantage, measure_hidden, people, strangers
from deniable.errors import InvalidParameter
from deniable.loss import GaussianNoise
from tests.cli.runner import run, sentence

X, BITS = people("made-up", 120)


def test_a_model_that_memorises_gives_the_column_away() -> None:
    found = measure_hidden(Learner("memorises", hidden=64, steps=120), X, models=8, targets=3)
    assert found.advantage - found.reach > 0.5
    assert found.bound == 1


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_private_one_stays_under_its_bound(epsilon: float) -> None:
    found = measure_hidden(Learner("private", hidden=16, steps=20, epsilon=epsilon), X, models=8, targets=4)
    assert found.bound == most(epsilon, DELTA)
    assert found.advantage <= found.bound + 6.2 / 1.96 * found.reach


def test_the_bound_is_the_formula() -> None:
    found = sensitive.Hidden("x", 2.0, 0.1, 0.1, 10)
    assert found.bound == pytest.approx((math.exp(2) - 1 + 2 * DELTA) / (math.exp(2) + 1))


def test_noise_is_for_a_replaced_value() -> None:
    """Twice the noise of a row added or removed: the run as Gaussian releases of sensitivity 2."""
    learner = Learner("private", steps=30, epsilon=1.0)
    assert priced(GaussianNoise(learner.noise / 2) * 30, DELTA).upper <= 1.0 + 1e-9
    assert priced(GaussianNoise(learner.noise / 2 * 0.98) * 30, DELTA).lower > 1.0


def test_a_replaced_value_moves_a_step_by_at_most_two() -> None:
    """The noiseless part of one step, on neighbours whose values differ in one place."""
    bits = BITS[None].copy()
    other = bits.copy()
    other[0, 7] = ~other[0, 7]
    sums = []
    for each in (bits, other):
        stack = sensitive.Stack.random(1, X.shape[1], 8, 2, 0)
        targets = torch.nn.functional.one_hot(torch.from_numpy(each.astype(np.int64)), 2).float()
        parts = stack.gradients(
            append_ones(torch.from_numpy(X)), targets, lambda norms: 1 / norms.clamp(min=1.0)
        )
        sums.append(torch.cat([part.ravel() for part in parts]))
    assert 0 < float((sums[0] - sums[1]).norm()) <= 2 + 1e-5


def test_strangers_are_guessed_from_the_population() -> None:
    x, bits = people("made-up", 1200)
    found = strangers(Learner("private", hidden=16, steps=40, epsilon=4.0), x, bits)
    assert found.advantage > 0.3
    blank = x.copy()
    blank[:, 0] = 0
    assert abs(strangers(Learner("small", hidden=2, steps=20), blank, bits).advantage) < 0.25


def test_advantage_by_hand() -> None:
    guesses = np.array([True, True, False, True, False, False])
    truth = np.array([True, True, True, False, False, False])
    assert advantage(guesses, truth)[0] == pytest.approx(2 / 3 - 1 / 3)


def test_what_cannot_be_run_is_said() -> None:
    with pytest.raises(InvalidParameter, match="fewer than the models"):
        measure_hidden(Learner("x"), X, models=4, targets=3)
    with pytest.raises(InvalidParameter, match="one of made-up, adult"):
        people("census")
    assert "at least 50" in sentence("attack", "column", "--people", "10")


def test_the_command_draws_and_says_what_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(sensitive, "EPSILONS", (1.0,))
    monkeypatch.setattr(sensitive, "POPULATION", 200)
    said = run("attack", "column", "--people", "50", "--plot", f"{tmp_path}/column.png").stdout
    assert "counts twice" in said
    assert "would without them" in " ".join(said.split())
