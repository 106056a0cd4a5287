"""Choose one of a public list by a private score: the exponential mechanism,
permute-and-flip, report noisy max, and the best few.

Scores are read by the rules of `grid` in units of a 2^20th of the sensitivity, so that a
neighbour moves each by at most 2^20 units and every probability is exact. (The rounding
moves a score by less than a millionth of the sensitivity.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from deniable import checks
from deniable.loss import BoundedRange, Loss, Number, Pure, exact
from deniable.mechanism import Error, Random
from deniable.mechanisms import grid, tails
from deniable.mechanisms.choice import Exponentials, draw
from deniable.mechanisms.integer_noise import IntegerNoise, laplace
from deniable.numbers import plain
from deniable.units import Unit

RESOLUTION = 2**20
"""Score units in one sensitivity."""


@dataclass(frozen=True)
class ScoredChoice(ABC):
    """What all choices by a score share: a public list, ε, and how far a unit moves each candidate's
    score."""

    candidates: tuple[Any, ...]
    epsilon: Number
    sensitivity: Number = 1
    monotone: bool = False
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", checks.choices("candidates", self.candidates))
        object.__setattr__(self, "epsilon", checks.number("epsilon", self.epsilon, above=0))
        object.__setattr__(self, "sensitivity", checks.number("sensitivity", self.sensitivity, above=0))
        checks.monotone(self.monotone, checks.unit(self.unit))

    @property
    @abstractmethod
    def loss(self) -> Loss: ...

    @property
    def change(self) -> int:
        """How far two scores may part, in score units: unless all move one way, by twice the sensitivity."""
        return RESOLUTION if self.monotone else 2 * RESOLUTION

    @property
    def rate(self) -> Fraction:
        """The exponent of one score unit: ε/(2·2^20), or ε/2^20 if monotone."""
        return exact(self.epsilon) / self.change

    @property
    def score_unit(self) -> Fraction:
        return exact(self.sensitivity) / RESOLUTION

    def read_scores(self, data: Any) -> grid.Whole:
        # The sensitivity is a whole number of units, so rounding to the grid does not enlarge it.
        return grid.read(data, len(self.candidates), self.score_unit)

    def score_of(self, exponent: float) -> float:
        """The score difference of this exponent; rounding two scores adds at most one unit."""
        return exponent * (1 + 1e-12) * float(self.score_unit / self.rate) + float(self.score_unit)

    def gap(self, beta: Fraction, rounds: int = 1) -> float:
        """The score t below the best that is missed with probability at most beta, by exponential weights in
        each of `rounds` rounds that share ε.

        At worst all n − 1 others lie t below: then they are chosen with probability (n − 1)w/(1 + (n − 1)w),
        w = e^(−rate·t).
        """
        odds = (len(self.candidates) - 1) * float((1 - beta) / beta)
        return self.score_of(rounds * math.log(odds) if odds > 1 else 0.0)


@dataclass(frozen=True)
class Exponential(ScoredChoice):
    """One of `candidates`, with probability ∝ exp(ε·score/(2·sensitivity)), or ∝
    exp(ε·score/sensitivity) if monotone.

    Guarantee: ε-DP, and more: the log-likelihood ratios of two neighbours span at most ε (`BoundedRange`).
               Proof: for candidates i, j the ratio P(i)Q(j)/(P(j)Q(i)) is exp of
                      rate·((sᵢ − s'ᵢ) − (sⱼ − s'ⱼ)). Each
               bracket is within ±sensitivity, and within [0, sensitivity] or [−sensitivity, 0] for both if
               monotone.
    Assumes:   the data are the candidates' scores, each of sensitivity `sensitivity`. `monotone=True`: adding
               a unit moves all scores the same way (counts), and the unit is added or removed, not replaced.
    Error:     the chosen score is below the best by more than ln((n − 1)(1 − β)/β)/rate
               with probability at most β; attained.
    Reference: McSherry, Talwar 2007; range: Durfee, Rogers 2019.

    >>> from deniable.randomness import SeededRandom
    >>> Exponential(("flu", "cold", "measles"), epsilon=1)([10, 300, 2], rng=SeededRandom(1))
    'cold'
    >>> Exponential(("flu", "cold"), epsilon=1).loss
    BoundedRange(epsilon=1)
    """

    @property
    def loss(self) -> BoundedRange:
        return BoundedRange(self.epsilon)

    def error(self, confidence: float = 0.95) -> Error:
        return Error(self.gap(checks.failure(confidence)), float(confidence), measure="score")

    def __call__(self, data: Any, *, rng: Random) -> Any:
        scores = self.read_scores(data)
        return self.candidates[draw(Exponentials(self.rate, scores.max() - scores), rng)]


@dataclass(frozen=True)
class PermuteAndFlip(ScoredChoice):
    """One of `candidates`: in random order, each is taken with probability exp(−rate·(best − score)).

    The rate is ε/(2·sensitivity), or ε/sensitivity if monotone; it is the argmax of
    scores with exponential noise.

    Guarantee: ε-DP for `unit`.
    Assumes:   as `Exponential`.
    Error:     never worse than `Exponential`, and up to twice as good: with w =
               e^(−rate·t) the score is t or more below the best with probability at most
               1 − (1 − (1 − w)ⁿ)/(n·w), attained when all others lie t below.
    Reference: McKenna, Sheldon 2020; Ding, Kifer et al. 2021 (arXiv 2105.07260) for the noise form.

    >>> from deniable.randomness import SeededRandom
    >>> PermuteAndFlip(("flu", "cold", "measles"), epsilon=1)([10, 300, 2], rng=SeededRandom(1))
    'cold'
    """

    @property
    def loss(self) -> Pure:
        return Pure(self.epsilon)

    def error(self, confidence: float = 0.95) -> Error:
        n, beta = len(self.candidates), float(checks.failure(confidence))
        low, high = 0.0, math.log(max(1.0, 2 * n / beta))
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            # `high` stays on the side that holds, with room for the rounding of the tail.
            if _flip_tail(n, math.exp(-middle)) <= beta * (1 - 1e-9):
                high = middle
            else:
                low = middle
        return Error(self.score_of(high), float(confidence), measure="score")

    def __call__(self, data: Any, *, rng: Random) -> Any:
        scores, rate = self.read_scores(data), self.rate
        gaps = (scores.max() - scores).tolist()
        order = rng.permutation(len(gaps)).tolist()
        # The best candidate is taken for sure when it comes, so one of them is.
        return self.candidates[next(i for i in order if gaps[i] == 0 or rng.bernoulli_exp(rate * gaps[i]))]


@dataclass(frozen=True)
class TopK:
    """The best `count` of `candidates` in order: `count` rounds of `Exponential`, each
    without the ones already named.

    Guarantee: ε-DP in all; each round has range ε/count, and accounting composes them.
    Assumes:   as `Exponential`.
    Error:     each named one is within the stated score of the best that was left.
    Reference: Durfee, Rogers 2019 (one draw of Gumbel noise for all, the same distribution as these rounds).

    >>> TopK(("a", "b", "c", "d"), count=2, epsilon=1).loss
    Repeated(times=2, of=BoundedRange(epsilon=Fraction(1, 2)))
    """

    candidates: tuple[Any, ...]
    count: int
    epsilon: Number
    sensitivity: Number = 1
    monotone: bool = False
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        choice = self._choice
        object.__setattr__(self, "candidates", choice.candidates)
        object.__setattr__(self, "epsilon", choice.epsilon)
        object.__setattr__(self, "sensitivity", choice.sensitivity)
        object.__setattr__(self, "count", checks.whole("count", self.count, at_least=1))
        checks.number("count", self.count, below=len(self.candidates) + 1)

    @property
    def loss(self) -> Loss:
        return BoundedRange(plain(exact(self.epsilon) / self.count)) * self.count

    def error(self, confidence: float = 0.95) -> Error:
        beta = checks.failure(confidence) / self.count
        return Error(self._choice.gap(beta, self.count), float(confidence), measure="score")

    def __call__(self, data: Any, *, rng: Random) -> tuple[Any, ...]:
        scores = self._choice.read_scores(data)
        rate, left, winners = self._choice.rate / self.count, np.arange(len(scores)), []
        for _ in range(self.count):
            place = draw(Exponentials(rate, scores[left].max() - scores[left]), rng)
            winners.append(self.candidates[left[place]])
            left = np.delete(left, place)
        return tuple(winners)

    @cached_property
    def _choice(self) -> Exponential:
        """One choice at all of ε."""
        return Exponential(self.candidates, self.epsilon, self.sensitivity, self.monotone, self.unit)


@dataclass(frozen=True)
class NoisyMax(ScoredChoice):
    """One of `candidates`: the argmax of the scores with integer Laplace noise of scale
    2·sensitivity/ε (monotone: half).

    Guarantee: ε-DP for `unit`.
               Proof: fix the noise of all but candidate i, and the order in which ties
                      are broken. Then i wins exactly
               if its noise is at least some integer r. On a neighbour that integer is at most r + 2Δ (its own
               score falls by Δ at most and another rises by Δ; only one of them if monotone), Δ in score
               units. And P(noise ≥ r + 2Δ) ≥ e^(−2Δ/scale)·P(noise ≥ r). Average over what was fixed: it does
               not depend on the data.
    Assumes:   the data are the candidates' scores, each of sensitivity `sensitivity`;
               `monotone` as in `Exponential`. Ties are broken by an order drawn at
               random beforehand; redrawing the noise at a tie would not be private.
    Error:     the chosen score is below the best by at most twice the largest |noise|.
    Reference: Dwork, Roth 2014, §3.3; integers: Ding et al. 2023 (arXiv 2308.08057).

    Only the winner is shown: its noisy score is another release. `PermuteAndFlip` is
    more accurate at the same ε.

    >>> from deniable.randomness import SeededRandom
    >>> NoisyMax(("flu", "cold", "measles"), epsilon=1)([10, 300, 2], rng=SeededRandom(1))
    'cold'
    """

    @property
    def loss(self) -> Pure:
        return Pure(self.epsilon)

    def error(self, confidence: float = 0.95) -> Error:
        beta = tails.per_coordinate(checks.failure(confidence), len(self.candidates))
        within = float((2 * self._noise.within(beta) + 1) * self.score_unit)
        return Error(within, float(confidence), measure="score")

    def __call__(self, data: Any, *, rng: Random) -> Any:
        scores = self.read_scores(data)
        # Ties are broken by a uniform order, not by a candidate's place.
        order = rng.permutation(len(self.candidates))
        noisy = grid.add(scores, self._noise.draw(rng, len(self.candidates)))
        return self.candidates[int(order[np.argmax(noisy[order])])]

    @cached_property
    def _noise(self) -> IntegerNoise:
        return laplace(Fraction(self.change) / exact(self.epsilon), self.change)


def _flip_tail(n: int, w: float) -> float:
    """1 − (1 − (1 − w)ⁿ)/(n·w), the chance that one of n − 1 others of weight w comes
    before the best and is taken."""
    if n * w < 1e-4:
        return n * w / 2  # alternating series: the next term is negative
    if w < 1:
        return 1 + math.expm1(n * math.log1p(-w)) / (n * w)
    return 1 - 1 / n
