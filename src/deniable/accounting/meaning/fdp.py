"""The f-DP curve: how many members the best attacker must miss at each rate of false
alarms (Dong, Roth, Su 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.accounting import numerical
from deniable.accounting.choose import delta as delta_of
from deniable.accounting.choose import epsilon as epsilon_of
from deniable.accounting.refusals import guard
from deniable.errors import InvalidParameter, Unaccountable
from deniable.loss import Loss

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """At a false-positive rate `alpha` no attacker has a false-negative rate below
    `lower`, and some reaches `upper`."""

    alpha: Array
    lower: Array
    upper: Array

    @property
    def power(self) -> Array:
        """The most true positives an attacker can have at each `alpha`."""
        return 1 - self.lower


@guard
def tradeoff(loss: Loss, alpha: Array | None = None, *, points: int = 200) -> Tradeoff:
    """The curve f(α) = sup_ε max(1 − δ(ε) − e^ε·α, e^−ε·(1 − δ(ε) − α)), symmetrised over both neighbours.

    Proof: Dong, Roth, Su 2022, Prop. 2.12 (duality of δ(ε) and f). The lower side takes
           finitely many ε: a supremum over
    fewer is smaller. The upper side uses that δ falls in ε: on a step [εᵢ, εᵢ₊₁] the supremum is at most that
    with δ(εᵢ₊₁) and e^εᵢ, and beyond the last ε it is at most that with δ = 0.
    """
    alpha = (
        np.concatenate([[0], np.geomspace(1e-6, 1, 121)]) if alpha is None else np.asarray(alpha, np.float64)
    )
    if not (np.all(alpha >= 0) and np.all(alpha <= 1)):
        raise InvalidParameter("Expected every false-positive rate alpha in [0, 1].")
    grid = _grid(loss, points)
    low, high = _profile(loss, grid)
    e = np.exp(grid)[:, None]
    sure, room = 1 - high[:, None], 1 - np.append(low[1:], 0.0)[:, None]
    lower = np.max(np.maximum(sure - e * alpha, (sure - alpha) / e), axis=0)
    upper = np.max(np.maximum(room - e * alpha, np.maximum(room - alpha, 0) / e), axis=0)
    lower = np.maximum(lower, 0) * (1 - 1e-12)
    return Tradeoff(alpha, lower, np.clip(np.maximum(upper, lower), 0, 1 - alpha))


def _grid(loss: Loss, points: int) -> Array:
    """ε from 0 to where δ is 1e-9: finer near 0, where the curve of a small loss lives."""
    top = epsilon_of(loss, 1e-9).upper
    return np.linspace(0, 1, points) ** 1.5 * min(top, 700.0)


def _profile(loss: Loss, grid: Array) -> tuple[Array, Array]:
    try:
        return numerical.profile(loss, grid)
    except Unaccountable:
        bounds = [delta_of(loss, float(e)) for e in grid]
        return np.array([b.lower for b in bounds]), np.array([b.upper for b in bounds])
