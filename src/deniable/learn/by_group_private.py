"""How well a classifier serves each group of private rows: one histogram with noise, and all measures from
it.

A row is in one cell of (group, range of the score, label), so the histogram costs what one count does;
everything else is made from it. Intervals cover the noise and the scatter of the rows together, in two ways,
each with half of what may be missed: a share p is left out where (1 − p)·hits − p·misses, noise and rows in
one sum whose mean would be 0, is too large (Chernoff); and where no counts within reach of the noise allow it
(Clopper, Pearson). The first is narrower where noise is most of it, the second where there is little."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
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
GRID = np.linspace(0.0, 1.0, 401)
RATES = 40
SIZE = 0.1
"""The part of a risk for how many rows there are, which the noise hides too."""


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
    Reference: Dwork, McSherry, Nissim, Smith 2006 (histograms); Clopper, Pearson 1934; Chernoff 1952;
               Hoeffding 1963.

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
        return tuple(self._measure(name, table) for name, table in zip(self.groups, counts, strict=True))

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

    def _measure(self, group: Any, counts: NDArray[Any]) -> GroupMeasures:
        table = counts.astype(np.float64)
        half = self.bins // 2
        below, above = table[:half].sum(axis=0), table[half:].sum(axis=0)
        return GroupMeasures(
            group,
            max(float(table.sum()), 0.0),
            self._share(above[1] + below[0], above[0] + below[1], self.bins),
            self._share(above[1], below[1], half),
            self._share(above[0], below[0], half),
            self._calibration(table),
        )

    def _share(self, hits: float, misses: float, cells: int) -> ShareEstimate:
        """hits/(hits + misses), each the sum of so many cells."""
        risk = (1 - self.confidence) / 2
        total = max(hits, 0.0) + max(misses, 0.0)
        value = max(hits, 0.0) / total if total > 0 else math.nan
        corners = self._corners(hits, misses, cells, risk)
        low, high = self._invert(hits, misses, cells, risk)
        return ShareEstimate(value, max(low, corners.low), min(high, corners.high))

    def _corners(self, hits: float, misses: float, cells: int, risk: float) -> ShareEstimate:
        """The interval of Clopper and Pearson, at the worst of the counts that the noise allows: half of the
        risk is the noise's, two sums with two sides each."""
        reach = self.reach(cells, risk / 8)
        ranges = [(max(count - reach, 0.0), max(count + reach, 0.0)) for count in (hits, misses)]
        return shares(ranges[0], ranges[1], risk / 2, value=math.nan)

    def _invert(self, hits: float, misses: float, cells: int, risk: float) -> tuple[float, float]:
        """All p for which T = (1 − p)·hits − p·misses lies within what noise and rows allow.

        If p is the share, n rows give T a moment generating function of (p·e^((1−p)s) + (1−p)·e^(−ps))ⁿ at s,
        which grows with n; the noise multiplies it by M((1−p)s)·M(ps) to the number of cells. Chernoff's
        bound on both tails, at an n that the noise seldom exceeds.
        """
        most = max(hits + misses + self.reach(2 * cells, SIZE * risk), 0.0)
        log, tails = math.log(2 / ((1 - SIZE) * risk)), _tails(self.tables.noise, cells)
        above, below = (
            np.min((log + tails.noise + most * rows) / tails.rates, axis=1)
            for rows in (tails.upper, tails.lower)
        )
        statistic = (1 - GRID) * hits - GRID * misses
        return _hull(GRID, (statistic <= above) & (statistic >= -below))

    def _calibration(self, table: Floats) -> ShareEstimate:
        """The mean of (middle of the range − label), inverted likewise; a row's part, from −1 to 1, has a
        moment generating function of at most e^(s²/2) about its mean (Hoeffding)."""
        weights = _calibration_weights(self.bins)
        total, numerator = float(table.sum()), float((weights * table).sum())
        risk, width = 1 - self.confidence, 0.5 / self.bins
        most = max(total + self.reach(2 * self.bins, SIZE * risk), 0.0)
        means, tails = 2 * GRID - 1, _calibration_tails(self.tables.noise, self.bins)
        log = math.log(2 / ((1 - SIZE) * risk))
        slack = np.min((log + tails.noise + most * tails.upper) / tails.rates, axis=1)
        low, high = _hull(means, np.abs(numerator - means * total) <= slack)
        value = numerator / total if total > 0 else math.nan
        return ShareEstimate(value, max(low - width, -1.0), min(high + width, 1.0))

    def reach(self, cells: int, risk: float) -> float:
        """What the noise of so many cells does not exceed, on one side, but with this risk.

        Chernoff: P(ΣXᵢ ≥ t) ≤ e^(−st)·M(s)ᵏ for every s, M the moment generating function of one noise; the
        best s of a list is a valid one."""
        noise = self.tables.noise
        s = _rates(noise)
        return float(np.min((math.log(1 / risk) + cells * _log_moment(noise, s)) / s)) * (1 + 1e-12)


