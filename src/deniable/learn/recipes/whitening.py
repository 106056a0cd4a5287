"""Half whitening of feature maps by a Kronecker product, from three private statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from deniable.learn.recipes import exact
from deniable.mechanism import Random

NORM = 1 << 14
"""Grid units in a feature map of length 1, for the statistics."""
MOST = (1 << 15) - 1
CHUNK = 500

Progress = Callable[[int, str], None]


@dataclass(frozen=True)
class Whitening:
    """z = left·(x/|x| − mean)·right: a linear map of each feature map [channels, places] by itself."""

    mean: Tensor
    left: Tensor
    right: Tensor

    def __call__(self, maps: Tensor) -> Tensor:
        """Maps [n, channels, places] in grid units of `NORM`."""
        return self.left @ (maps.float() / NORM - self.mean) @ self.right


def fit(maps: Tensor, n: int, multiplier: float, power: float, ridge: float, rng: Random) -> Whitening:
    """The mean, and the second moments of channels and of places about it, each with Gaussian noise of `multiplier`.

    An example's map is a vector of integers of length at most `NORM` (`exact.units`). It moves the sum by that. About the
    noisy mean it is scaled to length `NORM` again, as a matrix M of integers: M·Mᵀ and Mᵀ·M have Frobenius norm at most |M|²,
    which is how far they move. `n` is public and only scales. The roots are post-processing.
    """
    mean = exact.noisy(_sum(maps), multiplier, NORM, rng) / (n * NORM)
    channels, places = _second_moments(maps, mean.float())
    left, right = (
        _root(exact.noisy_symmetric(moments, multiplier, NORM**2, rng) / (n * NORM**2), power, ridge)
        for moments in (channels, places)
    )
    return Whitening(mean.float(), left, right)


def _sum(maps: Tensor) -> Tensor:
    total = torch.zeros(maps.shape[1:], dtype=torch.int64)
    for start in range(0, len(maps), CHUNK):
        total += maps[start : start + CHUNK].sum(0, dtype=torch.int64)
    return total


def _second_moments(maps: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Σ M·Mᵀ and Σ Mᵀ·M in 64-bit floats, exact: |entries| ≤ n·2^28 < 2^53."""
    _, k, l = maps.shape
    channels, places = torch.zeros(k, k, dtype=torch.float64), torch.zeros(l, l, dtype=torch.float64)
    for start in range(0, len(maps), CHUNK):
        part = maps[start : start + CHUNK]
        seen = part.flatten(1).any(1)  # a map of 0 stands for an example that is left out, also after centring
        centred = exact.units((part.float() / NORM - mean) * seen[:, None, None], NORM, MOST).double()
        rows, columns = centred.transpose(0, 1).reshape(k, -1), centred.reshape(-1, l)
        channels += rows @ rows.T
        places += columns.T @ columns
    return channels, places


def _root(moments: Tensor, power: float, ridge: float) -> Tensor:
    """(moments + ridge)^−power; what noise made negative counts as 0."""
    values, vectors = torch.linalg.eigh(moments)
    scaled = vectors * (values.clamp_min(0) + ridge).pow(-power)
    return torch.matmul(scaled, vectors.T).float()
