"""Six sparse-vector algorithms as compared by Lyu, Su, Li 2017 (Alg. 1–6), on ten
queries, and the numerical one.

All claim ε = .1 and stop after the first answer above the threshold (c = 1) where they stop at all; an answer
is 1 above, 0 below, −1 after the stop. A neighbour moves each of the ten query results by at most 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.audit.bench.case import Array, Case, Generator, laplace, on_grid
from deniable.audit.runs.pairs import Pair, patterns

LENGTH = 10
STOPPED = -1.0
BELOW = -1000.0


class _SparseVector(Case):
    def pairs(self) -> list[Pair]:
        """All patterns. The derivations name "x-shape, last alone": nine queries rise while the tenth
        falls."""
        return patterns(LENGTH, everywhere=True)


def _until_first(flags: NDArray[np.bool_]) -> Array:
    """1 and 0 for above and below, −1 from after the first 1 on."""
    halts = np.logical_or.accumulate(flags, axis=1)
    answers = flags.astype(np.float64)
    answers[:, 1:][halts[:, :-1]] = STOPPED
    return answers


def _is_above(
    data: Any, n: int, rng: Generator, threshold: float, noise: float, query_noise: float
) -> NDArray[np.bool_]:
    limit = threshold + laplace(rng, noise, (n, 1))
    return np.asarray(laplace(rng, query_noise, (n, len(data))) + np.asarray(data, np.float64) >= limit)


@dataclass(frozen=True)
class SVT1(_SparseVector):
    """The correct one: threshold noise 2/ε, query noise 4c/ε.

    True ε: .1. A shift of the threshold's noise by 1 (ε/2) answers for all queries below, one of the query's
    noise by 2 (2·ε/4) for the one above. The ratio of "nine below, the tenth above", nine rising and the
    tenth falling, comes to e^.0984 with ten queries and to e^.1 in the limit.
    """

    true_epsilon: float = 0.1

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return _until_first(_is_above(data, n, rng, 0.5, 20.0, 40.0))


@dataclass(frozen=True)
class SVT2(_SparseVector):
    """Dwork and Roth's, which draws new threshold noise (2c/ε) after each answer above; for c = 1 it is SVT1.

    True ε: .1, by the same two shifts.
    """

    true_epsilon: float = 0.1

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return _until_first(_is_above(data, n, rng, 1.0, 20.0, 40.0))


@dataclass(frozen=True)
class SVT3(_SparseVector):
    """From lecture notes: query noise c/ε₂, and the noisy answer itself is released when it is above.

    True ε: an answer v says that the noisy threshold lies below v. As v → −∞ every factor F(ρ + t − qᵢ) of
    the nine queries below is exponential, so that they rise by 1 at a ratio of e^(9/20), and the released one
    falls at e^(1/20): ε = .5 with ten queries, and unbounded with their number (Lyu et al. 2017, Theorem 6).
    """

    true_epsilon: float = 0.5

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        limit = 1.0 + laplace(rng, 20.0, (n, 1))
        noisy = on_grid(laplace(rng, 20.0, (n, len(data))) + np.asarray(data, np.float64))
        answers = _until_first(noisy >= limit)
        return np.where(answers == 1, noisy, np.where(answers == 0, BELOW, 2 * BELOW))


@dataclass(frozen=True)
class SVT4(_SparseVector):
    """ε₁ = ε/4 for the threshold and query noise 1/ε₂, without the factor 2c.

    True ε: ε₁ for the threshold's shift by 1 and 2ε₂ for the query's by 2, (1 + 6)/4·ε =
    .175 (Lyu et al. 2017, Theorem 4).
    """

    true_epsilon: float = 0.175

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return _until_first(_is_above(data, n, rng, 1.0, 40.0, 1 / 0.075))


@dataclass(frozen=True)
class SVT5(_SparseVector):
    """No noise on the queries, no stop.

    True ε: ∞. Two queries with the same result get the same answer; if a neighbour moves one up and the other
    down, they get different ones with positive probability (Lyu et al. 2017, Theorem 3).
    """

    true_epsilon: float = math.inf

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        limit = 1.0 + laplace(rng, 20.0, (n, 1))
        return (np.asarray(data, np.float64) >= limit).astype(np.float64)


@dataclass(frozen=True)
class SVT6(_SparseVector):
    """Query noise 1/ε₂ and no stop.

    True ε: unbounded with the number of queries (Lyu et al. 2017, Theorem 7). With ten,
    moving each by 1 costs at most 10·(1/20) without touching the threshold: at most .5;
    the x-shape reaches .414 (by quadrature, in the tests).
    """

    true_epsilon: float = 0.5

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        return _is_above(data, n, rng, 1.0, 20.0, 20.0).astype(np.float64)


@dataclass(frozen=True)
class NumericalSVT(_SparseVector):
    """Threshold noise 3/ε, query noise 6c/ε, and fresh noise 3c/ε on each released
    answer; c = 2 (Wang et al. 2019).

    True ε: ε/3 for the threshold, c·2/(6c/ε) = ε/3 for the comparisons, c·1/(3c/ε) = ε/3 for the answers: .1.
    """

    true_epsilon: float = 0.1

    def draw(self, data: Any, n: int, rng: Generator) -> Array:
        above = _is_above(data, n, rng, 1.0, 30.0, 120.0)
        before: NDArray[np.int64] = np.cumsum(above, axis=1) - above
        answers = on_grid(laplace(rng, 60.0, (n, len(data))) + np.asarray(data, np.float64))
        return np.where(before >= 2, BELOW, np.where(above, answers, 0.0))
