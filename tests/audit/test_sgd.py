"""Audits of private training reach most of what is claimed, catch planted bugs, and say what they assume."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from deniable.accounting import calibrate_noise
from deniable.audit import Verdict, audit
from deniable.audit.bench.sgd import Bug, TinySgd
from deniable.audit.sgd import FinalModel, Training, canaries, whole_run
from deniable.errors import InvalidParameter
from tests.audit.repeats import repeats


def training(epsilon: float) -> Training:
    return Training(calibrate_noise(epsilon, 1e-5, rate=0.05, steps=2000), 1.0, 50, 0.05, 2000, 1e-5)


def attack(claim: Training, bug: Bug = Bug.NONE, **more: Any) -> Any:
    model = TinySgd(claim, bug)
    options = {
        "background": model.gradients,
        "update": model.update,
        "each": 400,
        "rounds": 1000,
        "seconds": 0.01,  # the fewest windows, however fast the machine is
    } | more
    return canaries(model.step, claim, dimension=model.dimension, **options)


@pytest.mark.parametrize(("epsilon", "share"), [(2.0, 0.88), (4.0, 0.90), (8.0, 0.90)])
def test_canary_gradients_reach_nearly_the_claimed_epsilon(epsilon: float, share: float) -> None:
    found = attack(training(epsilon), confidence=1 - 1e-8)
    assert found.verdict is Verdict.CONSISTENT
    assert share * epsilon <= found.epsilon <= epsilon
    assert "f-DP family" in found.assumes[0]
    assert any("sampler" in sentence for sentence in found.cannot_see)


@pytest.mark.parametrize("bug", [b for b in Bug if b is not Bug.NONE])
def test_every_planted_bug_of_a_step_is_caught(bug: Bug) -> None:
    found = attack(training(4.0), bug, rounds=300, seconds=1000)
    assert found.verdict is Verdict.VIOLATION
    assert found.options["design"] == ("opposed" if bug is Bug.WRONG_LOT else "scattered")


def test_any_step_function_is_audited() -> None:
    """A plain function without a model: clip, sum, noise, divide."""
    claim = Training(2.0, 1.0, 10, 1.0, 1, 1e-5)

    def step(gradients: Any, rng: np.random.Generator) -> Any:
        clipped = gradients / np.maximum(1, np.linalg.norm(gradients, axis=1, keepdims=True))
        return (clipped.sum(axis=0) + 2.0 * rng.standard_normal(gradients.shape[1])) / 10

    found = canaries(step, claim, dimension=200, each=100, rounds=200, seconds=1000)
    assert found.verdict is Verdict.CONSISTENT
    assert found.options["mu"] == pytest.approx(0.5, abs=0.05)
    assert found.options["mu"] < 0.5


def test_canaries_certify_a_mu_that_is_true_but_for_alpha() -> None:
    """Audits of an honest step: the certified μ passes the true one in at most a few of them."""
    claim, runs = Training(1.0, 1.0, 1, 1.0, 1, 1e-5), repeats(40)

    def step(gradients: Any, rng: np.random.Generator) -> Any:
        clipped = gradients / np.maximum(1, np.linalg.norm(gradients, axis=1, keepdims=True))
        return clipped.sum(axis=0) + rng.standard_normal(gradients.shape[1])

    passed = [
        canaries(step, claim, dimension=20, each=20, rounds=10, seed=seed).options["mu"] > 1.0
        for seed in range(runs)
    ]
    assert sum(passed) <= binom.ppf(1 - 1e-9, runs, 0.05)


def test_more_canaries_than_coordinates_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="each=30 canaries to fit into dimension=20"):
        canaries(lambda g, rng: g, training(2.0), dimension=20, each=30)


@pytest.mark.parametrize("more", [{"rounds": 9}, {"confidence": 1.0}])
def test_an_audit_that_could_show_nothing_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=r"Expected (rounds=9 of at least 10|confidence=1.0 in)"):
        canaries(lambda g, rng: g, training(2.0), dimension=20, each=10, **more)


@pytest.mark.parametrize(
    "wrong",
    [{"noise_multiplier": 0.0}, {"clip": -1.0}, {"lot": np.inf}, {"rate": 0.0}, {"steps": 0}, {"delta": 0.0}],
)
def test_a_training_that_claims_nothing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter, match=f"{next(iter(wrong))}="):
        replace(training(2.0), **wrong)


def test_a_step_that_breaks_on_canaries_is_no_crash() -> None:
    """NaN where a canary is in: seen as a difference, not as an error."""
    claim = Training(2.0, 1.0, 10, 1.0, 1, 1e-5)

    def step(gradients: Any, rng: np.random.Generator) -> Any:
        return np.full(gradients.shape[1], np.nan)

    assert canaries(step, claim, dimension=20, each=10, rounds=20).epsilon == 0


# ------------------------------------------------------------------------------------------------ one whole run


@pytest.mark.soak  # a trade-off curve for each noise that is tried
def test_whole_runs_that_keep_their_claim_are_seldom_accused() -> None:
    noise = calibrate_noise(2.0, 1e-5, rate=0.2, steps=20)
    claim, accused = Training(noise, 1.0, 50, 0.2, 20, 1e-5), 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 3])
        inside = rng.random(300) < 0.5
        drawn = rng.binomial(20, 0.2, 300) * inside
        found = whole_run(drawn + noise * 20**0.5 * rng.standard_normal(300), inside, claim, seed=seed)
        accused += found.verdict is Verdict.VIOLATION
    assert accused <= binom.ppf(1 - 1e-6, 40, 0.05)


# ------------------------------------------------------------------------------------------------ final models


def train(data: list[float], seed: int) -> float:
    """A model that is a noisy mean: σ = .5 on a sum of sensitivity 1."""
    return float(np.sum(np.clip(data, -1, 1)) + 0.5 * np.random.default_rng(seed).standard_normal())


def loss_on_the_record(model: float) -> float:
    return -abs(model - 1.0)


def test_final_models_are_audited_as_black_boxes() -> None:
    target = FinalModel(train, loss_on_the_record)
    wrong = audit(target, ([], [1.0]), (0.5, 1e-3), seed=0, samples=4000)
    assert wrong.verdict is Verdict.VIOLATION
    assert audit(target, ([], [1.0]), (8.0, 1e-3), seed=0, samples=4000).epsilon < 8
