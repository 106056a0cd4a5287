"""What one client's update shows of its images, to the server that receives it.

An update of FedSGD is the gradient on the client's rows. Two attacks read images out of it:

    first layer  a dense first layer has ∂L/∂Wᵢ = gᵢ·x and ∂L/∂bᵢ = gᵢ, so one division gives x (Phong et al.
                 2018); with several images, neurons that only one of them excites give that image, and agree
                 with one another
    search       for other networks, an image whose gradient is the one that was sent (`search`)

What is attacked is what a `federated.Device` sends: its update as it is, clipped, or clipped and with its own
noise. An attack that fails proves nothing: it fails at noise whose ε is in the hundreds. `canary` is the pair
for an audit of the same release, which does find such noise too small.
"""

from __future__ import annotations

from deniable.attack.gradients import first_layer, search
from deniable.attack.gradients.canary import Canary, canary
from deniable.attack.gradients.sent import (
    CLEAR,
    DELTA,
    FAINT,
    Inverted,
    Victims,
    baseline,
    clipped_run,
    for_budget,
    noisy,
    unclipped_run,
    victims,
)

__all__ = [
    "CLEAR",
    "DELTA",
    "FAINT",
    "Canary",
    "Inverted",
    "Victims",
    "baseline",
    "canary",
    "compare",
    "victims",
]

TOGETHER = 4
"""Images of one client whose mean gradient is sent."""


def compare(victims: Victims, *, epsilon: float, search_images: int, watch: search.Watch) -> list[Inverted]:
    """The same images, sent in several ways: as they are, clipped, with faint noise,
    with the noise of a guarantee."""
    dense, other = first_layer.dense(victims), search.convolutional(victims)
    guarantee, faint = f"noise for ε = {epsilon:g}", f"noise of {FAINT:g} clips"
    layers = [
        first_layer.attack(victims, unclipped_run(dense), "one image's gradient"),
        first_layer.attack(victims, unclipped_run(dense), f"{TOGETHER} images' gradient", batch=TOGETHER),
        first_layer.attack(victims, clipped_run(dense), "clipped"),
        first_layer.attack(victims, noisy(dense, FAINT), faint),
        first_layer.attack(victims, for_budget(dense, epsilon), guarantee),
    ]
    runs = (
        (unclipped_run(other), "one image's gradient"),
        (clipped_run(other), "clipped"),
        (noisy(other, FAINT), faint),
        (for_budget(other, epsilon), guarantee),
    )
    return layers + [
        search.attack(victims, run, release, images=search_images, watch=watch) for run, release in runs
    ]
