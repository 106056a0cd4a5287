"""Fractions as floats, for every fraction: a bound of 1e200 has squares that no float holds."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

LARGEST = sys.float_info.max


def nearest(x: Fraction) -> float:
    """The float nearest to `x`, infinite beyond the largest.

    >>> nearest(Fraction(1, 3)), nearest(-Fraction(10) ** 400)
    (0.3333333333333333, -inf)
    """
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def held(x: Fraction) -> float:
    """The same, the largest float beyond it: what a column of floats can hold."""
    return max(-LARGEST, min(LARGEST, nearest(x)))


def root(x: Fraction) -> Fraction:
    """√x to the precision of floats, whatever the size of `x`.

    >>> float(root(Fraction(10) ** 400)), float(root(Fraction(2)))
    (1e+200, 1.4142135623730951)
    """
    half = (x.numerator.bit_length() - x.denominator.bit_length()) // 2
    return Fraction(math.sqrt(x / Fraction(4) ** half)) * Fraction(2) ** half


def half_up(x: Fraction, digits: Fraction = Fraction(0)) -> Fraction:
    """Rounded to these decimal places, halves away from zero."""
    scale = Fraction(10) ** max(-30, min(30, int(digits)))
    size = Fraction(math.floor(abs(x) * scale + Fraction(1, 2))) / scale
    return size if x >= 0 else -size


def shown_number(x: Any) -> Any:
    """A fraction as a whole number or a float; what is no number as it is."""
    if not isinstance(x, Fraction):
        return x
    if x.denominator == 1:
        return int(x)
    return held(x)
