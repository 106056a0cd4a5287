"""Local reports that a shuffler mixed before anybody saw them: hiding among the clones.

>>> from deniable.loss import Pure, Shuffled
>>> reports = Shuffled(100_000, Pure(1))
>>> round(closed_form(reports, 1e-6), 3), round(epsilon(reports, 1e-6), 4)
(0.073, 0.0153)

Each other report is, with some probability, as likely to have come from one value of the person in question
as from the other: a clone. Given c clones, the reports reveal no more than the number of "first" answers
among c fair coins and one coin that is "first" with probability e^ε₀/(e^ε₀ + 1) or 1/(e^ε₀ + 1) (Feldman,
McMillan, Talwar 2021, Theorem 3.2). The number of clones among the others is binomial, with probability

- e^−ε₀ for every ε₀-DP report (2021), adaptively chosen ones too;
- 2r for randomized response among k answers, r = (1 − p)/(k − 1): every report is either
  of two given answers with probability r at least, and the person's own report tells
  only if it is one of the two, with probability p + r.

The "stronger clones" 2/(e^ε₀ + 1) of their 2023 paper are not used for reports in general: its authors have
withdrawn that case (errata to arXiv 2208.04591). For two answers it is 2r, proved above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from deniable.accounting.methods.pure import exact_epsilon, share
from deniable.accounting.refusals import guard
from deniable.accounting.rounding import ceil_float, floor_float, round_up
from deniable.errors import Unaccountable
from deniable.loss import Loss, Number, ResponseNoise, Shuffled, exact

Array = NDArray[np.float64]

_BLOCKS = 512
_MOST = 10**12
_HOPELESS = 50.0
_RELATIVE = 1e-8
"""Covers the binomial masses and tails of scipy.stats (Boost), right to 1e-11 at 1e8 trials. More than
`_MOST` reports count as that many; above `_HOPELESS` no number of reports holds a clone."""


@dataclass(frozen=True)
class _Clones:
    """Blocks of equally many clones or more, their masses, and the chance that the
    person's own report tells."""

    counts: Array
    masses: Array
    tells: float
    local: float

    def delta(self, epsilon: float) -> float:
        """δ at `epsilon`, rounded up. More clones hide better, so a block counts as its fewest."""
        if epsilon >= self.local:
            return 0.0
        return (
            self.tells
            * float(np.dot(self.masses, _delta_of_clones(self.counts, self.local, epsilon)))
            * (1 + _RELATIVE)
        )


@guard
def epsilon(loss: Loss, delta: Number) -> float:
    """The least ε known at `delta` for shuffled reports; never above the local ε₀."""
    if not isinstance(loss, Shuffled):
        raise Unaccountable(
            f"Amplification by shuffling is for one Shuffled loss, and this is {loss}. Several are composed "
            "by `optimal`."
        )
    local, target = ceil_float(exact_epsilon(loss.of)), floor_float(share(delta))
    if target == 0 or local == 0 or local > _HOPELESS:
        return local
    return min(local, *(_solve(clones, target) for clones in _known_clones(loss, local)))


@guard
def delta(loss: Shuffled, epsilon: float) -> float:
    """The least δ known at `epsilon` for shuffled reports; 0 from the local ε₀ on, 1
    where no report holds a clone."""
    local = ceil_float(exact_epsilon(loss.of))
    if epsilon >= local:
        return 0.0
    if local > _HOPELESS:
        return 1.0
    return min(1.0, *(round_up(clones.delta(epsilon)) for clones in _known_clones(loss, local)))


@guard
def closed_form(loss: Shuffled, delta: float) -> float:
    """ln(1 + tanh(ε₀/2)·(8√(e^ε₀·ln(4/δ)/n) + 8e^ε₀/n)) where ε₀ ≤ ln(n/(16·ln(4/δ))),
    else ε₀ (2021, Theorem 3.1)."""
    local, n = ceil_float(exact_epsilon(loss.of)), loss.reports
    depth = math.log(4 / delta)
    if local > math.log(n / (16 * depth)):
        return local
    gain = 8 * math.sqrt(math.exp(local) * depth / n) + 8 * math.exp(local) / n
    return min(local, round_up(math.log1p(math.tanh(local / 2) * gain)))


def _known_clones(loss: Shuffled, local: float) -> list[_Clones]:
    candidates = [_clones(loss.reports - 1, math.exp(-local), 1.0, local)]
    if isinstance(loss.of, ResponseNoise):
        truth = exact(loss.of.truth)
        lie = (1 - truth) / (loss.of.options - 1)
        candidates.append(_clones(loss.reports - 1, floor_float(2 * lie), ceil_float(truth + lie), local))
    return candidates


def _clones(reports: int, chance: float, tells: float, local: float) -> _Clones:
    """At most `_BLOCKS` blocks around the mean; counts below the first count as no clone
    at all, those above as the last."""
    from scipy.stats import binom  # half a second that only this method pays

    reports, chance = min(reports, _MOST), chance * (1 - 1e-15)
    mean, deviation = reports * chance, math.sqrt(reports * chance * (1 - chance))
    low, high = max(0.0, mean - 14 * deviation - 20), min(float(reports), mean + 9 * deviation + 20)
    counts = np.unique(np.concatenate([[0.0], np.floor(np.linspace(low, high, _BLOCKS))]))
    below = np.concatenate([[0.0], binom.cdf(counts[1:] - 1, reports, chance)])
    above = 1.0
    if counts[-1] > 0:
        above = float(binom.sf(counts[-1] - 1, reports, chance))
    masses = np.append(np.maximum(np.diff(below), 0.0), above)
    return _Clones(counts, masses, tells, local)


def _delta_of_clones(counts: Array, local: float, epsilon: float) -> Array:
    """δ given c clones: the best set of outcomes is {a ≥ t} for a = number of "first" answers among c + 1.

    With α = e^ε₀/(e^ε₀ + 1) it is P(Bin = t−1)·(α − e^ε(1−α)) − (e^ε − 1)·P(Bin ≥ t) for Bin(c, ½); the
    likelihood ratio passes e^ε where a > β(c + 1).
    """
    from scipy.stats import binom

    share_up = -math.expm1(epsilon - local) / (1 + math.exp(-local))
    beta = (math.exp(epsilon) - math.exp(-local)) / (-math.expm1(-local) * (1 + math.exp(epsilon)))
    t = np.floor((counts + 1) * beta) + 1
    hit = t - 1 <= counts
    mass, tail = binom.pmf(t - 1, counts, 0.5), binom.sf(t - 1, counts, 0.5)
    value = mass * share_up * (1 + _RELATIVE) - math.expm1(epsilon) * tail * (1 - _RELATIVE)
    return np.where(hit, np.maximum(value, 0.0), 0.0)


def _solve(clones: _Clones, target: float) -> float:
    """The least ε with δ ≤ target: a root of ln(δ/target), moved up until it is one."""

    def excess(epsilon: float) -> float:
        return math.log(max(clones.delta(epsilon) / target, 1e-30))

    if excess(0.0) <= 0:
        return 0.0
    root: float = brentq(excess, 0.0, clones.local, xtol=1e-9 * clones.local, rtol=1e-9)
    while clones.delta(root) > target:
        root = min(clones.local, root * (1 + 1e-9) + 1e-10 * clones.local)
    return round_up(root)
