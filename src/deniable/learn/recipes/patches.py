"""Features of small patches: whitened, compared with a fixed dictionary, soft
thresholds, local means (Coates, Ng 2011).

Coates and Ng take dictionary and whitening from the training pictures. Here both come from drawn pictures
(`leaves`), so that nothing is learnt from data: each picture is mapped by itself, by a map that is fixed
beforehand, and no privacy is spent.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from deniable.learn.recipes import leaves

SIDE, STRIDE, POOL = 6, 2, 4
"""Pixels of a patch, between two patches, and places of the output, along each side."""
FILTERS = 512
"""Half of them are mirror images of the other half."""
FLOOR = 10 / 255**2
"""Added to the variance of a patch, so that flat ones stay flat."""
RIDGE = 0.1
THRESHOLD = 0.25
CANVASES, CANVAS = 8, 128
CONTRAST = 2e-3
"""The variance of a patch from which on it may stand in the dictionary."""


def features(pictures: Tensor) -> Tensor:
    """Pictures [n, 3, size, size] with values in [0, 1] to [n, 512, 16], each summed
    with the features of its mirror image.

    A mirror image has the same features. Each picture goes through products of its own, so that its bits
    cannot depend on its neighbours.

    >>> features(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 512, 16])
    """
    places = (pictures.shape[-1] - SIDE) // STRIDE + 1
    means, filters = _means(places), dictionary()
    out = torch.empty(len(pictures), FILTERS, POOL * POOL)
    with torch.no_grad():
        for i, picture in enumerate(pictures):
            answers = normal(_patches(picture.float())) @ filters
            activations = torch.cat([(answers - THRESHOLD).relu_(), (-answers).sub_(THRESHOLD).relu_()], 1)
            out[i] = _both_ways(means @ activations)
    return out


@cache
def dictionary() -> Tensor:
    """Filters [108, 512] for patches of mean 0 and length about 1: whitened patches of
    drawn pictures, whitened once more."""
    patches = _patches(leaves.pictures(CANVASES, CANVAS), stride=1)
    even = normal(patches)
    whitener = _whitener(even.double())
    strong = even[(patches - patches.mean(1, keepdim=True)).square().mean(1) > CONTRAST]
    indices = (torch.from_numpy(leaves.uniform(FILTERS // 2, key=1)) * len(strong)).long()
    white = torch.nn.functional.normalize(strong[indices].double() @ whitener, dim=1)
    filters = (white @ whitener).reshape(-1, 3, SIDE, SIDE)
    return torch.cat([filters, filters.flip(3)]).flatten(1).T.float().contiguous()


def normal(patches: Tensor) -> Tensor:
    """Patches [m, 108] less their mean, at one contrast."""
    deviations = patches - patches.mean(1, keepdim=True)
    return deviations * (deviations.square().mean(1, keepdim=True) + FLOOR).rsqrt()


def _patches(pictures: Tensor, stride: int = STRIDE) -> Tensor:
    """All patches [m, 108] of a picture, or of several."""
    columns: Tensor = torch.nn.functional.unfold(pictures, SIDE, stride=stride)
    return columns.T if columns.ndim == 2 else columns.transpose(1, 2).flatten(0, 1)


def _whitener(patches: Tensor) -> Tensor:
    deviations = patches - patches.mean(0)
    values, vectors = torch.linalg.eigh(deviations.T @ deviations / len(patches))
    basis: Tensor = vectors * (values.clamp_min(0) + RIDGE).rsqrt()
    return torch.matmul(basis, vectors.T)


@cache
def _means(places: int) -> Tensor:
    """Means over overlapping windows of a grid of places × places patches: [16,
    places²], symmetric left and right."""
    at, centres = (torch.arange(places) + 0.5) / places, (torch.arange(POOL) + 0.5) / POOL
    weights = (1 - POOL * (at - centres[:, None]).abs()).clamp_min(0)
    weights = weights / weights.sum(1, keepdim=True)
    return torch.kron(weights, weights)


def _both_ways(answers: Tensor) -> Tensor:
    """Means [16, 2 · 512] of a picture, plus those of its mirror image: the other half
    of the filters, places mirrored."""
    split = answers.T.reshape(2, 2, FILTERS // 2, POOL, POOL)
    return (split[:, 0] + split[:, 1].flip(-1)).reshape(FILTERS, POOL * POOL)
