"""Certified accuracy of smoothed networks on MNIST and CIFAR-10: the bound by
definition, the tight one, and the papers'."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.accounting.radius import by_definition
from deniable.accounting.radius.input_noise import Gaussian, InputNoise, Laplace, Uniform
from deniable.accounting.radius.votes import bounds
from deniable.datasets.real import load
from deniable.plots import smooth as plots
from deniable.reproduce import _learning
from deniable.reproduce.report import Progress, Report

if TYPE_CHECKING:
    from deniable.smooth import Certified, Smoothed
    from deniable.smooth.validity import Validity

SUMMARY = (
    "Cohen et al. 2019, Teng et al. 2020, Yang et al. 2020: certified accuracy on MNIST and CIFAR-10 "
    "(5 CPU minutes)"
)

RADII = (0.0, 0.25, 0.5, 0.75, 1.0)
COHEN = {0.25: 60.0, 0.5: 43.0, 0.75: 27.0, 1.0: 0.0}
"""Cohen, Rosenfeld, Kolter 2019: CIFAR-10, ResNet-110, σ = .25, n = 100,000, α = .001,
500 pictures of the test set."""
DIGITS, PICTURES = 520, 100
"""Test pictures that are certified, evenly spread."""
ATTACKED = "MNIST, Gaussian σ = 0.25"

READING = (
    "α = .001 for each picture; radii in ℓ2 for Gaussian noise and in ℓ1 for the others, of the deviation "
    "named. Small networks: a perceptron of two hidden layers (n = 10,000), and a CNN of four convolutions "
    "(n = 1,000, which alone caps the radius at 0.61). Cohen et al. reach 60 / 43 / 27 % at .25 / .5 / .75 "
    "on CIFAR-10 with a ResNet-110 and n = 100,000. By definition: what differential privacy says of events "
    "without the whole loss (Lecuyer et al. 2019; for Laplace noise e^(2ε) times likelier). Attack inside "
    "the radius on {name}: {attack}."
)


@dataclass(frozen=True)
class Setting:
    """A data set under a noise, the network's training and how many samples bound each answer."""

    name: str
    data: str
    noise: InputNoise
    epochs: int
    pictures: int
    samples: int


SETTINGS = (
    Setting(ATTACKED, "mnist", Gaussian(0.25), 4, DIGITS, 10_000),
    Setting("MNIST, Gaussian σ = 0.5", "mnist", Gaussian(0.5), 4, DIGITS, 10_000),
    Setting("MNIST, Laplace σ = 0.5", "mnist", Laplace(0.5 / math.sqrt(2)), 4, DIGITS, 10_000),
    Setting("MNIST, uniform σ = 0.5", "mnist", Uniform(0.5 * math.sqrt(3)), 4, DIGITS, 10_000),
    Setting("CIFAR-10, Gaussian σ = 0.25", "cifar10", Gaussian(0.25), 4, PICTURES, 1_000),
)


@dataclass(frozen=True, eq=False)
class AccuracyCurve:
    """Radii of right answers (0 where wrong): tight, and by definition."""

    setting: Setting
    tight: NDArray[np.float64]
    by_definition: NDArray[np.float64]
    abstention: float
    seconds: float

    def share(self, radii: NDArray[np.float64], radius: float) -> float:
        return 100 * float((radii >= radius).mean() if radius else (radii > 0).mean())


def run(folder: Path, progress: Progress) -> Report:
    _learning.need_torch()
    curves, validity = [], None
    for setting in progress(SETTINGS, "Settings"):
        curve, outcome = _measure(setting)
        curves.append(curve)
        validity = outcome or validity
    rows = [_row(curve) for curve in curves]
    rows.append(("CIFAR-10, Cohen et al. 2019", None, *(COHEN.get(r) for r in RADII), None, None, None))
    columns = (
        "setting",
        "none %",
        "> 0",
        *(f"≥{r:g}" for r in RADII[1:]),
        "mean",
        "DP",
        "CPU",
    )
    draw = partial(
        plots.panels,
        {curve.setting.name: _plane(curve) for curve in curves},
        title="Certified accuracy of smoothed networks",
        x="radius",
        y="certified accuracy (%)",
        path=folder / "smoothing.png",
    )
    return Report(
        "Certified accuracy by radius", columns, rows, draw, READING.format(name=ATTACKED, attack=validity)
    )


