"""Any classifier as one thing: a function of a batch of inputs to scores or labels, and
a digest that names it.

torch modules (scores), scikit-learn estimators (labels, as places in `classes_`), and any callable that gives
one label or one row of scores for each input.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable import checks
from deniable.accounting.radius.robustness import Isolation
from deniable.errors import DataError, InvalidParameter
from deniable.smooth.models.digests import digest
from deniable.smooth.models.protocol import Batch, Classifier, Evaluate, Integers, Outputs


def adapt(model: Any, classes: int | None = None, *, device: str | None = None) -> Classifier:
    """The adapter of `model`. `classes` may be left out where the model tells it
    (scikit-learn's `classes_`)."""
    if "torch" in sys.modules and isinstance(model, sys.modules["torch"].nn.Module):
        from deniable.smooth.models.modules import ModuleClassifier

        return ModuleClassifier(model, _check_classes(classes), device or "cpu")
    if device is not None:
        raise InvalidParameter(
            f"Expected device={device!r} for a torch module only, got {type(model).__name__}."
        )
    if hasattr(model, "predict") and hasattr(model, "classes_"):
        return EstimatorClassifier(model)
    if callable(model):
        return FunctionClassifier(model, _check_classes(classes))
    raise InvalidParameter(
        "Expected a torch module, a fitted scikit-learn classifier or a function, got "
        f"{type(model).__name__}."
    )


def labels(outputs: Outputs, rows: int, classes: int) -> Integers:
    """One label for each row: the class with the highest score, the first of equals; `classes` itself, which
    is none of them, where a score is no number."""
    votes = outputs
    if outputs.ndim == 2 and outputs.shape[1] and outputs.dtype.kind in "fiub":
        votes = outputs.argmax(axis=1)
    if votes.shape != (rows,) or not np.issubdtype(votes.dtype, np.integer):
        raise DataError(
            f"Expected of the classifier one whole label or one row of scores for each of {rows} inputs, got "
            f"an array of {outputs.dtype} of shape {outputs.shape}."
        )
    if len(votes) and not 0 <= int(votes.min()) <= int(votes.max()) < classes:
        raise DataError(
            f"Expected labels from 0 to {classes - 1}, got {int(votes.min())} to {int(votes.max())}."
        )
    if outputs.ndim == 2:
        votes = np.where(np.isnan(outputs).any(axis=1), classes, votes)
    return np.asarray(votes, np.int64)


@dataclass(frozen=True)
class EstimatorClassifier:
    """A fitted scikit-learn classifier on flattened inputs; labels are places in its `classes_`."""

    estimator: Any

    @property
    def digest(self) -> str:
        return digest(self.estimator)

    @property
    def classes(self) -> int:
        return len(self.estimator.classes_)

    def outputs(self, batch: Batch) -> Integers:
        predictions = self.estimator.predict(batch.reshape(len(batch), -1))
        return np.asarray(np.searchsorted(self.estimator.classes_, predictions), np.int64)

    def rowwise(self, sample: Batch) -> tuple[Evaluate, Isolation]:
        return self.outputs, Isolation.SEEN


@dataclass(frozen=True)
class FunctionClassifier:
    """Any function of a batch."""

    function: Callable[[Batch], Any]
    classes: int

    @property
    def digest(self) -> str:
        return digest(self.function)

    def outputs(self, batch: Batch) -> Outputs:
        outputs = np.asarray(self.function(batch))
        if outputs.dtype.kind not in "fiub":
            raise DataError(
                f"Expected whole labels or scores from the classifier, got an array of {outputs.dtype}."
            )
        return outputs

    def rowwise(self, sample: Batch) -> tuple[Evaluate, Isolation]:
        return self.outputs, Isolation.SEEN


def _check_classes(classes: int | None) -> int:
    return checks.whole("classes", classes, at_least=2)
