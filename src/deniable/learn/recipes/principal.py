"""Principal directions of features, found on drawn pictures: fewer channels, whitened half way, at no cost.

Channels of one picture say much the same. How they hang together is mostly a matter of the filters, so
pictures of nothing (`leaves`) show it as well as photographs do. What is taken from them is fixed before any
data is seen; the private second moments (`whitening`) then need to say only what is left, in smaller matrices
with less noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from deniable.learn.recipes import leaves

POWER = 0.2
RIDGE = 0.01
"""Added to a variance, of the mean variance of all channels."""
CANVASES, CANVAS, KEY = 24, 128, 0
SIDE, STEP = 32, 24
"""Of the pictures that are cut from a canvas: their side, and the pixels between two of them."""


@dataclass(frozen=True)
class Principal:
    """Feature maps [n, channels, places] to [n, kept, places]: less `mean` [channels, 1], turned by
    `basis`."""

    mean: Tensor
    basis: Tensor

    def __call__(self, maps: Tensor) -> Tensor:
        """Each picture goes through a product of its own, so that its bits cannot depend on its
        neighbours."""
        out = torch.empty(len(maps), len(self.basis), maps.shape[2])
        for i, each in enumerate(maps):
            out[i] = self.basis @ (each - self.mean)
        return out


def of_drawn(features: Callable[[Tensor], Tensor], kept: int) -> Principal:
    """The `kept` strongest directions of the channels of `features`, each scaled by its variance^−POWER.

    >>> found = of_drawn(lambda pictures: pictures.flatten(2), 2)
    >>> found.mean.shape, found.basis.shape
    (torch.Size([3, 1]), torch.Size([2, 3]))
    """
    maps = features(draw_pictures())
    rows = maps.transpose(1, 2).flatten(0, 1).double()
    mean = rows.mean(0)
    values, vectors = torch.linalg.eigh((rows - mean).T @ (rows - mean) / len(rows))
    strengths = values.clamp_min(0).add(RIDGE * values.mean()).pow(-POWER)
    basis = (_fix_signs(vectors) * strengths).flip(1)[:, :kept].T
    return Principal(mean[:, None].float(), basis.float().contiguous())


@cache
def draw_pictures() -> Tensor:
    """Pictures [600, 3, 32, 32] of leaves."""
    canvases = leaves.pictures(CANVASES, CANVAS, KEY)
    windows = canvases.unfold(2, SIDE, STEP).unfold(3, SIDE, STEP)
    return windows.permute(0, 2, 3, 1, 4, 5).reshape(-1, 3, SIDE, SIDE)


def _fix_signs(vectors: Tensor) -> Tensor:
    """Columns whose largest entry is positive: a basis of eigenvectors is known up to signs only, and a model
    must find the same one on any machine."""
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return vectors * largest.sign()
