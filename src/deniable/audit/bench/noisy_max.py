"""Report noisy max: five answers, of which one person may move each by 1 (Ding et al.
2018, Alg. 5–8). Claimed: ε = .1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.audit.bench.case import Array, Case, Generator, laplace, on_grid
from deniable.audit.runs.pairs import Pair, patterns

SCALE = 20.0
"""2/ε."""


class _NoisyMax(Case):
    def pairs(self) -> list[Pair]:
        """All patterns, with one answer far above or below the others too."""
        return patterns(5, everywhere=True, distance=20.0)


@dataclass(frozen=True)
class NoisyMax1(_NoisyMax):
    """The index of the largest answer after Laplace noise of scale 2/ε.

    True ε: at most .1 (Dwork, Roth 2014, Claim 3.9), approached as one answer falls while all others rise;
    with five answers the bound is not attained, the largest ratio over all patterns is e^.095.
    """

    true_epsilon: float = 0.1

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        noisy = laplace(rng, SCALE, (n, len(data))) + np.asarray(data, np.float64)
        return np.asarray(np.argmax(noisy, axis=1)[:, None], np.float64)


@dataclass(frozen=True)
class NoisyMax2(_NoisyMax):
    """The index of the largest answer after exponential noise of scale 2/ε.

    True ε: .1, attained: it is permute-and-flip (Ding, Kifer et al. 2021), whose ratios reach e^ε where one
    answer that was below the others by more falls by 1 while they rise by 1.
    """

    true_epsilon: float = 0.1

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        noisy = SCALE * rng.standard_exponential((n, len(data))) + np.asarray(data, np.float64)
        return np.asarray(np.argmax(noisy, axis=1)[:, None], np.float64)


@dataclass(frozen=True)
class NoisyMax3(_NoisyMax):
    """The largest answer *itself* after Laplace noise of scale 2/ε.

    True ε: P(max ≤ x) = ΠF(x − qᵢ), and in the lower tail F(x − 1)/F(x) = e^(−1/20), so five answers that all
    rise by 1 give a ratio of e^(5/20): ε = .25.
    """

    true_epsilon: float = 0.25

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        noisy = laplace(rng, SCALE, (n, len(data))) + np.asarray(data, np.float64)
        return on_grid(np.max(noisy, axis=1, keepdims=True))


@dataclass(frozen=True)
class NoisyMax4(_NoisyMax):
    """The largest answer itself after exponential noise of scale 2/ε.

    True ε: ∞. Exponential noise is never negative, so the output is at least the largest answer: between the
    old and the new largest answer lies a set that only one neighbour reaches; it is met often where one
    answer lies far above the others.
    """

    true_epsilon: float = math.inf

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        noisy = SCALE * rng.standard_exponential((n, len(data))) + np.asarray(data, np.float64)
        return on_grid(np.max(noisy, axis=1, keepdims=True))
