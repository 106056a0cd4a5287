"""How well scores tell members from others. What counts is the true-positive rate where false positives are
rare, not the average."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from deniable.accounting import proportion
from deniable.attack.members.evidence import Booleans, Floats


@dataclass(frozen=True)
class Curve:
    """How well scores tell members: the whole ROC, its area, and rates with 95 % intervals.

    Intervals take the rows as independent; rows of one model are not quite so, so read them as a guide to the
    scatter."""

    false_rates: Floats
    true_rates: Floats
    area: float
    area_interval: tuple[float, float]
    members: int
    nonmembers: int

    @classmethod
    def from_scores(cls, scores: Floats, members: Booleans) -> Curve:
        order = np.argsort(-scores, kind="stable")
        ends = np.r_[np.flatnonzero(np.diff(-scores[order])), len(scores) - 1]
        hits, alarms = np.cumsum(members[order])[ends], np.cumsum(~members[order])[ends]
        inside, outside = int(members.sum()), int((~members).sum())
        area = (rankdata(scores)[members].sum() - inside * (inside + 1) / 2) / (inside * outside)
        rates = (np.r_[0.0, alarms / outside], np.r_[0.0, hits / inside])
        return cls(*rates, float(area), _area_interval(float(area), inside, outside), inside, outside)

    def power_at(self, rate: float) -> float:
        """The true-positive rate at a false-positive rate of at most `rate`."""
        return float(self.true_rates[np.searchsorted(self.false_rates, rate, side="right") - 1])

    def interval(self, rate: float) -> tuple[float, float]:
        """The interval of `power_at(rate)`, by Clopper and Pearson."""
        k, n = round(self.power_at(rate) * self.members), self.members
        return proportion.interval(k, n, 0.05)

    @property
    def area_reach(self) -> float:
        """Half of the interval of the area, to its farther end."""
        return max(self.area - self.area_interval[0], self.area_interval[1] - self.area)

    @property
    def advantage(self) -> float:
        """The largest difference of the two rates."""
        return float((self.true_rates - self.false_rates).max())


def _area_interval(area: float, members: int, nonmembers: int) -> tuple[float, float]:
    """Hanley, McNeil 1982."""
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (members - 1) * (q1 - area**2) + (nonmembers - 1) * (q2 - area**2)
    reach = 1.96 * math.sqrt(max(variance, 0.0) / (members * nonmembers))
    return max(0.0, area - reach), min(1.0, area + reach)
