"""The minimiser of a regularised sum of convex losses, to a gradient that is small for certain.

How far a solver stops from the true minimum is part of a sensitivity, so "it converged"
is not enough: the norm of the gradient where it stopped, rounding included, is bounded
by the tolerance that was asked for, whatever the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deniable.learn.convex.losses import Floats, MarginLoss

_NEWTON_STEPS = 60
_BLOCK = 1024
_DENSE = 600
"""Up to this many coefficients Newton's steps solve with the whole Hessian."""


@dataclass(frozen=True)
class RidgeObjective:
    """F(w) = Σᵢ f(w·xᵢ; yᵢ) + (Λ/2)·‖w‖² + b·w: strongly convex with modulus Λ = `ridge`."""

    loss: MarginLoss
    x: Floats
    y: Floats
    ridge: float
    linear: Floats

    def value(self, w: Floats) -> float:
        return float(self.loss.value(self.x @ w, self.y).sum() + self.ridge / 2 * (w @ w) + self.linear @ w)

    def gradient(self, w: Floats) -> Floats:
        slopes = self.loss.slope(self.x @ w, self.y)
        blocks = [self.x[i : i + _BLOCK].T @ slopes[i : i + _BLOCK] for i in range(0, len(self.y), _BLOCK)]
        return np.asarray(np.sum(blocks, axis=0) + self.ridge * w + self.linear)

    def hessian(self, w: Floats) -> Floats:
        weights = self.loss.curvature(self.x @ w, self.y)
        return np.asarray((self.x * weights[:, None]).T @ self.x + self.ridge * np.eye(len(w)))

    @property
    def smoothness(self) -> float:
        """The smoothness of F: at most β·Σ‖xᵢ‖² + Λ."""
        return self.loss.smoothness * float((self.x**2).sum()) + self.ridge

    def rounding(self, w: Floats) -> float:
        """A bound on the error of `gradient` in floats: terms·2⁻⁵² of the sum of the
        terms' sizes (Higham 2002, 3.1).

        Each score errs by d·u·‖x‖·‖w‖, which the slope passes on by at most its
        smoothness; then n terms are added, a block at a time.
        """
        n, d = self.x.shape
        unit = 2.0**-52
        sizes = float(np.sqrt((self.x**2).sum(axis=1)).sum())
        scores = self.loss.smoothness * d * unit * float(np.linalg.norm(w)) * sizes
        sums = (
            (_BLOCK + n / _BLOCK + 8)
            * unit
            * (self.loss.lipschitz * sizes + self.ridge * float(np.linalg.norm(w)))
        )
        return float(scores + math.sqrt(d) * sums + unit * np.linalg.norm(self.linear))


def minimise(objective: RidgeObjective, tolerance: float) -> Floats:
    """A w with ‖∇F(w)‖ ≤ tolerance, so within tolerance/Λ of the minimiser.

    Newton with halved steps first; where that does not arrive (a kinked curvature, too
    many coefficients) Nesterov's method, whose rate for strongly convex functions holds
    for every data set (Nesterov 2004, theorem 2.2.2).
    """
    d = objective.x.shape[1]
    w = _newton(objective, np.zeros(d), tolerance) if d <= _DENSE else np.zeros(d)
    if not _has_arrived(objective, w, tolerance):
        w = _accelerate(objective, w, tolerance)
    if not _has_arrived(objective, w, tolerance):
        raise ArithmeticError(
            "The minimum was not reached to the tolerance that its sensitivity is stated for."
        )
    return w


def _has_arrived(objective: RidgeObjective, w: Floats, tolerance: float) -> bool:
    return float(np.linalg.norm(objective.gradient(w))) + objective.rounding(w) <= tolerance


def _newton(objective: RidgeObjective, w: Floats, tolerance: float) -> Floats:
    for _ in range(_NEWTON_STEPS):
        if _has_arrived(objective, w, tolerance):
            return w
        gradient = objective.gradient(w)
        step: Floats = np.linalg.solve(objective.hessian(w), gradient).astype(np.float64)
        w = _shorten(objective, w, step, float(gradient @ step))
    return w


def _shorten(objective: RidgeObjective, w: Floats, step: Floats, drop: float) -> Floats:
    """The longest of 1, ½, ¼, … steps that lowers F enough (Armijo); none does near the limit of floats."""
    here = objective.value(w)
    for k in range(30):
        length = 0.5**k
        if objective.value(w - length * step) <= here - 1e-4 * length * drop:
            return np.asarray(w - length * step)
    return np.asarray(w - step)


def _accelerate(objective: RidgeObjective, w: Floats, tolerance: float) -> Floats:
    smoothness = objective.smoothness
    root = math.sqrt(objective.ridge / smoothness)
    momentum = (1 - root) / (1 + root)
    start = float(np.linalg.norm(objective.gradient(w)))
    # ‖∇F‖² ≤ 2L(F − F*) and F − F* ≤ (1 − root)^k·(F₀ − F* + Λ/2·r²) ≤ (1 − root)^k·‖∇F₀‖²/Λ.
    steps = 2 * math.log(max(2.0, 2 * start / tolerance / root)) / root
    ahead = w
    for k in range(math.ceil(2 * steps) + 100):
        if k % 10 == 0 and _has_arrived(objective, w, tolerance):
            break
        after = ahead - objective.gradient(ahead) / smoothness
        ahead = after + momentum * (after - w)
        w = after
    return w
