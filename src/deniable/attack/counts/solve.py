"""From noisy counts over sets of people back to one bit per person (Dinur, Nissim 2003).

- `exhaustive` tries all 2ⁿ tables. If every subset was asked and every answer is within E of the truth, at
  most 4E bits of what it finds are wrong: see there.
- `linear_program` asks for the smallest largest (or summed) discrepancy over [0, 1]ⁿ and rounds.
- `least_squares` minimises the squared discrepancy over the box by FISTA: the one that
  is fast at thousands of people.
"""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog, minimize_scalar
from scipy.stats import norm

from deniable.attack.asking import Answers, Subsets
from deniable.attack.learnt import Bits, Floats
from deniable.errors import InvalidParameter

Singles = NDArray[np.float32]
MOST_EXHAUSTIVE = 20


class SolvingMethod(StrEnum):
    """How bits are found from answers."""

    EXHAUSTIVE = "exhaustive"
    LARGEST = "lp-max"
    SUMMED = "lp-sum"
    LEAST_SQUARES = "least-squares"


def solve(subsets: Subsets, answers: Answers, method: SolvingMethod = SolvingMethod.LEAST_SQUARES) -> Bits:
    """The bits that fit the answers best. Questions that got no answer are left out;
    without any, all bits are 0."""
    questions = subsets[: len(answers)]
    if not len(answers):
        return np.zeros(subsets.shape[1], np.int8)
    if method is SolvingMethod.EXHAUSTIVE:
        return exhaustive(questions, answers)
    if method is SolvingMethod.LEAST_SQUARES:
        return round_bits(least_squares(questions, answers))
    return round_bits(linear_program(questions, answers, largest=method is SolvingMethod.LARGEST))


def round_bits(x: NDArray[np.floating]) -> Bits:
    return (x > 0.5).astype(np.int8)


def exhaustive(subsets: Subsets, answers: Answers) -> Bits:
    """Of all 2ⁿ tables, the one whose largest discrepancy from the answers is smallest
    (the first of several).

    If all subsets were asked and each answer is within E of the truth x, the table y found has |q·x − q·y| ≤
    2E for every q: its discrepancy is at most that of x, which is at most E. For q the people with bit 1 in x
    and 0 in y, that says there are at most 2E of them; likewise the other way round. So x and y differ in at
    most 4E bits (Dinur, Nissim 2003, Theorem 1).
    """
    people = subsets.shape[1]
    if people > MOST_EXHAUSTIVE or len(subsets) << people > 1 << 33:
        raise InvalidParameter(
            f"Expected at most {MOST_EXHAUSTIVE} people and 2^33 comparisons for the exhaustive attack, got "
            f"{people} people and {len(subsets)} questions. Take another method."
        )
    low = people // 2
    matrix = subsets.astype(np.float64)
    low_sums, high_sums = _sums(matrix[:, :low]), _sums(matrix[:, low:])
    best, table = math.inf, 0
    for high, sums in enumerate(high_sums):
        off = np.abs(low_sums + (sums - answers)).max(axis=1)
        at = int(off.argmin())
        if off[at] < best:
            best, table = float(off[at]), high << low | at
    return ((table >> np.arange(people)) & 1).astype(np.int8)


def _sums(subsets: Floats) -> Floats:
    """Row t holds the answers of the table whose bits are those of t."""
    people = subsets.shape[1]
    tables = ((np.arange(1 << people)[:, None] >> np.arange(people)) & 1).astype(np.float64)
    return np.asarray(tables @ subsets.T)


def linear_program(subsets: Subsets, answers: Answers, *, largest: bool = True) -> Floats:
    """x in [0, 1]ⁿ with the smallest largest discrepancy, or with the smallest sum of them, by HiGHS.

    Reference: Dinur, Nissim 2003, Theorem 3 (feasibility); Dwork, McSherry, Talwar 2007
               (the sum withstands some wild answers).
    """
    m, n = subsets.shape
    matrix = sparse.csr_matrix(subsets, dtype=np.float64)
    slack = sparse.csr_matrix(np.ones((m, 1))) if largest else sparse.identity(m, format="csr")
    width = slack.shape[1]
    both = sparse.vstack([sparse.hstack([matrix, -slack]), sparse.hstack([-matrix, -slack])]).tocsc()
    solution = linprog(
        np.r_[np.zeros(n), np.ones(width)],
        A_ub=both,
        b_ub=np.r_[answers, -answers],
        bounds=[(0, 1)] * n + [(0, None)] * width,
        method="highs",
    )
    if solution.x is None:
        raise ArithmeticError(f"HiGHS did not solve a program that has solutions: {solution.message}")
    return np.asarray(solution.x[:n])


