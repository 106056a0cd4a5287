"""What `Laplace` and `Gaussian` share: one number or a vector, whole or on a grid."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from deniable import checks
from deniable.errors import InvalidParameter
from deniable.loss import Number, exact
from deniable.mechanism import Error, Random
from deniable.mechanisms import grid, tails
from deniable.mechanisms.integer_noise import Family, IntegerNoise, tail
from deniable.numbers import plain
from deniable.units import Unit


@dataclass(frozen=True)
class GridShape:
    """`dimension` coordinates (None: one number) in units of `granularity` (None: whole numbers)."""

    dimension: int | None
    granularity: Number | None

    def __post_init__(self) -> None:
        if self.dimension is not None:
            object.__setattr__(self, "dimension", checks.whole("dimension", self.dimension, at_least=1))
        if self.granularity is not None:
            object.__setattr__(self, "granularity", plain(grid.granularity(self.granularity)))

    @property
    def size(self) -> int:
        return self.dimension or 1

    @property
    def step(self) -> Fraction:
        if self.granularity is None:
            return Fraction(1)
        return exact(self.granularity)

    @property
    def rounding(self) -> float:
        """How far reading may move a coordinate, in grid units."""
        if self.granularity is None:
            return 0.0
        return 0.5

    def units(self, name: str, value: Number) -> Fraction:
        """A scale in grid units, within what the samplers draw."""
        scale = exact(value) / self.step
        if scale > grid.LARGEST_SCALE:
            raise InvalidParameter(
                f"Expected {name}={value} within 2^60 grid units. Take a coarser granularity."
            )
        return scale

    def loss_scale(self, value: Number) -> Number:
        """A scale in grid units as a loss states it: as it was given, where there is no grid."""
        if self.granularity is None:
            return value
        return plain(exact(value) / self.step)

    def to_data(self, units: Number) -> Number:
        """Grid units in the data's own measure, exactly."""
        if self.granularity is None:
            return units
        return plain(exact(units) * self.step)

    def noisy(self, data: Any, noise: IntegerNoise, rng: Random) -> Any:
        """The coordinates of `data` with noise: one draw for a number, `dimension` draws for a vector."""
        values = grid.read(data, self.size, self.step)
        g = None
        if self.granularity is not None:
            g = self.step
        if self.dimension is None:
            return grid.write(int(values[0]) + noise.draw(rng), g)
        return grid.write(grid.add(values, noise.draw(rng, self.dimension)), g)

    def error(self, noise: IntegerNoise, confidence: float) -> Error:
        """Of the one number, or of the worst coordinate."""
        units = noise.within(tails.per_coordinate(checks.failure(confidence), self.size))
        # Beside the noise, reading may have moved the coordinate by half a unit.
        within = float((units + Fraction(self.rounding)) * self.step)
        if self.dimension is not None:
            return Error(within, float(confidence), None, "largest")
        return Error(within, float(confidence), self.expected_error(noise), "absolute")

    def norm_error(self, noise: IntegerNoise, confidence: float) -> Error:
        """Of the L1 norm of all coordinates' errors."""
        units = noise.norm_within(float(checks.failure(confidence)), self.size)
        within = float((units + self.size * Fraction(self.rounding)) * self.step)
        return Error(within, float(confidence), self.size * self.expected_error(noise), "l1")

    def expected_error(self, noise: IntegerNoise) -> float:
        """E|noise + r| = E|noise| + |r|·P(noise = 0) for symmetric integer noise and rounding |r| ≤ ½."""
        return (noise.mean + self.rounding * noise.at_zero) * float(self.step)


