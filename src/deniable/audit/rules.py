"""Which outputs to guess from: thresholds on a score, chosen so that what is certified later comes out large.

Nothing here matters for validity: a rule is fixed before the samples that certify it are drawn. What it must not do is to follow
luck: among hundreds of thresholds the best count is too good to be true, most of all for rare events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Array = NDArray[np.float64]
COMMON = 0.02
"""Events of at least this share are counted well enough to lean on."""


@dataclass(frozen=True)
class Rule:
    """Guess "first" where the score is at least `high`, "second" where it is below `low`, else abstain."""

    high: float
    low: float

    @property
    def sides(self) -> int:
        return int(self.high < math.inf) + int(self.low > -math.inf)

    def count(self, first: Array, second: Array) -> tuple[int, int]:
        """Right and wrong guesses, given the scores of outputs on the first and on the second neighbour."""
        right = np.count_nonzero(first >= self.high) + np.count_nonzero(second < self.low)
        wrong = np.count_nonzero(second >= self.high) + np.count_nonzero(first < self.low)
        return int(right), int(wrong)


def candidates(scores: Array, most: int = 160) -> Array:
    """Thresholds worth trying: all distinct scores if they are few, else quantiles that are dense in both tails."""
    distinct = np.unique(scores[: 1 << 14])
    if len(distinct) <= most // 2:
        distinct = np.unique(scores)
    if len(distinct) <= most:
        return distinct
    tail = np.geomspace(2e-6, 0.04, most // 4)
    at = np.concatenate([tail, np.linspace(0.04, 0.96, most // 2), 1 - tail])
    return np.unique(np.quantile(scores[:: max(1, len(scores) // 500_000)], at))


@dataclass(frozen=True)
class Counts:
    """Guesses of one side at every threshold, among `seen`, at a share `delta` that is forgiven."""

    right: Array
    wrong: Array
    seen: int
    delta: float

    @property
    def net(self) -> Array:
        return self.right + 0.5 - self.delta * self.seen

    @property
    def ratio(self) -> Array:
        """ln((right − δ·seen)/wrong), −∞ where δ forgives everything."""
        return np.where(self.net > 0, np.log(np.maximum(self.net, 1e-9) / (self.wrong + 0.5)), -np.inf)

    @property
    def variance(self) -> Array:
        return np.asarray((self.right + 0.5) / np.maximum(self.net, 1e-9) ** 2 + 1 / (self.wrong + 0.5))

    def at(self, i: int) -> Counts:
        return Counts(self.right[i : i + 1], self.wrong[i : i + 1], self.seen, self.delta)

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.right + other.right, self.wrong + other.wrong, self.seen, self.delta + other.delta)


def choose(
    first: Array, second: Array, *, delta: float, alpha: float, trials: int, calibrated: bool = False
) -> tuple[Rule, float]:
    """The rule whose certified bound after `trials` fresh guesses is expected to be largest, and that expectation.

    Each side is chosen by itself, then both together compete with either alone. `calibrated` scores are log-ratios themselves,
    up to a factor, and say what to expect of rare events.
    """
    edges = candidates(np.concatenate([first, second]))
    low_first, low_second = (
        np.searchsorted(np.sort(s), edges, side="left").astype(np.float64) for s in (first, second)
    )
    seen, wait = len(first) + len(second), norm.ppf(1 - alpha) * math.sqrt((len(first) + len(second)) / trials)
    upper = Counts(len(first) - low_first, len(second) - low_second, seen, delta / 2)
    lower = Counts(low_second, low_first, seen, delta / 2)
    told = (implied(second, edges), implied(-first, -edges)) if calibrated else (None, None)
    worth = [promised(side, wait, says) for side, says in zip((upper, lower), told, strict=True)]
    high, low = (int(np.argmax(w)) for w in worth)
    rules = [(float(worth[0][high]), Rule(float(edges[high]), -math.inf))]
    rules.append((float(worth[1][low]), Rule(math.inf, float(edges[low]))))
    if high >= low:
        both = _together(upper.at(high), lower.at(low), float(worth[0][high]), float(worth[1][low]), wait)
        rules.append((both, Rule(float(edges[high]), float(edges[low]))))
    best, rule = max(rules, key=lambda found: found[0])
    return rule, best


def _together(upper: Counts, lower: Counts, up: float, down: float, wait: float) -> float:
    """What both sides promise as one rule: their mean, weighted by guesses, and what one narrower interval gains."""
    weights = [float(side.right[0] + side.wrong[0]) + 1 for side in (upper, lower)]
    alone = np.average([float(np.sqrt(side.variance[0])) for side in (upper, lower)], weights=weights)
    gained = wait * (float(alone) - float(np.sqrt((upper + lower).variance[0])))
    return float(np.average([up, down], weights=weights)) + gained


def promised(side: Counts, wait: float, says: Array | None = None) -> Array:
    """The better of two cautious expectations: `smooth` for what changes gradually, `strong` for what is rare and plain."""
    return np.maximum(smooth(side, wait, says), strong(side, wait))


def strong(side: Counts, wait: float) -> Array:
    """A score bound on both counts, wide enough for the best of hundreds: 3 deviations for common events, 4 for rare ones."""
    total = np.maximum(side.right + side.wrong, 1)
    z = 3 + np.minimum(1, 20 / np.sqrt(total)) + wait
    # z is shared so that the two widths add up to that of the log-ratio.
    up, down = z * np.sqrt(side.right / total), z * np.sqrt(side.wrong / total)
    most = side.wrong + up**2 / 2 + up * np.sqrt(side.wrong + up**2 / 4)
    sure = side.right + down**2 / 2 - down * np.sqrt(side.right + down**2 / 4) - side.delta * side.seen
    good = (sure > 0) & (most > 0)
    return np.where(good, np.log(np.where(good, sure, 1) / np.where(good, most, 1)), -np.inf)


def smooth(side: Counts, wait: float, says: Array | None) -> Array:
    """Each log-ratio is drawn towards a guess that starts from the best of the common events.

    Without calibrated scores the guess is that event's own ratio, good to 20 % per halving of the event; with them it follows
    what the scores say, scaled to be right at that event, and is good to a quarter of how far it goes.
    """
    ratio, variance = side.ratio, side.variance
    common = np.isfinite(ratio) & (side.right + side.wrong >= COMMON * side.seen)
    if not common.any():
        return np.full(len(ratio), -np.inf)
    base = int(np.argmax(np.where(common, ratio - 3 * np.sqrt(variance), -np.inf)))
    halvings = np.abs(np.log2((side.right[base] + side.wrong[base] + 1) / (side.right + side.wrong + 1)))
    guess, doubt = np.full(len(ratio), ratio[base]), (0.2 * ratio[base]) ** 2 * halvings
    if says is not None and says[base] > 0:
        guess = ratio[base] + np.clip(ratio[base] / says[base], 0, 1) * (says - says[base])
        doubt = (0.25 * np.abs(guess - ratio[base])) ** 2 + (0.02 * ratio[base]) ** 2 * halvings
    weight = doubt / (doubt + variance)
    drawn = np.where(weight > 0, weight * np.where(np.isfinite(ratio), ratio, guess), 0) + (1 - weight) * guess
    spread = np.sqrt(weight * variance + (1 - weight) * variance[base])
    return np.where(np.isfinite(ratio), drawn - 3 * spread - wait * np.sqrt(variance), -np.inf)


def implied(scores: Array, edges: Array) -> Array:
    """What log-ratios as scores say of each event {score ≥ edge}: ln of the mean of e^score over the other neighbour in it.

    P(S) = ∫_S (dP/dQ) dQ, so ln P(S)/Q(S) is the logarithm of the mean of the ratio on S under Q.
    """
    ordered = np.sort(scores)[::-1]
    total = np.concatenate([[0.0], np.cumsum(np.exp(np.clip(ordered, -50, 50)))])
    inside = np.searchsorted(-ordered, -edges, side="right")
    return np.asarray(np.log(np.maximum(total[inside], 1e-300) / np.maximum(inside, 1)))
