"""Reading never fails, and rounding never moves neighbours further apart than is charged."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.errors import InvalidParameter
from deniable.mechanisms import grid

GRIDS = st.integers(-30, 30).map(lambda k: Fraction(2) ** k)
ANYTHING = st.one_of(
    st.floats(),
    st.integers(),
    st.fractions(),
    st.booleans(),
    st.text(),
    st.none(),
    st.decimals(),
    st.binary(),
    st.complex_numbers(),
)


@given(st.one_of(ANYTHING, st.lists(ANYTHING)), st.integers(1, 5), GRIDS)
def test_whatever_the_data_reading_gives_whole_numbers_in_range(
    data: Any, dimension: int, g: Fraction
) -> None:
    units = grid.read(data, dimension, g)
    assert units.dtype == np.int64
    assert len(units) == dimension
    assert np.all(np.abs(units) <= grid.LIMIT)


@given(st.lists(st.floats(), min_size=1), GRIDS)
def test_arrays_are_read_as_exact_arithmetic_reads_them(values: list[float], g: Fraction) -> None:
    one_by_one = [grid._nearest(x, g) for x in values]
    assert grid.read(np.array(values), len(values), g).tolist() == one_by_one
    assert grid.read(values, len(values), g).tolist() == one_by_one


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.uint64, np.bool_, np.float32, object])
def test_every_kind_of_array_is_read_alike(dtype: Any) -> None:
    values = np.array([0, 1, 1, 0], dtype)
    for g in (Fraction(1), Fraction(1, 4), Fraction(2), Fraction(1, 3)):
        assert grid.read(values, 4, g).tolist() == [math.floor(x / g + Fraction(1, 2)) for x in (0, 1, 1, 0)]


def test_large_whole_numbers_keep_every_digit_up_to_the_clamp() -> None:
    big = 2**60 + 1
    for data in ([big], np.array([big]), np.array([big], np.uint64), [Fraction(big)], Fraction(big)):
        assert grid.read(data, 1, grid.ONE).tolist() == [big]
    assert grid.read(np.array([2**64 - 1], np.uint64), 1, grid.ONE).tolist() == [grid.LIMIT]
    assert grid.read([10**400, -(10**400)], 2, grid.ONE).tolist() == [grid.LIMIT, -grid.LIMIT]


def test_the_rules_for_what_is_no_number() -> None:
    data = [math.nan, math.inf, -math.inf, "7", None, Decimal("NaN"), Decimal("2.5"), [1]]
    assert grid.read(data, 8, grid.ONE).tolist() == [0, grid.LIMIT, -grid.LIMIT, 0, 0, 0, 3, 0]


def test_numbers_finer_than_a_float_are_not_rounded_first() -> None:
    just_below = Decimal("0.49999999999999999999999")
    assert float(just_below) == 0.5
    assert grid.read([just_below], 1, grid.ONE).tolist() == [0]
    wide = np.array([1.5], np.longdouble) - np.finfo(np.longdouble).eps
    assert grid.read(wide, 1, grid.ONE).tolist() == [1 if wide[0] < 1.5 else 2]


def test_numbers_too_large_to_write_out_are_clamped_at_once() -> None:
    data = [
        Decimal("1e999999"),
        Decimal("-1e999999"),
        Decimal("1e-999999"),
        Decimal("Infinity"),
        Decimal("-Infinity"),
    ]
    assert grid.read(data, 5, Fraction(2) ** 500).tolist() == [
        grid.LIMIT,
        -grid.LIMIT,
        0,
        grid.LIMIT,
        -grid.LIMIT,
    ]
    assert grid.read([Decimal("0e999999"), Decimal("-0e-999999")], 2, grid.ONE).tolist() == [0, 0]
    assert grid.read(data, 5, Fraction(2) ** -500).tolist() == [
        grid.LIMIT,
        -grid.LIMIT,
        0,
        grid.LIMIT,
        -grid.LIMIT,
    ]


def test_missing_coordinates_are_0_and_surplus_ones_left_out() -> None:
    assert grid.read([1, 2, 3], 2, grid.ONE).tolist() == [1, 2]
    assert grid.read([1], 3, grid.ONE).tolist() == [1, 0, 0]
    assert grid.read(5, 1, grid.ONE).tolist() == [5]


def test_rows_that_are_no_numbers_are_left_out() -> None:
    for data in (
        [1.0, math.nan, 2.0],
        np.array([1.0, math.nan, 2.0]),
        [1, None, "x", 2],
        np.array([1, None, 2], object),
    ):
        assert grid.read_rows(data, grid.ONE).tolist() == [1, 2]
    assert grid.read_rows([10**400], grid.ONE).tolist() == [grid.LIMIT]


@given(st.fractions(), st.fractions(), GRIDS)
def test_one_coordinate_moves_by_no_more_than_is_charged(x: Fraction, y: Fraction, g: Fraction) -> None:
    moved = abs(int(grid.read([x], 1, g)[0]) - int(grid.read([y], 1, g)[0]))
    if x != y:
        assert moved <= grid.l1_units(abs(x - y), g, 1)
        assert moved <= grid.l2_units(abs(x - y), g, 1)


@given(st.lists(st.tuples(st.fractions(), st.fractions()), min_size=2, max_size=6), GRIDS)
def test_vectors_move_by_no_more_than_is_charged(pairs: list[tuple[Fraction, Fraction]], g: Fraction) -> None:
    k = len(pairs)
    moved = [
        abs(int(a) - int(b))
        for a, b in zip(*(grid.read([p[i] for p in pairs], k, g) for i in (0, 1)), strict=True)
    ]
    l1, l2 = sum(abs(x - y) for x, y in pairs), grid.root_up(sum((x - y) ** 2 for x, y in pairs))
    if l1:
        assert sum(moved) <= grid.l1_units(l1, g, k)
        assert sum(m * m for m in moved) <= grid.l2_units(l2, g, k) ** 2


def test_the_l1_charge_is_attained() -> None:
    # Two coordinates just below a border move by a grain each and cost a unit each; the third moves by the
    # rest.
    grain, edge = Fraction(1, 1000), Fraction(1, 2)
    before = [edge - grain] * 3
    after = [edge, edge, edge - grain + 3 - 2 * grain]
    assert sum(b - a for a, b in zip(before, after, strict=True)) == 3
    moved = np.abs(grid.read(after, 3, grid.ONE) - grid.read(before, 3, grid.ONE)).sum()
    assert moved == grid.l1_units(3, grid.ONE, 3) == 5


def test_ties_to_even_would_break_the_charge() -> None:
    assert abs(round(0.5) - round(1.5)) == 2 > grid.l1_units(1, grid.ONE, 1)
    assert abs(grid.read([0.5], 1, grid.ONE)[0] - grid.read([1.5], 1, grid.ONE)[0]) == 1


@pytest.mark.parametrize("value", [0.1, 3, 0, -1, math.nan, 2.0**-600, "1"])
def test_a_grid_is_a_power_of_two(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="granularity"):
        grid.granularity(value)


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9), st.integers(0, 40))
def test_the_default_grid_has_the_units_asked_for(scale: Fraction, bits: int) -> None:
    g = grid.default_granularity(scale, bits)
    assert 2**bits <= scale / g < 2 ** (bits + 1)
    assert grid.granularity(g) == g


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_a_root_is_rounded_up_by_a_hair(x: Fraction) -> None:
    root = Fraction(str(grid.root_up(x)))
    assert x <= root**2 <= x * (1 + Fraction(1, 2**44))


def test_noise_near_the_end_of_64_bits_does_not_wrap() -> None:
    units, noise = np.array([grid.LIMIT, -grid.LIMIT]), np.array([2**63 - 1, -(2**63)])
    assert grid.add(units, noise).tolist() == [grid.LIMIT + 2**63 - 1, -grid.LIMIT - 2**63]
    assert grid.add(units, np.array([5, 5])).dtype == np.int64


def test_released_reals_are_multiples_of_the_grid() -> None:
    assert grid.write(np.array([3, -5]), Fraction(1, 4)).tolist() == [0.75, -1.25]
    assert grid.write(7, Fraction(1, 8)) == 0.875
    assert grid.write(7, None) == 7


@given(
    st.lists(st.one_of(st.floats(), st.integers(), st.none())),
    st.one_of(st.floats(), st.integers(), st.none()),
)
def test_one_row_moves_a_clamped_sum_by_a_bound_at_most(rows: list[Any], row: Any) -> None:
    for low, high in product((-3, 0, 2), (2.5, 7)):
        moved = grid.clamped_sum([*rows, row], low, high, 0.25) - grid.clamped_sum(rows, low, high, 0.25)
        assert low <= moved <= Fraction(high)


def test_bounds_of_a_clamped_sum_lie_on_its_grid() -> None:
    with pytest.raises(InvalidParameter, match="multiples of the granularity"):
        grid.clamped_sum([1], 0, 0.1, 0.25)
