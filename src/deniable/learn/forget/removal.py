"""Certified removal from linear models: one Newton step towards the model without the forgotten, and noise
that hides the rest.

F(w) = Σ f(w·xᵢ; yᵢ) + (Λ/2)‖w‖² over the rows that are left, ‖xᵢ‖ ≤ 1. The owner keeps w, at first the
minimiser. To forget rows she takes w⁻ = w − H⁻¹∇F(w), F and H without them (Guo et al. 2020). F is Λ-strongly
convex, so w⁻ lies within ‖∇F(w⁻)‖/Λ of the minimiser w* of what is left, and that norm is computed, its
rounding bounded: no constant of the loss's third derivative is needed. A model trained anew stops within τ/Λ
of w*. What is published is w⁻ + N(0, σ²), on a grid, with σ such that a distance of at most `reach` costs (ε,
δ): so everything seen, given all that was published before, is (ε, δ)-close to publishing a model trained
without the forgotten. Noise is fresh each time, so this holds for requests made after seeing the models, too.
Should the distance not be within `reach`, the model is trained anew, which is exact.

Guo et al. put the noise into the objective instead. Their theorem compares densities as if what the Newton
step leaves did not depend on that noise; noise on the answer (Neel, Roth, Sharifi-Malvajerdi 2021; Sekhari et
al. 2021) needs no such step.

The noise is for the forgotten, not for those who stay: this is no guarantee of privacy for the others, and is
not charged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.learn.convex.fit import rows
from deniable.learn.convex.losses import Floats, Logistic, MarginLoss
from deniable.learn.convex.solve import RidgeObjective, minimise
from deniable.loss import Number
from deniable.mechanism import Random
from deniable.mechanisms import Gaussian
from deniable.randomness import SecureRandom

TOLERANCE = 1e-6
"""Of the gradient where training stops, per unit of the loss's slope."""
ROOM = 1 + 1e-9


@dataclass(frozen=True)
class Removal:
    """A linear model to forget from. `fit`, then `forget` and `publish`, each a new value; nothing but
    `publish` leaves the room.

    Guarantee: `publish` after `forget` is (ε, δ)-indistinguishable from `publish` after `fit` without the
    forgotten rows, given
               whatever was published before.
    Assumes:   the internal state stays with the owner. Rows longer than 1 are shortened.
    Reference: module docstring.
    """

    epsilon: Number
    delta: Number
    features: int
    ridge: float = 1.0
    reach: float = 1e-3
    loss_function: MarginLoss = Logistic()
    noise: Gaussian = field(init=False)

    def __post_init__(self) -> None:
        checks.whole("features", self.features, at_least=1)
        checks.number("ridge", self.ridge, above=0)
        checks.number("reach", self.reach, above=0)
        if 2 * self.tolerance / self.ridge >= self.reach:
            raise InvalidParameter(
                f"Expected reach={self.reach:g} above {2 * self.tolerance / self.ridge:g}, twice the "
                "distance at which training stops. Nothing was trained; raise reach or ridge."
            )
        noise = Gaussian.for_budget(
            self.epsilon, self.delta, self.reach * ROOM, dimension=self.features, real=True
        )
        object.__setattr__(self, "noise", noise)

    @property
    def tolerance(self) -> float:
        return TOLERANCE * self.loss_function.lipschitz

    def fit(self, x: Any, y: Any) -> RemovalState:
        """Train on rows and their labels −1 and 1."""
        if len(x) != len(y):
            raise InvalidParameter(
                f"Expected a label for each row, got {len(x):,} rows and {len(y):,} labels."
            )
        inside, targets = rows((x, y), self.features, residual=self.loss_function.residual)
        if len(inside) != len(y):
            raise InvalidParameter("Expected labels that are numbers: rows are forgotten by their places.")
        model = RemovalState(
            self, inside, targets[0], np.ones(len(inside), np.bool_), np.zeros(self.features)
        )
        return replace(model, weights=model.train())


@dataclass(frozen=True)
class RemovalState:
    """The state of a `Removal`: rows, which of them are left, and the weights without noise. It stays with
    the owner."""

    how: Removal
    x: Floats
    y: Floats
    present: NDArray[np.bool_]
    weights: Floats
    trained_anew: bool = False

    @property
    def objective(self) -> RidgeObjective:
        mask, zero = self.present, np.zeros(self.how.features)
        return RidgeObjective(self.how.loss_function, self.x[mask], self.y[mask], self.how.ridge, zero)

    def train(self) -> Floats:
        return minimise(self.objective, self.how.tolerance)

    @property
    def distance(self) -> float:
        """At most this far from a model trained without the forgotten, solvers' tolerances and rounding
        included."""
        objective = self.objective
        left = float(np.linalg.norm(objective.gradient(self.weights))) + objective.rounding(self.weights)
        return (left + self.how.tolerance) / self.how.ridge * ROOM

    def forget(self, places: Iterable[int]) -> RemovalState:
        """Take these rows out by one Newton step, or by training anew where the step leaves too much."""
        rows = np.unique(np.asarray(list(places), np.int64))
        if len(rows) and not (rows[0] >= 0 and rows[-1] < len(self.y)):
            raise InvalidParameter(f"Expected places from 0 to {len(self.y) - 1}. Nothing was forgotten.")
        present = self.present.copy()
        present[rows] = False
        without = replace(self, present=present, trained_anew=False)
        objective = without.objective
        step = np.linalg.solve(objective.hessian(self.weights), objective.gradient(self.weights))
        state = replace(without, weights=np.asarray(self.weights - step, np.float64))
        if state.distance <= self.how.reach:
            return state
        return replace(without, weights=without.train(), trained_anew=True)

    def publish(self, *, rng: Random | None = None) -> Floats:
        """The weights with fresh noise, and nothing else: that a model was trained anew
        would tell of those who left."""
        source = SecureRandom() if rng is None else rng
        return np.asarray(self.how.noise(self.weights, rng=source), np.float64).reshape(self.how.features)
