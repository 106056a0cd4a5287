"""Integer Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from deniable import accounting, checks
from deniable.guarantee import Budget
from deniable.loss import DiscreteGaussianNoise, GaussianNoise, Number, exact
from deniable.mechanisms import grid
from deniable.mechanisms.integer_noise import Family, IntegerNoise, gaussian
from deniable.mechanisms.shape import NumberMechanism, choose_granularity
from deniable.units import Unit

_BITS = 13
"""The default grid makes σ between 2^13 and 2^14 units: fine enough that rounding the sensitivity costs
little, coarse enough for the accountant to sum the integer noise's own profile."""


@dataclass(frozen=True)
class Gaussian(NumberMechanism):
    """Add integer Gaussian noise, P(x) ∝ exp(−x²/2σ²), to each coordinate of a vector of
    L2 sensitivity `sensitivity`.

    Guarantee: that of `DiscreteGaussianNoise` for `unit`; (sensitivity²/2σ²)-zCDP. The loss is that of the
               integer noise, rounding to the grid included.
    Assumes:   answers of neighbouring data, as read by the rules of `grid`, differ by at
               most `sensitivity` in L2.
    Error:     the exact tail (summed, or within half a grid unit of it for σ above 4096 units).
    Reference: Canonne, Kamath, Steinke 2020.

    `dimension` and `granularity` are as in `Laplace`. An L2 sensitivity may be a root:
    `sensitivity` rounds it up.

    >>> Gaussian(sigma=4).loss
    DiscreteGaussianNoise(sigma=4, sensitivity=1, dimension=1)
    >>> round(Gaussian.for_budget(epsilon=1, delta=1e-5).sigma, 2)
    3.74
    """

    FAMILY = Family.GAUSSIAN

    sigma: Number
    sensitivity: Number = 1
    dimension: int | None = None
    granularity: Number | None = None
    unit: Unit = checks.ROW

    def __post_init__(self) -> None:
        self._check("sigma", self.sigma)

    @classmethod
    def for_budget(
        cls,
        epsilon: Number,
        delta: Number,
        sensitivity: Number = 1,
        *,
        dimension: int | None = None,
        real: bool = False,
        granularity: Number | None = None,
        unit: Unit = checks.ROW,
    ) -> Gaussian:
        """The least noise that is (ε, δ)-DP by the integer noise's own profile, never by
        the classical formula."""
        budget = Budget(
            checks.number("epsilon", epsilon, above=0), checks.number("delta", delta, above=0, below=1)
        )
        width = exact(checks.number("sensitivity", sensitivity, above=0))
        # Continuous noise is where the search starts; the profile of integer noise decides.
        start = accounting.calibrate(GaussianNoise, budget)
        g = choose_granularity(exact(start) * width, granularity, real, _BITS)
        # The sensitivity in grid units follows from the grid alone: the template tells it.
        template = cls(1 if g is None else g, sensitivity, dimension, g, unit)
        units = template.loss.sensitivity
        sigma = accounting.calibrate(
            lambda x: replace(template.loss, sigma=x), budget, start=start * float(units)
        )
        return replace(template, sigma=template.shape.to_data(sigma))

    @cached_property
    def noise(self) -> IntegerNoise:
        shape, has_grid = self.shape, self.granularity is not None
        units = grid.l2_units(self.sensitivity, shape.step, shape.size) if has_grid else self.sensitivity
        return gaussian(shape.loss_scale(self.sigma), units, shape.size)

    @property
    def loss(self) -> DiscreteGaussianNoise:
        return cast(DiscreteGaussianNoise, self.noise.loss)
