"""Publish what the votes say about the cost of their labels: a noisy upper bound, with a loss of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.accounting.renyi.convert import to_epsilon
from deniable.learn.pate.analysis import difference_tail, rdp
from deniable.loss import Approximate, Number, exact
from deniable.mechanism import Random
from deniable.mechanisms.integer_noise import laplace
from deniable.units import Unit

GRID = 2.0**-20
"""One unit of Rényi divergence: costs are whole numbers of it, rounded up."""

Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Published:
    """The labels' Rényi divergence at `order` on this data is at most `rdp`; false with
    probability at most `failure`."""

    order: float
    rdp: float
    failure: float

    def epsilon(self, delta: float) -> float:
        """The ε of the labels alone that it gives at `delta`; what the publication cost comes on top."""
        return max(0.0, float(to_epsilon(np.array([self.order]), np.array([self.rdp]), delta)[0]))


@dataclass(frozen=True)
class DependentBound:
    """A noisy upper bound on the data-dependent Rényi divergence, at `order`, of labels that `GNMax` sold.

    The data are the votes (examples, classes). The bound of a label is F(g), g the gap between the two
    largest counts: Theorem 6 with q = (classes − 1)·P(two noises bridge g − 2), which covers both directions
    (docs/theory/pate.md), on a grid.

    Guarantee: (`epsilon`, `delta`)-DP for `unit`; the labels were paid for before, and are not refunded.
               Proof: one teacher moves a gap by at most 2, so n = Σ F(gᵢ) moves by at
                      most A₀ = Σ L₀(gᵢ), L₀(g) the largest
               change of F within 2 of g. With L_d(g) the largest L₀ within 2d of g, S = 1 + max over d of
               r^d·Σ L_d(gᵢ) changes by a factor of at most 1/r (L_d here ≤ L_{d+1} there). Released is h + X,
               h = n + ⌈c·s⌉, X integer Laplace noise of scale s = λ·S. Write s, h and s′, h′ for two
               neighbours and b = 1/r − 1. Then |h − h′|/s′ ≤ (S′ + c·|s − s′|)/s′ ≤ 1/λ + c·b; the
               normalisers tanh(1/2s) differ by a factor of at most 1/r, whose logarithm is at most b; and
               1/s′ ≤ (1 + b)/s. So for |x − h| ≤ t·s the log-likelihood ratio is at most 1/λ + (c + t + 1)·b,
               and P(|X| > t·s) ≤ 2e^−t = δ at t = ln(2/δ). Both halves, 1/λ and the rest, are ε/2.
    Assumes:   `order` and all other parameters were chosen without looking at the votes;
               an `Ensemble` of `teach` gave them.
    Error:     the release is below the bound it stands for with probability at most `failure` = e^−c.
    Reference: Papernot et al. 2018, §B; smooth sensitivity: Nissim, Raskhodnikova, Smith
               2007, with integer noise here.

    >>> DependentBound(classes=10, sigma=28, teachers=250, answers=100, order=14, epsilon=1, delta=1e-6).loss
    Approximate(epsilon=1, delta=1e-06)
    """

    classes: int
    sigma: Number
    teachers: int
    answers: int
    order: float
    epsilon: Number
    delta: Number
    failure: Number = 0.01
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        for name, least in (("classes", 2), ("teachers", 1), ("answers", 1)):
            object.__setattr__(self, name, checks.whole(name, getattr(self, name), at_least=least))
        for name in ("sigma", "epsilon"):
            object.__setattr__(self, name, checks.number(name, getattr(self, name), above=0))
        for name in ("delta", "failure"):
            object.__setattr__(self, name, checks.number(name, getattr(self, name), above=0, below=1))
        object.__setattr__(self, "order", float(checks.number("order", self.order, above=1)))
        checks.unit(self.unit)

    @property
    def loss(self) -> Approximate:
        return Approximate(self.epsilon, self.delta)

    def error(self, confidence: float = 0.95) -> None:
        """Not known before the votes are: the noise grows with their smooth sensitivity."""
        return None

    def __call__(self, data: Any, *, rng: Random) -> Published:
        centre, scale = self.law(data)
        noisy = centre + laplace(scale).draw(rng)
        most = self.answers * int(self.costs.max())
        return Published(self.order, max(0, min(noisy, most)) * GRID, float(self.failure))

    def law(self, data: Any) -> tuple[int, Fraction]:
        """h and s of the proof, in units of the grid: private, like the votes."""
        gaps = self._gaps(data)
        scale = 2 / exact(self.epsilon) * self.smooth_sensitivity(gaps)
        return int(self.costs[gaps].sum()) + math.ceil(self._margin * scale), scale

    @property
    def costs(self) -> Whole:
        """F of each gap, 0 to `teachers`, in units of the grid."""
        tail = difference_tail(self.sigma, self.teachers)
        chances = tail[np.maximum(np.arange(self.teachers + 1) - 2, 0)]
        log_q = np.log(np.minimum((self.classes - 1) * chances * (1 + 1e-9), 1.0))
        return np.ceil(rdp(log_q, 1 / float(self.sigma) ** 2, self.order) / GRID).astype(np.int64)

    def smooth_sensitivity(self, gaps: Whole) -> Fraction:
        """S, exactly."""
        local, decay, power, best = _largest_change(self.costs), 1 / (1 + self._decay), Fraction(1), 0
        sensitivity = Fraction(0)
        for _ in range(self.teachers // 2 + 2):
            total = int(local[gaps].sum())
            if total > best:
                best, sensitivity = total, max(sensitivity, power * total)
            local, power = _widen(local), power * decay
        return 1 + sensitivity

    @property
    def _margin(self) -> Fraction:
        """c, so that e^−c ≤ failure."""
        return _round_up(-math.log(float(self.failure)))

    @property
    def _decay(self) -> Fraction:
        """b = 1/r − 1: half of ε is left for it."""
        return exact(self.epsilon) / (2 * (self._margin + _round_up(math.log(2 / float(self.delta))) + 1))

    def _gaps(self, data: Any) -> Whole:
        """The gap of each label sold; votes beyond `answers` are left out, and what is no count reads as
        0."""
        try:
            votes = np.nan_to_num(np.asarray(data, np.float64).reshape(-1, self.classes))[: self.answers]
        except Exception:  # whatever the data are, they read as votes
            votes = np.zeros((0, self.classes))
        counts = np.sort(np.clip(np.rint(votes), 0, self.teachers).astype(np.int64), axis=1)
        return np.asarray(counts[:, -1] - counts[:, -2])


def _largest_change(costs: Whole) -> Whole:
    """L₀: how far F moves at most when the gap moves by at most 2."""
    high, low = _widen(costs), -_widen(-costs)
    return np.asarray(np.maximum(high - costs, costs - low))


def _widen(values: Whole) -> Whole:
    """The largest value within 2 of each place."""
    series = np.pad(values, 2, mode="edge")
    return np.asarray(np.lib.stride_tricks.sliding_window_view(series, 5).max(axis=1))


def _round_up(x: float) -> Fraction:
    """A rational number that is surely at least the real one that `x` rounds."""
    return Fraction(x) * (1 + Fraction(1, 10**12))
