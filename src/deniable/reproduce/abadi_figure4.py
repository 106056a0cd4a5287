"""Figure 4 of Abadi et al. 2016: MNIST accuracy at pairs of ε and δ."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.accounting import epsilon
from deniable.datasets.real import load
from deniable.plots import learn as plots
from deniable.reproduce import _learning
from deniable.reproduce.report import Progress, Report

if TYPE_CHECKING:
    from deniable.learn.recipes.abadi import PcaNetwork

SUMMARY = "Abadi et al. 2016, Figure 4: MNIST accuracy at pairs of ε and δ (about 2 CPU minutes)"

EPOCHS, EVERY = 16, 2
NOISE = (1.2, 2.0, 4.0, 8.0)
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
DELTAS = (1e-2, 1e-3, 1e-4, 1e-5)

READING = (
    "From runs at the noise levels {noise}, looked at every {every} epochs: the best accuracy that was had "
    "within each (ε, δ), the tight ε of the projection and all steps. The best "
    "is picked after the fact (as there): to pick in earnest, pay for it."
)


def run(folder: Path, progress: Progress) -> Report:
    _learning.need_torch()
    best = _best(_outcomes(progress))
    lines = {
        f"δ = {delta:g}": [(limit, score) for limit in EPSILONS if (score := best[limit, delta]) is not None]
        for delta in DELTAS
    }
    draw = partial(
        plots.by_epsilon,
        lines,
        {},
        title="MNIST accuracy at (ε, δ) (Abadi et al. 2016, Fig. 4)",
        path=folder / "abadi-figure4.png",
    )
    rows = [(limit, *(best[limit, delta] for delta in DELTAS)) for limit in EPSILONS]
    reading = READING.format(noise=", ".join(f"{noise:g}" for noise in NOISE), every=EVERY)
    return Report("The best accuracy (%) within (ε, δ)", ("ε", *lines), rows, draw, reading)


def _outcomes(progress: Progress) -> list[tuple[PcaNetwork, int, float]]:
    """Each level of noise, looked at every few epochs: the recipe, the epoch, the accuracy in percent."""
    from deniable.learn.recipes.abadi import Network, tuned
    from deniable.randomness import SecureRandom

    data = load("mnist")
    outcomes: list[tuple[PcaNetwork, int, float]] = []
    for noise in progress(NOISE, "Levels of noise"):
        curve: dict[int, float] = {}

        def note(epoch: int, network: Network, curve: dict[int, float] = curve) -> None:
            if epoch % EVERY == 0:
                curve[epoch] = 100 * network.accuracy(data.test_images, data.test_labels)

        recipe = tuned(epochs=EPOCHS, noise_multiplier=noise, pca_noise=2 * noise, on_epoch=note)
        recipe((data.images, data.labels), rng=SecureRandom())
        outcomes += [(recipe, epoch, accuracy) for epoch, accuracy in curve.items()]
    return outcomes


def _best(outcomes: list[tuple[PcaNetwork, int, float]]) -> dict[tuple[float, float], float | None]:
    """The best accuracy within each (ε, δ); None where nothing is."""
    costs = {
        delta: [
            (epsilon(recipe.loss_with(recipe.noise_multiplier, epoch), delta).upper, accuracy)
            for recipe, epoch, accuracy in outcomes
        ]
        for delta in DELTAS
    }
    return {
        (limit, delta): max((accuracy for cost, accuracy in costs[delta] if cost <= limit), default=None)
        for limit in EPSILONS
        for delta in DELTAS
    }
