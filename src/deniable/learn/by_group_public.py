"""How well a classifier serves each group: accuracy, recall, false alarms and calibration, each with an
interval.

For rows that may be looked at: public ones, or the owner's own. `by_group_private.ByGroup` is the same as a
mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.accounting import proportion
from deniable.errors import InvalidParameter
from deniable.learn.bounded import column, readable

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class ShareEstimate:
    """A number with its interval. `value` is NaN, and the interval all there is, where no row speaks of
    it."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return "–" if math.isnan(self.value) else f"{self.value:.3f} ({self.low:.3f}–{self.high:.3f})"


@dataclass(frozen=True)
class GroupMeasures:
    """One group. Every interval is for that number alone, at the confidence that was asked for.

    `accuracy` is the share of right answers, `recall` the share of those with label 1 that are found,
    `false_alarms` the share of those with label 0 that are called 1, `calibration` how much the mean score is
    above the share of 1."""

    group: Any
    rows: float
    accuracy: ShareEstimate
    recall: ShareEstimate
    false_alarms: ShareEstimate
    calibration: ShareEstimate

    def to_dict(self) -> dict[str, Any]:
        """Plain values; a number that nothing is known of is None."""
        body = asdict(self)
        for part in body.values():
            if isinstance(part, dict) and math.isnan(part["value"]):
                part["value"] = None
        return body


def by_group(
    truth: Any, scores: Any, groups: Any, *, threshold: float = 0.5, confidence: float = 0.95
) -> tuple[GroupMeasures, ...]:
    """How well scores serve each group, for rows that may be looked at. Nothing is charged.

    `truth` is 0 or 1 for each row, `scores` the probability of 1 (or the answer itself, 0 or 1), `groups` any
    labels. Shares have the interval of Clopper and Pearson (1934), calibration that of Maurer and Pontil
    (2009): both hold at every size, if rows are independent draws. To ask it of private rows, run `ByGroup`
    through an account.

    >>> scores, groups = [0.9, 0.2, 0.1, 0.4, 0.8, 0.7], ["w", "w", "w", "m", "m", "m"]
    >>> [men, women] = by_group([1, 1, 0, 0, 1, 0], scores, groups)
    >>> [float(share.value) for share in (women.recall, men.recall, men.false_alarms)]
    [0.5, 1.0, 0.5]
    >>> print(women.accuracy)
    0.667 (0.094–0.992)
    """
    if not 0 < confidence < 1:
        raise InvalidParameter(f"Expected confidence={confidence} in (0, 1).")
    labels, values, names = _rows(truth, scores, groups)
    decisions = values >= threshold
    return tuple(
        _measure(name, labels[names == name], decisions[names == name], values[names == name], 1 - confidence)
        for name in sorted(set(names.tolist()), key=str)
    )


def _rows(truth: Any, scores: Any, groups: Any) -> tuple[Booleans, Floats, NDArray[Any]]:
    labels, values = (readable(part, 1).astype(np.float64).ravel() for part in (truth, scores))
    names = column(groups)
    if not len(labels) == len(values) == len(names):
        raise InvalidParameter(
            f"Expected truth, scores and groups of one length, got {len(labels)}, {len(values)} and "
            f"{len(names)}."
        )
    if not np.isin(labels, (0, 1)).all() or not ((values >= 0) & (values <= 1)).all():
        raise InvalidParameter("Expected truth that is 0 or 1 and scores between 0 and 1.")
    return labels == 1, values, names


def _measure(group: Any, truth: Booleans, choice: Booleans, scores: Floats, alpha: float) -> GroupMeasures:
    right = truth == choice
    return GroupMeasures(
        group,
        len(truth),
        share(right.sum(), (~right).sum(), alpha),
        share((truth & choice).sum(), (truth & ~choice).sum(), alpha),
        share((~truth & choice).sum(), (~truth & ~choice).sum(), alpha),
        _mean(scores - truth, alpha),
    )


def share(hits: float, misses: float, alpha: float) -> ShareEstimate:
    """hits/(hits + misses), with the interval of Clopper and Pearson."""
    return shares(
        (hits, hits), (misses, misses), alpha, value=hits / (hits + misses) if hits + misses else math.nan
    )


def shares(
    hits: tuple[float, float], misses: tuple[float, float], alpha: float, *, value: float
) -> ShareEstimate:
    """The same where hits and misses are known between two numbers each: the interval grows with hits and
    falls with misses, also between whole numbers, so its ends are those of the corners."""
    low = proportion.lower(hits[0], hits[0] + misses[1], alpha / 2)
    high = proportion.upper(hits[1], hits[1] + misses[0], alpha / 2)
    return ShareEstimate(value, float(low), float(high))


def _mean(values: Floats, alpha: float) -> ShareEstimate:
    """The mean of numbers from −1 to 1, with the empirical Bernstein interval (Maurer, Pontil 2009, theorem
    4, twice)."""
    n = len(values)
    if n < 2:
        return ShareEstimate(float(values.mean()) if n else math.nan, -1.0, 1.0)
    log = math.log(4 / alpha)
    reach = math.sqrt(2 * float(values.var(ddof=1)) * log / n) + 2 * 7 * log / (3 * (n - 1))
    mean = float(values.mean())
    return ShareEstimate(mean, max(-1.0, mean - reach), min(1.0, mean + reach))


def spread(measures: Sequence[GroupMeasures], measure: str = "recall") -> float:
    """The largest difference between two groups in one measure."""
    values = [value for each in measures if not math.isnan(value := getattr(each, measure).value)]
    return max(values) - min(values) if values else math.nan