@dataclass(frozen=True)
class _Tails:
    """Logarithms of moment generating functions, by share and rate: of all noise, and of one row above and
    below its mean. They do not depend on data, so they are made once."""

    rates: Floats
    noise: Floats
    upper: Floats
    lower: Floats


@lru_cache(maxsize=32)
def _tails(noise: Any, cells: int) -> _Tails:
    p, s = GRID[:, None], _rates(noise)[None]
    moments = cells * (_log_moment(noise, (1 - p) * s) + _log_moment(noise, p * s))
    return _Tails(s, moments, _log_mean(p, s), _log_mean(1 - p, s))


@lru_cache(maxsize=32)
def _calibration_tails(noise: Any, bins: int) -> _Tails:
    means, s = (2 * GRID - 1)[:, None], _rates(noise)[None] / 2  # |weight − mean| is at most 2
    moments = np.zeros((len(GRID), s.size))
    for weight in _calibration_weights(bins).ravel():
        moments += _log_moment(noise, (weight - means) * s)
    return _Tails(s, moments, s**2 / 2, s**2 / 2)


def _calibration_weights(bins: int) -> Floats:
    """Middle of the range − label, by range and label."""
    middles = (np.arange(bins) + 0.5) / bins
    return np.column_stack([middles, middles - 1])


def _rates(noise: Any) -> Floats:
    """Where moment generating functions are looked at: for integer Laplace noise they end at 1/scale."""
    if isinstance(noise, Gaussian):
        return np.geomspace(0.01, 30, RATES) / float(noise.sigma)
    return np.geomspace(0.002, 0.98, RATES) / float(noise.scale)


def _log_moment(noise: Any, s: Floats) -> Floats:
    """ln M(s) of one noise: exact for integer Laplace noise, at most σ²s²/2 for integer Gaussian noise
    (Canonne et al. 2020)."""
    if isinstance(noise, Gaussian):
        return np.asarray((float(noise.sigma) * s) ** 2 / 2)
    rate, size = 1 / float(noise.scale), np.abs(s)
    return np.asarray(
        2 * math.log1p(-math.exp(-rate)) - np.log1p(-np.exp(size - rate)) - np.log1p(-np.exp(-size - rate))
    )


def _log_mean(p: Floats, s: Floats) -> Floats:
    """ln E e^(s(X − p)) of a coin X with share p."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log(p) + (1 - p) * s, np.log1p(-p) - p * s))


def _hull(grid: Floats, mask: NDArray[np.bool_]) -> tuple[float, float]:
    """The stretch from the first to the last that is allowed, and a step of the grid beyond."""
    places = np.flatnonzero(mask)
    if not len(places):
        return float(grid[0]), float(grid[-1])
    return float(grid[max(places[0] - 1, 0)]), float(grid[min(places[-1] + 1, len(grid) - 1)])
