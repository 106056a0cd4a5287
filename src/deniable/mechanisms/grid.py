"""Numbers on a grid: how data is read, and what rounding to the grid adds to a sensitivity.

Noise is drawn in whole grid units, so every released value is an integer times the
granularity g, whatever the data; there are no low bits of a float to give a value away
(Mironov 2012; Haney et al. 2022, arXiv 2207.13793).

Reading never fails, since a failure steered by one row would be a release: ⌊x/g + ½⌋ per
coordinate, a NaN (and what is no number) as 0, ±∞ and all beyond ±2^61 units as ±2^61,
missing coordinates as 0, surplus ones left out.

**Rounding and sensitivity.** r(x) = ⌊x + ½⌋ is monotone and r(x + 1) = r(x) + 1, so |r(x) − r(y)| ≤ ⌈|x −
y|⌉. (Rounding ties to even has not this property: ½ and 3/2 go to 0 and 2.) Clamping afterwards moves no two
values apart. Hence, with D = Δ/g:

- one coordinate: ⌈D⌉ units, in L1 and L2;
- L1, k coordinates: Σ⌈dᵢ⌉ < Σ(dᵢ + 1) ≤ D + k, and it is an integer: ⌈D⌉ + k − 1 units, which is attained;
- L2, k coordinates: ‖⌈d⌉‖ ≤ ‖d‖ + ‖(1, …, 1)‖ ≤ D + √k units.

A query that adds up rows which are already on the grid (`clamped_sum`) needs no
rounding: x/g is whole, D too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable.checks import number
from deniable.errors import InvalidParameter
from deniable.loss import Number, exact

ONE = Fraction(1)
LIMIT = 2**61
"""Grid units at which data is clamped, so that adding noise to it in 64 bits is safe."""
LARGEST_SCALE = 2**60
"""Grid units up to which noise is drawn."""
_EXPONENTS = range(-500, 501)
_DIGITS = 400

Whole: TypeAlias = NDArray[np.int64]


def granularity(value: Any) -> Fraction:
    """The grid as an exact power of two.

    >>> granularity(0.25)
    Fraction(1, 4)
    >>> granularity(0.1)
    Traceback (most recent call last):
        ...
    deniable.errors.InvalidParameter: Expected granularity=0.1 to be a power of two between 2^-500 and
    2^500, like 1/1024.
    """
    g = exact(number("granularity", value, above=0))
    if exponent(g) not in _EXPONENTS or g != Fraction(2) ** exponent(g):
        raise InvalidParameter(
            f"Expected granularity={value} to be a power of two between 2^-500 and 2^500, like 1/1024."
        )
    return g


def exponent(g: Fraction) -> int:
    """k where g = 2^k; ⌊log₂ g⌋ for any other g."""
    k = g.numerator.bit_length() - g.denominator.bit_length()
    if Fraction(2) ** k <= g:
        return k
    return k - 1


def default_granularity(scale: Number, bits: int = 20) -> Fraction:
    """The power of two that makes `scale` between 2^bits and 2^(bits + 1) units.

    >>> default_granularity(3.7), default_granularity(0.001, bits=10)
    (Fraction(1, 524288), Fraction(1, 1048576))
    """
    return Fraction(2) ** (exponent(exact(scale)) - bits)


def l1_units(sensitivity: Number, g: Fraction, dimension: int) -> int:
    """L1 sensitivity in grid units after rounding: ⌈Δ/g⌉ + k − 1 (proof above)."""
    return math.ceil(exact(sensitivity) / g) + dimension - 1


def l2_units(sensitivity: Number, g: Fraction, dimension: int) -> int:
    """L2 sensitivity in grid units after rounding: ⌈Δ/g⌉ for one coordinate, else Δ/g +
    √k, rounded up (proof above)."""
    d = exact(sensitivity) / g
    if dimension == 1:
        return math.ceil(d)
    return math.ceil(d + exact(root_up(Fraction(dimension))))


def root_up(x: Fraction) -> Number:
    """√x if it is whole, else a float whose decimal is at least √x, and by less than 2^-48 of it.

    >>> root_up(Fraction(9)), root_up(Fraction(2))
    (3, 1.4142135623730951)
    """
    root = math.isqrt(x.numerator)
    if x.denominator == 1 and root * root == x.numerator:
        return root
    guess = math.sqrt(x)
    # The decimal that is printed is what a loss states, so that one must be at least √x.
    while exact(guess) ** 2 < x:
        guess = math.nextafter(guess, math.inf)
    return guess


def read(data: Any, dimension: int, g: Fraction) -> Whole:
    """`dimension` coordinates of `data`, each in grid units and within ±LIMIT. Never raises (rules above)."""
    entries = _entries(data)
    out = np.zeros(dimension, np.int64)
    head = entries[:dimension]
    out[: len(head)] = _units(head, g)
    return out


def read_rows(data: Any, g: Fraction) -> Whole:
    """All rows of `data` in grid units, within ±LIMIT; a NaN, and what is no number, is
    left out. Never raises."""
    entries = _entries(data)
    if isinstance(entries, list):
        return _units([x for x in entries if _is_number(x)], g)
    if entries.dtype.kind == "f":
        return _units(entries[~np.isnan(entries)], g)
    if entries.dtype.kind in "iub":
        return _units(entries, g)
    return read_rows(entries.tolist(), g)


def write(units: Whole | int, g: Fraction | None) -> Any:
    """Grid units as the numbers they mean: integers where g is None, else floats
    (rounding here is post-processing)."""
    if g is None:
        return units
    if isinstance(units, int):
        return math.ldexp(float(units), exponent(g))
    return np.ldexp(units.astype(np.float64), exponent(g))


def add(units: Whole, noise: Whole) -> Whole:
    """units + noise without wrapping: where 64 bits might not hold the sum, Python integers do."""
    if noise.dtype != np.int64 or (len(noise) and max(-int(noise.min()), int(noise.max())) > LIMIT):
        return np.asarray(units.astype(object) + noise.astype(object))
    return units + noise


def clamped_sum(rows: Iterable[Any], lower: Number, upper: Number, g: Number = 1) -> Fraction:
    """The exact sum of `rows`, each clamped to [lower, upper] and then read on the grid;
    a NaN is 0, clamped likewise.

    No row can turn it into a NaN or move it by more than a bound: this is the sum whose sensitivity
    `sensitivity.sum` states, if both bounds lie on the grid.

    >>> clamped_sum([1.25, float("nan"), float("inf"), -3], lower=0, upper=10, g=0.25)
    Fraction(45, 4)
    """
    step = granularity(g)
    low, high = exact(number("lower", lower)), exact(number("upper", upper, at_least=float(lower)))
    if low % step or high % step or max(-low, high) > LIMIT * step:
        raise InvalidParameter(
            f"Expected lower={lower} and upper={upper} to be multiples of the granularity {g}, within 2^61 "
            "of them."
        )
    units = _units(_entries(rows), step)
    # Summed as Python integers: no number of rows overflows.
    return Fraction(int(np.clip(units, int(low / step), int(high / step)).sum(dtype=object))) * step


def _entries(data: Any) -> Any:
    """A flat array or list of what `data` holds; one thing that is no collection is a list of one."""
    if isinstance(data, np.ndarray):
        return data.ravel()
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        return [data]
    return list(data)


def _units(entries: Any, g: Fraction) -> Whole:
    """⌊x/g + ½⌋ within ±LIMIT of each entry: by arrays where they are exact, else one by one."""
    if isinstance(entries, list) and set(map(type, entries)) in ({float}, {int}, {bool}):
        entries = np.array(entries)
    kind = getattr(entries, "dtype", np.dtype(object)).kind
    # Whole numbers on a grid of whole numbers need no arithmetic; a uint64 may not fit, and goes the exact
    # way.
    if kind in "iub" and g == 1 and entries.dtype != np.uint64:
        return np.asarray(np.clip(entries.astype(np.int64), -LIMIT, LIMIT))
    if g == Fraction(2) ** exponent(g) and (_is_double(entries) or (kind in "iub" and _fits_float(entries))):
        return _nearest_floats(entries.astype(np.float64), exponent(g))
    # What no array of doubles holds exactly is read one by one.
    numbers = entries if isinstance(entries, list) else entries.tolist()
    return np.array([_nearest(x, g) for x in numbers], np.int64)


def _is_double(entries: Any) -> bool:
    """Floats of at most 64 bits: wider ones would be rounded."""
    return not isinstance(entries, list) and entries.dtype.kind == "f" and entries.dtype.itemsize <= 8


def _fits_float(entries: NDArray[Any]) -> bool:
    return not len(entries) or (int(entries.min()) >= -(2**53) and int(entries.max()) <= 2**53)


def _is_number(x: Any) -> bool:
    try:
        return not isinstance(x, str | bytes) and not math.isnan(x)
    except OverflowError:  # an int beyond all floats
        return True
    except Exception:  # whatever an entry of the data does, it is then no number
        return False


def _nearest(x: Any, g: Fraction) -> int:
    """⌊x/g + ½⌋ within ±LIMIT, in exact arithmetic."""
    try:
        value = _to_fraction(x)
    except OverflowError:  # what `as_integer_ratio` says of an infinity
        if x > 0:
            return LIMIT
        return -LIMIT
    except Exception:  # whatever an entry of the data does, it reads as a number
        return 0
    return max(-LIMIT, min(LIMIT, math.floor(value / g + Fraction(1, 2))))


def _to_fraction(x: Any) -> Fraction:
    """The number that `x` is, without rounding: rounding first could move two neighbours apart."""
    if isinstance(x, Rational):
        return Fraction(int(x.numerator), int(x.denominator))
    if isinstance(x, Decimal) and x and x.is_finite() and abs(x.adjusted()) > _DIGITS:
        # Far beyond the grid's largest or below its smallest unit; its integers would not fit in memory.
        if x.adjusted() > 0:
            return Fraction(10**_DIGITS if x > 0 else -(10**_DIGITS))
        return Fraction(0)
    return Fraction(*x.as_integer_ratio())


def _nearest_floats(x: NDArray[np.float64], k: int) -> Whole:
    """⌊x/2^k + ½⌋ without rounding on the way.

    Dividing by a power of two is exact (or underflows to what rounds to 0 as well). With
    f = ⌊v⌋ the difference v − f is exact wherever it is below ½, and is at least ½ in
    floats where it is in truth; so the comparison is right.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        v = np.clip(
            np.nan_to_num(np.ldexp(x, -k), nan=0.0, posinf=math.inf, neginf=-math.inf),
            -float(LIMIT),
            float(LIMIT),
        )
    low = np.floor(v)
    return np.asarray(low + (v - low >= 0.5)).astype(np.int64)
