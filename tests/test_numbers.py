"""What is printed is rounded to the safe side."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deniable import numbers

POSITIVE = st.floats(1e-300, 1e300)


def number(text: str) -> Fraction:
    return Fraction(text.removesuffix(" %")) / (100 if text.endswith("%") else 1)


@given(POSITIVE, st.integers(1, 12))
def test_up_is_never_below_and_down_never_above(x: float, digits: int) -> None:
    truth = Fraction(repr(x))
    assert truth <= number(numbers.up(x, digits)) <= truth * (1 + Fraction(1, 10 ** (digits - 1)))
    assert number(numbers.down(x, digits)) <= truth


@given(st.floats(1e-300, 1))
def test_percentages_are_rounded_outward_too(x: float) -> None:
    assert number(numbers.percent_down(x)) <= Fraction(repr(x)) <= number(numbers.percent_up(x))


@given(POSITIVE, st.integers(1, 12))
def test_ceiling_and_floor_are_what_is_printed(x: float, digits: int) -> None:
    assert numbers.floor(x, digits) <= x <= numbers.ceiling(x, digits)


def test_zero_infinity_and_whole_numbers_look_as_people_write_them() -> None:
    assert [numbers.up(x) for x in (0.0, math.inf, 1.0, 10.0)] == ["0", "∞", "1", "10"]


@given(POSITIVE, st.integers(1, 12))
def test_short_digits_are_rounded_outward_too(x: float, digits: int) -> None:
    truth = Fraction(repr(x))
    assert Fraction(numbers.short_down(x, digits)) <= truth <= Fraction(numbers.short_up(x, digits))
    assert Fraction(numbers.decimal_floor(x, digits)) <= truth


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**30))
def test_a_plain_number_means_the_same(top: int, bottom: int) -> None:
    ratio = Fraction(top, bottom)
    assert numbers.exact(numbers.plain(ratio)) == ratio
    assert isinstance(numbers.plain(ratio), int) == (ratio.denominator == 1)


def test_numbers_of_numpy_become_pythons() -> None:
    assert [type(numbers.plain(x)) for x in (np.int64(3), np.float64(0.5), np.float32(0.5))] == [
        int,
        float,
        float,
    ]
