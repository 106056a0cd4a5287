"""How long a run is and how its lots are drawn: public sizes only, never read from data."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.learn.sgd.equivalents import with_equivalents
from deniable.loss import Allocated, CappedSample, Loss, Number, exact
from deniable.numbers import plain


@dataclass(frozen=True)
class Cap:
    """No lot is larger than `most`: of more rows the first in a random order are kept.
    `rows` bounds how many rows there are."""

    most: int
    rows: int


class Correlation(ABC):
    """Noise that is correlated over the steps of a run, in which every row has one step of each pass, the
    same in all."""

    @property
    @abstractmethod
    def coefficients(self) -> tuple[float, ...]:
        """What a step's noise takes back of the noise of steps before it; the first is 1."""

    @abstractmethod
    def sensitivity(self, steps: int) -> float:
        """How far one unit moves the first `steps` steps together, in units of the clip, rounded up."""


@dataclass(frozen=True)
class LotPlan:
    """`steps` lots, each row in each lot by its own coin of probability `rate`; `lot` =
    rate·n is what sums are divided by.

    With `passes`, each row falls by its own draw into one step of every pass of 1/rate steps instead; with a
    `correlation` it is the same step in every pass.
    """

    rate: Number
    lot: float
    steps: int
    cap: Cap | None = field(default=None, repr=False)
    passes: bool = field(default=False, repr=False)
    correlation: Correlation | None = field(default=None, repr=False)

    @property
    def pass_length(self) -> int:
        """Steps of a pass over all rows."""
        return math.ceil(1 / exact(self.rate))

    def loss(self, step: Loss, count: int, *, replace: bool) -> Loss:
        """The loss of `count` steps, of which each reveals `step` of a row in its lot.

        Seeing all rows, with one added or removed, is no sampling. A pass that was begun
        counts as a whole one.
        """
        if self.passes:
            passes = -(-count // self.pass_length)
            return step * passes if self.pass_length == 1 else Allocated(self.pass_length, step) * passes
        if self.cap is not None:
            return CappedSample(self.rate, self.cap.most, self.cap.rows, step) * count
        if self.rate == 1 and not replace:
            return step * count
        return step.sampled(self.rate, replace=replace) * count


@with_equivalents
@dataclass(frozen=True)
class Lots:
    """What is drawn: two of n, lot and rate, and one of epochs and steps. All are public
    sizes that you state.

    `cap` bounds the rows of one lot, for memory; then `at_most` must bound how many rows there are, however
    many more there will ever be, and the loss says what the cap costs. That bound is a promise: nothing is
    counted to check it, and with more rows a step reveals at most what twice the sensitivity does.
    `allocated` puts each row into one lot of every epoch, by a draw of its own: no row is left out of an
    epoch. A shuffled epoch is not that, and is not offered (docs/theory/batches.md).

    >>> Lots(n=60_000, lot=600, epochs=2).plan
    LotPlan(rate=Fraction(1, 100), lot=600.0, steps=200)
    """

    n: int | None = None
    lot: Number | None = None
    rate: Number | None = None
    epochs: Number | None = None
    steps: int | None = None
    cap: int | None = None
    at_most: int | None = None
    allocated: bool = False

    @cached_property
    def plan(self) -> LotPlan:
        draft = plan(self.n, self.lot, self.rate, self.epochs, self.steps)
        if checks.flag("allocated", self.allocated):
            self._refuse_parts_of_passes(draft)
        return LotPlan(draft.rate, draft.lot, draft.steps, self._cap(draft), self.allocated)

    def _cap(self, plan: LotPlan) -> Cap | None:
        if self.cap is None and self.at_most is None:
            return None
        if self.cap is None or self.at_most is None or self.allocated:
            raise InvalidParameter(
                f"Expected cap={self.cap} and at_most={self.at_most} together, for lots drawn by coins: how "
                "often a lot is cut depends on how many rows there are at most. Nothing was charged."
            )
        cap = Cap(
            checks.whole("cap", self.cap, at_least=1), checks.whole("at_most", self.at_most, at_least=1)
        )
        if cap.most < plan.lot:
            raise InvalidParameter(
                f"Expected cap={cap.most} of at least lot={plan.lot:g}. Nothing was charged."
            )
        return cap

    def _refuse_parts_of_passes(self, plan: LotPlan) -> None:
        if exact(plan.rate) * plan.pass_length != 1 or plan.steps % plan.pass_length:
            raise InvalidParameter(
                f"Expected whole epochs of a whole number of lots with allocated=True, got rate={plan.rate} "
                f"and {plan.steps} steps. Nothing was charged. Take lots of n divided by a whole number."
            )


def plan(
    n: Number | None, lot: Number | None, rate: Number | None, epochs: Number | None, steps: Number | None
) -> LotPlan:
    """The plan from two of n, lot and rate, and one of epochs and steps. `epochs` passes take ⌈epochs/rate⌉
    steps.

    >>> plan(n=60_000, lot=600, rate=None, epochs=2, steps=None)
    LotPlan(rate=Fraction(1, 100), lot=600.0, steps=200)
    >>> plan(n=None, lot=None, rate=0.01, epochs=None, steps=100)
    Traceback (most recent call last):
        ...
    deniable.errors.InvalidParameter: Expected two of n, lot and rate, got rate=0.01. ...
    """
    probability, size = _rate_and_lot(n, lot, rate)
    if (epochs is None) == (steps is None):
        raise InvalidParameter(
            f"Expected one of epochs and steps, got epochs={epochs} and steps={steps}. Nothing was charged."
        )
    if steps is not None:
        return LotPlan(probability, size, checks.whole("steps", steps, at_least=1))
    passes = exact(checks.number("epochs", epochs, above=0))
    return LotPlan(probability, size, math.ceil(passes / exact(probability)))


def _rate_and_lot(n: Number | None, lot: Number | None, rate: Number | None) -> tuple[Number, float]:
    """(rate, lot). The number of rows is private: n is a size that the caller states."""
    parameters = {
        name: value for name, value in (("n", n), ("lot", lot), ("rate", rate)) if value is not None
    }
    if len(parameters) != 2:
        description = ", ".join(f"{name}={value}" for name, value in parameters.items()) or "none"
        raise InvalidParameter(
            f"Expected two of n, lot and rate, got {description}. A row is drawn with probability "
            "rate = lot/n and the noisy sum is divided by lot; both are public sizes that you state, never "
            "len(data). Nothing was charged."
        )
    sizes = {name: checks.number(name, value, above=0) for name, value in parameters.items()}
    probability = sizes["rate"] if "rate" in sizes else plain(exact(sizes["lot"]) / exact(sizes["n"]))
    if probability > 1:
        raise InvalidParameter(
            f"Expected rate={float(probability):g} in (0, 1]: a lot is no larger than n. Nothing was charged."
        )
    return probability, float(sizes["lot"] if "lot" in sizes else exact(sizes["n"]) * exact(probability))
