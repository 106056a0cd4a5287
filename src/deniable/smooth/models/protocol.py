"""What smoothing needs of a classifier: scores of a batch, their evaluation input by input, and a digest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.accounting.radius.robustness import Isolation

Batch = NDArray[Any]
Outputs = NDArray[Any]
"""Scores, one row for each input, or labels, one number for each."""
Evaluate = Callable[[Batch], Outputs]
Integers = NDArray[np.int64]


class Classifier(Protocol):
    """What smoothing needs: all else is a matter of the adapter."""

    @property
    def classes(self) -> int: ...
    @property
    def digest(self) -> str:
        """SHA-256 of what the classifier is now: its numbers, structure and code."""

    def outputs(self, batch: Batch) -> Outputs:
        """Scores or labels of a batch, as users of the classifier get them."""

    def rowwise(self, sample: Batch) -> tuple[Evaluate, Isolation]:
        """The evaluation that keeps inputs apart best, and whether it is proved to keep them apart."""
