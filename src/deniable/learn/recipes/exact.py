"""Sums without rounding and noise on their grid, so that a sensitivity is a fact about integers.

Floating-point sums break sensitivity: one example more moves every later rounding. Here each example's
contribution is a vector of whole numbers whose norm is checked in integers; their sum is exact (in 32-bit
integers, see `integers`, or in floats where all partial sums stay below 2^24 or 2^53 and integers are exact,
in any order, with or without fused operations); and the noise is integer noise. One thing is assumed and
tested, not proved for every BLAS: before it is cut to integers a row's own arithmetic has the same bits
whatever other rows are in its batch. What is multiplied in floats comes in blocks of one size (`fill`): a
product of few rows takes another path through a BLAS than one of many, so the number of rows, which is
private, would show in the last bits.

**Why the loss may say `GaussianNoise`.** Integer noise of deviation σ has a slightly larger profile than
continuous noise of the same deviation, and never takes its node. It may take the node of *narrower*
continuous noise, of which it is post-processing up to a factor that no float can tell from 1. Let v be an
integer, Y = v + N(0, τ²), and round Y at random to x ∈ ℤ with probability ρ(x − Y)/Σ_z ρ(z − Y), where ρ(u) =
exp(−u²/2s²). By Poisson summation the denominator is s√(2π)·(1 ± η) with η = 2·Σ_{k≥1} exp(−2π²s²k²) ≤
2.01·exp(−2π²s²), for every Y. So x has probability

    ∫ N(y; v, τ²)·N(x − y; 0, s²) dy · (1 ± η)^−1 = N(x − v; 0, τ² + s²)·(1 ± η)^−1,

and integer noise of variance σ² = τ² + s² has N(x − v; 0, σ²)·(1 ± η)^−1 likewise: the two laws differ by a
factor within e^(±3η), for d coordinates and T releases by e^(±3ηdT). With s = 4, η < 1e-136. A mechanism
whose law is within e^(±t) of one with profile δ(ε) has a profile of at most e^t·δ(ε − 2t). For Gaussian noise
of ratio μ = 1/multiplier, |∂δ/∂ε| ≤ 1.3·∂δ/∂μ and δ ≤ 3·exp(μ²/8)·∂δ/∂μ for ε ≥ 0 (Mills' ratio), so raising
μ by 8·t·exp(μ²/8) covers it: for dT ≤ 1e30 and μ ≤ 30 that is less than 1e-50, and `deviation` adds one part
in 2^40. Reference: the convolution of discrete Gaussians, Peikert 2010, Theorem 3.1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from deniable import checks
from deniable.accounting.methods.gaussian import analytic_sigma
from deniable.errors import InvalidParameter
from deniable.loss import DiscreteLaplaceNoise, GaussianNoise, Number
from deniable.loss import exact as fraction
from deniable.mechanism import Random
from deniable.mechanisms import integer_noise
from deniable.mechanisms.integer_noise import IntegerNoise, gaussian
from deniable.numbers import plain
from deniable.units import Unit

SMOOTHING = 4
"""s of the lemma, in grid units."""
MOST_MU = 30.0


def deviation(multiplier: float, sensitivity: float) -> float:
    """σ of integer noise, in grid units, that is at least as private as
    `GaussianNoise(multiplier)` (see above).

    >>> deviation(1.0, 3.0) >= 5
    True
    """
    if not (multiplier >= 1 / MOST_MU and math.isfinite(multiplier)):
        raise InvalidParameter(
            f"Expected multiplier={multiplier:g} of at least 1/{MOST_MU:g}: less noise than that protects "
            "nobody."
        )
    if not sensitivity >= 1:
        raise InvalidParameter(f"Expected sensitivity={sensitivity:g} of at least 1 grid unit.")
    return math.hypot(multiplier * sensitivity, SMOOTHING) * (1 + 2.0**-40)


def multiplier_for(epsilon: float, delta: float) -> float:
    """The least noise multiplier of one Gaussian release under (ε, δ), with room for the
    last digit of the accountant."""
    return analytic_sigma(epsilon, delta) * (1 + 1e-9)


def noisy(sums: Tensor, multiplier: float, sensitivity: float, rng: Random) -> Tensor:
    """Integer sums of L2 sensitivity `sensitivity`, with integer noise; as 64-bit floats."""
    return _add_noise(sums, gaussian(deviation(multiplier, sensitivity)), rng)


def noisy_symmetric(sums: Tensor, multiplier: float, sensitivity: float, rng: Random) -> Tensor:
    """A symmetric integer matrix of Frobenius sensitivity `sensitivity`, with symmetric integer noise.

    The diagonal and √2 times the entries above it have the matrix's Frobenius norm as their L2 norm. So
    Gaussian noise of deviation σ on these is noise of σ/√2 on the entries above the diagonal themselves.
    """
    size = len(sums)
    above = torch.triu_indices(size, size, 1)
    out = torch.diag(noisy(sums.diagonal(), multiplier, sensitivity, rng))
    upper = noisy(sums[above[0], above[1]], multiplier, sensitivity / math.sqrt(2), rng)
    out[above[0], above[1]] = upper
    out[above[1], above[0]] = upper
    return out


def laplace(sums: Tensor, scale: Fraction, rng: Random) -> Tensor:
    """Integer sums with integer Laplace noise of `scale`; as 64-bit floats."""
    return _add_noise(sums, integer_noise.laplace(scale), rng)


def _add_noise(sums: Tensor, noise: IntegerNoise, rng: Random) -> Tensor:
    draws = noise.draw(rng, sums.numel()).astype(np.float64)
    return sums.double() + torch.from_numpy(draws).reshape(sums.shape)


def laplace_symmetric(sums: Tensor, scale: Fraction, rng: Random) -> Tensor:
    """A symmetric integer matrix with integer Laplace noise on and above its diagonal."""
    above = torch.triu_indices(len(sums), len(sums))
    out = torch.empty_like(sums, dtype=torch.float64)
    upper = laplace(sums[above[0], above[1]], scale, rng)
    out[above[0], above[1]] = upper
    out[above[1], above[0]] = upper
    return out


def laplace_loss(sensitivity: int, epsilon: Number) -> DiscreteLaplaceNoise:
    """The loss of `laplace` with scale = sensitivity/ε, in grid units."""
    return DiscreteLaplaceNoise(plain(sensitivity / fraction(epsilon)), sensitivity)


def one_noise(noise_multiplier: float | None, epsilon: Number | None) -> None:
    """Either Gaussian noise of a multiplier or Laplace noise of an ε, and inside its range."""
    if (noise_multiplier is None) == (epsilon is None):
        raise InvalidParameter(
            "Expected either noise_multiplier (Gaussian noise) or epsilon (Laplace noise), not both."
        )
    if noise_multiplier is not None:
        deviation(float(checks.number("noise_multiplier", noise_multiplier, above=0)), 1)
    else:
        checks.number("epsilon", epsilon, above=0)


def units(rows: Tensor, norm: int, limit: int) -> Tensor:
    """Rows [n, …], each scaled to length `norm` and cut to whole numbers of at most
    `limit`: integers, as 32-bit floats.

    Cutting towards 0 shortens, so no row is longer than `norm`; that is checked in exact arithmetic, and a
    row that is (or that is not finite, or 0) becomes 0. Each row is mapped by itself.
    """
    flat = rows.flatten(1).float()
    length = flat.norm(dim=1, keepdim=True)
    integers = (flat * (norm / length)).trunc_().clamp_(-limit, limit)
    longer = integers.double().square().sum(1) > norm * norm  # sums of squares of integers: exact below 2^53
    good = torch.isfinite(length[:, 0]) & (length[:, 0] > 0) & ~longer
    return torch.where(good[:, None], integers, 0.0).reshape(rows.shape)


def fill(rows: Tensor, size: int) -> Tensor:
    """Rows with zeros after them up to `size`.

    >>> fill(torch.ones(1, 2), 2).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    missing = size - len(rows)
    return rows if not missing else torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])])


@contextmanager
def full_precision() -> Iterator[None]:
    """32-bit products are 32-bit products here, whatever the process has allowed elsewhere."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class NoisySums(ABC):
    """A release of exact sums for one row added or removed, whose error is not known before data is seen:
    with Gaussian noise of `noise_multiplier`, or ε-DP by Laplace noise."""

    noise_multiplier: float | None
    epsilon: Number | None

    @property
    @abstractmethod
    def _l1(self) -> int:
        """The L1 sensitivity, in grid units."""

    @property
    def loss(self) -> GaussianNoise | DiscreteLaplaceNoise:
        if self.noise_multiplier is not None:
            return GaussianNoise(self.noise_multiplier)
        return laplace_loss(self._l1, self.epsilon or 1)

    @property
    def unit(self) -> Unit:
        return Unit.row()

    def error(self, confidence: float = 0.95) -> None:
        return None
