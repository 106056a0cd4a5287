"""Which outputs to guess from: thresholds on a score, chosen so that what is certified later comes out large.

Nothing here matters for validity: a rule is fixed before the samples that certify it are
drawn. What it must not do is to follow luck: among hundreds of thresholds the best count
is too good to be true, most of all for rare events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from deniable.audit.statistics import SPARE

Array = NDArray[np.float64]
COMMON = 0.02
"""Events of at least this share are counted well enough to lean on."""
LUCK = 3.0
"""How many deviations of the choosing samples an event must give up, being the best of many."""
HOPE = 1.0
"""The same for events that were chosen, when attacks are compared: they are few, and the
rare one must not always lose."""
DOUBT = 2.0
"""The same where they will not meet again on fresh samples."""


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

    def count_pairs(self, first: Array, second: Array) -> tuple[int, int, int]:
        """Pairs of scores that meet the one set of a one-sided rule: on the side guessed
        only, on the other only, on both."""
        right, wrong = (first >= self.high, second >= self.high)
        if self.high == math.inf:
            right, wrong = (second < self.low, first < self.low)
        both = np.count_nonzero(right & wrong)
        return int(np.count_nonzero(right) - both), int(np.count_nonzero(wrong) - both), int(both)


NO_GUESS = Rule(math.inf, -math.inf)
"""What is left where the choosing samples show nothing: a rule that abstains cannot raise a false alarm."""
SHOWN = 1.5
"""How many deviations above chance the chosen event must lie on the choosing samples;
the best of many on a null lies near it."""


def candidates(scores: Array, limit: int = 160) -> Array:
    """Thresholds worth trying: all distinct scores if they are few, else quantiles that
    are dense in both tails."""
    distinct = np.unique(scores[: 1 << 14])
    if len(distinct) <= limit // 2:
        distinct = np.unique(scores)
    if len(distinct) <= limit:
        return distinct
    tail = np.geomspace(2e-6, 0.04, limit // 4)
    at = np.concatenate([tail, np.linspace(0.04, 0.96, limit // 2), 1 - tail])
    return np.unique(np.quantile(scores[:: max(1, len(scores) // 500_000)], at))


@dataclass(frozen=True)
class Counts:
    """Guesses of one side at every threshold, among `trials`, at a share `delta` that is forgiven.

    `agreements`, for coupled runs: the pairs whose two outputs met the event, one guess of
    which is right and one wrong.
    """

    right: Array
    misses: Array
    trials: int
    delta: float
    agreements: Array | None = None

    @property
    def net(self) -> Array:
        return self.right + 0.5 - self.delta * self.trials

    @property
    def ratio(self) -> Array:
        """ln((right − δ·seen)/wrong), −∞ where δ forgives everything."""
        return np.where(self.net > 0, np.log(np.maximum(self.net, 1e-9) / (self.misses + 0.5)), -np.inf)

    @property
    def variance(self) -> Array:
        """The variance of the ratio. What both runs of a pair share moves both counts alike and cancels."""
        if self.agreements is not None:
            a, b = self.right + 0.5, self.misses + 0.5
            alone = (self.right - self.agreements + 0.5) / a**2 + (self.misses - self.agreements + 0.5) / b**2
            return np.asarray(alone + self.agreements * (1 / a - 1 / b) ** 2)
        return np.asarray((self.right + 0.5) / np.maximum(self.net, 1e-9) ** 2 + 1 / (self.misses + 0.5))

    @classmethod
    def from_rule(
        cls, right: float, misses: float, trials: int, delta: float, agreements: float | None = None
    ) -> Counts:
        """Those of one rule."""
        return cls(
            np.array([right]),
            np.array([misses]),
            trials,
            delta,
            None if agreements is None else np.array([agreements]),
        )

    def select(self, i: int) -> Counts:
        both = None if self.agreements is None else self.agreements[i : i + 1]
        return Counts(self.right[i : i + 1], self.misses[i : i + 1], self.trials, self.delta, both)

    def __add__(self, counts: Counts) -> Counts:
        return Counts(
            self.right + counts.right, self.misses + counts.misses, self.trials, self.delta + counts.delta
        )


def choose(
    first: Array, second: Array, *, delta: float, alpha: float, trials: int, is_calibrated: bool = False
) -> tuple[Rule, float]:
    """The rule whose certified bound after `trials` fresh guesses is expected to be
    largest, and that expectation.

    Each side is chosen by itself, then both together compete with either alone. `is_calibrated` scores are
    log-ratios themselves, up to a factor, and say what to expect of rare events.
    """
    edges = candidates(np.concatenate([first, second]))
    low_first, low_second = (
        np.searchsorted(np.sort(s), edges, side="left").astype(np.float64) for s in (first, second)
    )
    total, wait = (
        len(first) + len(second),
        norm.ppf(1 - alpha) * math.sqrt((len(first) + len(second)) / trials),
    )
    upper = Counts(len(first) - low_first, len(second) - low_second, total, delta / 2)
    lower = Counts(low_second, low_first, total, delta / 2)
    model_ratios = (
        (implied_ratios(second, edges), implied_ratios(-first, -edges)) if is_calibrated else (None, None)
    )
    worth = [
        promise_bounds(side, wait, says) for side, says in zip((upper, lower), model_ratios, strict=True)
    ]
    high, low = (int(np.argmax(w)) for w in worth)
    rules = [(float(worth[0][high]), Rule(float(edges[high]), -math.inf))]
    rules.append((float(worth[1][low]), Rule(math.inf, float(edges[low]))))
    if high >= low:
        both = _joint_promise(
            upper.select(high), lower.select(low), float(worth[0][high]), float(worth[1][low]), wait
        )
        rules.append((both, Rule(float(edges[high]), float(edges[low]))))
    best, rule = max(rules, key=lambda choice: choice[0])
    right, wrong = rule.count(first, second)
    if _is_evident(right - delta * total * rule.sides / 2, wrong):
        return rule, best
    # What δ forgives is seen all the same: guessing it shows that there was something to see.
    fallback = Rule(float(edges[int(np.argmax(upper.right - upper.misses))]), -math.inf)
    return (fallback if delta and _is_evident(*fallback.count(first, second)) else NO_GUESS), 0.0


def _is_evident(right: float, misses: float) -> bool:
    return right - misses > SHOWN * math.sqrt(max(right, 0) + misses)


def choose_coupled(
    first: Array, second: Array, *, alpha: float, pairs: int, is_calibrated: bool = False
) -> tuple[Rule, float]:
    """The one-sided rule whose bound after `pairs` fresh coupled pairs is expected to be
    largest, and that expectation.

    Scores are row for row from the same random numbers.
    """
    edges = candidates(np.concatenate([first, second]))
    places = [np.searchsorted(edges, s, side="right") for s in (first, second)]

    def count_below(place: NDArray[np.intp]) -> Array:
        """How many of these scores lie below each edge."""
        return np.cumsum(np.bincount(place, minlength=len(edges) + 1))[:-1].astype(np.float64)

    below_first, other = (count_below(place) for place in places)
    n, either, neither = len(first), count_below(np.minimum(*places)), count_below(np.maximum(*places))
    sides = (
        Counts(n - below_first, n - other, 2 * n, 0.0, n - either),
        Counts(other, below_first, 2 * n, 0.0, neither),
    )
    model_ratios = (
        (implied_ratios(second, edges), implied_ratios(-first, -edges)) if is_calibrated else (None, None)
    )
    scale = math.sqrt(n / pairs)
    worth = []
    for side, says in zip(sides, model_ratios, strict=True):
        estimate = smooth(side, scale * float(norm.ppf(1 - alpha)), says)
        worth.append(np.maximum(estimate, _coupled_bound(side, alpha, scale, LUCK)))
    high, low = (int(np.argmax(w)) for w in worth)
    up, down = (
        float(_coupled_bound(s.select(i), alpha, scale, HOPE)[0])
        for s, i in zip(sides, (high, low), strict=True)
    )
    rule = Rule(float(edges[high]), -math.inf) if up >= down else Rule(math.inf, float(edges[low]))
    only_right, only_wrong, _ = rule.count_pairs(first, second)
    return (rule, max(up, down)) if _is_evident(only_right, only_wrong) else (NO_GUESS, 0.0)


def _coupled_bound(side: Counts, alpha: float, scale: float, luck: float) -> Array:
    """What to expect of `statistics.from_pairs`: score intervals for both shares, `luck` deviations
    wider."""
    both = side.agreements if side.agreements is not None else np.zeros(len(side.right))
    hits = np.maximum(side.right + side.misses - both, 1e-9)
    sure = _score_bound(
        (side.right - both) / hits, hits, -(luck + scale * float(norm.ppf(1 - (1 - SPARE) * alpha)))
    )
    most = _score_bound((side.misses - both) / hits, hits, luck + scale * float(norm.ppf(1 - SPARE * alpha)))
    return np.asarray(np.log1p(-np.minimum(most, 1 - 1e-12)) - np.log1p(-np.minimum(sure, 1 - 1e-12)))


def _score_bound(share: Array, trials: Array, z: float) -> Array:
    """Wilson's bound on a share, upper for z > 0 and lower for z < 0."""
    middle = share + z * z / (2 * trials)
    spread = np.sqrt(np.maximum(share * (1 - share) / trials + z * z / (4 * trials * trials), 0))
    return np.asarray((middle + z * spread) / (1 + z * z / trials))


