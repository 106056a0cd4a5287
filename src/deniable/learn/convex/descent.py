"""Linear models by DP-SGD: noisy gradient steps on Poisson lots, or on all rows, in whole numbers.

With ‖x‖ ≤ 1 the gradient of one row is s ⊗ x, s the slope of the loss for each output:
Algorithm 1 of Abadi et al. 2016 needs no per-example gradients here, and clipping ‖s ⊗
x‖ is clipping ‖s‖. All that is private is integer arithmetic:

- a row is cut to whole multiples of 2⁻²⁰, so that ‖x‖ ≤ 2²⁰ is a fact about integers
  (checked; a longer row counts as 0);
- the weights, released already, are whole multiples of 2⁻¹⁶ with ‖w‖ ≤ 2¹⁶, so a score is a sum of integers
  below 2⁵³, exact in doubles in any order;
- a slope is looked up in a public table by its score, rounded to 2⁻¹², and cut to whole
  multiples of 2⁻¹⁵ of the clip; the slopes of several outputs are shortened together, by
  operations that IEEE 754 rounds correctly wherever they stand;
- sums of s ⊗ x are integers below 2⁵³ in a block of rows, and 64-bit integers beyond.

So a row's contribution is a function of that row and of what was released before, whatever rows
are around it, and one row more or less moves the sum by at most 2¹⁵·2²⁰ in L2, and with the
count of usable rows beside it by 1/2000 more. The noise is integer noise of the deviation at
which `recipes.exact` proves it at least as private as `GaussianNoise(noise_multiplier)`. On
Poisson lots that proof gives: the whole run's law lies within e^(±t) of that of a run with this
node, t < 1e-105 for up to 1e30 coordinates, so its δ(ε) is at most the stated one plus 1e-100.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable import checks
from deniable.accounting import calibrate_noise
from deniable.errors import InvalidParameter
from deniable.learn.convex.fit import LinearFit
from deniable.learn.convex.losses import Floats
from deniable.learn.recipes.exact import MOST_MU, deviation
from deniable.learn.sgd.noise import COUNTED, USABLE
from deniable.learn.sgd.outcome import FEW, Usable
from deniable.loss import Composed, GaussianNoise, Loss, Number, exact
from deniable.mechanism import Random
from deniable.mechanisms.integer_noise import IntegerNoise, gaussian
from deniable.numbers import plain

LOG = logging.getLogger(__name__)
Whole: TypeAlias = NDArray[np.float64]
"""Integers, held in doubles."""

ROW, WEIGHT, SLOPE, SCORE = 2.0**20, 2.0**16, 2.0**15, 2.0**12
"""Grid units in a row of length 1, in a weight of 1, in a slope at the clip, in a score of 1."""
LONGEST = 2.0**16
"""Of the weights."""
FARTHEST = 32
"""Scores of the table; the slopes beyond are those at its ends."""
STEEPEST = 2.0**20
"""Of slopes before they are shortened, in grid units: the squares of some thousand add up exactly."""
BLOCK = 1 << 14
"""Rows that are summed in doubles: BLOCK·ROW·SLOPE < 2⁵³."""
LARGEST_LOT = 1 << 16
TOO_MUCH = 1e12
"""Of any parameter: below it no step overflows."""
MOST_NOISE = 2.0**20
"""The largest noise multiplier: noise and sums stay within 64 bits."""
MOMENTUM = 0.9
REACH = 16.0
"""What noise alone may add to the weights of one output if nothing pulls them back: the
default learning rate keeps to it."""


@dataclass(frozen=True)
class Descent:
    """How `method="sgd"` descends. What is not given follows from public numbers: n, the
    features, the loss, ε and δ.

    `lot` rows a step on average, by default all up to 65,536; `clip` bounds the gradient
    of one row, by default half of the largest that its loss has, so that only rows on
    the wrong side are clipped; `learning_rate` is by default two over the loss's
    smoothness, or less where noise would carry the weights too far.
    """

    steps: int = 200
    lot: Number | None = None
    clip: float | None = None
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        checks.whole("steps", self.steps, at_least=1)
        for name in ("lot", "clip", "learning_rate"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name), above=0, below=TOO_MUCH)


@dataclass(frozen=True)
class GradientPerturbation(LinearFit):
    """Gradient descent on F/n with momentum, Gaussian noise in each of its steps, and
    the mean of the later half of its points.

    Guarantee: the loss of `descent.steps` Gaussian releases of `noise_multiplier`, each on a Poisson lot, or
               on all rows where the lot is n: (ε, δ)-DP for one row added or removed.
    Assumes:   nothing of the data: rows longer than 1 are shortened, entries that are no number are 0. Sums
               are exact and noise is integer noise: module docstring.
    Error:     not known before data is seen.
    Reference: Abadi et al. 2016, Algorithm 1; Bassily, Smith, Thakurta 2014 (convex
               losses); averaging: Polyak, Juditsky 1992.
    """

    descent: Descent = Descent()
    spent: Loss | None = None
    """What the budget pays for beside the descent."""
    noise_multiplier: float = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        epsilon = float(self.epsilon)
        if not self.delta:
            raise InvalidParameter(
                "Expected delta=0 in (0, 1) with method='sgd': its noise is Gaussian. Nothing was charged; "
                "state a δ, or use method='objective' or 'output'."
            )
        if self.unit.replace:
            raise InvalidParameter(
                "DP-SGD on Poisson lots is stated here for a row added or removed, not replaced. Nothing was "
                "run; use method='output', or an account of Unit.row()."
            )
        if not self.rate <= 1:
            raise InvalidParameter(
                f"Expected lot={float(self.lot):g} of at most n={self.n}, the stated size. Nothing was "
                "charged."
            )
        noise = calibrate_noise(
            epsilon, float(self.delta), rate=self.rate, steps=self.descent.steps, spent=self.spent
        )
        if noise > MOST_NOISE:
            raise InvalidParameter(
                f"ε = {epsilon:g} is too small for {self.descent.steps:,} steps: it needs a noise multiplier "
                f"of {noise:.4g}, beyond {MOST_NOISE:g}. Nothing was charged. Take fewer steps or a larger ε."
            )
        object.__setattr__(self, "noise_multiplier", max(noise, 1 / MOST_MU))

    def _check_alpha(self) -> None:
        checks.number("alpha", self.alpha, at_least=0, below=TOO_MUCH)

    # ------------------------------------------------------------------------------ what is known before data

    @property
    def loss(self) -> Loss:
        return self.loss_of(self.descent.steps)

    def loss_of(self, steps: int) -> Loss:
        """The loss of the first `steps` steps."""
        step = GaussianNoise(self.noise_multiplier)
        return (step if self.rate == 1 else step.sampled(self.rate)) * steps if steps else Composed(())

    @property
    def length(self) -> int:
        return self.descent.steps

    @property
    def lot(self) -> Number:
        return min(self.n, LARGEST_LOT) if self.descent.lot is None else self.descent.lot

    @property
    def rate(self) -> Number:
        return plain(exact(self.lot) / self.n)

    @property
    def clip(self) -> float:
        return self.loss_function.lipschitz / 2 if self.descent.clip is None else float(self.descent.clip)

    @property
    def learning_rate(self) -> float:
        """Noise of v per coordinate and step adds up to at most rate/(1 −
        MOMENTUM)·v·√(steps·features), kept to REACH."""
        if self.descent.learning_rate is not None:
            return float(self.descent.learning_rate)
        drift = (
            self.noise_multiplier
            * self.clip
            / float(self.lot)
            * math.sqrt(self.descent.steps * self.features)
        )
        return min(2 / (self.loss_function.smoothness + self.alpha), (1 - MOMENTUM) * REACH / drift)

    # -------------------------------------------------------------------------------------------- running

    def __call__(self, data: Any, *, rng: Random) -> Floats:
        rows, walk = self.rows(data), self.walk(rng)
        for _ in range(self.length):
            walk.walk(rows)
        return walk.result()

    def fits(self, data: Any) -> None:
        """Any data will do: what is no number is 0, and a row without a target is left out."""

    def rows(self, data: Any) -> tuple[Whole, Floats]:
        """Rows in grid units, and their targets."""
        x, targets = self.read(data)
        return _whole_rows(x), np.ascontiguousarray(targets.T)

    def walk(self, rng: Random) -> Way:
        """The run before its first step."""
        return Way(self, rng)

    def noisy(self, sums: NDArray[np.int64], rng: Random) -> Floats:
        """The step's release: the mean gradient over rate·n rows, never over the number drawn."""
        noise = self._noise.draw(rng, sums.size)
        return np.asarray((sums + noise.reshape(sums.shape)) * (self.clip / (ROW * SLOPE * float(self.lot))))

    def noisy_count(self, rows: int, rng: Random) -> float:
        """How many rows of a lot are usable: one coordinate more of the same release, to
        which a row adds ROW·SLOPE·USABLE."""
        return rows + int(self._noise.draw(rng, 1)[0]) / (ROW * SLOPE * USABLE)

    @property
    def _noise(self) -> IntegerNoise:
        """Integer noise: a row moves gradient and count together by at most ROW·SLOPE·COUNTED."""
        return gaussian(deviation(self.noise_multiplier, ROW * SLOPE * COUNTED))

    def sums(self, w: Floats, x: Whole, y: Floats) -> NDArray[np.int64]:
        """Σ s ⊗ x over rows in grid units [outputs, features]; each row's s ⊗ x is at most ROW·SLOPE long."""
        total = np.zeros(w.shape, np.int64)
        for start in range(0, len(y), BLOCK):
            part = x[start : start + BLOCK]
            total += (self.slopes(_scores(w, part), y[start : start + BLOCK]).T @ part).astype(np.int64)
        return total

    def slopes(self, scores: Floats, y: Floats) -> Whole:
        """The slopes of each row's losses in grid units, together at most SLOPE long."""
        residual = self.loss_function.residual
        margins = np.clip(scores - y if residual else y * scores, -FARTHEST, FARTHEST)
        at = np.rint(margins * SCORE)
        values = self._table[(at + FARTHEST * SCORE).astype(np.int64)] * (1.0 if residual else y)
        length = np.sqrt(
            (values * values).sum(axis=1, keepdims=True)
        )  # of integers, so the sum is exact in any order
        cut = np.trunc(
            values * np.where(length > SLOPE, SLOPE * (1 - 2.0**-50) / np.maximum(length, 1.0), 1.0)
        )
        return np.where((cut * cut).sum(axis=1, keepdims=True) <= SLOPE**2, cut, 0.0)

    @cached_property
    def _table(self) -> Whole:
        """The slope at each score of the grid, for a target of 1, or of 0 for residuals; in grid units."""
        at = np.arange(-FARTHEST * SCORE, FARTHEST * SCORE + 1) / SCORE
        target = np.full_like(at, 0.0 if self.loss_function.residual else 1.0)
        return np.clip(
            np.rint(self.loss_function.slope(at, target) * (SLOPE / self.clip)), -STEEPEST, STEEPEST
        )


