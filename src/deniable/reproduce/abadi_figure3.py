"""Figure 3 of Abadi et al. 2016: MNIST accuracy by epoch at three levels of noise, with
the ε of then and the tight one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from deniable.accounting import epsilon
from deniable.datasets.real import load
from deniable.plots import learn as plots
from deniable.reproduce import _learning
from deniable.reproduce._learning import DELTA, upper
from deniable.reproduce.report import Progress, Report

SUMMARY = (
    "Abadi et al. 2016, Figure 3: MNIST accuracy by epoch at three levels of noise (about 3 CPU minutes)"
)

EPOCHS = 40
NOISE = {"large": (8.0, 16.0, 0.5, 90.0), "medium": (4.0, 7.0, 2.0, 95.0), "small": (2.0, 4.0, 8.0, 97.0)}
"""The noise multipliers of gradients and of the projection, and the ε and accuracy (%)
that the paper prints for them."""

READING = (
    "At the paper's noise, lot (600), clip (4) and learning rates, after {epochs} epochs, one run each. The "
    "paper's accuracies are those of longer runs: by its accountant (moments) its ε lasts for about 40, 200 "
    "and 700 epochs. The tight ε of the very same run is lower. Both count the projection."
)


def run(folder: Path, progress: Progress) -> Report:
    _learning.need_torch()
    from deniable.learn.recipes.abadi import Network, PcaNetwork
    from deniable.randomness import SecureRandom

    data, curves, rows = load("mnist"), dict[str, list[float]](), []
    for level in progress(list(NOISE), "Levels of noise"):
        noise, pca_noise, printed_epsilon, paper_accuracy = NOISE[level]
        curve: list[float] = []

        def note(epoch: int, network: Network, curve: list[float] = curve) -> None:
            curve.append(100 * network.accuracy(data.test_images, data.test_labels))

        recipe = PcaNetwork(epochs=EPOCHS, noise_multiplier=noise, pca_noise=pca_noise, on_epoch=note)
        recipe((data.images, data.labels), rng=SecureRandom())
        curves[f"{level} noise: σ = {noise:g}"] = curve
        moments = epsilon(recipe.loss, DELTA, method="moments").upper
        rows.append(
            (level, noise, pca_noise, moments, upper(recipe.loss), curve[-1], paper_accuracy, printed_epsilon)
        )
    draw = partial(
        plots.by_epoch,
        curves,
        title="MNIST by epoch, 60 components and 1000 hidden units (Abadi et al. 2016, Fig. 3)",
        path=folder / "abadi-figure3.png",
        levels={f"paper at ε = {cost:g}": accuracy for _, _, cost, accuracy in NOISE.values()},
    )
    columns = ("noise", "σ", "PCA σ", "ε moments", "ε tight", "ours %", "paper %", "paper ε")
    return Report("MNIST at three levels of noise", columns, rows, draw, READING.format(epochs=EPOCHS))
