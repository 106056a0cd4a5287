"""Convex losses of a margin: what a linear model pays for the score s = w·x when the target is y.

Each is Lipschitz and smooth in s, so that with ‖x‖ ≤ 1 the gradient in w is at most `lipschitz` long and the
Hessian's one eigenvalue at most `smoothness`: what output and objective perturbation stand on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from deniable import checks

Floats = NDArray[np.float64]


class MarginLoss(Protocol):
    """f(s; y), convex in s, with |f′| ≤ lipschitz and 0 ≤ f″ ≤ smoothness almost everywhere.

    It depends on one number: ys for y = ±1, or s − y where `residual`.
    """

    @property
    def lipschitz(self) -> float: ...

    @property
    def smoothness(self) -> float: ...

    @property
    def residual(self) -> bool: ...

    def value(self, score: Floats, target: Floats) -> Floats: ...

    def slope(self, score: Floats, target: Floats) -> Floats: ...

    def curvature(self, score: Floats, target: Floats) -> Floats: ...


@dataclass(frozen=True)
class Logistic:
    """ln(1 + e^(−ys)) for y = ±1.

    >>> Logistic().lipschitz, Logistic().smoothness
    (1.0, 0.25)
    """

    lipschitz: float = 1.0
    smoothness: float = 0.25
    residual: bool = False

    def value(self, score: Floats, target: Floats) -> Floats:
        return np.logaddexp(0.0, -target * score)

    def slope(self, score: Floats, target: Floats) -> Floats:
        return np.asarray(-target * _sigmoid(-target * score))

    def curvature(self, score: Floats, target: Floats) -> Floats:
        p = _sigmoid(score)
        return np.asarray(p * (1 - p))


@dataclass(frozen=True)
class HuberHinge:
    """The SVM's hinge, rounded at its corner over a width of 2h (Chaudhuri et al. 2011, section 3.4.2).

    0 for ys > 1 + h, 1 − ys for ys < 1 − h, (1 + h − ys)²/4h between.
    """

    h: float = 0.5

    def __post_init__(self) -> None:
        checks.number("h", self.h, above=0)

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 1 / (2 * self.h)

    @property
    def residual(self) -> bool:
        return False

    def value(self, score: Floats, target: Floats) -> Floats:
        z = target * score
        return np.where(z < 1 - self.h, 1 - z, np.clip(1 + self.h - z, 0, None) ** 2 / (4 * self.h))

    def slope(self, score: Floats, target: Floats) -> Floats:
        z = target * score
        return np.asarray(-target * np.clip((1 + self.h - z) / (2 * self.h), 0, 1))

    def curvature(self, score: Floats, target: Floats) -> Floats:
        return np.where(np.abs(1 - target * score) <= self.h, self.smoothness, 0.0)


@dataclass(frozen=True)
class HuberResidual:
    """½r² for a residual |r| = |s − y| ≤ k, k|r| − ½k² beyond: least squares that one
    far point cannot pull (Huber 1964)."""

    k: float = 1.0

    def __post_init__(self) -> None:
        checks.number("k", self.k, above=0)

    @property
    def lipschitz(self) -> float:
        return self.k

    @property
    def smoothness(self) -> float:
        return 1.0

    @property
    def residual(self) -> bool:
        return True

    def value(self, score: Floats, target: Floats) -> Floats:
        r = np.abs(score - target)
        return np.where(r <= self.k, r**2 / 2, self.k * r - self.k**2 / 2)

    def slope(self, score: Floats, target: Floats) -> Floats:
        return np.clip(score - target, -self.k, self.k)

    def curvature(self, score: Floats, target: Floats) -> Floats:
        return np.where(np.abs(score - target) <= self.k, 1.0, 0.0)


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))
