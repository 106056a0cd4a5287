"""A descent whose numbers are scaled by their own noisy means and deviations, which the first step releases.

Public bounds are wide: an income from 0 to 99,999 is mostly near 0, and a step that suits other columns
hardly moves its weight. A tenth of the budget for means and deviations is less than what is lost without
them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from deniable.accounting import calibrate_noise
from deniable.learn.convex.descent import GradientPerturbation, Way
from deniable.learn.convex.losses import Floats
from deniable.learn.sgd.outcome import Usable
from deniable.learn.standardize import PrivateStandardizer
from deniable.loss import Composed, GaussianNoise, Loss, Number
from deniable.mechanism import Random
from deniable.units import Unit

SHARE = 0.1
"""Of the budget, as 1/noise², for means and deviations."""
WIDTH = 3.0
"""Deviations on either side of the mean that a number's range has afterwards."""
MOST_ERROR = 0.05
"""Where noise moves a variance by more than so much of the range's, numbers stay as their bounds have
them."""


def scaling_noise(epsilon: Number, delta: Number, numbers: int, n: int) -> float | None:
    """The noise multiplier of the first step; None where it is not worth taking, by public numbers alone."""
    if not numbers or not 0 < delta < 1:
        return None
    multiplier = calibrate_noise(float(epsilon), float(delta)) / math.sqrt(SHARE)
    error = 3 * multiplier * math.sqrt(1.25 * numbers) / n
    return multiplier if error <= MOST_ERROR else None


@dataclass(frozen=True)
class Scaling:
    """A number u becomes (u − middle)/reach, within [−1, 1]."""

    middle: Floats
    reach: Floats

    @classmethod
    def identity(cls, numbers: int) -> Scaling:
        return cls(np.zeros(numbers), np.ones(numbers))


@dataclass(frozen=True)
class ScaledRegression:
    """Release means and deviations of the numbers, then descend on rows that are scaled by them.

    Guarantee: the loss of one Gaussian release of `noise_multiplier` and of the descent on the same rows:
               both are charged, and the second may depend on what the first released.
    Assumes:   inputs within [−1, 1], those at `numbers` to be scaled; an intercept is added; rows are at most
               `longest` long then, and longer ones are shortened.
    Error:     not known before data is seen.
    Reference: adaptive composition (Dwork, Rothblum, Vadhan 2010); the releases' own references.
    """

    numbers: tuple[int, ...]
    longest: float
    noise_multiplier: float
    descent: GradientPerturbation

    @property
    def unit(self) -> Unit:
        return self.descent.unit

    @property
    def delta(self) -> Number:
        return self.descent.delta

    @property
    def length(self) -> int:
        """The first step scales."""
        return 1 + self.descent.length

    @property
    def loss(self) -> Loss:
        return self.loss_of(self.length)

    def loss_of(self, steps: int) -> Loss:
        if not steps:
            return Composed(())
        first = GaussianNoise(self.noise_multiplier)
        return Composed((first, self.descent.loss_of(steps - 1))) if steps > 1 else first

    @cached_property
    def standardizer(self) -> PrivateStandardizer:
        sides = (-1.0,) * len(self.numbers), (1.0,) * len(self.numbers)
        return PrivateStandardizer(*sides, self.descent.n, self.noise_multiplier)

    def error(self, confidence: float = 0.95) -> None:
        return None

    def fits(self, data: Any) -> None:
        """Any data will do."""

    def rows(self, data: Any) -> Any:
        return data

    def walk(self, rng: Random) -> ScaledWay:
        return ScaledWay(self, rng)

    def __call__(self, data: Any, *, rng: Random) -> ScaledWeights:
        walk = self.walk(rng)
        for _ in range(self.length):
            walk.walk(data)
        return walk.result()

    def scale_rows(self, inputs: Any, scaling: Scaling) -> Floats:
        """Rows as the descent takes them."""
        rows = np.ones((len(inputs), inputs.shape[1] + 1))
        rows[:, :-1] = inputs
        at = list(self.numbers)
        rows[:, at] = np.clip((rows[:, at] - scaling.middle) / scaling.reach, -1, 1)
        rows /= self.longest
        return rows


class ScaledWeights(NamedTuple):
    """What a run releases: the scaling, the weights of scaled rows, and how many rows could be used."""

    scaling: Scaling
    weights: Floats
    usable: Usable | None


class ScaledWay:
    """A descent on its way, and the scaling that its first step released."""

    def __init__(self, run: ScaledRegression, rng: Random) -> None:
        self.run, self.rng, self._taken = run, rng, 0
        self.inner: Way = run.descent.walk(rng)
        self.scaling = Scaling.identity(len(run.numbers))  # also where the first step was lost by a kill
        self._rows: Any = None

    @property
    def taken(self) -> int:
        return self._taken

    @taken.setter
    def taken(self, steps: int) -> None:
        self._taken, self.inner.taken = steps, max(0, steps - 1)

    def walk(self, rows: Any) -> None:
        inputs, targets = rows
        if self.taken == 0:
            self._taken = 1
            usable = np.isfinite(targets).all(axis=1)
            statistics = self.run.standardizer(inputs[usable][:, list(self.run.numbers)], rng=self.rng)
            # Farther than to the other bound no number lies.
            reach = np.minimum(WIDTH * statistics.deviation, 1 + np.abs(statistics.mean))
            self.scaling = Scaling(statistics.mean, reach)
            return
        if self._rows is None:
            self._rows = self.run.descent.rows((self.run.scale_rows(inputs, self.scaling), targets))
        self._taken += 1
        self.inner.walk(self._rows)

    def result(self) -> ScaledWeights:
        return ScaledWeights(self.scaling, self.inner.result(), self.inner.usable)

    def state(self) -> dict[str, Any]:
        scaling = {"middle": self.scaling.middle.tolist(), "reach": self.scaling.reach.tolist()}
        own = {"step": self.taken, "loss": self.run.loss_of(self.taken).to_json()}
        return {"scaling": scaling, "descent": self.inner.state()} | own

    def restore(self, state: dict[str, Any]) -> None:
        scaling = state["scaling"]
        self.scaling = Scaling(np.array(scaling["middle"]), np.array(scaling["reach"]))
        self.inner.restore(state["descent"])
        self._taken = int(state["step"])
