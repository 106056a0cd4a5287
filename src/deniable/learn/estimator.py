"""What our scikit-learn estimators share: they run their mechanism through an account, and say so before they fail."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from deniable.errors import InvalidParameter
from deniable.ledger import Account
from deniable.loss import Loss
from deniable.mechanism import Mechanism
from deniable.randomness import SeededRandom
from deniable.units import Unit

Value = TypeVar("Value")
Floats = NDArray[np.float64]


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator whose `fit` is one charged run. After it, `loss_` and `entry_` say what was paid and where."""

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
                "Expected account=…: only a ledger account runs a mechanism on private data. Nothing was run; make one with "
                "Ledger.open('sqlite:///privacy.db').create('name', Unit.row(), limit=Budget(1, 1e-5))."
            )
        return self.account

    def _run(self, mechanism: Mechanism[Value], data: Any) -> Value:
        rng = None if self.random_state is None else SeededRandom(self.random_state)
        release = self._paying().run(mechanism, data, rng=rng, description=type(self).__name__)
        self.loss_, self.entry_ = release.loss, release.entry
        return release.value

    def _features(self, X: Any, *, reset: bool = False) -> Floats:
        """X as floats. What is no number is let pass: to refuse it would tell of a row."""
        checked = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=0)
        return np.asarray(checked, np.float64)

    def _rows(self, X: Any, y: Any) -> tuple[Floats, NDArray[Any]]:
        x, target = self._features(X, reset=True), np.asarray(y).reshape(-1)
        if len(x) != len(target):
            raise InvalidParameter("Expected one target for each row of X. Nothing was charged.")
        return x, target

    def _said(self, name: str, why: str) -> Any:
        """A parameter that has no default, because a default would be read from data."""
        value = getattr(self, name)
        if value is None:
            raise InvalidParameter(f"Expected {name}=…, {why}. Nothing was charged.")
        return value

    def __getstate__(self) -> dict[str, Any]:
        """A stored model does not carry the account that paid for it."""
        return {**super().__getstate__(), "account": None}
