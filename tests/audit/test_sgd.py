"""Audits of private training reach most of what is claimed, catch planted bugs, and say what they assume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from deniable.accounting import calibrate_noise
from deniable.audit import Verdict, audit
from deniable.audit.bench.sgd import Bug, TinySgd
from deniable.audit.sgd import FinalModel, Training, canaries, one_run, scores
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget


def training(epsilon: float) -> Training:
    return Training(calibrate_noise(epsilon, 1e-5, rate=0.05, steps=2000), 1.0, 50, 0.05, 2000, 1e-5)


def attack(claim: Training, bug: Bug = Bug.NONE, **more: Any) -> Any:
    model = TinySgd(claim, bug)
    options = {"background": model.gradients, "update": model.update, "each": 400, "rounds": 1000} | more
    return canaries(model.step, claim, dimension=model.dimension, **options)


@pytest.mark.parametrize(("epsilon", "share"), [(2.0, 0.88), (4.0, 0.90), (8.0, 0.90)])
def test_canary_gradients_reach_nearly_the_claimed_epsilon(epsilon: float, share: float) -> None:
    found = attack(training(epsilon))
    assert found.verdict is Verdict.CONSISTENT
    assert share * epsilon <= found.epsilon <= epsilon
    assert "f-DP family" in found.assumes[0]
    assert any("sampler" in sentence for sentence in found.cannot_see)


@pytest.mark.parametrize("bug", [b for b in Bug if b is not Bug.NONE])
def test_every_planted_bug_of_a_step_is_caught(bug: Bug) -> None:
    found = attack(training(4.0), bug, rounds=600)
    assert found.verdict is Verdict.VIOLATION
    assert found.options["design"] == ("opposed" if bug is Bug.WRONG_LOT else "scattered")


def test_any_step_function_is_audited() -> None:
    """A plain function without a model: clip, sum, noise, divide."""
    claim = Training(2.0, 1.0, 10, 1.0, 1, 1e-5)

    def step(gradients: Any, rng: np.random.Generator) -> Any:
        clipped = gradients / np.maximum(1, np.linalg.norm(gradients, axis=1, keepdims=True))
        return (clipped.sum(axis=0) + 2.0 * rng.standard_normal(gradients.shape[1])) / 10

    found = canaries(step, claim, dimension=200, each=100, rounds=400)
    assert found.verdict is Verdict.CONSISTENT
    assert found.options["mu"] == pytest.approx(0.5, abs=0.05)
    assert found.options["mu"] < 0.5


def test_canaries_certify_a_mu_that_is_true_but_for_alpha() -> None:
    """40 audits of an honest step: the certified μ passes the true one in at most a few of them."""
    claim = Training(1.0, 1.0, 1, 1.0, 1, 1e-5)

    def step(gradients: Any, rng: np.random.Generator) -> Any:
        return np.sign(gradients).sum(axis=0) + rng.standard_normal(gradients.shape[1])

    passed = [
        canaries(step, claim, dimension=20, each=20, rounds=10, seed=seed).options["mu"] > 1.0 for seed in range(40)
    ]
    assert sum(passed) <= binom.ppf(1 - 1e-9, 40, 0.05)


def test_more_canaries_than_coordinates_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="each=30 canaries to fit into dimension=20"):
        canaries(lambda g, rng: g, training(2.0), dimension=20, each=30)


# ------------------------------------------------------------------------------------------------ one run


def run(noise: float, steps: int = 20) -> tuple[Any, Any]:
    claim = Training(noise, 1.0, 200, 1.0, steps, 1e-5)
    return TinySgd(claim, features=200).run_with_canaries(1200, np.random.default_rng(3))


def test_one_run_bounds_are_valid_ordered_and_not_empty() -> None:
    claim = Budget(8.0, 1e-5)
    seen, inside = run(calibrate_noise(8.0, 1e-5, steps=20))
    free = one_run(seen, inside, claim)
    gaussian = one_run(seen, inside, claim, family="gaussian")
    assert 2 < free.epsilon < gaussian.epsilon < 8
    assert gaussian.verdict is Verdict.CONSISTENT
    assert len(gaussian.assumes) == len(free.assumes) + 1


def test_one_run_catches_a_fifth_of_the_noise() -> None:
    seen, inside = run(calibrate_noise(1.0, 1e-5, steps=20) / 5)
    assert one_run(seen, inside, Budget(1.0, 1e-5)).verdict is Verdict.VIOLATION
    assert one_run(seen, inside, Budget(1.0, 1e-5), family="gaussian").verdict is Verdict.VIOLATION


def test_one_run_on_coin_flips_finds_nothing() -> None:
    rng = np.random.default_rng(0)
    found = one_run(rng.random(500), rng.random(500) < 0.5, Budget(1.0, 1e-5))
    assert found.epsilon == 0
    assert found.verdict is Verdict.UNDERPOWERED


def test_scores_without_coins_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="Expected at least 10 scores with a coin each"):
        one_run([1.0, 2.0], [True], Budget(1.0))


# ------------------------------------------------------------------------------------------------ final models and scores


def train(data: list[float], seed: int) -> float:
    """A model that is a noisy mean: σ = .5 on a sum of sensitivity 1."""
    return float(np.sum(np.clip(data, -1, 1)) + 0.5 * np.random.default_rng(seed).standard_normal())


def loss_on_the_record(model: float) -> float:
    return -abs(model - 1.0)


def test_final_models_are_audited_as_black_boxes() -> None:
    target = FinalModel(train, loss_on_the_record)
    wrong = audit(target, ([], [1.0]), (0.5, 1e-3), samples=4000)
    assert wrong.verdict is Verdict.VIOLATION
    assert audit(target, ([], [1.0]), (8.0, 1e-3), samples=4000).epsilon < 8


def test_a_set_of_scores_is_audited() -> None:
    rng = np.random.default_rng(0)
    members, others = rng.normal(2, 1, 2000), rng.normal(0, 1, 2000)
    found = scores(members, others, Budget(1.0, 1e-3))
    assert found.verdict is Verdict.VIOLATION
    assert found.epsilon < np.log(norm.sf(1) / norm.sf(3)) + 3
    assert scores(others, rng.normal(0, 1, 2000), Budget(1.0, 1e-3)).verdict is Verdict.CONSISTENT
    assert scores(members[:40], others[:40], Budget(9.0)).verdict is Verdict.UNDERPOWERED


def test_scores_that_fall_for_members_are_seen_too() -> None:
    rng = np.random.default_rng(1)
    assert scores(rng.normal(-3, 1, 500), rng.normal(0, 1, 500), Budget(0.5)).verdict is Verdict.VIOLATION
