"""Aggregators: conversations that sell labels of public examples, each the winner of a
             noisy vote among the teachers.

One unit of privacy touches one teacher (`teach`), and each teacher has one vote or none. So one unit lowers
one class's count by one and raises another's by one, or does half of that; all other counts stay. With
independent noise on each count the noisy counts reveal what two noises reveal, each on a number that moved by
one: that is the loss stated here, for every question anew and whatever the earlier answers. The winner is a
function of the noisy counts. This is exact for integer noise; the continuous node of the same ratio would say
a little less (docs/theory/pate.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from deniable import accounting, checks
from deniable.errors import DataError, InvalidParameter, InvalidQuery
from deniable.guarantee import Budget
from deniable.learn.pate.teachers.voting import Ensemble, Labels
from deniable.loss import Composed, Loss, Number
from deniable.mechanism import Random
from deniable.mechanisms import grid
from deniable.mechanisms.integer_noise import IntegerNoise, gaussian, laplace
from deniable.process import Conversing
from deniable.units import Unit

Label = int
Kind = TypeVar("Kind", "NoisyVote", "GNMax")
MOVED = 2
"""Counts that one changed vote moves, each by one."""


@dataclass(frozen=True)
class NoisyVote:
    """The class of the largest count after integer Laplace noise of `scale` was added to
    all of them; `answers` times.

    Guarantee: that of two integer Laplace noises of sensitivity 1 for each answer, for `unit`: (2/scale)-DP.
    Assumes:   an `Ensemble` of `teach` for the same unit. Only the label is shown. Equal
               counts are ordered at random.
    Error:     the winner's true count lies below the largest by at most twice the largest noise.
    Reference: Papernot et al. 2017, §2.2, where scale = 1/γ. Noise added after the winner is found protects
               nothing: `deniable.learn.pate.cautionary.NoiseAfterVote`.

    >>> NoisyVote(classes=10, scale=20, answers=100).loss
    Repeated(times=200, of=DiscreteLaplaceNoise(scale=20, sensitivity=1))
    """

    classes: int
    scale: Number
    answers: int
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        _check(self, "scale")

    @property
    def loss(self) -> Loss:
        return self.loss_of(self.answers)

    def loss_of(self, answers: int) -> Loss:
        """The loss of this many labels."""
        return _noises(laplace(self.scale), MOVED * answers)

    @classmethod
    def for_budget(
        cls, epsilon: Number, delta: Number, *, classes: int, answers: int, unit: Unit = checks.ROW
    ) -> NoisyVote:
        """The least noise with which `answers` labels are (ε, δ)-DP."""
        return _calibrate(lambda x: cls(classes, x, answers, unit), epsilon, delta)

    def filling(self, budget: Budget) -> NoisyVote:
        """The same noise with as many labels as fit under `budget`."""
        return _filling(self, budget)

    def open(self, data: Any, *, rng: Random) -> Vote:
        return Vote(self, _ensemble(data, self, rng), rng)

    def noise(self, rng: Random) -> Labels:
        return laplace(self.scale).draw(rng, self.classes)


@dataclass(frozen=True)
class GNMax:
    """The class of the largest count after integer Gaussian noise of `sigma` was added
    to all of them; `answers` times.

    Guarantee: that of two integer Gaussian noises of sensitivity 1 for each answer, for `unit`: (1/σ²)-zCDP.
    Assumes:   an `Ensemble` of `teach` for the same unit. Only the label is shown. Equal
               counts are ordered at random.
    Error:     the winner's true count lies below the largest by at most twice the largest noise.
    Reference: Papernot et al. 2018, §4.1.

    The loss is data-independent: the ε of an account that sells these labels tells nothing. See
    `deniable.learn.pate.analysis` for what the votes themselves say, for the owner's eyes.

    >>> from deniable.accounting import epsilon
    >>> round(epsilon(GNMax(classes=10, sigma=40, answers=100).loss, 1e-5).upper, 3)
    1.357
    """

    classes: int
    sigma: Number
    answers: int
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        _check(self, "sigma")

    @property
    def loss(self) -> Loss:
        return self.loss_of(self.answers)

    def loss_of(self, answers: int) -> Loss:
        """The loss of this many labels."""
        return _noises(gaussian(self.sigma, 1, 1), MOVED * answers)

    @classmethod
    def for_budget(
        cls, epsilon: Number, delta: Number, *, classes: int, answers: int, unit: Unit = checks.ROW
    ) -> GNMax:
        """The least noise with which `answers` labels are (ε, δ)-DP.

        >>> round(GNMax.for_budget(2, 1e-5, classes=10, answers=200).sigma, 1)
        39.9
        """
        return _calibrate(lambda x: cls(classes, x, answers, unit), epsilon, delta)

    def filling(self, budget: Budget) -> GNMax:
        """The same noise with as many labels as fit under `budget`.

        >>> GNMax(classes=10, sigma=40, answers=1).filling(Budget(2, 1e-5)).answers
        201
        """
        return _filling(self, budget)

    def open(self, data: Any, *, rng: Random) -> Vote:
        return Vote(self, _ensemble(data, self, rng), rng)

    def noise(self, rng: Random) -> Labels:
        return gaussian(self.sigma).draw(rng, self.classes)


@dataclass(frozen=True)
class ConfidentGNMax:
    """`GNMax` that answers only where the teachers agree: where the largest count with
    noise reaches `threshold`.

    Guarantee: for each question one integer Gaussian noise of `sigma_check` on the largest count, whose
               sensitivity is 1; for each answer what `GNMax` costs. `questions` and `answers` bound both;
               what was not asked or not answered is known from the answers, so the session gives it back.
    Assumes:   as `GNMax`.
    Error:     as `GNMax`, for what is answered.
    Reference: Papernot et al. 2018, Algorithm 1.

    A question without an answer is None. Once `answers` labels are sold the conversation is over: what is
    left of a question is None too, unchecked and not charged.
    """

    classes: int
    sigma: Number
    answers: int
    threshold: int
    sigma_check: Number
    questions: int
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        _check(self, "sigma")
        object.__setattr__(self, "sigma_check", checks.number("sigma_check", self.sigma_check, above=0))
        object.__setattr__(self, "threshold", checks.whole("threshold", self.threshold, at_least=0))
        object.__setattr__(
            self, "questions", checks.whole("questions", self.questions, at_least=self.answers)
        )

    @property
    def loss(self) -> Loss:
        return self.loss_of(self.questions, self.answers)

    def loss_of(self, questions: int, answers: int) -> Loss:
        """The loss of this many checks and this many labels."""
        check_loss = _noises(gaussian(self.sigma_check, 1, 1), questions)
        return check_loss + _noises(gaussian(self.sigma, 1, 1), MOVED * answers)

    def open(self, data: Any, *, rng: Random) -> ConfidentVote:
        return ConfidentVote(self, _ensemble(data, self, rng), rng)

    def noise(self, rng: Random) -> Labels:
        return gaussian(self.sigma).draw(rng, self.classes)


class Vote(Conversing):
    """An open `NoisyVote` or `GNMax`. `ask` about one or several public examples; the
    answer is a list of labels."""

    def __init__(self, aggregator: NoisyVote | GNMax, ensemble: Ensemble, rng: Random) -> None:
        self._aggregator, self._ensemble, self._rng = aggregator, ensemble, rng
        self._answer_count = 0

    def ask(self, question: Any) -> list[Label]:
        self.stay()
        examples = self._ensemble.voter.check(question)
        _room(len(examples), self._aggregator.answers - self._answer_count, "labels")
        votes = self._ensemble.votes(examples)
        self._answer_count += len(examples)
        return [winner(count, self._aggregator.noise(self._rng), self._rng) for count in votes]

    @property
    def used(self) -> Loss:
        """The labels sold so far."""
        return self._aggregator.loss_of(self._answer_count)


class ConfidentVote(Conversing):
    """An open `ConfidentGNMax`. `ask` about one or several public examples; the answer
    is a list of labels and Nones."""

    def __init__(self, aggregator: ConfidentGNMax, ensemble: Ensemble, rng: Random) -> None:
        self._aggregator, self._ensemble, self._rng = aggregator, ensemble, rng
        self._check_count = self._answer_count = 0

    def ask(self, question: Any) -> list[Label | None]:
        self.stay()
        m = self._aggregator
        examples = self._ensemble.voter.check(question)
        _room(len(examples), m.questions - self._check_count, "questions")
        _room(1, m.answers - self._answer_count, "labels")
        return [self._answer(count) for count in self._ensemble.votes(examples)]

    def _answer(self, count: Labels) -> Label | None:
        m = self._aggregator
        if self._answer_count == m.answers:
            return None
        self._check_count += 1
        if int(count.max()) + gaussian(m.sigma_check).draw(self._rng) < m.threshold:
            return None
        self._answer_count += 1
        return winner(count, m.noise(self._rng), self._rng)

    @property
    def used(self) -> Loss:
        """The checks made and the labels sold so far: both are known from the answers."""
        return self._aggregator.loss_of(self._check_count, self._answer_count)


def winner(count: Labels, noise: Labels, rng: Random) -> Label:
    """The class of the largest noisy count; among equals the first in an order drawn at random."""
    order = rng.permutation(len(count))
    return int(order[np.argmax(grid.add(count, noise)[order])])


def _noises(noise: IntegerNoise, times: int) -> Loss:
    return noise.loss * times if times else Composed(())


def _check(aggregator: Any, noise: str) -> None:
    object.__setattr__(aggregator, noise, checks.number(noise, getattr(aggregator, noise), above=0))
    object.__setattr__(aggregator, "classes", checks.whole("classes", aggregator.classes, at_least=2))
    object.__setattr__(aggregator, "answers", checks.whole("answers", aggregator.answers, at_least=1))
    checks.unit(aggregator.unit)


def _ensemble(data: Any, aggregator: Any, rng: Random) -> Ensemble:
    """The teachers, if they are what the aggregator's loss was stated for. Seen by the owner only."""
    if not isinstance(data, Ensemble):
        raise DataError(f"Expected an Ensemble made by teach, got {type(data).__name__}.")
    if data.unit != aggregator.unit:
        raise DataError(f"These teachers were made for {data.unit}, the aggregator for {aggregator.unit}.")
    if data.classes != aggregator.classes:
        raise DataError(f"These teachers know {data.classes} classes, the aggregator {aggregator.classes}.")
    if rng.private and not data.private:
        raise DataError(
            "These teachers were drawn from a seed: who knows it knows each row's teacher by its position."
        )
    return data


