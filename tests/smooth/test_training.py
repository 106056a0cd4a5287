"""Training, saving and attacking real (small) networks on real digits: certificates hold
where they are attacked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from deniable.errors import DataError, InvalidParameter
from deniable.randomness import SeededRandom
from deniable.smooth import (
    Ablation,
    Gaussian,
    InputNoise,
    IntegerGaussian,
    Laplace,
    Sampling,
    Smoothed,
    Uniform,
    networks,
)
from deniable.smooth.attack import Effort, attack, flips
from deniable.smooth.bank import certify_with_bank
from deniable.smooth.training import Aim, Schedule, TrainingMethod, train

PICTURES, LABELS = load_digits(return_X_y=True)
PICTURES = (PICTURES / 16).astype(np.float32)
TRAINED, TESTED = slice(0, 1200), slice(1200, 1797)
SCHEDULE = Schedule(epochs=12, batch=100, rate=0.2)


def learnt(noise: InputNoise, aim: Aim | None = None, width: int = 64) -> nn.Sequential:
    torch.manual_seed(1)
    network = networks.perceptron(64, 10, (width,))
    train(network, PICTURES[TRAINED], LABELS[TRAINED], noise, SCHEDULE, aim or Aim(), rng=SeededRandom(1))
    return network


@pytest.fixture(scope="module")
def digits() -> nn.Sequential:
    return learnt(Gaussian(0.25))


def mean_radius(network: nn.Module, noise: InputNoise) -> float:
    smoothed = Smoothed(network, noise, classes=10, rng=SeededRandom(2))
    answers = certify_with_bank(smoothed, PICTURES[TESTED][:200], Sampling(samples=1000))
    right = [a.radius if a.label == y else 0.0 for a, y in zip(answers, LABELS[TESTED], strict=False)]
    return float(np.mean(right))


def test_noise_in_training_pays_and_so_do_its_refinements(digits: nn.Sequential) -> None:
    noise = Gaussian(0.25)
    silent = mean_radius(learnt(Gaussian(1e-4)), noise)
    noisy = mean_radius(digits, noise)
    assert noisy > silent + 0.02
    for method in (TrainingMethod.CONSISTENCY, TrainingMethod.ADVERSARIAL):
        assert mean_radius(learnt(noise, Aim(method, reach=0.25, weight=5)), noise) > noisy - 0.03


def test_ablated_pictures_can_be_learnt() -> None:
    torch.manual_seed(0)
    network = networks.perceptron(64, 10, (32,))
    noise = Ablation(40, 64)
    train(network, PICTURES[:600], LABELS[:600], noise, replace(SCHEDULE, epochs=8), rng=SeededRandom(1))
    answers = Smoothed(network, noise, classes=10).certify_all(PICTURES[TESTED][:20], Sampling(samples=300))
    assert np.mean([a.votes.label == y for a, y in zip(answers, LABELS[TESTED], strict=False)]) > 0.5


def test_training_on_whole_numbers_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidParameter, match="take its width in floats"):
        train(networks.perceptron(64, 10, (8,)), PICTURES[:200], LABELS[:200], IntegerGaussian(4))


# ------------------------------------------------------------------------------------------------ attacks


@pytest.mark.parametrize("noise", [Gaussian(0.25), Laplace(0.2), Uniform(0.4)], ids=str)
def test_an_attack_inside_the_radius_flips_no_more_than_alpha_allows(
    noise: InputNoise, digits: nn.Sequential
) -> None:
    """597 real pictures, each attacked within its radius with the gradients of the
    network, then voted on with fresh noise."""
    network = digits if noise == Gaussian(0.25) else learnt(noise)
    smoothed = Smoothed(network, noise, classes=10, rng=SeededRandom(4))
    pictures = PICTURES[TESTED]
    answers = certify_with_bank(smoothed, pictures, Sampling(samples=1000))
    assert sum(answer.radius > 0 for answer in answers) >= 500
    moved = attack(smoothed, pictures, answers, Effort(steps=10, copies=8, batch_size=200))
    lengths = np.linalg.norm(moved.astype(np.float64) - pictures, noise.norm, axis=1)
    radii = np.array([answer.radius for answer in answers])
    assert (lengths <= radii).all()
    assert (lengths[radii > 0] > 0.9 * radii[radii > 0]).mean() > 0.9, (
        "An attack that does not move attacks nothing."
    )
    found = flips(smoothed, moved, answers, samples=400)
    assert found.runs >= 500
    assert not found.broken, str(found)


def test_the_same_attack_flips_answers_of_a_certifier_with_noise_after_normalisation(
    digits: nn.Sequential,
) -> None:
    """Noise on pixels divided by .3 is noise of .3·σ on pixels: the radius is told three times too long."""
    pictures = PICTURES[TESTED]
    told = Smoothed(digits, Gaussian(0.25 * 0.3), classes=10, rng=SeededRandom(4))
    answers = [
        replace(a, radius=a.radius / 0.3) for a in certify_with_bank(told, pictures, Sampling(samples=1000))
    ]
    moved = attack(told, pictures, answers, Effort(steps=10, copies=8, batch_size=200))
    assert flips(told, moved, answers, samples=400).broken


def test_attacks_are_refused_where_they_could_not_bite() -> None:
    with pytest.raises(InvalidParameter, match="to attack"):
        attack(Smoothed(lambda batch: batch, Gaussian(1), classes=64), PICTURES[:1], [])


# ------------------------------------------------------------------------------------------------ files


def test_a_saved_network_is_the_same_network(tmp_path: Path) -> None:
    for network, shape in (
        (networks.perceptron(64, 10, (8,)), (3, 64)),
        (networks.convolutional(), (3, 1, 28, 28)),
        (networks.patches(), (3, 1, 28, 28)),
        (networks.colour(width=4), (3, 3, 32, 32)),
    ):
        path = networks.save(network.eval(), tmp_path / "network.pt")
        batch = torch.rand(shape)
        with torch.inference_mode():
            assert torch.equal(networks.load(path)(batch), network(batch))


def test_an_exported_program_is_read_too(tmp_path: Path) -> None:
    network = networks.perceptron(64, 10, (8,)).eval()
    rows = torch.export.Dim("rows")
    program = torch.export.export(network, (torch.rand(4, 64),), dynamic_shapes=({0: rows},))
    torch.export.save(program, tmp_path / "network.pt2")
    smoothed = Smoothed(networks.load(tmp_path / "network.pt2"), Gaussian(0.1), classes=10)
    assert len(smoothed.counts(PICTURES[0], 50)) == 10


def test_files_that_are_no_networks_run_no_code_and_are_told(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    for i, value in enumerate((Evil(), {"weights": torch.zeros(1)}, [1])):
        torch.save(value, tmp_path / f"{i}.pt")
        with pytest.raises(DataError, match=r"networks\.save"):
            networks.load(tmp_path / f"{i}.pt")
    assert not (tmp_path / "ran").exists()
    with pytest.raises(InvalidParameter, match="Expected plain layers"):
        networks.save(nn.Sequential(nn.LSTM(2, 2)), tmp_path / "other.pt")
