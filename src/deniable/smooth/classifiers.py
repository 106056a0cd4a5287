"""Any classifier as one thing: a function of a batch of inputs to scores or labels, and
a digest that names it.

torch modules (scores), scikit-learn estimators (labels, as places in `classes_`), and any callable that gives
one label or one row of scores for each input.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.errors import DataError, InvalidParameter

Batch = NDArray[Any]
Integers = NDArray[np.int64]

UNKNOWN = "not given"
"""The digest of a function that nobody has named."""


class Classifier(Protocol):
    """What smoothing needs: all else is a matter of the adapter."""

    @property
    def classes(self) -> int: ...
    @property
    def digest(self) -> str: ...
    def outputs(self, batch: Batch) -> NDArray[Any]:
        """Scores, one row for each input, or labels, one number for each."""


def adapt(
    model: Any, classes: int | None = None, *, device: str | None = None, digest: str | None = None
) -> Classifier:
    """The adapter of `model`. `classes` may be left out where the model tells it
    (scikit-learn's `classes_`)."""
    if "torch" in sys.modules and isinstance(model, sys.modules["torch"].nn.Module):
        from deniable.smooth.modules import ModuleClassifier

        return ModuleClassifier(model, _counted(classes), device or "cpu", digest)
    if device is not None:
        raise InvalidParameter(
            f"Expected device={device!r} for a torch module only, got {type(model).__name__}."
        )
    if hasattr(model, "predict") and hasattr(model, "classes_"):
        return EstimatorClassifier(model, digest or _pickled(model))
    if callable(model):
        return FunctionClassifier(model, _counted(classes), digest or UNKNOWN)
    raise InvalidParameter(
        "Expected a torch module, a fitted scikit-learn classifier or a function, got "
        f"{type(model).__name__}."
    )


def labels(outputs: NDArray[Any], rows: int, classes: int) -> Integers:
    """One label for each row: the class with the highest score, the first of equals."""
    votes = outputs.argmax(axis=1) if outputs.ndim == 2 else outputs
    if votes.shape != (rows,) or not np.issubdtype(votes.dtype, np.integer):
        raise DataError(
            f"Expected of the classifier one whole label or one row of scores for each of {rows} inputs, got "
            f"an array of {outputs.dtype} of shape {outputs.shape}."
        )
    if len(votes) and not 0 <= int(votes.min()) <= int(votes.max()) < classes:
        raise DataError(
            f"Expected labels from 0 to {classes - 1}, got {int(votes.min())} to {int(votes.max())}."
        )
    return np.asarray(votes, np.int64)


@dataclass(frozen=True)
class EstimatorClassifier:
    """A fitted scikit-learn classifier on flattened inputs; labels are places in its `classes_`."""

    estimator: Any
    digest: str

    @property
    def classes(self) -> int:
        return len(self.estimator.classes_)

    def outputs(self, batch: Batch) -> Integers:
        predictions = self.estimator.predict(batch.reshape(len(batch), -1))
        return np.asarray(np.searchsorted(self.estimator.classes_, predictions), np.int64)


@dataclass(frozen=True)
class FunctionClassifier:
    """Any function of a batch."""

    function: Callable[[Batch], Any]
    classes: int
    digest: str

    def outputs(self, batch: Batch) -> NDArray[Any]:
        return np.asarray(self.function(batch))


def _counted(classes: int | None) -> int:
    return checks.whole("classes", classes, at_least=2)


def _pickled(model: Any) -> str:
    return hashlib.sha256(pickle.dumps(model, protocol=4)).hexdigest()
