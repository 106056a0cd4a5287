"""Half whitening of feature maps by Kronecker products, from three private statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from deniable import checks
from deniable.learn.recipes import exact
from deniable.mechanism import Random

NORM = 1 << 14
"""Grid units in a feature map of length 1, for the statistics."""
MOST = (1 << 15) - 1
CHUNK = 500

Shapes = tuple[tuple[int, int], ...]
"""Channels and places of the feature maps that are held one after the other in a row."""


@dataclass(frozen=True)
class Flattening:
    """How far directions are evened out: by (variance + ridge)^−power, with a power for channels and one for
    places.

    >>> Flattening(0.3, places=0, kept=(48, 100))
    Flattening(power=0.3, places=0, ridge=0.001, kept=(48, 100), shrink=False)
    """

    power: float = 0.25
    places: float = 0.25
    ridge: float = 1e-3
    kept: tuple[int, ...] | None = None
    """The strongest directions of channels that are kept of each feature map; all if not given."""
    shrink: bool = False
    """Whether moments off the diagonal are shrunk by what noise explains of them: for maps whose channels are
    nearly principal directions already."""

    def __post_init__(self) -> None:
        checks.number("power", self.power, at_least=0)
        checks.number("places", self.places, at_least=0)
        checks.number("ridge", self.ridge, above=0)
        for number in self.kept or ():
            checks.whole("kept", number, at_least=1)


HALF = Flattening()
"""A quarter of the power on each side of a second moment is half of whitening."""


@dataclass(frozen=True)
class Whitening:
    """z = left·(x/|x| − mean)·right, scaled to one length, for each feature map
    [channels, places] of a row by itself."""

    mean: Tensor
    roots: tuple[tuple[Tensor, Tensor], ...]

    @property
    def size(self) -> int:
        """Features of a row."""
        return sum(len(left) * right.shape[1] for left, right in self.roots)

    def __call__(self, maps: Tensor) -> Tensor:
        """Rows [n, …] in grid units of `NORM` to rows [n, features]."""
        deviations = maps.flatten(1).float() / NORM - self.mean
        shapes = tuple((left.shape[1], len(right)) for left, right in self.roots)
        parts = (
            left @ m @ right for m, (left, right) in zip(split(deviations, shapes), self.roots, strict=True)
        )
        return torch.cat([torch.nn.functional.normalize(part.flatten(1), dim=1) for part in parts], 1)


def split(rows: Tensor, shapes: Shapes) -> list[Tensor]:
    """Rows [n, features] as their feature maps [n, channels, places]."""
    parts = torch.split(rows, [k * l for k, l in shapes], 1)
    return [part.reshape(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]


def fit(
    maps: Tensor, shapes: Shapes, n: int, multiplier: float, flattening: Flattening, rng: Random
) -> Whitening:
    """The mean, and the second moments of channels and of places about it, each with
    Gaussian noise of `multiplier`.

    An example's row is a vector of integers of length at most `NORM` (`exact.units`). It
    moves the sum by that. About the noisy mean each of its k feature maps is scaled to
    length `NORM` again, as a matrix M of integers: M·Mᵀ and Mᵀ·M have Frobenius norm at
    most |M|², so that the k moments of channels together move by at most √k·NORM², and
    those of places too. `n` is public and only scales. The roots are post-processing.
    """
    mean = exact.noisy(_sum(maps), multiplier, NORM, rng) / (n * NORM)
    sensitivity = math.sqrt(len(shapes)) * NORM**2 * (1 + 2.0**-50)

    def release(moments: Tensor) -> Tensor:
        noisy = exact.noisy_symmetric(moments, multiplier, sensitivity, rng)
        if flattening.shrink:
            noisy = _shrunk(noisy, multiplier * sensitivity / math.sqrt(2))
        return noisy / (n * NORM**2)

    numbers = flattening.kept or (None,) * len(shapes)
    roots = tuple(
        (
            _root(release(channels), flattening.power, flattening.ridge, most),
            _root(release(places), flattening.places, flattening.ridge),
        )
        for (channels, places), most in zip(_second_moments(maps, shapes, mean.float()), numbers, strict=True)
    )
    return Whitening(mean.float(), roots)


def _sum(maps: Tensor) -> Tensor:
    total = torch.zeros(maps.shape[1:].numel(), dtype=torch.int64)
    for start in range(0, len(maps), CHUNK):
        total += maps[start : start + CHUNK].flatten(1).sum(0, dtype=torch.int64)
    return total


def _second_moments(maps: Tensor, shapes: Shapes, mean: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Σ M·Mᵀ and Σ Mᵀ·M of each feature map in 64-bit floats, exact: |entries| ≤ n·2^28 < 2^53."""
    sums = [tuple(torch.zeros(size, size, dtype=torch.float64) for size in shape) for shape in shapes]
    for start in range(0, len(maps), CHUNK):
        part = maps[start : start + CHUNK].flatten(1)
        presence = part.any(
            1, keepdim=True
        )  # a row of 0 stands for an example that is left out, also after centring
        for (channels, places), block in zip(
            sums, split((part.float() / NORM - mean) * presence, shapes), strict=True
        ):
            m = exact.units(block, NORM, MOST).double()
            rows, columns = m.transpose(0, 1).reshape(len(channels), -1), m.reshape(-1, len(places))
            channels += rows @ rows.T
            places += columns.T @ columns
    return [(channels, places) for channels, places in sums]


def _shrunk(moments: Tensor, noise: float) -> Tensor:
    """Moments with noise of deviation `noise` off their diagonal, which is shrunk by the share of it that is
    noise (James, Stein 1961).

    Noise in many small moments would turn all directions but the strongest at random; without them channels
    stay as they are, and maps are made so that these are directions already (`principal`).
    """
    diagonal = torch.diag(moments.diagonal())
    others = moments - diagonal
    energy = len(moments) * (len(moments) - 1) * noise**2
    share = energy / max(float(others.square().sum()), energy, 1.0)
    return diagonal + (1 - share) * others


def _root(moments: Tensor, power: float, ridge: float, count: int | None = None) -> Tensor:
    """(moments + ridge)^−power; what noise made negative counts as 0. With `count`, its strongest
    directions alone, and these for axes: [count, size]."""
    values, vectors = torch.linalg.eigh(moments)
    basis = vectors * (values.clamp_min(0) + ridge).pow(-power)
    if count is None:
        return torch.matmul(basis, vectors.T).float()
    axes: Tensor = basis[:, -count:].T
    return axes.float().contiguous()
