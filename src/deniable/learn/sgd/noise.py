"""Gaussian noise from the secure generator: in double precision, or on a grid of integers.

**Floating point.** A theorem about Gaussian noise is about real numbers. Noise that is drawn in single
precision and added in single precision leaves holes: some results are possible for one sum and impossible for
its neighbour (Mironov 2012; Jin et al. 2022, arXiv 2112.05307). Here the noise is made of a radius and an
angle with 64 random bits each, added in double precision, and the result is rounded to the parameters'
precision once, which hides the low bits of the noise. What stays:

- The radius is √(−ln u²) with u within 2⁻⁶³ + 2⁻⁵²u of a real uniform number, so the
  noise ends at 9.5 deviations. A real pair goes beyond with probability 2⁻⁶⁵, which is
  10⁻⁹ for ten thousand steps of a million numbers.
- Drawn with a real Gaussian, the noise misses it by at most 2⁻⁴⁰ deviations, but for an event of probability
  2⁻²²: a radius below 2⁻¹¹ or above 5.8 (docs/theory/clipping.md).
- The sum that it is added to was itself rounded.

None of that is covered by the stated ε, and a certificate says so. Words of 32 bits and single precision
would take half the time, and one release would show which of two neighbouring sums it was made of.

**On a grid.** With `grid=True` every example's clipped gradient is rounded to integers and added exactly, and
the noise is drawn exactly; nothing is left to floating point. `GradientGrid` holds the argument.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor

from deniable.loss import DiscreteGaussianNoise, exact
from deniable.mechanism import Random
from deniable.mechanisms.grid import exponent, root_up
from deniable.mechanisms.integer_noise import IntegerNoise, gaussian
from deniable.randomness.generator import SPARE, Generator

USABLE = 2.0**-5
"""A usable row adds this share of the clip to one coordinate more of the sum, which
counts such rows. A row then moves the sum by at most the clip times `COUNTED`; with that
much more noise, 1/2000, the count costs nothing beside it."""
COUNTED = math.nextafter(math.sqrt(1 + USABLE**2), math.inf)
_BLOCK = 1 << 16
"""Numbers that are made at once: they stay in the processor's cache."""
_UNIT = 2.0**-63
_LEAST = torch.tensor(2.0**-130, dtype=torch.float64)
_HALF = torch.tensor(0.5, dtype=torch.float64)
_BY_NUMPY = sys.platform == "linux" and torch.backends.cpu.get_cpu_capability() == "AVX512"
"""Where numpy has a tangent and a logarithm of eight numbers at once, in a third of PyTorch's time."""


def count_deviation(multiplier: float) -> float:
    """The deviation, in rows, of the noise on the number of usable rows, where gradients
    have noise of `multiplier`."""
    return math.nextafter(math.nextafter(multiplier, math.inf) * COUNTED / USABLE, math.inf)


