"""How well a classifier serves each group of private rows: one histogram with noise, and all measures from
it.

A row is in one cell of (group, range of the score, label), so the histogram costs what one count does;
everything else is made from it. Intervals cover the noise and the scatter of the rows together: half of what
they may miss by goes to each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.learn.bounded import column, labels, positions, readable
from deniable.learn.by_group_public import GroupMeasures, ShareEstimate, shares
from deniable.learn.counts import CountTables
from deniable.loss import Loss, Number
from deniable.mechanism import Random
from deniable.mechanisms import Gaussian
from deniable.units import Unit

Floats = NDArray[np.float64]
HALF = 0.5


@dataclass(frozen=True)
class ByGroup:
    """Accuracy, recall, false alarms and calibration by group, from noisy counts.

    Guarantee: (ε, δ)-DP for `unit`, ε-DP with δ = 0: that of `Tables` with one column, of group
               and range of the score.
    Assumes:   `groups` is a public list, and so are `bins` and `confidence`. A row of another group,
               with a label other than 0 and 1, or with a score that is no number from 0 to 1, is
               left out; nothing fails.
    Error:     each interval holds with probability `confidence` for rows that are independent
               draws; it covers the noise.
    Reference: Dwork, McSherry, Nissim, Smith 2006 (histograms); Clopper, Pearson 1934; Hoeffding 1963.

    The data are (truth, scores, groups), as of `by_group`, with the threshold at ½. `bins` is even, so that ½
    is an edge. Calibration takes every score as the middle of its range, and its interval grows by half a
    range.

    >>> ByGroup(("women", "men"), epsilon=1).loss
    DiscreteLaplaceNoise(scale=1, sensitivity=1)
    """

    groups: Sequence[Any]
    epsilon: Number
    delta: Number = 0
    bins: int = 10
    confidence: float = 0.95
    unit: Unit = checks.ROW
    tables: CountTables = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(labels(self.groups).tolist()))
        if checks.whole("bins", self.bins, at_least=2) % 2:
            raise InvalidParameter(
                f"Expected bins={self.bins} to be even: the threshold ½ is an edge of theirs."
            )
        if not 0 < self.confidence < 1:
            raise InvalidParameter(f"Expected confidence={self.confidence} in (0, 1).")
        cells = len(self.groups) * self.bins
        object.__setattr__(self, "tables", CountTables(1, cells, 2, self.epsilon, self.delta, self.unit))

    @property
    def loss(self) -> Loss:
        return self.tables.loss

    def error(self, confidence: float = 0.95) -> Any:
        return self.tables.error(confidence)

    def __call__(self, data: Any, *, rng: Random) -> tuple[GroupMeasures, ...]:
        counts = self.tables(self._cells(data), rng=rng).reshape(len(self.groups), self.bins, 2)
        return tuple(self._measured(name, table) for name, table in zip(self.groups, counts, strict=True))

    def _cells(self, data: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The cell and the label of each row; −1 for what is left out. Rows beyond the shortest column are no
        rows."""
        truth, scores, groups = data
        truth, scores = (readable(part, 1).astype(np.float64).ravel() for part in (truth, scores))
        at = positions(np.asarray(self.groups), column(groups))
        rows = min(len(truth), len(scores), len(at))
        truth, scores, at = truth[:rows], scores[:rows], at[:rows]
        mask = np.isin(truth, (0, 1)) & (scores >= 0) & (scores <= 1) & (at >= 0)
        bins = np.minimum((np.where(mask, scores, 0) * self.bins).astype(np.int64), self.bins - 1)
        cells = np.where(mask, at * self.bins + bins, -1)
        return cells[:, None], np.where(mask, truth, 0).astype(np.int64)

    def _measured(self, group: Any, counts: NDArray[Any]) -> GroupMeasures:
        table = counts.astype(np.float64)
        half = self.bins // 2
        below, above = table[:half].sum(axis=0), table[half:].sum(axis=0)
        reach = self.reach(half)
        twice = self.reach(self.bins)
        return GroupMeasures(
            group,
            max(float(table.sum()), 0.0),
            self._share(above[1] + below[0], above[0] + below[1], twice),
            self._share(above[1], below[1], reach),
            self._share(above[0], below[0], reach),
            self._calibration(table),
        )

    def _share(self, hits: float, misses: float, reach: float) -> ShareEstimate:
        """The interval of Clopper and Pearson, at the worst of the counts that the noise allows."""
        ranges = [(max(count - reach, 0.0), max(count + reach, 0.0)) for count in (hits, misses)]
        total = max(hits, 0.0) + max(misses, 0.0)
        value = max(hits, 0.0) / total if total > 0 else math.nan
        return shares(ranges[0], ranges[1], (1 - self.confidence) / 2, value=value)

    def _calibration(self, table: Floats) -> ShareEstimate:
        """The mean of (middle of the range − label). The rows' scatter by Hoeffding's bound, for numbers from
        −1 to 1."""
        middles = (np.arange(self.bins) + 0.5) / self.bins
        weights = np.column_stack([middles, middles - 1])
        total, numerator = float(table.sum()), float((weights * table).sum())
        most = total + self.reach(2 * self.bins)
        least = max(total - self.reach(2 * self.bins), 0.0)
        if least <= 0:
            return ShareEstimate(math.nan, -1.0, 1.0)
        off = self.reach(2 * self.bins, float(np.abs(weights).max()))
        scatter = math.sqrt(2 * math.log(4 / (1 - self.confidence)) / least)
        width = 0.5 / self.bins
        corners = [(numerator + sign * off) / size for sign in (-1, 1) for size in (least, most)]
        low, high = min(corners) - scatter - width, max(corners) + scatter + width
        return ShareEstimate(numerator / total, max(low, -1.0), min(high, 1.0))

    def reach(self, cells: int, weight: float = 1.0) -> float:
        """What the noise of so many cells, each times at most `weight`, does not exceed but with a quarter of
        the risk.

        Chernoff: P(Σ wᵢXᵢ ≥ t) ≤ e^(−st)·Π M(wᵢs) for every s, M the moment generating function of one noise;
        the best s of a list is a valid one. Two sums make an interval, each with two sides, and half of the
        risk is the noise's: an eighth each."""
        risk = (1 - self.confidence) / 8
        logs = _log_moments(self.tables.noise)
        bounds = [(math.log(1 / risk) + cells * value) / s for s, value in logs]
        return weight * min(bounds) * (1 + 1e-12)


def _log_moments(noise: Any) -> list[tuple[float, float]]:
    """s and ln M(s): exact for integer Laplace noise, at most σ²s²/2 for integer Gaussian noise (Canonne et
    al. 2020)."""
    if isinstance(noise, Gaussian):
        sigma = float(noise.sigma)
        return [(s / sigma, s * s / 2) for s in np.geomspace(0.01, 100, 200).tolist()]
    rate = 1 / float(noise.scale)
    moments = []
    for part in np.linspace(0.005, 0.995, 199).tolist():
        s = part * rate
        logs = [math.log1p(-math.exp(power)) for power in (-rate, s - rate, -s - rate)]
        moments.append((s, 2 * logs[0] - logs[1] - logs[2]))
    return moments