def _measure(setting: Setting) -> tuple[AccuracyCurve, Validity | None]:
    from deniable.smooth import Sampling
    from deniable.smooth.bank import certify_with_bank

    start = time.process_time()
    classifier, images, labels = _train_smoothed(setting)
    places = np.linspace(0, len(images) - 1, setting.pictures).astype(int)
    answers = certify_with_bank(classifier, images[places], Sampling(samples=setting.samples))
    right = np.array([answer.label == label for answer, label in zip(answers, labels[places], strict=True)])
    curve = AccuracyCurve(
        setting,
        np.where(right, [answer.radius for answer in answers], 0.0),
        np.where(right, _radii_by_definition(setting.noise, answers), 0.0),
        100 * float(np.mean([answer.abstained for answer in answers])),
        time.process_time() - start,
    )
    validity = None
    if setting.name == ATTACKED:
        validity = _attack(classifier, images[places], answers)
    return curve, validity


def _train_smoothed(setting: Setting) -> tuple[Smoothed, NDArray[np.float32], NDArray[Any]]:
    """A network trained on noisy pictures, and the test set."""
    from deniable.smooth import Smoothed, networks
    from deniable.smooth.training import Schedule, train

    grey = setting.data == "mnist"
    data = load("mnist") if grey else load("cifar10")
    shape = (-1, 1, 28, 28) if grey else (-1, 3, 32, 32)
    images, test_images = (
        (part / np.float32(255)).reshape(shape) for part in (data.images, data.test_images)
    )
    network = networks.perceptron() if grey else networks.colour(width=24)
    train(network, images, data.labels, setting.noise, Schedule(setting.epochs, mirror=not grey))
    return Smoothed(network, setting.noise, classes=10), np.ascontiguousarray(test_images), data.test_labels


def _radii_by_definition(noise: InputNoise, answers: Sequence[Certified]) -> NDArray[np.float64]:
    counts, labels = [answer.votes.counts for answer in answers], [answer.votes.label for answer in answers]
    p_a, p_b = bounds(counts, labels, answers[0].votes.looks.share)
    return np.array([by_definition(noise, float(a), float(b)) for a, b in zip(p_a, p_b, strict=True)])


def _attack(classifier: Smoothed, images: NDArray[Any], answers: Sequence[Certified]) -> Validity:
    from deniable.smooth.attack import Effort, attack, flips

    pictures = attack(classifier, images, answers, Effort(steps=10, copies=8))
    return flips(classifier, pictures, answers)


def _plane(
    curve: AccuracyCurve,
) -> tuple[dict[str, list[tuple[float, float]]], dict[str, list[tuple[float, float]]]]:
    top = float(curve.tight.max(initial=0.5)) * 1.02
    at = np.linspace(1e-9, top, 300)
    ours = {
        "tight": [(r, curve.share(curve.tight, r)) for r in at],
        "by definition of DP": [(r, curve.share(curve.by_definition, r)) for r in at],
    }
    cifar = curve.setting.data == "cifar10"
    return ours, {"Cohen et al. 2019 (ResNet-110)": list(COHEN.items())} if cifar else {}


def _row(curve: AccuracyCurve) -> tuple[object, ...]:
    shares = tuple(round(curve.share(curve.tight, r), 1) for r in RADII)
    means = (round(float(curve.tight.mean()), 3), round(float(curve.by_definition.mean()), 3))
    return (curve.setting.name, round(curve.abstention, 1), *shares, *means, round(curve.seconds))
