"""Certificates are wrong no more often than α: at the boundary, over looks, ties and
abstentions; planted bugs are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from deniable.accounting import proportion
from deniable.accounting.radius.votes import Looks, bounds, winner
from deniable.randomness import SeededRandom
from deniable.smooth import (
    Certified,
    Gaussian,
    InputNoise,
    IntegerGaussian,
    IntegerUniform,
    Laplace,
    Sampling,
    Smoothed,
    Uniform,
    looks_for,
    radii,
)
from deniable.smooth.decision import StoppingRule
from deniable.smooth.validity import Validity, check_certifier, check_rule, true_radius, wall

Floats = NDArray[np.float64]

CLASSES = {
    "a tie of two": (0.5, 0.5),
    "a tie of three": (1 / 3, 1 / 3, 1 / 3),
    "a tie of ten": (0.1,) * 10,
    "two leaders tie": (0.5, 0.5, 0.0),
    "binary": (0.7, 0.3),
    "a close rival": (0.52, 0.48, 0.0),
    "rivals share": (0.6, 0.2, 0.1, 0.1),
    "sure": (0.99, 0.01, 0.0),
    "no majority": (0.4, 0.3, 0.3),
}
RUNS = 30_000


def rule(noise: InputNoise, plan: Sampling, looks: Looks | None = None) -> StoppingRule:
    return StoppingRule(noise, noise.norm, 1, plan, looks or Looks((plan.samples,), plan.alpha))


@pytest.mark.sampled
@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize("name", CLASSES)
def test_certificates_at_the_boundary_are_wrong_no_more_often_than_alpha(name: str, alpha: float) -> None:
    p = np.array(CLASSES[name])
    truth = true_radius(Gaussian(1), p)
    found = check_rule(
        rule(Gaussian(1), Sampling(50, 500, alpha)), p, truth, np.random.default_rng(7), runs=RUNS
    )
    assert not found.broken, str(found)


@pytest.mark.parametrize("noise", [Laplace(1), Uniform(1), IntegerUniform(20), IntegerGaussian(30)], ids=str)
def test_so_are_those_of_other_noises(noise: InputNoise) -> None:
    p = np.array([0.6, 0.2, 0.1, 0.1])
    truth = true_radius(noise, p)
    found = check_rule(rule(noise, Sampling(50, 500, 0.05)), p, truth, np.random.default_rng(8), runs=RUNS)
    assert not found.broken, str(found)


@pytest.mark.sampled
@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize("p", [(0.7, 0.3), (0.6, 0.2, 0.1, 0.1)], ids=str)
@pytest.mark.parametrize("beyond", [0.0, 1e-6], ids=["just not reached", "just reached"])
def test_looks_that_stop_at_a_radius_are_valid_together(
    alpha: float, p: tuple[float, ...], beyond: float
) -> None:
    """The radius asked for is the true one, so that any look may mislead; NO where it is
    just reached is an error too."""
    shares = np.array(p)
    truth = true_radius(Gaussian(1), shares)
    plan = Sampling(50, 3000, alpha, radius=truth * (1 + 1e-9 - beyond))
    looks = looks_for(Gaussian(1), plan.radius or 0, 3000, alpha, runner_up=len(p) > 2)
    assert len(looks.sizes) > 3
    for denials in (False, True):
        rng = np.random.default_rng(9)
        found = check_rule(rule(Gaussian(1), plan, looks), shares, truth, rng, runs=RUNS, denials=denials)
        assert not found.broken, str(found)
        near = found.wrong > 0.1 * alpha * found.runs
        assert near or beyond or denials or len(p) > 2, "A bound that is never near says nothing."


def test_the_test_can_fail_a_bound_at_twice_the_level_is_found() -> None:
    p, plan = np.array([0.5, 0.5]), Sampling(50, 500, 0.05)
    truth = true_radius(Gaussian(1), p)
    found = check_rule(
        rule(Gaussian(1), replace(plan, alpha=0.1)), p, truth, np.random.default_rng(1), runs=RUNS
    )
    assert replace(found, alpha=0.05).broken


# ------------------------------------------------------------------------------------------------ planted bugs, on counts


def times_1_2(choosing: Any, counts: Any, labels: Any) -> Floats:
    """The radius × 1.2."""
    return 1.2 * rule(Gaussian(1), Sampling(50, 500, 0.05)).certify(counts, labels)


def shared_samples(choosing: Any, counts: Any, labels: Any) -> Floats:
    """The class is chosen on the sample that bounds it."""
    return rule(Gaussian(1), Sampling(50, 500, 0.05)).certify(counts, counts.argmax(axis=1))


def early_runner_up(choosing: Any, counts: Any, labels: Any) -> Floats:
    """The runner-up is chosen on the choosing sample."""
    others = choosing.copy()
    np.put_along_axis(others, labels[:, None], -1, axis=1)
    second = others.argmax(axis=1)
    rows = np.arange(len(counts))
    own, rival = counts[rows, labels], counts[rows, second]
    pairs = np.stack([own, rival, counts.sum(axis=1) - own - rival], axis=1)
    p_a, _ = bounds(pairs, np.zeros(len(pairs), int), 0.05)
    return radii(Gaussian(1), p_a, np.minimum(proportion.upper(rival, 500, 0.025), 1 - p_a))


@pytest.mark.parametrize(
    ("bug", "p"),
    [
        (times_1_2, (0.7, 0.3)),
        (shared_samples, (0.5, 0.5)),
        (early_runner_up, (0.5, 0.3, 0.2)),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_planted_bugs_are_found(bug: Callable[..., Floats], p: tuple[float, ...]) -> None:
    shares = np.array(p)
    truth = true_radius(Gaussian(1), shares)
    plan = rule(Gaussian(1), Sampling(10, 500, 0.05))
    found = check_rule(plan, shares, truth, np.random.default_rng(3), runs=RUNS, certify=bug)
    assert found.broken, str(found)
    assert not check_rule(plan, shares, truth, np.random.default_rng(3), runs=RUNS).broken


def test_looks_without_shares_are_found() -> None:
    """Every look at the whole of α: stopping at the first that pleases is wrong too often."""
    p = np.array([0.7, 0.3])
    truth = true_radius(Gaussian(1), p)
    looks = Looks((60, 120, 240, 480, 960, 1920), 0.05)
    greedy = replace(looks, alpha=0.05 * len(looks.sizes))
    plan = Sampling(50, 1920, 0.05, radius=truth * (1 + 1e-9))
    honest = check_rule(rule(Gaussian(1), plan, looks), p, truth, np.random.default_rng(5), runs=RUNS)
    eager = check_rule(rule(Gaussian(1), plan, greedy), p, truth, np.random.default_rng(5), runs=RUNS)
    assert not honest.broken
    assert eager.broken


def test_predictions_are_wrong_no_more_often_than_alpha() -> None:
    for p in ((0.5, 0.5), (0.34, 0.33, 0.33), (0.1,) * 10):
        counts = np.random.default_rng(2).multinomial(300, p, size=RUNS)
        answers = winner(counts, 0.05)
        likeliest = (
            np.isclose(p, max(p)) if p[0] > p[1] else np.zeros(len(p), bool)
        )  # with a tie every answer is wrong
        wrong = (answers >= 0) & ~likeliest[answers]
        assert not Validity(RUNS, int(wrong.sum()), 0.05).broken


# ------------------------------------------------------------------------------------------------ planted bugs, from outside


X = np.array([0.2, 0.5], np.float32)
EDGE = 0.5
PLAN = Sampling(choosing=20, samples=300, alpha=0.05)


class Normalised(nn.Module):
    """(x − mean)/deviation, then the wall at EDGE in the picture's own measure."""

    MEAN, DEVIATION = 0.1307, 0.3081

    def normalise(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.MEAN) / self.DEVIATION

    def behind(self, z: torch.Tensor) -> torch.Tensor:
        beyond = z[:, 0] * self.DEVIATION + self.MEAN - EDGE
        return torch.stack([-beyond, beyond], dim=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.behind(self.normalise(x))


def honest(rng: SeededRandom) -> Callable[[NDArray[Any]], Certified]:
    one = Smoothed(Normalised(), Gaussian(0.25), classes=2, rng=rng)
    return lambda x: one.certify(x, PLAN)


def after_normalisation(rng: SeededRandom) -> Callable[[NDArray[Any]], Certified]:
    """Noise of σ = .25 on normalised pixels, the radius told as if it were on pixels."""
    model = Normalised()
    one = Smoothed(lambda z: model.behind(torch.from_numpy(z)).numpy(), Gaussian(0.25), classes=2, rng=rng)
    return lambda x: one.certify(model.normalise(torch.from_numpy(x)).numpy(), PLAN)


def longer(rng: SeededRandom) -> Callable[[NDArray[Any]], Certified]:
    certify = honest(rng)
    return lambda x: (lambda answer: replace(answer, radius=1.2 * answer.radius))(certify(x))


def test_an_honest_certifier_is_within_its_claim_from_outside() -> None:
    found = check_certifier(honest(SeededRandom(1)), X, EDGE, PLAN.alpha, runs=600)
    assert not found.broken, str(found)


@pytest.mark.parametrize("bug", [after_normalisation, longer])
def test_broken_certifiers_are_found_from_outside(
    bug: Callable[[SeededRandom], Callable[..., Certified]],
) -> None:
    found = check_certifier(bug(SeededRandom(2)), X, EDGE, PLAN.alpha, runs=200)
    assert found.broken, str(found)


def test_a_wall_has_two_sides() -> None:
    assert wall(0.5)(np.array([[0.4, 9], [0.6, 9]])).tolist() == [0, 1]
