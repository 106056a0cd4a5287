"""What floating point does to Laplace noise, and the snapping that mends it (Mironov 2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.audit.bench.case import Array, Case, Generator
from deniable.audit.runs.pairs import Pair, patterns


@dataclass(frozen=True)
class FloatLaplace(Case):
    """Laplace noise of scale 10 by inverting its distribution function at a 53-bit
    uniform, added to the answer as floats.

    True ε: ∞. 1 + noise is a multiple of 2⁻⁵³ whenever it lies in (−½, ½), since noise then lies in (−3/2,
    −½) where floats are that coarse; 0 + noise has finer bits with a probability of about 4 %. The set "|x| <
    ½ and x is no multiple of 2⁻⁵³" is reached from 0 only.
    """

    true_epsilon: float = math.inf

    def pairs(self) -> list[Pair]:
        return [
            Pair(np.array([0.0]), np.array([1.0]), "0 or 1"),
            Pair(np.array([1.0]), np.array([2.0]), "1 or 2"),
        ]

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        u = rng.random((n, 1)) - 0.5
        with np.errstate(divide="ignore"):
            return np.asarray(float(data[0]) - 10.0 * np.sign(u) * np.log1p(-2 * np.abs(u)))


@dataclass(frozen=True)
class Snapping(Case):
    """clamp(round_Λ(clamp(f) + sign·λ·ln u)) with |f| ≤ B = 100 and Λ the power of two above λ.

    True ε: at most (1 + 2⁻⁴⁹·B)/λ, for which λ is chosen: .1 (Mironov 2012, Theorem 1). Rounding to multiples
    of Λ = 16 only merges outputs, so that less than .1 can be seen from integers.
    """

    true_epsilon: float = 0.1

    def pairs(self) -> list[Pair]:
        return [
            *patterns(1, everywhere=False),
            Pair(np.array([7.5]), np.array([8.5]), "across a rounding step"),
        ]

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        bound = 100.0
        scale = (1 + bound * 2.0**-49) / self.true_epsilon
        step = 2.0 ** math.ceil(math.log2(scale))
        sign = 1.0 - 2.0 * rng.integers(0, 2, (n, 1))
        noisy = np.clip(float(data[0]), -bound, bound) + sign * scale * np.log(1 - rng.random((n, 1)))
        return np.asarray(np.clip(step * np.rint(noisy / step), -bound, bound))
