"""What our scikit-learn estimators share: they run their mechanism through an account,
and say so before they fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_array, validate_data

from deniable.errors import InvalidParameter
from deniable.learn import columns
from deniable.learn.bounded import column, positions
from deniable.ledger import Account
from deniable.loss import Loss
from deniable.mechanism import Mechanism
from deniable.randomness import SeededRandom
from deniable.units import Unit

Value = TypeVar("Value")
Floats = NDArray[np.float64]

_TABLE = (
    "Expected X as a table of numbers: something in it is none, or its rows differ in length. (Complex data "
    "not supported.) Nothing was charged, and what it is stays untold; for a frame with words declare its "
    "columns: bounds={'age': (0, 100), 'job': ['clerk', 'nurse']}."
)
_TARGET = (
    "Expected y as one target for each row, all of one kind. Nothing was charged, and what it holds stays "
    "untold."
)

_SCORE = (
    "Expected y as one target for each row of X, of the kind that the model predicts. What it holds stays "
    "untold."
)


def quietly(act: Callable[[], Value], sentence: str) -> Value:
    """What `act` gives, or else `sentence` and nothing more: libraries quote the value
    that they could not read.

    >>> quietly(lambda: float("Ann, 34"), "Expected a number.")
    Traceback (most recent call last):
        ...
    deniable.errors.InvalidParameter: Expected a number.
    """
    try:
        return act()
    except Exception:  # whatever it says
        pass
    # Outside the handler, so that this error does not carry the other one as its context.
    raise InvalidParameter(sentence)


def numbers(X: Any) -> Floats:
    """A table as floats. NaN and infinities are let pass: to refuse one would tell of a row."""
    if issparse(X):
        raise InvalidParameter("Expected a dense X, got a sparse one. Nothing was charged; use X.toarray().")
    dimensions = quietly(lambda: int(X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim), _TABLE)
    if dimensions != 2:
        raise InvalidParameter(
            f"Expected X with rows and columns, got {dimensions} dimensions. Nothing was charged. Reshape "
            "your data: one row is X.reshape(1, -1), one column X.reshape(-1, 1)."
        )
    return quietly(
        lambda: np.asarray(
            check_array(X, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=0), np.float64
        ),
        _TABLE,
    )


def target_numbers(y: Any) -> Floats:
    """Targets of a regression as floats."""
    return quietly(lambda: np.asarray(y, np.float64).reshape(-1), _TARGET)


def _targets(y: Any) -> NDArray[Any]:
    """One target for each row; a table of them is the owner's mistake, and told before the charge."""
    targets = column(y)
    if targets.dtype == object and any(isinstance(value, list | tuple | np.ndarray) for value in targets):
        raise ValueError
    return targets


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator whose `fit` is one charged run. After it, `loss_` and `entry_` say
    what was paid and where."""

    account: Account | None
    random_state: int | None
    loss_: Loss
    entry_: str | None

    @property
    def _unit(self) -> Unit:
        return self._paying().unit

    def _paying(self) -> Account:
        if self.account is None:
            raise InvalidParameter(
                "Expected account=…: only a ledger account runs a mechanism on private data. Nothing was "
                "run; make one with Ledger.open('sqlite:///privacy.db').create('name', Unit.row(), "
                "limit=Budget(1, 1e-5))."
            )
        return self.account

    def _run(self, mechanism: Mechanism[Value], data: Any) -> Value:
        rng = None if self.random_state is None else SeededRandom(self.random_state)
        release = self._paying().run(mechanism, data, rng=rng, description=type(self).__name__)
        self.loss_, self.entry_ = release.loss, release.entry
        return release.value

    def _features(self, X: Any, *, reset: bool = False) -> Floats:
        """X as floats, of the columns that the model knows: how many, and by name if they have names."""
        bounds = getattr(self, "bounds", None)
        if isinstance(bounds, Mapping):
            return columns.encode(bounds, X)
        x = numbers(X)
        validate_data(self, X if hasattr(X, "columns") else x, reset=reset, skip_check_array=True)
        return x

    def _rows(self, X: Any, y: Any) -> tuple[Floats, NDArray[Any]]:
        x, target = self._features(X, reset=True), quietly(lambda: _targets(y), _TARGET)
        if len(x) != len(target):
            raise InvalidParameter("Expected one target for each row of X. Nothing was charged.")
        return x, target

    def _positions(self, classes: NDArray[Any], target: NDArray[Any]) -> NDArray[np.int64]:
        return quietly(lambda: positions(classes, target), _TARGET)

    def _require(self, name: str, reason: str) -> Any:
        """A parameter that has no default, because a default would be read from data."""
        value = getattr(self, name)
        if value is None:
            raise InvalidParameter(f"Expected {name}=…, {reason}. Nothing was charged.")
        return value

    def __getstate__(self) -> dict[str, Any]:
        """A stored model does not carry the account that paid for it."""
        return {**super().__getstate__(), "account": None}


class PrivateClassifier(ClassifierMixin):  # type: ignore[misc]
    """`score` as scikit-learn has it, but that no error of it quotes a label."""

    predict: Callable[[Any], Any]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows that are named rightly. Not private: for rows that are public, or for the
        owner."""
        predictions = self.predict(X)
        return quietly(lambda: float(accuracy_score(y, predictions, sample_weight=sample_weight)), _SCORE)


class PrivateRegressor(RegressorMixin):  # type: ignore[misc]
    """`score` as scikit-learn has it, but that no error of it quotes a target."""

    predict: Callable[[Any], Any]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R². Not private: for rows that are public, or for the owner."""
        predictions = self.predict(X)
        return quietly(lambda: float(r2_score(y, predictions, sample_weight=sample_weight)), _SCORE)
