"""How a value becomes an integer, so that sums are exact and one row moves them by a known amount at most."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from deniable.errors import InvalidQuery
from deniable.sql.tree import Expr, Kind

Bounds = tuple[Fraction, Fraction]

_FARTHEST = Fraction(2) ** 900
"""Bounds are read up to here, so that no float in a statement overflows."""


@dataclass(frozen=True)
class Grid:
    """A value is clamped to [lower, upper], moved by −centre and counted in steps of `step`.

    All in the engine's own measure, where a decimal is a number of 10^-scale; `scale` is what one of these
    means. `exact` values are integers of step 1 and are not rounded. `low` and `high` are the least and
    largest integer, at most 2^(bits − 1) in size."""

    lower: Fraction
    upper: Fraction
    centre: Fraction
    step: Fraction
    scale: Fraction
    exact: bool
    low: int
    high: int
    bits: int

    @property
    def top(self) -> int:
        return max(abs(self.low), abs(self.high), 1)

    @property
    def unit(self) -> Fraction:
        """What one grid unit means."""
        return self.step * self.scale

    @property
    def rounding(self) -> Fraction:
        """How far a value may be from what its integer means."""
        return Fraction(0) if self.exact else self.unit / 2

    @property
    def origin(self) -> Fraction:
        """What 0 means."""
        return self.centre * self.scale

    @property
    def shift(self) -> int:
        """Squares are kept below 2^(bits − 1) too: this many of their bits are cut off."""
        return max(0, 2 * self.top.bit_length() - self.bits + 1)

    @property
    def squares(self) -> tuple[int, int]:
        """The least and largest of what squares become: cut, and counted from their middle."""
        return -self.square_centre, (self.top**2 >> self.shift) - self.square_centre

    @property
    def square_centre(self) -> int:
        return (self.top**2 >> self.shift) // 2

    def clamps_to(self, bounds: tuple[int, int]) -> bool:
        """Whether values are whole numbers that are clamped to these bounds."""
        return self.exact and (int(self.lower), int(self.upper)) == bounds


def grid(of: Expr, bounds: Bounds, centred: bool | None, bits: int, *, filled: bool = False) -> Grid:
    """The finest grid on which no value passes 2^(bits − 1): the values' own where they are whole numbers and
    it fits.

    `centred` is None to count from the lower bound. A `filled` grid reaches 2^(bits − 1), for whole numbers
    too: where noise is sized before the bounds are known, a coarser grid would drown in it."""
    scale = scale_of(of)
    lower, upper = (max(-_FARTHEST, min(_FARTHEST, bound / scale)) for bound in bounds)
    if of.type.kind is not Kind.FLOAT and not filled:
        own = _own(lower, upper, centred, bits, scale)
        if own.top <= 2 ** (bits - 1):
            return own
    return _rounded(float(lower), float(max(lower, upper)), centred, bits, scale)


def _own(lower: Fraction, upper: Fraction, centred: bool | None, bits: int, scale: Fraction) -> Grid:
    """The grid of whole numbers themselves."""
    low, high = max(math.floor(lower), -(2**61)), min(math.ceil(upper), 2**61)
    high = max(low, high)
    centre = {None: low, True: (low + high) // 2, False: 0}[centred]
    ends = Fraction(low), Fraction(high)
    return Grid(*ends, Fraction(centre), Fraction(1), scale, True, low - centre, high - centre, bits)


def _rounded(lower: float, upper: float, centred: bool | None, bits: int, scale: Fraction) -> Grid:
    """A power of two as step. `_unit` is what engines compute: each operation is monotone, so the ends bound
    all values."""
    centre = {None: lower, True: lower / 2 + upper / 2, False: 0.0}[centred]
    width = max(abs(lower - centre), abs(upper - centre), 2.0**-900)
    # Division by a power of two is exact, so all engines round a value to the same integer.
    step = 2.0 ** (math.frexp(width)[1] - bits + 1)
    low, high = _unit(lower, centre, step), _unit(upper, centre, step)
    ends = Fraction(lower), Fraction(upper)
    return Grid(*ends, Fraction(centre), Fraction(step), scale, False, low, high, bits)


def _unit(x: float, centre: float, step: float) -> int:
    return math.floor((x - centre) * (1 / step) + 0.5)


def scale_of(of: Expr | None) -> Fraction:
    """What one of the engine's own units means."""
    if of is None:
        return Fraction(1)
    if of.type.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        raise InvalidQuery(
            f"A {of.type.kind} cannot be summed or ranked. Nothing was run and nothing was charged. "
            "Take a number, for example by CAST or DATE_DIFF."
        )
    if of.type.kind is Kind.DECIMAL:
        return Fraction(1, 10**of.type.scale)
    return Fraction(1)
