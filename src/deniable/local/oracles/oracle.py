"""Frequency oracles over a closed domain 0, …, k − 1, in the form of Wang et al. 2017 ("pure protocols").

Each report supports some items: the true one with probability p, any other one with
probability q. With C(x) the reports that support x, (C(x) − nq)/(p − q) is unbiased,
with variance Σ_users of p(1 − p) or q(1 − q), over (p − q)².
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np

from deniable.errors import InvalidParameter
from deniable.local.arrays import Floats, Integers
from deniable.local.estimate import Estimate, quantile
from deniable.local.odds import OPTIONS, check_epsilon, check_whole
from deniable.local.protocol import Client, whole_numbers
from deniable.mechanism import Random


class Oracle(Client[Estimate]):
    """A pure protocol. Values are whole numbers below k; one outside reports as a random
    item, so that silence tells nothing."""

    k: int

    def check(self, largest: int = OPTIONS) -> None:
        check_whole("k", self.k, 2, largest)
        check_epsilon(self.epsilon)

    @property
    @abstractmethod
    def p(self) -> Fraction:
        """P(the report supports the true item)."""

    @property
    @abstractmethod
    def q(self) -> Fraction:
        """P(the report supports another given item)."""

    @abstractmethod
    def supports(self, counts: Integers, users: int) -> Integers:
        """C(x) for all items."""

    def inputs(self, values: Any) -> Integers:
        return whole_numbers(values)

    def clamp_values(self, values: Integers, rng: Random) -> Integers:
        """The values, those outside the domain replaced by random items."""
        outside = np.flatnonzero((values < 0) | (values >= self.k))
        if len(outside):
            values = values.copy()
            values[outside] = rng.uniform_integers(self.k, len(outside))
        return values

    def estimate(self, counts: Integers, users: int, *question: Any) -> Estimate:
        if question:
            raise InvalidParameter("Expected no items: the estimate is over the whole domain.")
        p, q = float(self.p), float(self.q)
        estimates = np.asarray((self.supports(counts, users) - users * q) / (p - q), np.float64)
        share = np.clip(estimates / max(users, 1), 0, 1)
        return Estimate(estimates, np.sqrt(self.variance(users, share)), users)

    def variance(self, users: int, frequency: Floats | float = 0.0) -> Floats:
        """Variance of the estimated number of users of an item whose true share is `frequency`."""
        p, q = float(self.p), float(self.q)
        each = frequency * p * (1 - p) + (1 - np.asarray(frequency)) * q * (1 - q)
        return np.asarray(users * each / (p - q) ** 2)

    def margin(self, users: int, confidence: float = 0.95) -> float:
        """Half the interval around a rare item's estimated number of users."""
        return quantile(confidence) * math.sqrt(self.variance(users))
