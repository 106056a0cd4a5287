"""A graph over public examples, what spreads along it, and which of them to ask about.
No private data comes near."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import scipy.sparse as sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from deniable.errors import InvalidParameter

Graph: TypeAlias = sparse.csr_matrix
Floats: TypeAlias = NDArray[np.float32]

SCALE = 7
"""The neighbour whose distance is a point's own scale (Zelnik-Manor, Perona 2004)."""
CHUNK = 1000


def neighbours(points: Tensor, count: int = 10) -> Graph:
    """The symmetric graph of `count` nearest neighbours, normalised: D^-½·W·D^-½.

    W = exp(−d²/(s·s′)), s and s′ the distances of the two ends to their seventh neighbours.
    """
    if not SCALE <= count < len(points):
        raise InvalidParameter(
            f"Expected count={count} neighbours in [{SCALE}, {len(points)}), the number of points."
        )
    near = [
        torch.cdist(points[i : i + CHUNK], points).topk(count + 1, largest=False)
        for i in range(0, len(points), CHUNK)
    ]
    distance = torch.cat([chunk.values for chunk in near])[:, 1:].numpy()
    other = torch.cat([chunk.indices for chunk in near])[:, 1:].numpy()
    scale = np.maximum(distance[:, SCALE - 1], 1e-12)
    weight = np.exp(-(distance**2) / (scale[:, None] * scale[other])).astype(np.float32)
    here = np.repeat(np.arange(len(points)), count)
    one_way = sparse.csr_matrix((weight.ravel(), (here, other.ravel())), shape=(len(points),) * 2)
    both = one_way.maximum(one_way.T)
    root = sparse.diags(
        (1 / np.sqrt(np.maximum(np.asarray(both.sum(axis=1)).ravel(), 1e-12))).astype(np.float32)
    )
    return (root @ both @ root).tocsr()


def spread(graph: Graph, start: Floats, *, share: float, steps: int) -> Floats:
    """F ← share·S·F + (1 − share)·start, `steps` times (Zhou et al. 2004)."""
    mass = start
    for _ in range(steps):
        mass = share * (graph @ mass) + (1 - share) * start
    return np.asarray(mass, np.float32)


def spread_labels(graph: Graph, places: NDArray[np.int64], labels: NDArray[np.int64], classes: int) -> Floats:
    """For each point the chances of the classes, from the labels of a few; each class starts with mass 1."""
    start = np.zeros((graph.shape[0], classes), np.float32)
    np.add.at(start, (places, labels), 1)
    start /= np.maximum(start.sum(axis=0), 1)
    mass = spread(graph, start, share=0.98, steps=60)
    return np.asarray(mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-12))


def medoids(points: Tensor, count: int, *, seed: int = 0, rounds: int = 15) -> NDArray[np.int64]:
    """At most `count` points that stand for all: those nearest to the centres of
    k-means, in order of their index."""
    if not 1 <= count <= len(points):
        raise InvalidParameter(f"Expected count={count} in [1, {len(points)}], the number of points.")
    centres = points[torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))[:count]]
    for _ in range(rounds):
        own = torch.nn.functional.one_hot(torch.cdist(points, centres).argmin(dim=1), count).to(points.dtype)
        size = own.sum(dim=0)[:, None]
        centres = torch.where(size > 0, (own.T @ points) / size.clamp_min(1), centres)
    nearest: NDArray[np.int64] = torch.cdist(centres, points).argmin(dim=1).numpy()
    return np.unique(nearest)
