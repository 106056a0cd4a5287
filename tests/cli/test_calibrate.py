"""`deniable calibrate` solves for what is left out, and what it prints fits the budget."""

from __future__ import annotations

import pytest

from deniable.accounting import epsilon
from deniable.loss import GaussianNoise, Loss
from tests.cli.runner import run, run_json, sentence

BUDGET = ("--epsilon", "3", "--delta", "1e-5")


def test_the_noise_is_the_least_that_fits() -> None:
    found = run_json("calibrate", *BUDGET, "--rate", ".01", "--steps", "10000")
    assert found["solved"] == "noise"
    assert found["epsilon"]["upper"] <= 3
    less = GaussianNoise(found["noise"] * 0.999).sampled(0.01) * 10_000
    assert epsilon(less, 1e-5).lower > 3


def test_the_steps_are_the_most_that_fit() -> None:
    found = run_json("calibrate", *BUDGET, "--rate", ".01", "--noise", "2")
    step = GaussianNoise(2.0).sampled(0.01)
    assert found["solved"] == "steps"
    assert epsilon(step * found["steps"], 1e-5).upper <= 3
    assert epsilon(step * (found["steps"] + 1), 1e-5).upper > 3


def test_the_rate_is_the_largest_that_fits() -> None:
    found = run_json("calibrate", *BUDGET, "--steps", "10000", "--noise", "2")
    assert found["solved"] == "rate"
    assert epsilon(GaussianNoise(2.0).sampled(found["rate"]) * 10_000, 1e-5).upper <= 3
    assert epsilon(GaussianNoise(2.0).sampled(found["rate"] * 1.001) * 10_000, 1e-5).lower > 3


def test_laplace_noise_is_solved_for_too() -> None:
    found = run_json("calibrate", *BUDGET, "--steps", "100", "--mechanism", "laplace")
    assert Loss.from_dict(found["loss"]).to_dict()["of"]["node"] == "LaplaceNoise"
    assert 2.9 < found["epsilon"]["upper"] <= 3


def test_the_number_on_the_screen_is_the_number_that_was_checked() -> None:
    shown = run("calibrate", *BUDGET, "--rate", ".01", "--steps", "10000").stdout.splitlines()[0].split()[-1]
    assert float(shown) == run_json("calibrate", *BUDGET, "--rate", ".01", "--steps", "10000")["noise"]
    assert epsilon(GaussianNoise(float(shown)).sampled(0.01) * 10_000, 1e-5).upper <= 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--noise", "2"), "neither is given"),
        (("--noise", "2", "--rate", ".1", "--steps", "5"), "both are given"),
        (
            ("--noise", "2", "--rate", ".1", "--mechanism", "laplace"),
            "leave out the noise to solve for Laplace noise",
        ),
        (("--noise", ".1", "--rate", "1"), "Not even one step"),
    ],
)
def test_what_cannot_be_solved_is_said_in_one_sentence(options: tuple[str, ...], said: str) -> None:
    assert said in sentence("calibrate", *BUDGET, *options)


def test_a_budget_of_nothing_is_refused() -> None:
    assert "Expected epsilon=0.0 in (0, ∞)" in sentence("calibrate", "--epsilon", "0", "--delta", "1e-5")
