"""The factorisations: square-root Toeplitz, banded, buffered linear Toeplitz, binary tree.

Each knows its encoder C (rows in the order of release, so that a row uses only what has arrived) and the
noise of the running sums, B·Z with B = A·C⁻¹.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize

from deniable import checks
from deniable.errors import InvalidParameter

Array: TypeAlias = npt.NDArray[np.float64]

MOST_STEPS = 2**20
"""Of any matrix that is known by its coefficients."""
MOST_COLUMNS = 4096
"""Of a matrix that is written out."""
MOST_POWERS = 2**22
"""Steps times buffers of a matrix with buffers: the powers of its decays are written out."""
MOST_INVERTED = 2**16
"""Steps of a matrix whose inverse is computed, coefficient by coefficient."""


@dataclass(frozen=True)
class Toeplitz:
    """C[i, j] = coefficients[i − j] for j ≤ i: what a step puts into the following rows,
    the same at every step.

    Reference: Fichtenberger, Henzinger, Upadhyay 2022; Choquette-Choo et al. 2023 (banded).
    """

    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        values = tuple(float(c) for c in self.coefficients)
        if not values or not all(math.isfinite(c) for c in values) or values[0] <= 0:
            raise InvalidParameter(
                "Expected finite coefficients of a Toeplitz matrix, the first of them above 0."
            )
        object.__setattr__(self, "coefficients", values)

    @property
    def steps(self) -> int:
        return len(self.coefficients)

    @property
    def bands(self) -> int:
        """How many rows one step enters."""
        return max(i for i, c in enumerate(self.coefficients) if c) + 1

    @cached_property
    def encoder(self) -> Array:
        _check_size(self.steps, MOST_COLUMNS, "written out")
        return np.asarray(linalg.toeplitz(self.coefficients, np.zeros(self.steps)), dtype=np.float64)

    @cached_property
    def inverse(self) -> Array:
        """The coefficients of C⁻¹, by the recursion of a power series."""
        _check_size(self.steps, MOST_INVERTED, "inverted")
        c, d = np.array(self.coefficients), np.zeros(self.steps)
        d[0] = 1 / c[0]
        for t in range(1, self.steps):
            d[t] = -(c[1 : t + 1] @ d[t - 1 :: -1]) / c[0]
        return d

    def noise(self, draw: Array, earlier: Sequence[Array]) -> Array:
        """The next row of C⁻¹·Z: `draw` noise less what `earlier` rows (oldest first) have put in already.

        Added to the sum of a step's contributions it makes them what B would: running
        sums of the result are A·G + B·Z.
        """
        total = np.array(draw, dtype=np.float64)
        for lag, row in enumerate(reversed(earlier[-(self.bands - 1) :] if self.bands > 1 else ()), 1):
            total = total - self.coefficients[lag] * row
        return total / self.coefficients[0]

    def error(self) -> Array:
        """The deviation of the noise in each running sum, for Z of deviation 1."""
        return np.asarray(np.sqrt(np.cumsum(np.cumsum(self.inverse) ** 2)))


def square_root(steps: int) -> Toeplitz:
    """C = B = √A, coefficients binom(2t, t)/4ᵗ: within a constant factor of the best for
    a single participation.

    Reference: Bennett 1977; Fichtenberger, Henzinger, Upadhyay 2022; Henzinger, Upadhyay, Upadhyay 2023.

    >>> square_root(4).coefficients
    (1.0, 0.5, 0.375, 0.3125)
    """
    return Toeplitz(tuple(_square_root(_steps(steps))))


def banded(steps: int, bands: int) -> Toeplitz:
    """The square root cut to its first `bands` coefficients: with `apart` ≥ bands the
    columns of one unit are orthogonal.

    Reference: Kalinin, Lampert 2024 (banded square root).
    """
    bands = min(_count(bands, "bands"), _steps(steps))
    root = _square_root(steps)
    root[bands:] = 0.0
    return Toeplitz(tuple(root))


def _square_root(steps: int) -> Array:
    t = np.arange(1.0, steps)
    return np.concatenate([[1.0], np.cumprod((2 * t - 1) / (2 * t))])


@dataclass(frozen=True)
class BufferedToeplitz:
    """c₀ = 1, c_t = Σ_j weights[j]·decays[j]^(t−1): the noise of a step needs one buffer
    a decay, whatever the steps.

    Weights ≥ 0, their sum ≤ 1 and decays in [0, 1) keep the coefficients non-negative
    and falling, which the exact sensitivity needs. Reference: Dvijotham, McMahan,
    Pillutla, Steinke, Thakurta 2024; McMahan, Xu, Zhang 2024.
    """

    steps: int
    decays: tuple[float, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_powers(self.steps, len(self.decays))
        fine = len(self.decays) == len(self.weights) and all(0 <= d < 1 for d in self.decays)
        if not (fine and all(w >= 0 for w in self.weights) and math.fsum(self.weights) <= 1):
            raise InvalidParameter(
                "Expected as many weights as decays, weights ≥ 0 with a sum of at most 1 and decays in [0, "
                f"1); got decays={self.decays} and weights={self.weights}."
            )

    @cached_property
    def toeplitz(self) -> Toeplitz:
        """The same matrix by its coefficients."""
        powers = np.power.outer(np.array(self.decays), np.arange(self.steps - 1.0))
        return Toeplitz((1.0, *(np.array(self.weights) @ powers).tolist()))

    @property
    def encoder(self) -> Array:
        return self.toeplitz.encoder

    def error(self) -> Array:
        return self.toeplitz.error()

    def noise(self, draw: Array, buffers: Array | None = None) -> tuple[Array, Array]:
        """The next row of C⁻¹·Z and the buffers for the row after it. No buffers: the first row."""
        draw = np.asarray(draw, dtype=np.float64)
        if buffers is None:
            buffers = np.zeros((len(self.decays), *draw.shape))
        row = draw - np.tensordot(np.array(self.weights), buffers, 1)
        decays = np.array(self.decays).reshape(-1, *(1,) * draw.ndim)
        return row, decays * buffers + row


def buffered(steps: int, buffers: int = 4) -> BufferedToeplitz:
    """Buffers fitted to the square root: non-negative least squares over decays spread
    geometrically towards 1.

    How well it fits decides the error alone; the sensitivity is that of the matrix as it is.
    """
    buffers = _count(buffers, "buffers")
    steps = _check_powers(steps, buffers)
    spread = (4.0 * steps) ** (-(np.arange(buffers) + 0.5) / buffers)
    target = _square_root(steps)[1:]
    if not len(target):
        return BufferedToeplitz(steps, (), ())
    powers = np.power.outer(1 - spread, np.arange(steps - 1.0)).T
    # Each of the running sums counts alike, so early coefficients, which enter most of them, weigh more.
    weight = np.sqrt(np.arange(steps - 1.0, 0, -1))
    solution = optimize.nnls(powers * weight[:, None], target * weight)[0]
    weights = solution / max(1.0, math.fsum(solution) * (1 + 1e-12))
    return BufferedToeplitz(steps, tuple((1 - spread).tolist()), tuple(weights.tolist()))


@dataclass(frozen=True)
class Tree:
    """One row for each dyadic block of steps, released when the block is full; a running
    sum adds at most log₂ rows.

    Reference: Dwork, Naor, Pitassi, Rothblum 2010; Chan, Shi, Song 2011.
    """

    steps: int

    def __post_init__(self) -> None:
        _steps(self.steps)

    @cached_property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """[first, last] of every block, in the order in which they fill up."""
        sizes = [1 << level for level in range(self.steps.bit_length())]
        ends = [(end, size) for end in range(1, self.steps + 1) for size in sizes if end % size == 0]
        return tuple((end - size, end - 1) for end, size in ends)

    @cached_property
    def encoder(self) -> Array:
        _check_size(self.steps, MOST_COLUMNS, "written out")
        rows = np.zeros((len(self.blocks), self.steps))
        for row, (first, last) in zip(rows, self.blocks, strict=True):
            row[first : last + 1] = 1.0
        return rows

    def error(self) -> Array:
        """√(number of ones in the binary form of t): the blocks that make up the first t steps."""
        return np.sqrt([float(t.bit_count()) for t in range(1, self.steps + 1)])


def _count(value: int, name: str) -> int:
    return checks.whole(name, value, at_least=1)


def _steps(value: int) -> int:
    steps = _count(value, "steps")
    if steps > MOST_STEPS:
        raise InvalidParameter(f"Expected at most {MOST_STEPS:,} steps of a matrix, got {steps:,}.")
    return steps


def _check_powers(steps: int, buffers: int) -> int:
    if _steps(steps) * buffers > MOST_POWERS:
        raise InvalidParameter(
            f"Expected at most {MOST_POWERS:,} steps times buffers of a matrix, got {steps:,} times "
            f"{buffers:,}. Nothing was computed."
        )
    return steps


def _check_size(steps: int, limit: int, purpose: str) -> None:
    if steps > limit:
        raise InvalidParameter(
            f"A matrix of {steps:,} steps is too large to be {purpose}: the most is {limit:,}. "
            "Nothing was computed."
        )