class NumberMechanism(ABC):
    """What `Laplace` and `Gaussian` are: integer noise on one number or a vector. They
    say which noise, and what they call its width."""

    FAMILY: ClassVar[Family]
    sensitivity: Number
    dimension: int | None
    granularity: Number | None
    unit: Unit

    if TYPE_CHECKING:  # their fields make it, in this order

        def __init__(
            self,
            width: Number,
            sensitivity: Number = 1,
            dimension: int | None = None,
            granularity: Number | None = None,
            unit: Unit = checks.ROW,
        ) -> None: ...

    def _check(self, name: str, given: Number) -> None:
        """Set the fields as they were checked; `name` is what the width of the noise is called."""
        width = checks.number(name, given, above=0)
        object.__setattr__(self, name, width)
        object.__setattr__(self, "sensitivity", self._check_sensitivity())
        object.__setattr__(self, "dimension", self.shape.dimension)
        object.__setattr__(self, "granularity", self.shape.granularity)
        checks.unit(self.unit)
        self.shape.units(name, width)

    def _check_sensitivity(self) -> Number:
        return checks.number("sensitivity", self.sensitivity, above=0)

    @classmethod
    def for_error(
        cls,
        tolerance: Number,
        confidence: float,
        sensitivity: Number = 1,
        *,
        dimension: int | None = None,
        real: bool = False,
        granularity: Number | None = None,
        unit: Unit = checks.ROW,
    ) -> Self:
        """The most noise, so the least ε, whose error, in any coordinate, reaches `tolerance` with
        probability at most 1 − confidence.

        An error of 10 or more with probability 1e-5 needs ε = 1.1513 of continuous Laplace noise, and 1.1941
        of integer noise, whose tail 2aⁿ/(1 + a) includes n itself:

        >>> from deniable.mechanisms import Gaussian, Laplace
        >>> scale = Laplace.for_error(tolerance=10, confidence=1 - 1e-5).scale
        >>> round(1 / scale, 4)
        1.1941
        >>> round(Gaussian.for_error(tolerance=10, confidence=0.95).sigma, 2)
        4.86
        """
        width, g = largest_scale(cls.FAMILY, tolerance, confidence, dimension, granularity, real)
        return cls(width, sensitivity, dimension, g, unit)

    @property
    @abstractmethod
    def noise(self) -> IntegerNoise:
        """In grid units."""

    @cached_property
    def shape(self) -> GridShape:
        return GridShape(self.dimension, self.granularity)

    def error(self, confidence: float = 0.95) -> Error:
        """Of the one number, or of the worst coordinate."""
        return self.shape.error(self.noise, confidence)

    def norm_error(self, confidence: float = 0.95) -> Error:
        """Of the L1 norm of all coordinates' errors: for Laplace noise exact up to 4096
        coordinates, else by Chernoff."""
        return self.shape.norm_error(self.noise, confidence)

    def __call__(self, data: Any, *, rng: Random) -> Any:
        return self.shape.noisy(data, self.noise, rng)


def choose_granularity(scale: Fraction, given: Number | None, real: bool, bits: int = 20) -> Number | None:
    """The granularity for noise of about `scale`: the given one, none for whole numbers,
    else about scale/2^bits."""
    if given is not None:
        return plain(grid.granularity(given))
    if checks.flag("real", real):
        return plain(grid.default_granularity(scale, bits))
    return None


def largest_scale(
    family: Family,
    tolerance: Number,
    confidence: float,
    dimension: int | None,
    granularity: Number | None,
    real: bool,
) -> tuple[Number, Number | None]:
    """The most noise whose error in any coordinate reaches `tolerance` with probability
    at most 1 − confidence; its grid."""
    g, n = reach(tolerance, granularity, real)
    shape = GridShape(dimension, g)
    beta = tails.per_coordinate(checks.failure(confidence), shape.size)
    units = tails.largest_scale(lambda scale: tail(family, scale, n), beta)
    return shape.to_data(units), g


def reach(tolerance: Number, given: Number | None, real: bool) -> tuple[Number | None, int]:
    """The granularity, and the least |noise| in its units that may make an error of
    `tolerance`, rounding included.

    The default grid has 2^30 units in the tolerance, so the scale has 2^10 to 2^40 for
    all confidences that a float can state.
    """
    t = exact(checks.number("tolerance", tolerance, above=0))
    g = choose_granularity(t, given, real, bits=30)
    # On a grid, reading may add half a unit to what the noise does.
    n = math.ceil(t) if g is None else math.ceil(t / exact(g) - Fraction(1, 2))
    if n < 1:
        raise InvalidParameter(f"Expected tolerance={tolerance} of more than half the granularity {g}.")
    return g, n
