"""Pictures of nothing: leaves that cover one another, by chance (the dead leaves model, Matheron 1968).

Leaves of all sizes, the small ones more frequent, give pictures the edges, the occlusions
and the falling spectrum of photographs, though no photograph was looked at. What is
learnt from them is fixed before any data is seen and costs no privacy (Tang et al. 2023
pretrain networks on such pictures). Chance comes from a counter with a fixed key, whose
bits are the same on every machine: these pictures are public constants, not secrets.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SMALLEST, LARGEST = 4.0, 0.5
"""Of a leaf: its radius in pixels of the fine canvas, and over the canvas."""
MOST = 6000
"""Leaves laid before the canvas counts as covered."""
CHROMA, SHADE, STRETCH = 0.3, 0.4, 1.0
"""Of colours about grey, of brightness across a leaf, and of length over width (its logarithm)."""


def pictures(count: int, size: int, key: int = 0) -> Tensor:
    """Colour pictures [count, 3, size, size] with values in [0, 1], drawn at twice that size.

    >>> pictures(1, 16).shape
    torch.Size([1, 3, 16, 16])
    """
    draws = uniform(count * MOST * 11, key).reshape(count, MOST, 11)
    canvases = np.stack([_cover(each, 2 * size) for each in draws])
    return torch.nn.functional.avg_pool2d(torch.from_numpy(canvases).clamp(0, 1).float(), 2)


def uniform(count: int, key: int) -> NDArray[np.float64]:
    """Numbers in [0, 1) from the bits of Philox, a stream that never changes."""
    return np.asarray((np.random.Philox(key=key).random_raw(count) >> 11) * 2.0**-53, np.float64)


def _cover(leaves: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """A canvas [3, size, size], covered from the front to the back: a leaf shows where
    nothing lies before it."""
    canvas, empty = np.zeros((3, size, size)), np.ones((size, size), bool)
    for leaf in leaves:
        _lay(leaf, canvas, empty)
        if not empty.any():
            break
    return canvas


def _lay(leaf: NDArray[np.float64], canvas: NDArray[np.float64], empty: NDArray[np.bool_]) -> None:
    """One ellipse or rectangle with a radius of density r^−3, a colour, and a slope of brightness."""
    size = len(empty)
    small, large = SMALLEST**-2, (LARGEST * size) ** -2
    radius = (small - (small - large) * leaf[0]) ** -0.5
    y, x = (1.4 * leaf[1:3] - 0.2) * size
    turn, stretch = math.pi * leaf[3], math.exp(STRETCH * (leaf[4] - 0.5))
    reach = radius * max(stretch, 1 / stretch) * math.sqrt(2) + 1
    rows, columns = (slice(*np.clip((int(at - reach), int(at + reach) + 1), 0, size)) for at in (y, x))
    at = np.arange(size)
    dy, dx = at[rows, None] - y, at[columns] - x
    along, across = math.cos(turn) * dx + math.sin(turn) * dy, math.cos(turn) * dy - math.sin(turn) * dx
    u, v = along / (stretch * radius), across * stretch / radius
    shape = u * u + v * v < 1 if leaf[5] < 0.6 else np.maximum(abs(u), abs(v)) < 0.85
    area = shape & empty[rows, columns]
    shade = (SHADE / max(radius, 8.0)) * ((leaf[9] - 0.5) * dy + (leaf[10] - 0.5) * dx)
    colour = leaf[6] + CHROMA * (np.array([leaf[7], leaf[8], 1 - (leaf[7] + leaf[8]) / 2]) - 0.5)
    for channel in range(3):
        canvas[channel, rows, columns][area] = (colour[channel] + shade)[area]
    empty[rows, columns] &= ~area
