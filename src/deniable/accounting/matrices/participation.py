"""How often one unit takes part, and the L2 sensitivity of an encoder C that follows from it.

A unit takes part at the steps of a pattern π, at step i with a vector uᵢ of norm at most 1. With X = CᵀC it
moves C·G by √Σ_{i,j∈π} Xᵢⱼ⟨uᵢ, uⱼ⟩. Where all Xᵢⱼ ≥ 0 equal vectors are the worst. Where one is negative,
signs ±1 are **not** enough (three columns of inner product −½: 2.00 with signs, 2.12 with vectors in the
plane); √Σ|Xᵢⱼ| always bounds it.
Proofs: docs/theory/matrices.md.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deniable.accounting.matrices.families import (
    MOST_COLUMNS,
    Array,
    BufferedToeplitz,
    Toeplitz,
    Tree,
    _count,
)
from deniable.errors import InvalidParameter

FEW_PATTERNS = 20_000
"""Up to so many patterns are looked at one by one."""
MOST_WORK = 3 * 10**8
"""Additions of a dynamic programme: about three seconds. Beyond it a coarser bound is taken."""
_OUTWARD = 1 + 2.0**-40
"""Far above the rounding of sums of at most 10⁸ non-negative terms."""


@dataclass(frozen=True)
class Participation:
    """One unit takes part in at most `times` of `steps` steps, any two of them at least
    `apart` steps from one another.

    Epochs over data in a fixed order are `apart` = steps of one epoch; `apart=1` allows any steps at all.
    """

    steps: int
    times: int = 1
    apart: int = 1

    def __post_init__(self) -> None:
        for name in ("steps", "times", "apart"):
            _count(getattr(self, name), name)

    @property
    def max_times(self) -> int:
        """How often the distance lets it take part at all."""
        return min(self.times, 1 + (self.steps - 1) // self.apart)

    def patterns(self) -> Iterator[tuple[int, ...]]:
        """Every largest pattern (a smaller one moves no more, once inner products are taken by size)."""
        yield from self._patterns_from(0, self.max_times)

    def _patterns_from(self, first: int, left: int) -> Iterator[tuple[int, ...]]:
        if left == 0:
            yield ()
            return
        nothing = True
        for i in range(first, self.steps):
            for rest in self._patterns_from(i + self.apart, left - 1):
                nothing = False
                yield (i, *rest)
        if nothing:
            yield ()

    def has_fewer_patterns(self, limit: int) -> bool:
        """Whether there are fewer patterns than `limit`, of any number of steps: choose these with the gaps
        taken out. Short ones count, since a pattern may get stuck before it has `max_times` steps."""
        total = 0
        for size in range(1, self.max_times + 1):
            total += math.comb(max(self.steps - (size - 1) * (self.apart - 1), 0), size)
            if total >= limit:
                return False
        return True


Encoder = Toeplitz | BufferedToeplitz | Tree | Array


def sensitivity(encoder: Encoder, participation: Participation) -> float:
    """The most that one unit moves C·G in L2, each contribution of norm ≤ 1: exact where
    a theorem says so, else above it.

    Exact for non-negative falling Toeplitz coefficients (the earliest, densest pattern), for columns that are
    orthogonal at `apart` steps, and where X has no negative entry and the patterns are few. An encoder that
    uses a contribution before it has arrived is refused: gradients are chosen by looking at earlier answers.
    """
    if isinstance(encoder, BufferedToeplitz):
        encoder = encoder.toeplitz
    if not isinstance(encoder, np.ndarray) and encoder.steps != participation.steps:
        raise InvalidParameter(
            f"Expected a matrix of {participation.steps:,} columns, got one of {encoder.steps:,}."
        )
    if isinstance(encoder, Toeplitz) and _falling(encoder):
        return float(np.linalg.norm(_shifted_sum(np.array(encoder.coefficients), participation))) * _OUTWARD
    if isinstance(encoder, Tree):
        return math.sqrt(_of_tree(encoder, participation)) * _OUTWARD
    matrix = encoder.encoder if isinstance(encoder, Toeplitz) else encoder
    _check(matrix, participation)
    return math.sqrt(_largest(np.abs(matrix.T @ matrix), participation)) * _OUTWARD


def _shifted_sum(column: Array, participation: Participation) -> Array:
    """The sum of `column` moved down by 0, b, 2b, …, (k−1)b: windows of k numbers in each class of rows that
    are b apart. A window is the end of one block of k and the beginning of the next, so nothing is
    subtracted, and the work does not grow with k."""
    k, b, n = participation.max_times, participation.apart, len(column)
    length = -(-n // b)
    rows = np.zeros((length + k - 1 + k, b))
    rows[k - 1 : k - 1 + length].flat[:n] = column
    blocks = rows[: len(rows) // k * k].reshape(-1, k, b)
    ahead = np.cumsum(blocks, axis=1).reshape(-1, b)
    behind = np.cumsum(blocks[:, ::-1], axis=1)[:, ::-1].reshape(-1, b)
    first = np.arange(length)
    is_block = (first % k == 0)[:, None]
    return np.asarray(np.where(is_block, 0.0, behind[first]) + ahead[first + k - 1]).reshape(-1)[:n]


def _of_tree(tree: Tree, participation: Participation) -> float:
    """Σ over blocks of (how often the unit is in it)²: exactly where patterns are few, else bounded."""
    bound = _by_levels(tree, participation)
    if tree.steps > MOST_COLUMNS or not (
        participation.has_fewer_patterns(FEW_PATTERNS) or _work(participation) <= MOST_WORK
    ):
        return bound
    return min(bound, _largest(tree.encoder.T @ tree.encoder, participation))


def _by_levels(tree: Tree, participation: Participation) -> float:
    """Blocks of size s hold a unit at most m = min(k, ⌈s/b⌉) times, and all of them k times: their squares
    sum to at most m·k, and to m² times their number."""
    total = 0
    for level in range(tree.steps.bit_length()):
        most = min(participation.max_times, -(-(1 << level) // participation.apart))
        total += min(most * participation.max_times, most * most * (tree.steps >> level))
    return float(total)


def _work(participation: Participation) -> int:
    return participation.steps * participation.steps * participation.max_times


def _falling(matrix: Toeplitz) -> bool:
    """c₀ ≥ c₁ ≥ … ≥ 0: inner products then fall with the distance and with time, so that
    the first steps are the worst."""
    c = np.array(matrix.coefficients)
    return bool(c[-1] >= 0 and (np.diff(c) <= 0).all())


def _check(matrix: Array, participation: Participation) -> None:
    if matrix.ndim != 2 or matrix.shape[1] != participation.steps or not np.isfinite(matrix).all():
        raise InvalidParameter(
            f"Expected a finite matrix of {participation.steps} columns, got one of shape {matrix.shape}."
        )
    if matrix.shape[0] != matrix.shape[1] or np.triu(matrix, 1).any():
        raise InvalidParameter(
            "Expected a lower triangular matrix: a row may use only what has arrived by then, since "
            "contributions are chosen by looking at earlier rows. Nothing was computed; take a triangular "
            "factor of CᵀC."
        )


def _largest(products: Array, participation: Participation) -> float:
    """The largest Σ_{i,j∈π} of non-negative `products`, or something above it."""
    steps = np.arange(participation.steps)
    if not any(products[i, : max(i + 1 - participation.apart, 0)].any() for i in steps):
        return _heaviest(np.diag(products), participation)
    if participation.has_fewer_patterns(FEW_PATTERNS):
        return max(float(products[np.ix_(pattern, pattern)].sum()) for pattern in participation.patterns())
    # Σ_{i∈π} Σ_{j∈π} X_ij ≤ Σ_{i∈π} max over patterns through i of the inner sum (Choquette-Choo et al.
    # 2023).
    if _work(participation) <= MOST_WORK:
        return _heaviest(_through(products, participation), participation)
    return _heaviest(_by_windows(products, participation), participation)


def _by_windows(products: Array, participation: Participation) -> Array:
    """For each step something above its sum over any pattern: a pattern has at most one step in each window
    of `apart` steps, so the largest of each window, as many as a pattern has steps."""
    starts = np.arange(0, participation.steps, participation.apart)
    peaks = np.maximum.reduceat(products, starts, axis=1)
    most = min(participation.max_times, peaks.shape[1])
    return np.asarray(np.partition(peaks, -most, axis=1)[:, -most:].sum(axis=1))


def _heaviest(weights: Array, participation: Participation) -> float:
    """max over patterns of Σ weights, exactly: best[c] after step i is the best of c steps up to i."""
    best = np.zeros((participation.max_times + 1, participation.steps + 1))
    for i in range(participation.steps):
        before = max(i + 1 - participation.apart, 0)
        best[1:, i + 1] = np.maximum(best[1:, i], best[:-1, before] + weights[i])
    return float(best[-1, -1])


def _through(products: Array, participation: Participation) -> Array:
    """For each step i the largest Σ_{j∈π} products[i, j] over patterns π through i: the
    best before it, plus the best after."""
    before = _prefixes(products, participation)
    after = _prefixes(products[::-1, ::-1], participation)[:, ::-1]
    splits = [before[c] + after[participation.max_times - 1 - c] for c in range(participation.max_times)]
    return np.asarray(np.diag(products) + np.max(splits, axis=0))


def _prefixes(products: Array, participation: Participation) -> Array:
    """[c, i]: the best sum of at most c products of step i with steps at least `apart`
    before it, themselves apart."""
    n, most = participation.steps, participation.max_times
    # Layer t is after t steps: of how many, for which i. Only the last `apart` layers are read again.
    layers = deque([np.zeros((most, n))] * min(participation.apart, n + 1))
    prefixes = np.zeros((most, n))
    for j in range(n):
        before = layers.popleft()
        prefixes[:, j] = before[:, j]
        layer = (layers[-1] if layers else before).copy()
        layer[1:] = np.maximum(layer[1:], before[:-1] + products[:, j])
        layers.append(layer)
    return prefixes