def _joint_promise(
    upper: Counts, lower: Counts, upper_promise: float, lower_promise: float, wait: float
) -> float:
    """What both sides promise as one rule: their mean, weighted by guesses, and what one
    narrower interval gains."""
    weights = [float(side.right[0] + side.misses[0]) + 1 for side in (upper, lower)]
    alone = np.average([float(np.sqrt(side.variance[0])) for side in (upper, lower)], weights=weights)
    gain = wait * (float(alone) - float(np.sqrt((upper + lower).variance[0])))
    return float(np.average([upper_promise, lower_promise], weights=weights)) + gain


def promise_bounds(side: Counts, wait: float, says: Array | None = None) -> Array:
    """The better of two cautious expectations: `smooth` for what changes gradually,
    `strong` for what is rare and plain."""
    return np.maximum(smooth(side, wait, says), strong(side, wait))


def expect_bound(side: Counts, alpha: float, scale: float, luck: float = HOPE) -> float:
    """The bound to expect of a fixed rule, `luck` deviations below what its counts so far say.

    `scale`² is the number of samples that they stand on over that of those to come. With `agreements` it is
    the bound of coupled pairs, else that of a fair coin's guesses: one measure for attacks of either kind.
    """
    if side.agreements is not None:
        return float(_coupled_bound(side, alpha, scale, luck)[0])
    return float(_score_ratio(side, luck + scale * float(norm.ppf(1 - alpha)))[0])