def least_squares(
    subsets: Subsets, answers: Answers, *, max_steps: int = 200, tolerance: float = 1e-3
) -> Floats:
    """x in [0, 1]ⁿ with the least sum of squared discrepancies, by FISTA; stops when no
    entry moves by `tolerance`.

    With A = 1·āᵀ + C (ā the column means) the sum is ‖Cx − (b − b̄)‖² + m·(ā·x − b̄)².
    The second term alone has n times the curvature of the rest; it is one equation of m
    and is given the weight 1/n, so that a few dozen steps suffice.
    Reference: Beck, Teboulle 2009; Dwork, Yekhanin 2008 (least squares as an attack).
    """
    system = _System.from_counts(subsets, answers)
    step = 1 / system.curvature()
    x = np.full(subsets.shape[1], 0.5, np.float32)
    y, t = x, 1.0
    for _ in range(max_steps):
        new = np.clip(y - np.float32(step) * system.gradient(y), 0, 1)
        change = new - x
        later = (1 + math.sqrt(1 + 4 * t * t)) / 2
        y, x, t = new + np.float32((t - 1) / later) * change, new, later
        if float(np.abs(change).max()) < tolerance:
            break
    return np.asarray(x, np.float64)


class _System:
    """‖Cx − (b − b̄)‖² + (m/n)·(ā·x − b̄)², half its gradient and its curvature; C is never formed."""

    def __init__(self, matrix: Singles, mean: Singles, target: Singles, average: float) -> None:
        self.matrix, self.mean, self.target, self.average = matrix, mean, target, average

    @classmethod
    def from_counts(cls, subsets: Subsets, answers: Answers) -> _System:
        matrix = subsets.astype(np.float32)
        mean = np.asarray(matrix.mean(axis=0, dtype=np.float64), np.float32)
        # Entries near ±½ instead of 0 and 1 keep the sums small, and with them the rounding; C does not
        # change.
        matrix -= np.float32(0.5)
        average = float(answers.mean())
        return cls(matrix, mean, np.asarray(answers - average, np.float32), average)

    def gradient(self, x: Singles) -> Singles:
        return self._transpose(self.matrix @ x - self.target, float(self.mean @ x) - self.average)

    def _transpose(self, residual: Singles, off_average: float) -> Singles:
        m, n = self.matrix.shape
        return np.asarray(
            (residual - residual.mean()) @ self.matrix + np.float32(m / n * off_average) * self.mean
        )

    def curvature(self, rounds: int = 12) -> float:
        """A little more than the largest eigenvalue, by power iteration."""
        v = np.random.default_rng(0).standard_normal(int(self.matrix.shape[1]), np.float32)
        size = 1.0
        for _ in range(rounds):
            v /= np.float32(np.linalg.norm(v) or 1.0)
            v = self._transpose(self.matrix @ v, float(self.mean @ v))
            size = float(np.linalg.norm(v))
        return 1.1 * size or 1.0


def expected_share(noise: float, ratio: float) -> float:
    """The share of bits that `least_squares` gets right as n grows: noise `noise`·√n,
    `ratio`·n random questions.

    With bits ±1 and Gaussian noise, the error of the box relaxation is Q(1/τ), τ the minimiser of

        τ/2·(ratio − ½) + 16·noise²/(2τ) + τ/2·∫ (z − 2/τ)² φ(z) dz over z > 2/τ.

    A set's count is a quarter of a sum of ±1 up to a constant, hence the 16. Reference: Thrampoulidis,
    Abbasi, Xu, Hassibi 2016 (BER analysis of the box relaxation for BPSK signal recovery).

    >>> f"{expected_share(0.3, 4):.4f}"
    '0.9405'
    """
    if not ratio > 0.5:
        raise InvalidParameter(f"Expected more than half a question per person, got {ratio:g}.")
    if noise == 0:
        return 1.0

    def objective(log_tau: float) -> float:
        tau = math.exp(log_tau)
        a = 2 / tau
        tail = (1 + a * a) * float(norm.sf(a)) - a * float(norm.pdf(a))
        return tau / 2 * (ratio - 0.5) + 8 * noise**2 / tau + tau / 2 * tail

    best = minimize_scalar(objective, bounds=(-12, 12), method="bounded", options={"xatol": 1e-9})
    return float(norm.cdf(math.exp(-best.x)))
