"""Linear models under a guarantee: noise on the minimiser (output perturbation) or in
what is minimised (objective).

With ‖xᵢ‖ ≤ 1 both minimise F(w) = Σᵢ f(w·xᵢ; yᵢ) + (Λ/2)·‖w‖² (+ b·w), Λ = alpha·n with n a public size: no
normaliser is read from data.

**Output.** F is Λ-strongly convex, and one row more or less changes ∇F by at most L, so the minimiser moves
by at most L/Λ (2L/Λ for a row replaced); a w with ‖∇F(w)‖ ≤ τ lies within τ/Λ of it. The sensitivity in L2 is
(L + 2τ)/Λ. Chaudhuri, Monteleoni, Sarwate 2011, theorem 6 and corollary 8, with the solver's part.

**Objective.** b ~ N(0, σ²I), Λ > 0, D = D′ plus one row z = (x, y). For each w there is one b that makes it
the minimiser: b_D(w) = −Σ∇fᵢ(w) − Λw, a bi-Lipschitz map, so w has the density φ_σ(b_D(w))·|det ∂b_D/∂w|.
With H ≥ ΛI the Hessian on D′, the Jacobians' ratio is det(H + f″xxᵀ)/det H = 1 + f″·xᵀH⁻¹x ∈ [1, 1 + β/Λ].
And b_{D′} = b_D + g with g = f′(w·x)·x, so ln φ(b_D)/φ(b_{D′}) = (2b·g + ‖g‖²)/2σ² ≤ (L/σ)·|b·u|/σ + (L/σ)²/2
with u = x/‖x‖ fixed and b·u/σ =: Z standard normal. So the privacy loss, either way, is at most ln(1 + β/Λ) +
μ|Z| + μ²/2, μ = L/σ, and with ε̂ = ε − ln(1 + β/Λ) δ(ε) ≤ E[(1 − e^(ε̂ − μ|Z| − μ²/2))₊] ≤ 2·E[(1 − e^(ε̂ −
μZ − μ²/2))₊] = 2·δ_Gauss(ε̂; μ). With δ = 0 the density of b is ∝ exp(−a‖b‖), and the loss at most a·L + ln(1
+ β/Λ). Chaudhuri et al. 2011; Kifer, Smith, Thakurta 2012; the constant for generalised linear models:
Redberg, Koskela, Wang 2023.

**Approximate minima.** Given the true minimiser (paid for above), the w found lies within τ/Λ of it on either
data set: a further release of sensitivity 2τ/Λ, with its own noise (Iyengar et al. 2019).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deniable import checks
from deniable.accounting.methods.gaussian import hockey_stick
from deniable.errors import InvalidParameter
from deniable.learn.bounded import lengths, one_row, readable
from deniable.learn.convex.losses import Floats, MarginLoss
from deniable.learn.convex.solve import RidgeObjective, minimise
from deniable.loss import Approximate, Composed, Loss, Number, Pure
from deniable.mechanism import Random
from deniable.mechanisms import Gaussian, Laplace
from deniable.mechanisms.integer_noise import gaussian
from deniable.units import Unit

_ROW = Unit.row()
_SHARE = 0.99
"""Of ε and δ that objective perturbation spends on the objective; the rest hides where the solver stopped."""
_ROOM = 0.8
"""Of that rest which is spent, so that the digits of the accountant do not carry the
whole over what was asked for."""
_FINE = 2**40


@dataclass(frozen=True)
class LinearFit(ABC):
    """What every way to learn a linear model under a guarantee is told: the loss, how many features, rows (a
    public size) and outputs there are, how much ridge, the budget and who is protected."""

    loss_function: MarginLoss
    features: int
    n: int
    alpha: float
    epsilon: Number
    delta: Number = 0
    unit: Unit = _ROW
    outputs: int = 1

    def __post_init__(self) -> None:
        checks.whole("features", self.features, at_least=1)
        checks.whole("outputs", self.outputs, at_least=1)
        checks.whole("n", self.n, at_least=1)
        self._check_alpha()
        checks.number("epsilon", self.epsilon, above=0)
        checks.number("delta", self.delta, at_least=0, below=1)
        one_row(self.unit)

    def _check_alpha(self) -> None:
        checks.number("alpha", self.alpha, above=0)

    @property
    @abstractmethod
    def loss(self) -> Loss: ...

    @abstractmethod
    def __call__(self, data: Any, *, rng: Random) -> Floats:
        """The weights, a row for each output."""

    def error(self, confidence: float = 0.95) -> None:
        return None

    def read(self, data: Any) -> tuple[Floats, Floats]:
        """Rows of norm at most 1, and the targets of each problem; see `rows`."""
        return rows(data, self.features, self.outputs, residual=self.loss_function.residual)

    @property
    def _tolerance(self) -> float:
        """The gradient that the solver may leave: little beside one row's, and above what
        rounding n terms costs."""
        return self.loss_function.lipschitz * max(1e-4, 1e-9 * self.n)


@dataclass(frozen=True)
class OutputPerturbation(LinearFit):
    """The minimiser of F, with integer noise on a grid.

    Guarantee: (ε, δ)-DP for `unit`, by `Gaussian` noise; with δ = 0 ε-DP by `Laplace` noise on L1 ≤ √d·L2.
    Assumes:   nothing of the data: rows longer than 1 are shortened, entries that are no number are 0.
    Error:     not known before data is seen: it depends on how flat the loss is.
    Reference: module docstring.
    """

    noise: Gaussian | Laplace = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        change = self.loss_function.lipschitz * (2 if self.unit.replace else 1)
        reach = math.sqrt(self.outputs) * (change + 2 * self._tolerance) / self.ridge * (1 + 1e-12)
        size = self.outputs * self.features
        object.__setattr__(self, "noise", _noise(self.epsilon, self.delta, reach, size, self.unit))

    @property
    def loss(self) -> Loss:
        return self.noise.loss

    def __call__(self, data: Any, *, rng: Random) -> Floats:
        x, targets = self.read(data)
        zero = np.zeros(self.features)
        solutions = [
            minimise(RidgeObjective(self.loss_function, x, y, self.ridge, zero), self._tolerance)
            for y in targets
        ]
        return np.asarray(self.noise(np.concatenate(solutions), rng=rng)).reshape(self.outputs, self.features)

    @property
    def ridge(self) -> float:
        return float(self.alpha) * self.n


@dataclass(frozen=True)
class ObjectivePerturbation(LinearFit):
    """The minimiser of F with a random linear term. Λ is raised where ε asks for it.

    Guarantee: (ε, δ)-DP (ε-DP with δ = 0) for one row added or removed.
    Assumes:   the linear term is drawn as a continuous one: in doubles, from integers of 2⁻⁴⁰ of its scale.
               The noise on the answer, on a grid, is exact.
    Error:     not known before data is seen.
    Reference: module docstring.
    """

    noise: Gaussian | Laplace = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit.replace:
            raise InvalidParameter(
                "Objective perturbation is proved here for a row added or removed, not replaced. Nothing was "
                "run; use method='output', or an account of Unit.row()."
            )
        rest = _ROOM * (1 - _SHARE) / self.outputs
        noise = _noise(
            rest * float(self.epsilon),
            rest * float(self.delta),
            2 * self._tolerance / self.ridge * (1 + 1e-12),
            self.features,
            self.unit,
        )
        object.__setattr__(self, "noise", noise)

    @property
    def loss(self) -> Loss:
        epsilon, delta = self._objective_cost
        part = Composed((Approximate(epsilon, delta) if delta else Pure(epsilon), self.noise.loss))
        return part if self.outputs == 1 else part * self.outputs

    def __call__(self, data: Any, *, rng: Random) -> Floats:
        x, targets = self.read(data)
        return np.stack([self._fit_one(x, y, rng) for y in targets])

    def _fit_one(self, x: Floats, y: Floats, rng: Random) -> Floats:
        w = minimise(RidgeObjective(self.loss_function, x, y, self.ridge, self._linear(rng)), self._tolerance)
        return np.asarray(self.noise(w, rng=rng)).reshape(self.features)

    @property
    def scale(self) -> float:
        """The scale of the linear term: σ, or 1/a with δ = 0."""
        epsilon, delta = self._objective_cost
        left = epsilon - math.log1p(self.loss_function.smoothness / self.ridge)
        if not delta:
            return self.loss_function.lipschitz / left * (1 + 1e-12)
        return self.loss_function.lipschitz / largest_mu(left, delta / 2)

    @property
    def _objective_cost(self) -> tuple[float, float]:
        """ε and δ of one problem's objective."""
        share = _SHARE / self.outputs
        return share * float(self.epsilon), share * float(self.delta)

    def _linear(self, rng: Random) -> Floats:
        normal = gaussian(_FINE).draw(rng, self.features) / _FINE
        if self.delta:
            return np.asarray(self.scale * normal)
        # ‖b‖ is Gamma(d), the sum of d exponentials, in a direction of its own.
        uniform = (rng.uniform_integers(2**53, self.features) + 1) / 2**53
        return np.asarray(self.scale * float(-np.log(uniform).sum()) * normal / np.linalg.norm(normal))

    @property
    def ridge(self) -> float:
        """Raised so that the Jacobian costs at most a quarter of ε."""
        least = self.loss_function.smoothness / math.expm1(self._objective_cost[0] / 4)
        return max(float(self.alpha) * self.n, least)


