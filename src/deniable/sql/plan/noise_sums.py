"""How far a sum of many integer Laplace noises reaches: nearly its true quantile, from above.

Each of k noises at β/k would be several times too far: the sum of twenty like ones is nearly normal."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_STEPS = 400
"""The lattice has so many steps in the scale of the widest noise."""
_LOST = 1e-10
"""More than what wraps around the lattice (e⁻³²) and than what floats lose in the transforms."""

Terms = tuple[tuple[int, int], ...]
"""Whole sizes, and how many noises there are of each."""


@lru_cache(maxsize=1 << 12)
def one_sided(terms: Terms, scale: float, beta: float) -> float:
    """A t with P(Σ size·noise > t) ≤ β over independent integer Laplace noises of one scale.

    Every size·noise is rounded up to a lattice of step g ≥ 1, so the sum of what is rounded is never less,
    and its law is a convolution, by fast Fourier transforms. The lattice is a circle so long that less than
    e⁻³² lies beyond either end: by Markov's inequality for e^(λS) with λ = 1/(2·max size·scale), since with
    q = e^(−1/scale) and x = λ·size ≤ 1/(2·scale) each factor (1 − q)²/((1 − qe^x)(1 − qe^−x)) of E e^(λS) is
    at most (1 − q)/(1 − √q) ≤ 2."""
    sizes = [(size, many) for size, many in terms if size and many]
    if not sizes:
        return 0.0
    many = sum(count for _, count in sizes)
    widest = max(size for size, _ in sizes) * scale
    if not beta > 100 * _LOST:
        # Smaller than what the transforms lose: each noise at β/k by a union bound, too far but never too
        # near.
        return math.fsum(size * count for size, count in sizes) * scale * math.log(many / beta)
    step = max(1.0, widest / _STEPS)
    length = 1 << math.ceil(math.log2(4 * widest * (many * math.log(2) + 32) / step + 4 * many + 4))
    transform = np.ones(length // 2 + 1, np.complex128)
    for size, count in sizes:
        transform *= np.fft.rfft(_law(size, scale, step, length)) ** count
    law = np.fft.irfft(transform, length)
    # Position i stands for i steps, from the middle on for i − length.
    tails = np.cumsum(np.roll(law, length // 2)[::-1])[::-1]
    above = np.flatnonzero(tails + _LOST <= beta)
    return float(above[0] - length // 2 - 1) * step * (1 + 1e-12)


def _law(size: int, scale: float, step: float, length: int) -> NDArray[np.float64]:
    """The law of ⌈size·noise/step⌉ on the circle, what lies beyond at its ends."""
    ends = np.arange(-length // 2, length // 2)
    below = _cumulative(np.floor(ends * step / size), scale)
    below[-1] = 1.0
    return np.roll(np.diff(below, prepend=0.0), -(length // 2))


def _cumulative(n: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """P(noise ≤ n): P(noise ≥ k) = q^k/(1 + q) for k ≥ 1, q = e^(−1/scale), and the noise is symmetric."""
    q = math.exp(-1 / scale)
    far = np.exp(-(np.abs(n) + (n >= 0)) / scale) / (1 + q)
    return np.where(n >= 0, 1 - far, far)
