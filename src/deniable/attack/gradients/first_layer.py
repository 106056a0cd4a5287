"""Images from the gradient of a dense first layer: ∂L/∂Wᵢ = gᵢ·x and ∂L/∂bᵢ = gᵢ, so one division gives x."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from deniable.attack.gradients.sent import (
    Images,
    Inverted,
    Update,
    Victims,
    cost,
    nearest,
    noise_of,
    receive_update,
)
from deniable.federated.fedavg import FedAvg

HIDDEN = 200
SAME = 1e-3
"""Neurons whose images differ by no more than this, pixel by pixel, speak of one image."""


def dense(victims: Victims) -> nn.Module:
    """A network whose first layer sees every pixel."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(victims.images.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))


def invert(update: Update, pixels: int, count: int, noise: float = 0.0) -> Images:
    """`count` images from the update of a dense first layer. No true image is known to it.

    For one image the neurons' equations W = g·xᵀ, b = g are solved together, by least
    squares, less what `noise` of that deviation adds to ‖b‖²: else the image would come
    out dark. For several, those are taken that most neurons agree on.
    """
    weight = update[: HIDDEN * pixels].reshape(HIDDEN, pixels)
    bias = update[HIDDEN * pixels : HIDDEN * (pixels + 1)]
    if count == 1:
        square = float(bias @ bias)
        signal = square - HIDDEN * noise**2
        return np.clip(bias @ weight / max(signal if signal > 0 else square, 1e-300), 0, 1)[None]
    neurons = np.flatnonzero(np.abs(bias) > 1e-12)
    ratios = weight[neurons] / bias[neurons, None]
    return _common_images(ratios[np.argsort(-np.abs(bias[neurons]))], count, pixels)


def _common_images(ratios: Images, count: int, pixels: int) -> Images:
    """The `count` images that most neurons give, each once."""
    near = np.abs(ratios[:, None] - ratios[None]).max(axis=2) < SAME
    images = np.zeros((count, pixels))
    votes = near.sum(axis=1)
    for place in range(count):
        best = int(votes.argmax()) if len(votes) else 0
        if not len(votes) or votes[best] <= 0:
            break
        images[place] = np.clip(ratios[best], 0, 1)
        votes = np.where(near[best], 0, votes)
    return images


def attack(victims: Victims, run: FedAvg, release: str, *, batch: int = 1) -> Inverted:
    """One device for each `batch` images."""
    pixels = victims.images.shape[1]
    images: list[Images] = []
    scores: list[float] = []
    for first in range(0, len(victims.images) - batch + 1, batch):
        update = receive_update(run, *victims.rows(first, batch))
        candidates = invert(update, pixels, batch, noise_of(run))
        best, values = nearest(candidates, victims.images[first : first + batch])
        images.extend(best)
        scores.extend(values)
    return Inverted(release, "the first layer", np.array(images), tuple(scores), cost(run))