def largest_mu(epsilon: float, delta: float) -> float:
    """The largest μ with δ_Gauss(ε; μ) ≤ δ, from below."""
    low, high = 0.0, 1.0
    while hockey_stick(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if hockey_stick(middle, epsilon) * (1 + 1e-9) <= delta else (low, middle)
    return low


def rows(data: Any, features: int, outputs: int = 1, *, residual: bool = False) -> tuple[Floats, Floats]:
    """Rows of norm at most 1, and the finite targets of each problem. Never fails: what is no number is 0; a
    row without a target is left out. Targets are classes, of which the sign counts, unless the loss is of a
    `residual`: a class of 5 would make a slope five times as long as the loss says."""
    x, y = data
    x = np.nan_to_num(readable(x, features).astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    y = readable(y, outputs).astype(np.float64)
    mask = np.isfinite(y).all(axis=1)
    x, y = x[mask], y[mask] if residual else np.sign(y[mask])
    large = np.maximum(
        np.abs(x).max(axis=1, initial=0.0), 1.0
    )  # divided out first, so that no square overflows
    small = x / large[:, None]
    with np.errstate(divide="ignore"):
        room = 1 / (lengths(small) * (1 + 1e-12))
    return small * np.minimum(large, room)[:, None], y.T


def _noise(epsilon: Number, delta: Number, reach: float, features: int, unit: Unit) -> Gaussian | Laplace:
    """Enough for an L2 sensitivity of `reach`."""
    if delta:
        return Gaussian.for_budget(epsilon, delta, reach, dimension=features, real=True, unit=unit)
    return Laplace.for_budget(
        epsilon, reach * math.sqrt(features) * (1 + 1e-12), dimension=features, real=True, unit=unit
    )
