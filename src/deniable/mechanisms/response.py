"""Randomized response: each person answers with the truth or, by a coin, with something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.accounting import proportion
from deniable.errors import InvalidParameter
from deniable.loss import Number, ResponseNoise, exact
from deniable.mechanism import Random
from deniable.randomness.certified import exp_bounds
from deniable.units import Unit


@dataclass(frozen=True)
class Share:
    """An estimated share: unbiased `value`, an unbiased estimate of its `variance`, and
    an interval of the confidence asked."""

    value: float
    variance: float
    low: float
    high: float


@dataclass(frozen=True)
class RandomizedResponse:
    """Report the true one of `options` with probability `truth`, else one of the others uniformly.

    Guarantee: ε = ln(truth·(k − 1)/(1 − truth)) for each value, k options; attained.
    Assumes:   one value from each person. A value that is none of the options (a NaN, say) is answered
               uniformly at random, which is as private: 1/k lies between the two probabilities.
    Error:     of an estimated share: see `variance` and `estimate`.
    Reference: Warner 1965; k options: Kairouz, Oh, Viswanath 2014.

    The data are one value, or a list of one value per person, of which each is reported on its own.

    >>> survey = RandomizedResponse.coins()  # heads: the truth; tails: what a second coin says
    >>> survey.truth, survey.posterior(0.02)
    (Fraction(3, 4), 0.057692307692307696)
    """

    truth: Number = Fraction(3, 4)
    options: tuple[Any, ...] = (False, True)
    unit: Unit = Unit.value()

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", checks.choices("options", self.options, at_least=2))
        object.__setattr__(self, "truth", checks.number("truth", self.truth, above=0, below=1))
        if not checks.unit(self.unit).replace:
            raise InvalidParameter(
                f'Expected a unit that is replaced, got "{self.unit}": a report shows that there was one.'
            )
        if exact(self.truth) * len(self.options) <= 1:
            raise InvalidParameter(
                f"Expected truth={self.truth} in (1/{len(self.options)}, 1): at or below it a report says "
                "nothing true."
            )

    @classmethod
    def coins(
        cls, heads: Number = Fraction(1, 2), options: tuple[Any, ...] = (False, True)
    ) -> RandomizedResponse:
        """The survey: with probability `heads` the truth, else one of all the options,
        the true one too, uniformly."""
        coin = exact(checks.number("heads", heads, above=0, below=1))
        return cls(coin + (1 - coin) / len(checks.choices("options", options, at_least=2)), options)

    @classmethod
    def for_budget(cls, epsilon: Number, options: tuple[Any, ...] = (False, True)) -> RandomizedResponse:
        """The most truth that is ε-DP: 1/(1 + (k − 1)e^(−ε)), rounded down to a multiple of 2^-60."""
        eps, k = (
            exact(checks.number("epsilon", epsilon, above=0)),
            len(checks.choices("options", options, at_least=2)),
        )
        # e^(−ε) is rounded up and the quotient down: both leave less truth than ε allows, never more.
        most = exp_bounds(eps, 120)[1]
        return cls(Fraction((1 << 180) // ((1 << 120) + (k - 1) * most), 1 << 60), options)

    @property
    def loss(self) -> ResponseNoise:
        return ResponseNoise(self.truth, len(self.options))

    def error(self, confidence: float = 0.95) -> None:
        """Not known for one report; for a share of many see `variance`."""
        checks.failure(confidence)

    def __call__(self, data: Any, *, rng: Random) -> Any:
        several = isinstance(data, list | np.ndarray) or (isinstance(data, tuple) and self._index(data) < 0)
        values = [*data] if several else [data]
        indices = np.array([self._index(value) for value in values], np.int64)
        reports = [self.options[i] for i in self._report(indices, rng)]
        if several:
            return reports
        return reports[0]

    def _report(self, indices: NDArray[np.int64], rng: Random) -> NDArray[np.int64]:
        """Each index as it is reported: the same work whatever it is, a lie being 1 to k − 1 further
        round."""
        n, k = len(indices), len(self.options)
        # All three are drawn whatever the value is, so the time of a report says nothing of it.
        honest, further, anything = (
            rng.bernoulli(self.truth, n),
            rng.uniform_integers(k - 1, n),
            rng.uniform_integers(k, n),
        )
        return np.where(indices < 0, anything, np.where(honest, indices, (indices + 1 + further) % k))

    def _index(self, value: Any) -> int:
        """The place of `value` among the options, −1 if it is none of them."""
        try:
            return self.options.index(value)
        except Exception:  # not there, or not even comparable
            return -1

    # ------------------------------------------------------------------------------------------ what it tells

    @property
    def lie(self) -> Fraction:
        """The probability of each untrue answer."""
        return (1 - exact(self.truth)) / (len(self.options) - 1)

    def posterior(self, prior: Number) -> float:
        """How likely the reported value is the true one, if it was `prior` before.

        Fair coins take a prior of 0.02 to 0.058.
        """
        p = exact(checks.number("prior", prior, at_least=0, below=1))
        joint = p * exact(self.truth)
        return float(joint / (joint + (1 - p) * self.lie))

    def variance(self, share: Number, reports: int) -> float:
        """Of the estimate of `share` from this many reports: λ(1 − λ)/(n·(truth −
        lie)²), λ the share of reports.

        At least 4 times that of truthful answers for fair coins, and falling as 1/n.
        """
        p = exact(checks.number("share", share, at_least=0))
        n, gain = checks.whole("reports", reports, at_least=1), exact(self.truth) - self.lie
        rate = self.lie + p * gain
        return float(rate * (1 - rate) / (n * gain**2))

    def estimate(self, reports: Iterable[Any], confidence: float = 0.95) -> dict[Any, Share]:
        """Unbiased shares of all options from the reports, each with its variance and interval.

        An interval is that of Clopper and Pearson for the share of reports, carried over: each alone covers
        with at least this confidence when the people are a random sample. Shares may lie outside [0, 1];
        clipping them would bias them.
        """
        beta, tallies = float(checks.failure(confidence)), Counter(reports)
        n = sum(tallies[option] for option in self.options)
        if n < 2:
            raise InvalidParameter(f"Expected at least 2 reports among the options, got {n}.")
        return {option: self._share(tallies[option], n, beta) for option in self.options}

    def _share(self, count: int, n: int, beta: float) -> Share:
        lie, gain = float(self.lie), float(exact(self.truth) - self.lie)
        low, high = proportion.interval(count, n, beta)
        share = count / n
        bounds = (max(0.0, (low - lie) / gain), min(1.0, (high - lie) / gain))
        return Share(
            (share - lie) / gain,
            share * (1 - share) / ((n - 1) * gain**2),
            min(bounds[0], 1.0),
            max(bounds[1], 0.0),
        )
