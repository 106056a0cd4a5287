"""Integer Laplace noise, and its truncated form for counts with public bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

from deniable import checks
from deniable.loss import DiscreteLaplaceNoise, Number, exact
from deniable.mechanism import Error, Random
from deniable.mechanisms import grid
from deniable.mechanisms.integer_noise import Family, IntegerNoise, laplace
from deniable.mechanisms.shape import NumberMechanism, choose_granularity
from deniable.numbers import plain
from deniable.units import Unit


@dataclass(frozen=True)
class Laplace(NumberMechanism):
    """Add integer Laplace noise, P(x) ∝ exp(−|x|/scale), to a number or a vector of L1
    sensitivity `sensitivity`.

    Guarantee: (sensitivity/scale)-DP for `unit`; the loss is that of the integer noise,
               rounding to the grid included.
    Assumes:   answers of neighbouring data, as read by the rules of `grid`, differ by at
               most `sensitivity` in L1.
    Error:     the exact tail, P(|noise| ≥ n) = 2aⁿ/(1 + a), a = e^(−1/scale); E|noise| =
               1/sinh(1/scale) (grid units).
    Reference: Dwork, McSherry, Nissim, Smith 2006; integer form Ghosh, Roughgarden, Sundararajan 2009.

    `dimension` is None for one number. `granularity` is None for whole numbers, else the power of two on
    whose grid reals are read and released; `sensitivity` and `scale` are then in the data's own measure, and
    rounding is charged (see `grid`).

    >>> Laplace(scale=2).loss
    DiscreteLaplaceNoise(scale=2, sensitivity=1)
    >>> Laplace.for_budget(epsilon=0.1, sensitivity=3).loss
    DiscreteLaplaceNoise(scale=30, sensitivity=3)
    >>> Laplace(scale=2.5, sensitivity=0.3, dimension=3, granularity=0.25).loss
    DiscreteLaplaceNoise(scale=10, sensitivity=4)
    >>> print(Laplace(scale=10).error(0.95))
    ± 30 with probability 0.95
    """

    FAMILY = Family.LAPLACE

    scale: Number
    sensitivity: Number = 1
    dimension: int | None = None
    granularity: Number | None = None
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        self._check("scale", self.scale)

    def _check_sensitivity(self) -> Number:
        """Whole numbers have a whole L1 sensitivity, reals any positive one."""
        if self.granularity is None:
            return checks.whole("sensitivity", self.sensitivity, at_least=1)
        return super()._check_sensitivity()

    @classmethod
    def for_budget(
        cls,
        epsilon: Number,
        sensitivity: Number = 1,
        *,
        dimension: int | None = None,
        real: bool = False,
        granularity: Number | None = None,
        unit: Unit = checks.ROW,
    ) -> Laplace:
        """The least noise that is ε-DP: scale = sensitivity/ε exactly, in grid units where there is a grid.

        `real=True` is for real numbers; the grid, if not given, then makes the scale about 2^20 units.
        """
        eps = exact(checks.number("epsilon", epsilon, above=0))
        delta = exact(checks.number("sensitivity", sensitivity, above=0))
        g = choose_granularity(delta / eps, granularity, real)
        # The sensitivity in grid units follows from the grid alone, whatever the scale: the template tells
        # it.
        template = cls(1 if g is None else g, sensitivity, dimension, g, unit)
        return replace(template, scale=plain(template.loss.sensitivity * template.shape.step / eps))

    @cached_property
    def noise(self) -> IntegerNoise:
        shape, has_grid = self.shape, self.granularity is not None
        units = grid.l1_units(self.sensitivity, shape.step, shape.size) if has_grid else int(self.sensitivity)
        return laplace(shape.loss_scale(self.scale), units)

    @property
    def loss(self) -> DiscreteLaplaceNoise:
        return cast(DiscreteLaplaceNoise, self.noise.loss)


@dataclass(frozen=True)
class TruncatedGeometric:
    """A whole number with public bounds: clamped, given integer Laplace noise, clamped again.

    Guarantee: (sensitivity/scale)-DP for `unit`. Clamping the data moves no two answers
               apart, clamping the answer is post-processing.
    Assumes:   answers of neighbouring data differ by at most `sensitivity`.
    Error:     at most that of `Laplace`, and never above upper − lower; the mean is at
               its largest in the middle.
    Reference: Ghosh, Roughgarden, Sundararajan 2009, who show that it is optimal for
               every risk-averse reader of a count.

    >>> from deniable.randomness import SeededRandom
    >>> TruncatedGeometric(scale=2, lower=0, upper=100)(99, rng=SeededRandom(3)) <= 100
    True
    """

    scale: Number
    lower: int
    upper: int
    sensitivity: int = 1
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", checks.whole("lower", self.lower, at_least=-grid.LIMIT))
        object.__setattr__(self, "upper", checks.whole("upper", self.upper, at_least=self.lower))
        inner = Laplace(self.scale, self.sensitivity, unit=self.unit)
        object.__setattr__(self, "scale", inner.scale)
        object.__setattr__(self, "sensitivity", inner.sensitivity)

    @classmethod
    def for_budget(
        cls, epsilon: Number, lower: int, upper: int, sensitivity: int = 1, *, unit: Unit = checks.ROW
    ) -> TruncatedGeometric:
        """The least noise that is ε-DP."""
        return cls(Laplace.for_budget(epsilon, sensitivity).scale, lower, upper, sensitivity, unit)

    @property
    def loss(self) -> DiscreteLaplaceNoise:
        return self._inner.loss

    def error(self, confidence: float = 0.95) -> Error:
        """E|error| at x is c(1 − a^(upper − x)) + c(1 − a^(x − lower)), c = E|noise|/2:
        concave, so the middle is worst."""
        inner, half = self._inner.error(confidence), (self.upper - self.lower) / 2
        mean = self._inner.noise.mean * -math.expm1(-half / float(self.scale))
        return replace(inner, within=min(inner.within, float(self.upper - self.lower)), expected=mean)

    def __call__(self, data: Any, *, rng: Random) -> int:
        inside = self._clamp(int(grid.read(data, 1, Fraction(1))[0]))
        return self._clamp(inside + self._inner.noise.draw(rng))

    def _clamp(self, x: int) -> int:
        return max(self.lower, min(self.upper, x))

    @cached_property
    def _inner(self) -> Laplace:
        return Laplace(self.scale, self.sensitivity, unit=self.unit)
