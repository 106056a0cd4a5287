"""Figure 6 of Abadi et al. 2016: CIFAR-10 accuracy in the course of training at ε = 2, 4 and 8."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.datasets.real import load
from deniable.plots import learn as plots
from deniable.reproduce import _learning
from deniable.reproduce._learning import upper
from deniable.reproduce.report import Progress, Report

if TYPE_CHECKING:
    from torch import Tensor

SUMMARY = (
    "Abadi et al. 2016, Figure 6: CIFAR-10 accuracy in the course of training at ε = 2, 4, 8 "
    "(about 10 CPU minutes)"
)

PAPER = {2.0: 67.0, 4.0: 70.0, 8.0: 73.0}
EVERY = 10

READING = (
    "The paper pretrains its convolutions on CIFAR-100, taken as public, and trains the upper layers "
    "privately. Here nothing is public: fixed features (a scattering transform, and patches compared with a "
    "dictionary from drawn pictures) take the place of the pretrained layers, and a half-whitened softmax "
    "regression that of the upper ones; a step sees all pictures, so steps are not the paper's epochs. One "
    "run each."
)


def run(folder: Path, progress: Progress) -> Report:
    _learning.need_torch()
    from deniable.learn.recipes import cifar10, maps
    from deniable.learn.recipes.classifier import RecipeClassifier, map_images, whiten
    from deniable.randomness import SecureRandom

    data, curves, rows = load("cifar10"), dict[str, list[float]](), []
    pictures, test = (map_images(part, maps.pictures) for part in (data.images, data.test_images))
    for target in progress(list(PAPER), "Training"):
        curve: list[float] = []
        features: list[Tensor] = []  # of the test set: the same at every step of a run

        def note(
            step: int, model: RecipeClassifier, curve: list[float] = curve, features: list[Tensor] = features
        ) -> None:
            if not features:
                features.append(whiten(test, model.whitening))
            if step % EVERY == 0:
                right = model.linear(features[0]).argmax(1).numpy() == data.test_labels
                curve.append(100 * float(right.mean()))

        recipe = cifar10.cifar10(target, maps=maps.ready, on_step=note)
        recipe((pictures, data.labels), rng=SecureRandom())
        curves[f"ε = {target:g}"] = curve
        rows.append(
            (target, upper(recipe.loss), recipe.descent.steps, recipe.step_noise, curve[-1], PAPER[target])
        )
    draw = partial(
        plots.by_epoch,
        curves,
        title="CIFAR-10 in the course of training (Abadi et al. 2016, Fig. 6)",
        path=folder / "abadi-figure6.png",
        interval=EVERY,
        x="step",
        levels={f"paper at ε = {target:g}, CIFAR-100 public": accuracy for target, accuracy in PAPER.items()},
    )
    columns = ("ε", "ε, tight", "steps", "σ", "accuracy %", "paper's %")
    return Report("CIFAR-10 without public data", columns, rows, draw, READING)