def strong(side: Counts, wait: float) -> Array:
    """A score bound on both counts, wide enough for the best of hundreds: 3 deviations
    for common events, 4 for rare ones."""
    return _score_ratio(side, 3 + np.minimum(1, 20 / np.sqrt(np.maximum(side.right + side.misses, 1))) + wait)


def _score_ratio(side: Counts, z: Array | float) -> Array:
    """ln of a lower bound on the right count over an upper one on the wrong, z deviations off together."""
    total = np.maximum(side.right + side.misses, 1)
    # z is shared so that the two widths add up to that of the log-ratio.
    up, down = z * np.sqrt(side.right / total), z * np.sqrt(side.misses / total)
    most = side.misses + up**2 / 2 + up * np.sqrt(side.misses + up**2 / 4)
    sure = side.right + down**2 / 2 - down * np.sqrt(side.right + down**2 / 4) - side.delta * side.trials
    good = (sure > 0) & (most > 0)
    return np.where(good, np.log(np.where(good, sure, 1) / np.where(good, most, 1)), -np.inf)


def smooth(side: Counts, wait: float, says: Array | None) -> Array:
    """Each log-ratio is drawn towards a guess that starts from the best of the common events.

    Without calibrated scores the guess is that event's own ratio, good to 20 % per
    halving of the event; with them it follows what the scores say, scaled to be right at
    that event, and is good to a quarter of how far it goes.
    """
    ratio, variance = side.ratio, side.variance
    common = np.isfinite(ratio) & (side.right + side.misses >= COMMON * side.trials)
    if not common.any():
        return np.full(len(ratio), -np.inf)
    base = int(np.argmax(np.where(common, ratio - 3 * np.sqrt(variance), -np.inf)))
    halvings = np.abs(np.log2((side.right[base] + side.misses[base] + 1) / (side.right + side.misses + 1)))
    guess, doubt = np.full(len(ratio), ratio[base]), (0.2 * ratio[base]) ** 2 * halvings
    if says is not None and says[base] > 0:
        guess = ratio[base] + np.clip(ratio[base] / says[base], 0, 1) * (says - says[base])
        doubt = (0.25 * np.abs(guess - ratio[base])) ** 2 + (0.02 * ratio[base]) ** 2 * halvings
    weight = doubt / (doubt + variance)
    estimate = (
        np.where(weight > 0, weight * np.where(np.isfinite(ratio), ratio, guess), 0) + (1 - weight) * guess
    )
    spread = np.sqrt(weight * variance + (1 - weight) * variance[base])
    return np.where(np.isfinite(ratio), estimate - 3 * spread - wait * np.sqrt(variance), -np.inf)


def implied_ratios(scores: Array, edges: Array) -> Array:
    """What log-ratios as scores say of each event {score ≥ edge}: ln of the mean of
    e^score over the other neighbour in it.

    P(S) = ∫_S (dP/dQ) dQ, so ln P(S)/Q(S) is the logarithm of the mean of the ratio on S under Q.
    """
    ranking = np.sort(scores)[::-1]
    total = np.concatenate([[0.0], np.cumsum(np.exp(np.clip(ranking, -50, 50)))])
    inside = np.searchsorted(-ranking, -edges, side="right")
    return np.asarray(np.log(np.maximum(total[inside], 1e-300) / np.maximum(inside, 1)))
