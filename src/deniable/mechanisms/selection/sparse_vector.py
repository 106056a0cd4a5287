"""Sparse vector: which of many questions pass a threshold, paid for only by those that do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable import checks
from deniable.errors import InvalidQuery
from deniable.loss import Composed, Loss, Number, Pure, exact
from deniable.mechanism import Error, Random
from deniable.mechanisms import grid, tails
from deniable.mechanisms.integer_noise import laplace
from deniable.mechanisms.selection.exponential import RESOLUTION
from deniable.numbers import plain
from deniable.process import Conversing
from deniable.units import Unit


@dataclass(frozen=True)
class SparseVector:
    """A conversation of yes or no: does the answer to this question reach `threshold`?
    It ends after `runs` times yes.

    A chain of above-threshold runs. Each draws noise ρ for the threshold once, and noise
    ν for every question, and says yes when answer + ν ≥ threshold + ρ; a yes ends the
    run, and the next begins with fresh ρ.

    Guarantee: ε-DP in all for `unit`, ε/runs for each run, however many times it says no. With s =
               `sensitivity`, ρ has the scale s/ε₁ and ν the scale 2s/ε₂ (s/ε₂ if monotone), where ε₁ + ε₂ =
               ε/runs. Proof for one run, in integer units: let the answers be no, …, no, yes, and fix ν of
               the questions before the last. Move to the neighbour, ρ to ρ + s and the last ν to ν + 2s:
               every no stays a no, since answers rise by s at most, and the yes a yes, since its own falls by
               s at most. The shift is one-to-one and costs ε₁ + ε₂. If all answers rise, ν + s is enough; if
               all fall, ν + s with ρ left alone: so monotone needs half the scale of ν.
    Assumes:   each question has sensitivity `sensitivity` as read by the rules of `grid`; `monotone=True`:
               when a unit is added all answers rise or stay (counts).
    Reference: Dwork, Roth 2014, Algorithm 1; Lyu, Su, Li 2017, of whose six variants from the literature four
               do not keep the ε they state (they reuse ρ, give ν no noise, or never stop).

    A question is a function of the data. If it fails on them its answer is 0: a failure would be a release.

    >>> SparseVector(threshold=100, epsilon=1, runs=2).loss
    Repeated(times=2, of=Pure(epsilon=Fraction(1, 2)))
    """

    threshold: Number
    epsilon: Number
    runs: int = 1
    sensitivity: Number = 1
    monotone: bool = False
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", checks.number("threshold", self.threshold))
        object.__setattr__(self, "epsilon", checks.number("epsilon", self.epsilon, above=0))
        object.__setattr__(self, "runs", checks.whole("runs", self.runs, at_least=1))
        object.__setattr__(self, "sensitivity", checks.number("sensitivity", self.sensitivity, above=0))
        checks.monotone(self.monotone, checks.unit(self.unit))

    @property
    def loss(self) -> Loss:
        return self.run_loss * self.runs

    @property
    def run_loss(self) -> Pure:
        """The loss of one run."""
        return Pure(plain(exact(self.epsilon) / self.runs))

    def error(self, questions: int, confidence: float = 0.95) -> Error:
        """How far below the threshold a yes, and above it a no, may lie among all of `questions`.

        Half of the failure goes to the thresholds' noise, half to the questions'.
        """
        beta, n = checks.failure(confidence) / 2, checks.whole("questions", questions, at_least=1)
        of_threshold = _largest(self.threshold_scale, beta, self.runs)
        of_questions = _largest(self.question_scale, beta, n)
        return Error(
            float((of_threshold + of_questions + 1) * self._grid), float(confidence), measure="threshold"
        )

    def open(self, data: Any, *, rng: Random) -> Runs:
        return Runs(self, data, rng)

    @property
    def threshold_scale(self) -> Fraction:
        """The scale of ρ in score units: two fifths of a run's ε (monotone: half), near
        the best ratio 1 : 2^⅔ (1 : 1)."""
        share = Fraction(1, 2) if self.monotone else Fraction(2, 5)
        return RESOLUTION / (exact(self.run_loss.epsilon) * share)

    @property
    def question_scale(self) -> Fraction:
        """The scale of ν in score units, from the rest of a run's ε."""
        rest = exact(self.run_loss.epsilon) - RESOLUTION / self.threshold_scale
        # Unless all move one way, question and threshold may move against one another.
        return (1 if self.monotone else 2) * RESOLUTION / rest

    @property
    def _grid(self) -> Fraction:
        return exact(self.sensitivity) / RESOLUTION


class Runs(Conversing):
    """An open `SparseVector`. `ask` a function of the data; the answer is whether it passed."""

    def __init__(self, mechanism: SparseVector, data: Any, rng: Random) -> None:
        self._mechanism, self._data, self._rng = mechanism, data, rng
        self._grid = mechanism._grid
        self._threshold_noise, self._question_noise = (
            laplace(mechanism.threshold_scale),
            laplace(mechanism.question_scale),
        )
        self._yes_count = 0
        self._threshold: int | None = None

    def ask(self, question: Callable[[Any], Any]) -> bool:
        """Whether the question's answer, with noise, reaches the threshold, with noise."""
        self.stay()
        m = self._mechanism
        if not callable(question):
            raise InvalidQuery(
                f"Expected a function of the data, got {type(question).__name__}. Nothing was asked."
            )
        if self._yes_count == m.runs:
            raise InvalidQuery(
                f"This conversation has said yes {m.runs} times and is over. Open another one."
            )
        if self._threshold is None:
            # Each run has a threshold of its own noise: a yes ends what the last one may protect.
            self._threshold = self._units(m.threshold) + self._threshold_noise.draw(self._rng)
        answer = self._units(_answer(question, self._data))
        is_above = answer + self._question_noise.draw(self._rng) >= self._threshold
        if is_above:
            self._yes_count, self._threshold = self._yes_count + 1, None
        return is_above

    def _units(self, value: Any) -> int:
        return int(grid.read([value], 1, self._grid)[0])

    @property
    def used(self) -> Loss:
        """The runs that said yes, and the one begun, each in full: known from the answers alone."""
        begun = self._yes_count + (self._threshold is not None)
        if begun:
            return self._mechanism.run_loss * begun
        return Composed(())


def _answer(question: Callable[[Any], Any], data: Any) -> Any:
    try:
        return question(data)
    except Exception:  # what only data can show never raises
        return 0


def _largest(scale: Fraction, beta: Fraction, n: int) -> int:
    """What n noises all stay within, with probability 1 − beta."""
    return laplace(scale).within(tails.per_coordinate(beta, n))
