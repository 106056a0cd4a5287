"""Linear models with the interface of scikit-learn: `fit`, `predict`, `get_params`.

What may not be read from data is said by the caller: the size n, the bounds of the
features, the classes or the range of the target. `fit` runs one mechanism through
`account`; wrong parameters raise before anything is charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deniable.errors import InvalidParameter
from deniable.guarantee import DEFAULT_DELTA
from deniable.learn.bounded import Box, labels, lengths
from deniable.learn.convex.descent import Descent, GradientPerturbation
from deniable.learn.convex.fit import LinearFit, ObjectivePerturbation, OutputPerturbation
from deniable.learn.convex.losses import Floats, HuberHinge, HuberResidual, Logistic, MarginLoss
from deniable.learn.estimator import PrivateClassifier, PrivateEstimator, PrivateRegressor, target_numbers
from deniable.ledger import Account

METHODS: dict[str, type[OutputPerturbation] | type[ObjectivePerturbation]] = {
    "objective": ObjectivePerturbation,
    "output": OutputPerturbation,
}
RIDGE = 1e-3
"""The `alpha` of these two, unless another is given; DP-SGD, which stops early, needs none."""


@dataclass(kw_only=True, eq=False, repr=False)
class _Linear(PrivateEstimator):
    """The part that classifiers and regression share. The fields are the parameters that scikit-learn
    reads."""

    epsilon: float = 1.0
    delta: float = DEFAULT_DELTA
    n: int | None = None
    bounds: Any = None
    norm: float | None = None
    alpha: float | None = None
    method: str | Descent = "objective"
    fit_intercept: bool = True
    account: Account | None = None
    random_state: int | None = None

    def _solve(self, x: Floats, targets: Floats, loss: MarginLoss) -> tuple[Floats, Floats]:
        """Coefficients and intercepts, in the units of x, one row for each column of the targets."""
        box = Box.from_bounds(self.bounds, x.shape[1], self.norm)
        mechanism = self._mechanism(loss, x.shape[1] + bool(self.fit_intercept), targets.shape[1])
        return self._unscale(self._run(mechanism, (self._scale(box, x), targets)), box)

    def _mechanism(self, loss: MarginLoss, features: int, outputs: int) -> LinearFit:
        n = self._require("n", "the public size of the data, which is never counted")
        unit, method = self._unit, Descent() if self.method == "sgd" else self.method
        if isinstance(method, Descent):
            alpha = 0.0 if self.alpha is None else self.alpha
            return GradientPerturbation(
                loss, features, n, alpha, self.epsilon, self.delta, unit, outputs, method
            )
        if method not in METHODS:
            raise InvalidParameter(
                f"Expected method={method!r} to be one of {', '.join(METHODS)}, sgd, or a Descent. Nothing "
                "was charged."
            )
        alpha = RIDGE if self.alpha is None else self.alpha
        return METHODS[method](loss, features, n, alpha, self.epsilon, self.delta, unit, outputs)

    def _scale(self, box: Box, x: Floats) -> Floats:
        """Rows of norm at most 1; with an intercept, which counts in it, (x, 1)/√2."""
        inside = box.centre(x)
        if not self.fit_intercept:
            return inside
        long = np.maximum(lengths(inside), 1.0)[:, None]
        return np.hstack([inside / long, np.ones((len(inside), 1))]) / (math.sqrt(2) * (1 + 1e-12))

    def _unscale(self, w: Floats, box: Box) -> tuple[Floats, Floats]:
        if not self.fit_intercept:
            coef = w / box.units
            return coef, -coef @ box.middle
        coef = w[:, :-1] / (box.units * math.sqrt(2))
        return coef, w[:, -1] / math.sqrt(2) - coef @ box.middle

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        return np.asarray(self._features(X) @ self.coef_.T + self.intercept_)


@dataclass(kw_only=True, eq=False, repr=False)
class _LinearClassifier(PrivateClassifier, _Linear):
    """One problem for two classes, one against the rest for more."""

    classes: Any = None

    def _margin_loss(self) -> MarginLoss:
        return Logistic()

    def fit(self, X: Any, y: Any) -> Self:
        """Charge, then learn. Labels that are not among `classes` are left out."""
        x, y = self._rows(X, y)
        self.classes_ = labels(self.classes)
        at = self._positions(self.classes_, y)
        indices = range(1, 2) if len(self.classes_) == 2 else range(len(self.classes_))
        targets = np.column_stack([np.where(at < 0, np.nan, np.where(at == k, 1.0, -1.0)) for k in indices])
        self.coef_, self.intercept_ = self._solve(x, targets, self._margin_loss())
        return self

    def decision_function(self, X: Any) -> Floats:
        """The score of class 1 of two, or of each of more."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Any:
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


class PrivateLogisticRegression(_LinearClassifier):
    """Logistic regression by objective perturbation, output perturbation or DP-SGD
    (`method="sgd"`, or a `Descent`).

    Guarantee: (ε, δ)-DP for the account's unit, a row (added or removed; by `method="output"` also replaced).
    Assumes:   bounds, n and classes are public; rows outside the bounds are clamped,
               labels outside the classes dropped.
    Error:     not known before data is seen.
    Reference: Chaudhuri, Monteleoni, Sarwate 2011; Abadi et al. 2016;
               `deniable.learn.convex.fit` and `.descent`.
    """

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class; with more than two the one-against-rest odds, scaled to one."""
        p = 0.5 * (1 + np.tanh(0.5 * self._scores(X)))
        if len(self.classes_) == 2:
            return np.hstack([1 - p, p])
        return np.asarray(p / p.sum(axis=1, keepdims=True))


class PrivateLinearSVM(_LinearClassifier):
    """A linear support vector machine with a hinge rounded at its corner (`HuberHinge`);
    else as logistic regression."""

    def _margin_loss(self) -> MarginLoss:
        return HuberHinge()


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(PrivateRegressor, _Linear):
    """Linear regression by Huber's loss, for a target inside `target=(low, high)`.

    Guarantee, Assumes, Reference: as `PrivateLogisticRegression`; targets outside the range are clamped.
    """

    target: tuple[float, float] | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Charge, then learn."""
        x, y = self._rows(X, y)
        low, high = self._require("target", "the public range of the target as (low, high)")
        box = Box.from_bounds((low, high), 1)
        targets = box.centre(target_numbers(y))
        coef, intercept = self._solve(x, targets, HuberResidual())
        self.coef_ = coef[0] * box.units[0]
        self.intercept_ = float(intercept[0] * box.units[0] + box.middle[0])
        return self

    def predict(self, X: Any) -> Floats:
        return self._scores(X)
