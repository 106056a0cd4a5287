"""Tuning that is counted: the best of a random number of private runs, with the whole search in its loss.

Trying twenty settings and showing the best costs more than the one that is shown. With a
random number of runs it costs little more than a few of them (Liu, Talwar 2019;
Papernot, Steinke 2022); with a fixed number it may cost them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from deniable import checks
from deniable.errors import InvalidParameter, UnitMismatch
from deniable.loss import NegativeBinomialRuns, PoissonRuns, Selected, exact
from deniable.mechanism import Mechanism, Random, fitting
from deniable.units import Unit

Value = TypeVar("Value")

_BLOCK = 64
_TIE = 1 << 62


@dataclass(frozen=True)
class Chosen(Generic[Value]):
    """The best run: what it released, which candidate it was (its place in the list), and its score."""

    value: Value
    candidate: int
    score: float


@dataclass(frozen=True)
class Selection(Generic[Value]):
    """Run candidates drawn at random, a random number of times, and show the best run only.

    Guarantee: `Selected(loss of one run, runs)` for the candidates' unit. A run draws one of the candidates
               uniformly; as all have one loss, their mixture has it too (every divergence of a mixture over a
               public draw is at most the largest). The score is a function of what the run releases.
    Assumes:   `score` looks at a candidate's output and public data alone; the
               candidates were listed without the data. How long the search takes is not
               hidden: it tells the number of runs, and they say little about the data.
    Error:     not known.
    Reference: Papernot, Steinke 2022, Theorems 2 and 6. The number of runs is drawn exactly as stated.

    A score that is no number counts as −∞; equal scores are ordered at random. With `PoissonRuns` there may
    be no run at all, and the value is None. `runs` is negative binomial with −1 < η ≤ 1 (η = 1: geometric; η
    = 0: logarithmic) or Poisson.

    >>> from deniable.mechanisms import Laplace
    >>> runs = NegativeBinomialRuns(1, 0.1)
    >>> Selection((Laplace(2), Laplace(2, unit=Unit.row())), score=float, runs=runs).loss
    Selected(of=DiscreteLaplaceNoise(scale=2, sensitivity=1), runs=NegativeBinomialRuns(eta=1, gamma=0.1))
    """

    candidates: tuple[Mechanism[Value], ...]
    score: Callable[[Value], float]
    runs: NegativeBinomialRuns | PoissonRuns

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", checks.listed("candidates", self.candidates))
        if not callable(self.score):
            raise InvalidParameter(f"Expected score={self.score!r} to be a function of a candidate's output.")
        _check_runs(self.runs)
        units = sorted({str(each.unit) for each in self.candidates})
        if len(units) != 1:
            raise UnitMismatch(f"Expected candidates of one unit, got {len(units)}: {', '.join(units)}.")
        if any(each.loss != self.candidates[0].loss for each in self.candidates):
            raise InvalidParameter(
                "Expected candidates of one loss: which of them runs is drawn at random, and the cost of the "
                "search is stated for that loss. Give each of them the noise that the same budget asks for."
            )

    @property
    def loss(self) -> Selected:
        return Selected(self.candidates[0].loss, self.runs)

    @property
    def unit(self) -> Unit:
        return self.candidates[0].unit

    def error(self, confidence: float = 0.95) -> None:
        return None

    def fits(self, data: Any) -> None:
        fitting(self.candidates, data)

    def __call__(self, data: Any, *, rng: Random) -> Chosen[Value] | None:
        best: tuple[float, int] | None = None
        winner: Chosen[Value] | None = None
        for _ in range(draw_runs(self.runs, rng)):
            place = rng.uniform_integers(len(self.candidates))
            value = self.candidates[place](data, rng=rng)
            rank = (_score(self.score, value), rng.uniform_integers(_TIE))
            if best is None or rank > best:
                best, winner = rank, Chosen(value, place, rank[0])
        return winner


def draw_runs(runs: NegativeBinomialRuns | PoissonRuns, rng: Random) -> int:
    """How many runs, exactly distributed as stated: only coins of rational probability are thrown.

    >>> from deniable.randomness import SeededRandom
    >>> [draw_runs(NegativeBinomialRuns(eta=1, gamma=0.25), SeededRandom(seed)) for seed in range(6)]
    [1, 4, 4, 1, 4, 3]
    """
    _check_runs(runs)
    if isinstance(runs, PoissonRuns):
        return _poisson(exact(runs.mean), rng)
    return _negative_binomial(exact(runs.eta), exact(runs.gamma), rng)


def _negative_binomial(eta: Fraction, gamma: Fraction, rng: Random) -> int:
    """P(k) ∝ (1 − γ)^k·Π_{0≤l<k} (l + η)/(l + 1), k ≥ 1 (Definition 1): a geometric number, kept with
    probability Π_{1≤l<k} (l + η)/(l + 1), which is at most 1 for η ≤ 1 and tends to 1/k as η → 0."""
    while True:
        k = 1 + _failures(gamma, rng)
        if all(rng.bernoulli((l + eta) / (l + 1)) for l in range(1, k)):
            return k


def _failures(p: Fraction, rng: Random) -> int:
    """How often a coin of probability p fails before its first success."""
    count = 0
    while True:
        block = rng.bernoulli(p, _BLOCK)
        if block.any():
            return count + int(block.argmax())
        count += _BLOCK


def _poisson(mean: Fraction, rng: Random) -> int:
    """A sum of Poisson numbers of mean m ≤ ½ each. One of them: k with P(k) = 2^−(k+1), kept with probability
    (2m)^k/k!, which is at most 1; what is kept has P(k) ∝ m^k/k!."""
    pieces = math.ceil(2 * mean)
    return sum(_small_poisson(mean / pieces, rng) for _ in range(pieces))


def _small_poisson(mean: Fraction, rng: Random) -> int:
    while True:
        k = _failures(Fraction(1, 2), rng)
        if rng.bernoulli((2 * mean) ** k / math.factorial(k)):
            return k


def _score(score: Callable[[Value], float], value: Value) -> float:
    """The score as a number that can be compared; what fails or is none counts as the worst."""
    try:
        number = float(score(value))
    except Exception:  # a score that fails on some outputs must not tell which
        return -math.inf
    return -math.inf if math.isnan(number) else number


def _check_runs(runs: Any) -> None:
    if not isinstance(runs, NegativeBinomialRuns | PoissonRuns):
        raise InvalidParameter(
            f"Expected runs={runs!r} to be NegativeBinomialRuns or PoissonRuns: a number drawn at random."
        )
    if isinstance(runs, NegativeBinomialRuns) and runs.eta > 1:
        raise InvalidParameter(
            f"Expected eta={runs.eta} in (−1, 1]: a larger one costs more and is not drawn here."
        )
