"""Gaussian noise from the secure generator: in double precision, or on a grid of integers.

**Floating point.** A theorem about Gaussian noise is about real numbers. Noise that is drawn in single precision and added in
single precision leaves holes: some results are possible for one sum and impossible for its neighbour (Mironov 2012; Jin et al.
2022, arXiv 2112.05307). Here the noise is drawn with 53 random bits for the radius and 53 for the angle, added in double
precision, and the result is rounded to the parameters' precision once, which hides the low bits of the noise. What stays: the
noise ends at 8.6 deviations, its law is that of Box and Muller to a relative 2⁻⁵⁰ or so, and the sum it is added to was itself
rounded. None of that is covered by the stated ε, and a certificate says so.

**On a grid.** With `grid=True` every example's clipped gradient is rounded to integers and added exactly, and the noise is drawn
exactly; nothing is left to floating point. `Grid` holds the argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from deniable.loss import DiscreteGaussianNoise, exact
from deniable.mechanism import Random
from deniable.mechanisms.grid import exponent, root_up
from deniable.randomness.generator import Generator

_CHUNK = 1 << 15
"""Pairs that are made at once: they stay in the processor's cache."""
_STEP = 2.0**-53


def gaussians(rng: Random, size: int) -> Tensor:
    """`size` standard normal numbers in double precision (Box, Muller 1958), from `rng`'s own bits.

    >>> from deniable.randomness import SeededRandom
    >>> gaussians(SeededRandom(1), 3).dtype
    torch.float64
    """
    out = torch.empty(size + size % 2, dtype=torch.float64)
    for start in range(0, len(out), 2 * _CHUNK):
        part = out[start : start + 2 * _CHUNK]
        half = len(part) // 2
        units = _units(rng, 2 * half)
        # (k + 1)·2⁻⁵³ lies in (0, 1], so the logarithm is finite; both numbers of a pair are used.
        radius = units[:half].add_(_STEP).log_().mul_(-2).sqrt_()
        angle = units[half:].mul_(2 * math.pi)
        torch.cos(angle, out=part[:half]).mul_(radius)
        torch.sin(angle, out=part[half:]).mul_(radius)
    return out[:size]


def _units(rng: Random, size: int) -> Tensor:
    """Uniform multiples of 2⁻⁵³ in [0, 1)."""
    if isinstance(rng, Generator):
        whole = (rng.bits(size) >> np.uint64(11)).astype(np.float64)
    else:
        whole = np.asarray(rng.uniform_integers(1 << 53, size), np.float64)
    return torch.from_numpy(whole * _STEP)


@dataclass(frozen=True)
class Grid:
    """Vectors of `dimension` coordinates and L2 norm at most `clip`, each rounded to a multiple of `step` before they are added.

    Each example's clipped gradient g is computed alone, from its own row and from what was released before, and rounded to the
    integers r = round(g/step). Coordinates move by at most ½, so ‖r‖ ≤ clip/step + √dimension/2. Integers are added exactly,
    so one example more or less moves the sum by exactly its r: `sensitivity`, in grid units, bounds it. There is no error of
    summation to account for, which float sums of unknown length would need.
    """

    clip: float
    dimension: int

    @property
    def step(self) -> Fraction:
        """The power of two at which rounding adds at most 1/1024 of the clip."""
        return Fraction(2) ** (exponent(Fraction(self.clip) / self._root) - 9)

    @property
    def sensitivity(self) -> int:
        return math.ceil(Fraction(self.clip) / self.step + self._root / 2)

    @property
    def _root(self) -> Fraction:
        """√dimension, rounded up."""
        return exact(root_up(Fraction(self.dimension)))

    def loss(self, multiplier: float) -> DiscreteGaussianNoise:
        """Integer noise of at least `multiplier` times the sensitivity."""
        sigma = math.nextafter(multiplier * self.sensitivity, math.inf)
        return DiscreteGaussianNoise(sigma, self.sensitivity, self.dimension)

    def rounded(self, gradient: Tensor) -> Tensor:
        """In whole grid units. Dividing by a power of two is exact in double precision, and so is rounding."""
        return torch.round(gradient.double() * float(1 / self.step)).to(torch.int64)

    def noisy(self, units: Tensor, multiplier: float, rng: Random) -> Tensor:
        """The integer sum `units` with integer noise, as numbers (from here on all is post-processing)."""
        noise = rng.discrete_gaussian(self.loss(multiplier).sigma, len(units))
        total = units.numpy() + noise
        return torch.from_numpy(np.asarray(total, np.float64) * float(self.step))