def _room(count: int, left: int, kind: str) -> None:
    if count > left:
        raise InvalidQuery(
            f"This conversation has {left} {kind} left, and {count} were asked for. Nothing was asked."
        )


def _calibrate(build: Callable[[float], Kind], epsilon: Number, delta: Number) -> Kind:
    budget = Budget(
        checks.number("epsilon", epsilon, above=0), checks.number("delta", delta, at_least=0, below=1)
    )
    build(1.0)  # the other parameters are checked before the search
    return build(accounting.calibrate(lambda x: build(x).loss, budget, start=40.0))


def _filling(aggregator: Kind, budget: Budget) -> Kind:
    """The most answers under the budget, by doubling and halving: the loss grows with their number."""

    def fits(answers: int) -> bool:
        return accounting.epsilon(aggregator.loss_of(answers), float(budget.delta)).upper <= budget.epsilon

    if not fits(1):
        raise InvalidParameter(
            f"Not even one label of {type(aggregator).__name__} fits {budget}. Ask for more noise."
        )
    good = 1
    while fits(2 * good):
        good *= 2
        if good > 1 << 40:
            raise InvalidParameter(f"More than 2^40 labels fit {budget}: there is nothing to fill.")
    bad = 2 * good
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return replace(aggregator, answers=good)
