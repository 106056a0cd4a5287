"""How often one unit takes part, and the L2 sensitivity of an encoder C that follows from it.

A unit takes part at the steps of a pattern π, at step i with a vector uᵢ of norm at most 1. With X = CᵀC it
moves C·G by √Σ_{i,j∈π} Xᵢⱼ⟨uᵢ, uⱼ⟩. Where all Xᵢⱼ ≥ 0 equal vectors are the worst. Where one is negative,
signs ±1 are **not** enough (three columns of inner product −½: 2.00 with signs, 2.12 with vectors in the
plane); √Σ|Xᵢⱼ| always bounds it.
Proofs: docs/theory/matrices.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deniable.accounting.matrices.families import Array, BufferedToeplitz, Toeplitz, Tree, _count
from deniable.errors import InvalidParameter

FEW_PATTERNS = 20_000
"""Up to so many patterns are looked at one by one."""
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
    def most(self) -> int:
        """How often the distance lets it take part at all."""
        return min(self.times, 1 + (self.steps - 1) // self.apart)

    def patterns(self) -> Iterator[tuple[int, ...]]:
        """Every largest pattern (a smaller one moves no more, once inner products are taken by size)."""
        yield from self._from(0, self.most)

    def _from(self, first: int, left: int) -> Iterator[tuple[int, ...]]:
        if left == 0:
            yield ()
            return
        nothing = True
        for i in range(first, self.steps):
            for rest in self._from(i + self.apart, left - 1):
                nothing = False
                yield (i, *rest)
        if nothing:
            yield ()

    @property
    def count(self) -> int:
        """Patterns of exactly `most` steps: choose them with the gaps taken out."""
        return math.comb(max(self.steps - (self.most - 1) * (self.apart - 1), 0), self.most)


Encoder = Toeplitz | BufferedToeplitz | Tree | Array


def sensitivity(encoder: Encoder, who: Participation) -> float:
    """The most that one unit moves C·G in L2, each contribution of norm ≤ 1: exact where
    a theorem says so, else above it.

    Exact for non-negative falling Toeplitz coefficients (the earliest, densest pattern), for columns that are
    orthogonal at `apart` steps, and where X has no negative entry and the patterns are few. An encoder that
    uses a contribution before it has arrived is refused: gradients are chosen by looking at earlier answers.
    """
    if isinstance(encoder, BufferedToeplitz):
        encoder = encoder.toeplitz
    matrix = encoder if isinstance(encoder, np.ndarray) else encoder.encoder
    _check(matrix, who, ordered=isinstance(encoder, Tree))
    if isinstance(encoder, Toeplitz) and _falling(encoder):
        columns = matrix[:, : who.apart * (who.most - 1) + 1 : who.apart]
        return float(np.linalg.norm(columns.sum(axis=1))) * _OUTWARD
    products = np.abs(matrix.T @ matrix)
    return math.sqrt(_largest(products, who)) * _OUTWARD


def _falling(matrix: Toeplitz) -> bool:
    """c₀ ≥ c₁ ≥ … ≥ 0: inner products then fall with the distance and with time, so that
    the first steps are the worst."""
    c = np.array(matrix.coefficients)
    return bool(c[-1] >= 0 and (np.diff(c) <= 0).all())


def _check(matrix: Array, who: Participation, *, ordered: bool) -> None:
    if matrix.ndim != 2 or matrix.shape[1] != who.steps or not np.isfinite(matrix).all():
        raise InvalidParameter(
            f"Expected a finite matrix of {who.steps} columns, got one of shape {matrix.shape}."
        )
    if not ordered and (matrix.shape[0] != matrix.shape[1] or np.triu(matrix, 1).any()):
        raise InvalidParameter(
            "Expected a lower triangular matrix: a row may use only what has arrived by then, since "
            "contributions are chosen by looking at earlier rows. Nothing was computed; take a triangular "
            "factor of CᵀC."
        )


def _largest(products: Array, who: Participation) -> float:
    """The largest Σ_{i,j∈π} of non-negative `products`, or something above it."""
    lags = np.subtract.outer(np.arange(who.steps), np.arange(who.steps))
    if not products[np.abs(lags) >= who.apart].any():
        return _heaviest(np.diag(products), who)
    if who.count <= FEW_PATTERNS:
        return max(float(products[np.ix_(pattern, pattern)].sum()) for pattern in who.patterns())
    # Σ_{i∈π} Σ_{j∈π} X_ij ≤ Σ_{i∈π} max over patterns through i of the inner sum (Choquette-Choo et al.
    # 2023).
    return _heaviest(_through(products, who), who)


def _heaviest(weights: Array, who: Participation) -> float:
    """max over patterns of Σ weights, exactly: best[c] after step i is the best of c steps up to i."""
    best = np.zeros((who.most + 1, who.steps + 1))
    for i in range(who.steps):
        before = max(i + 1 - who.apart, 0)
        best[1:, i + 1] = np.maximum(best[1:, i], best[:-1, before] + weights[i])
    return float(best[-1, -1])


def _through(products: Array, who: Participation) -> Array:
    """For each step i the largest Σ_{j∈π} products[i, j] over patterns π through i: the
    best before it, plus the best after."""
    before = _prefixes(products, who)
    after = _prefixes(products[::-1, ::-1], who)[:, ::-1]
    splits = [before[c] + after[who.most - 1 - c] for c in range(who.most)]
    return np.asarray(np.diag(products) + np.max(splits, axis=0))


def _prefixes(products: Array, who: Participation) -> Array:
    """[c, i]: the best sum of at most c products of step i with steps at least `apart`
    before it, themselves apart."""
    n, most = who.steps, who.most
    best = np.zeros((n + 1, most, n))  # after how many steps, of how many, for which i
    prefixes = np.zeros((most, n))
    for j in range(n):
        if j >= who.apart:
            prefixes[:, j] = best[j - who.apart + 1, :, j]
        best[j + 1] = best[j]
        before = max(j + 1 - who.apart, 0)
        best[j + 1, 1:] = np.maximum(best[j, 1:], best[before, :-1] + products[:, j])
    return prefixes