def noisy_mean(total: Tensor, deviation: float, lot: float, rng: Random) -> Tensor:
    """(total + Gaussian noise)/lot for a flat `total`, in its memory.

    Noise and sum are added in double precision and rounded once to that of `total`. The division comes after
    the release. The deviation is raised by more than the roundings of the noise take away.
    """
    spread, factor = deviation * (1 + 2.0**-49), 1 / lot
    count = max(1, round(len(total) / _BLOCK))
    room = _Room(-(-len(total) // count))
    for block in torch.split(total, max(1, -(-len(total) // count))):
        room.add(block, spread, rng)
        block.mul_(factor)
    return total


def gaussians(rng: Random, size: int) -> Tensor:
    """`size` standard normal numbers in double precision, from `rng`'s own bits.

    >>> from deniable.randomness import SeededRandom
    >>> gaussians(SeededRandom(1), 3).dtype
    torch.float64
    """
    return noisy_mean(torch.zeros(size, dtype=torch.float64), 1.0, 1.0, rng)


class _Room:
    """Memory for normal numbers by pairs, up to `size` of them, used again and again (Box, Muller 1958)."""

    def __init__(self, size: int) -> None:
        half = (size + 1) // 2
        self.bytes = np.empty(16 * half + SPARE, np.uint8)
        self.integers = torch.from_numpy(self.bytes[: 16 * half].view(np.int64))
        self.words = self.integers.view(torch.float64)
        self.radius, self.angle = self.words[:half], self.words[half:]
        self.sum, self.share = (
            torch.empty(2 * half, dtype=torch.float64),
            torch.empty(half, dtype=torch.float64),
        )
        self.first, self.second = self.sum[:half], self.sum[half:]

    def add(self, block: Tensor, deviation: float, rng: Random) -> None:
        """Add noise to a block in double precision, and round once.

        A word k in [−2⁶³, 2⁶³) is a real uniform number on a circle, rounded; u = |k|·2⁻⁶³ is one in [0, 1],
        rounded to nearest. The radius is r = √(−ln(u² + 2⁻¹³⁰)): what is added keeps the logarithm finite,
        and is u² in the middle of the cell of 0. With t the tangent of half the angle and s = 2r/(1 + t²),
        the pair r·(cos, sin) is (s − r, s·t): one function in place of two.
        """
        self._draw(rng)
        radius, half = self.radius, self.angle.mul_(math.pi / 2 * _UNIT)
        _inplace(np.log, torch.log, torch.addcmul(_LEAST, radius, radius, value=_UNIT**2, out=radius))
        _inplace(np.sqrt, torch.sqrt, radius.neg_())
        tangent = _inplace(np.tan, torch.tan, half)
        share = torch.addcmul(_HALF, tangent, tangent, value=0.5, out=self.share)
        torch.div(radius, share, out=share)
        wide = self.sum[: len(block)].copy_(block)
        self.first.add_(torch.sub(share, radius, out=radius), alpha=deviation)
        self.second.addcmul_(share, tangent, value=deviation)
        block.copy_(wide)

    def _draw(self, rng: Random) -> None:
        """Uniform integers in [−2⁶³, 2⁶³) as double-precision numbers, in the memory
        that they were drawn into."""
        if isinstance(rng, Generator):
            rng.fill(self.bytes)
        else:
            draws = rng.uniform_integers(1 << 63, len(self.words))
            self.integers.copy_(torch.from_numpy((np.asarray(draws, np.int64) - (1 << 62)) << 1))
        self.words.copy_(self.integers)


def _inplace(by_numpy: np.ufunc, by_torch: Callable[..., Tensor], x: Tensor) -> Tensor:
    """A function of each number, in its place; both are right to a few units in the last place."""
    if _BY_NUMPY:
        by_numpy(x.numpy(), out=x.numpy())
        return x
    return by_torch(x, out=x)


@dataclass(frozen=True)
class GradientGrid:
    """Vectors of `dimension` coordinates and L2 norm at most `clip`, each rounded to a
    multiple of `step` before they are added.

    Each example's clipped gradient g is computed alone, from its own row and from what was released before,
    and rounded to the integers r = round(g/step). Coordinates move by at most ½, so ‖r‖ ≤ clip/step +
    √dimension/2. Integers are added exactly, so one example more or less moves the sum by exactly its r:
    `sensitivity`, in grid units, bounds it. There is no error of summation to account for, which float sums
    of unknown length would need.
    """

    clip: float
    dimension: int
    counts: bool = False
    """Whether usable rows are counted in one coordinate more, which a row moves by `weight`."""

    @property
    def step(self) -> Fraction:
        """The power of two at which rounding adds at most 1/1024 of the clip."""
        return Fraction(2) ** (exponent(Fraction(self.clip) / self._root) - 9)

    @property
    def sensitivity(self) -> int:
        length = self._largest
        return math.isqrt(length**2 + self.weight**2 - 1) + 1 if self.counts else length

    @property
    def weight(self) -> int:
        """What a usable row adds to the count, in grid units."""
        return math.floor(self._largest * USABLE)

    @property
    def _largest(self) -> int:
        """The largest norm of a row's integers."""
        return math.ceil(Fraction(self.clip) / self.step + self._root / 2)

    @property
    def _root(self) -> Fraction:
        """√dimension, rounded up."""
        return exact(root_up(Fraction(self.dimension)))

    def noise(self, multiplier: float) -> IntegerNoise:
        """Integer noise of at least `multiplier` times the sensitivity."""
        sigma = math.nextafter(multiplier * self.sensitivity, math.inf)
        return gaussian(sigma, self.sensitivity, self.dimension + self.counts)

    def loss(self, multiplier: float) -> DiscreteGaussianNoise:
        return cast(DiscreteGaussianNoise, self.noise(multiplier).loss)

    def add(self, gradient: Tensor, total: Tensor) -> None:
        """Add a clipped gradient to `total`, in whole grid units.

        The factor is a power of two, so the product is exact in the gradient's own precision (what underflows
        is rounded to 0 either way), and so is rounding; by blocks, which stay in the cache.
        """
        for part, units in zip(torch.split(gradient, _BLOCK), torch.split(total, _BLOCK), strict=True):
            units.add_((part * self._factor).round_().to(torch.int64))

    @cached_property
    def _factor(self) -> float:
        return float(1 / self.step)

    def noisy(self, units: Tensor, multiplier: float, rng: Random) -> Tensor:
        """The integer sum `units` with integer noise, as numbers (from here on all is post-processing)."""
        total = units.cpu().numpy() + self.noise(multiplier).draw(rng, len(units))
        return torch.from_numpy(np.asarray(total, np.float64) * float(self.step))

    def noisy_count(self, count: int, multiplier: float, rng: Random) -> float:
        """How many rows were usable, from the coordinate that counts them."""
        return count + int(self.noise(multiplier).draw(rng, 1)[0]) / self.weight


class CorrelatedNoise:
    """The noise of one run that is correlated over its steps, made as it is needed: row t of C⁻¹·Z for a
    banded C.

    Each group of parameters has rows of its own, all of one size and deviation, and so has what counts usable
    rows, which is no group. The rows of the last steps stay in memory and are never saved: with them the
    noise could be taken off what was released. A run that is taken up after a kill therefore begins with
    fresh noise, as if C were two blocks. That costs nothing more: coefficients are not negative, so every
    inner product of columns is as large in C as in the blocks (docs/theory/matrices.md).
    """

    def __init__(self, coefficients: tuple[float, ...]) -> None:
        first, *self._later = coefficients
        assert first == 1, "fresh noise then has the deviation that the loss states"
        self._rows: dict[str | None, deque[Tensor]] = {}

    def draw(self, group: str | None, size: int, deviation: float, rng: Random) -> Tensor:
        """The next row: fresh noise less what earlier rows have put in already."""
        rows = self._rows.setdefault(group, deque(maxlen=len(self._later)))
        row = gaussians(rng, size).mul_(deviation)
        for coefficient, earlier in zip(self._later, reversed(rows), strict=False):
            row.sub_(earlier, alpha=coefficient)
        rows.append(row)
        return row

    def noisy_mean(self, group: str, total: Tensor, deviation: float, lot: float, rng: Random) -> Tensor:
        """(total + noise)/lot in the memory of `total`, added in double precision and rounded once."""
        wide = self.draw(group, len(total), deviation, rng) + total
        return total.copy_(wide).div_(lot)
