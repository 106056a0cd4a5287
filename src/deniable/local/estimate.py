"""What servers answer with: unbiased raw numbers with their standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from deniable.errors import InvalidParameter
from deniable.local.arrays import Floats


def quantile(confidence: float) -> float:
    """z with P(|N(0, 1)| ≤ z) = confidence."""
    if not 0 < confidence < 1:
        raise InvalidParameter(f"Expected confidence={confidence!r} in (0, 1).")
    return NormalDist().inv_cdf((1 + confidence) / 2)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimated numbers of users per item: unbiased, so they may be negative and need not add up to `users`.

    `standard_errors` speak of the noise of the reports (and of hashing and splitting,
    where a protocol does that); intervals are normal, which a sum of thousands of
    independent reports warrants. `consistency` makes a distribution of them.
    """

    counts: Floats
    standard_errors: Floats
    users: int

    def __post_init__(self) -> None:
        self.counts.flags.writeable = self.standard_errors.flags.writeable = False

    @property
    def frequencies(self) -> Floats:
        """Estimated shares of the users, raw."""
        return self.counts / max(self.users, 1)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Ends of a confidence interval for each item's number of users."""
        half = quantile(confidence) * self.standard_errors
        return self.counts - half, self.counts + half

    def significant(self, alpha: float = 0.05) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Items that are there: one-sided, Bonferroni over all items, most frequent first."""
        z = NormalDist().inv_cdf(1 - alpha / max(len(self.counts), 1))
        items = np.flatnonzero(self.counts > z * self.standard_errors)
        return items[np.argsort(-self.counts[items], kind="stable")]


@dataclass(frozen=True)
class Mean:
    """An estimated mean, with its standard error."""

    value: float
    standard_error: float
    users: int

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        half = quantile(confidence) * self.standard_error
        return self.value - half, self.value + half


@dataclass(frozen=True, eq=False)
class MeanVector:
    """An estimated mean vector, with a standard error for each coordinate."""

    value: Floats
    standard_errors: Floats
    users: int

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        half = quantile(confidence) * self.standard_errors
        return self.value - half, self.value + half