class Way:
    """A descent on its way: the weights, their speed, and the sum of the weights of the
    second half of the steps."""

    def __init__(self, run: GradientPerturbation, rng: Random) -> None:
        self.run, self.rng, self.taken, self.average_count = run, rng, 0, 0
        self.w, self.speed, self.mean = np.zeros((3, run.outputs, run.features))
        self.counts: list[float] = []

    def walk(self, rows: tuple[Whole, Floats]) -> None:
        """Take the next step."""
        x, y = rows
        run, step = self.run, self.taken
        self.taken += 1
        lot = slice(None) if run.rate == 1 else self.rng.poisson_sample(len(y), run.rate)
        gradient = run.noisy(run.sums(self.w, x[lot], y[lot]), self.rng) + run.alpha * self.w
        self.counts.append(run.noisy_count(len(y[lot]), self.rng))
        self.speed = MOMENTUM * self.speed + gradient
        self.w = _on_grid(self.w - run.learning_rate * self.speed)
        if step >= self._later:
            self.mean += self.w / (run.length - self._later)
            self.average_count += 1

    @property
    def _later(self) -> int:
        return self.run.length // 2

    def result(self) -> Floats:
        """The mean of the weights of the second half; of those steps of it that were not lost."""
        self._tell()
        if not self.average_count:
            return np.asarray(self.w)
        length = self.run.length - self._later
        return np.asarray(
            self.mean if self.average_count == length else self.mean * (length / self.average_count)
        )

    @property
    def usable(self) -> Usable | None:
        """How many rows could be used, of a run that is over: from released counts alone."""
        steps = len(self.counts)
        if not steps or self.taken < self.run.length:
            return None
        spread = self.run.noise_multiplier * COUNTED / USABLE / math.sqrt(steps)
        return Usable(math.fsum(self.counts) / steps, spread, float(self.run.lot))

    def _tell(self) -> None:
        """Say if most rows could not be used."""
        usable = self.usable
        if usable is not None and usable.few:
            LOG.warning("%s: %s", usable, FEW)

    def state(self) -> dict[str, Any]:
        """A state of released weights alone, as lists: exact in double precision."""
        vectors = {"w": self.w, "speed": self.speed, "mean": self.mean}
        lists = {name: values.tolist() for name, values in vectors.items()}
        numbers = {"counts": self.counts, "averaged": self.average_count, "step": self.taken}
        return lists | numbers | {"loss": self.run.loss_of(self.taken).to_json()}

    def restore(self, state: dict[str, Any]) -> None:
        self.w, self.speed, self.mean = (np.array(state[name], np.float64) for name in ("w", "speed", "mean"))
        self.average_count, self.taken = int(state["averaged"]), int(state["step"])
        self.counts = list(state["counts"])


def _whole_rows(x: Floats) -> Whole:
    """Rows of norm at most 1 in grid units, cut towards 0, entry by entry."""
    rows = np.trunc(x * ROW)
    return np.where((rows * rows).sum(axis=1, keepdims=True) <= ROW**2, rows, 0.0)


def _scores(w: Floats, x: Whole) -> Floats:
    """The scores of rows in grid units, exact: every partial sum is an integer of at most ROW·WEIGHT·LONGEST
    = 2⁵²."""
    return np.asarray((x @ np.rint(w * WEIGHT).T) / (ROW * WEIGHT))


def _on_grid(w: Floats) -> Floats:
    """Released weights where scores are exact: on the grid, and not too long."""
    short = w * min(1.0, LONGEST / max(float(np.linalg.norm(w)), 1.0) * (1 - 2.0**-20))
    return np.asarray(np.rint(short * WEIGHT) / WEIGHT)
