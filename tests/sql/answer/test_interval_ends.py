"""An interval is no wider than it must be: covers `answer.estimate`, beside the coverage that `test_estimate` checks.

Errors are sure bounds here (a whole number that the error never passes), so the narrowest interval that holds the truth is known
exactly: the range of the aggregate over all errors within their bounds. What widens a ± fails here.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from deniable.sql.answer.estimate import ROUNDED_ROWS, Measured, aggregate
from deniable.sql.plan.noise import Family, Noise, Sensitivity
from deniable.sql.plan.statistics import Grid, grid
from deniable.sql.tree import Statistic as S
from tests.sql.planned import N, X

WHOLE = grid(N, (Fraction(0), Fraction(10)), True, 31)
"""Whole numbers from 0 to 10, counted from 5: nothing is rounded."""
ROUNDED = grid(X, (Fraction(-3), Fraction(10)), True, 14)
"""Floats on a grid of 2^14 steps; their squares lose bits."""
NOISES = [Noise(Family.LAPLACE, 9, Sensitivity(1, 1)), Noise(Family.GAUSSIAN, 9, Sensitivity(1, 1))]


def sure(noisy: int, bound: int, worth: Fraction = Fraction(1)) -> Measured:
    return Measured(noisy, bound, worth)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("beta", [0.05, 1e-6])
def test_a_count_reaches_as_far_as_its_noise_and_no_farther(noise: Noise, beta: float) -> None:
    cell = aggregate(S.COUNT, [Measured(100, noise, Fraction(1, 4))], None, beta)
    reach = noise.within(beta) / 4
    assert (cell.low, cell.high) == (25 - reach, 25 + reach)


@pytest.mark.parametrize("noise", NOISES)
def test_a_sum_from_0_reaches_as_far_as_its_noise(noise: Noise) -> None:
    cells = grid(N, (Fraction(0), Fraction(10)), None, 31)
    cell = aggregate(S.SUM, [Measured(100, noise, Fraction(1))], cells, 0.05)
    assert (cell.low, cell.high) == (100 - noise.within(0.05), 100 + noise.within(0.05))


def test_a_centred_sum_reaches_as_far_as_both_errors() -> None:
    cell = aggregate(S.SUM, [sure(40, 7), sure(100, 3)], WHOLE, 0.05)
    assert (cell.low, cell.high) == pytest.approx((540 - 7 - 5 * 3, 540 + 7 + 5 * 3), rel=1e-8)


def test_rounding_adds_half_a_unit_a_row_to_a_sum() -> None:
    cells = grid(X, (Fraction(-3), Fraction(10)), False, 14)
    cell = aggregate(S.SUM, [sure(40, 0)], cells, 0.05)
    value, slack = float(40 * cells.unit), float(ROUNDED_ROWS * cells.unit / 2)
    assert (cell.low, cell.high) == pytest.approx((value - slack, value + slack), rel=1e-8)


def quotients(total: int, error: int, rows: int, off: int) -> tuple[Fraction, Fraction]:
    """The mean at its ends. Far from 0 it is the corner of both errors; on the near side the count's error is taken at the mean
    itself, which is a little further out (`joint_noise.quotients`)."""
    size = abs(total)
    far = Fraction(size + error, rows - off)
    near = (size - error - Fraction(off * size, rows)) / rows if size else -far
    return (near, far) if total >= 0 else (-far, -near)


@pytest.mark.parametrize(("total", "rows"), [(200, 100), (-200, 100), (30, 50), (0, 1000)])
@pytest.mark.parametrize("cells", [WHOLE, ROUNDED], ids=["whole", "rounded"])
def test_an_average_takes_the_quotients_that_the_errors_allow(total: int, rows: int, cells: Grid) -> None:
    cell = aggregate(S.AVG, [sure(total, 20), sure(rows, 5)], cells, 0.05)
    least, most = quotients(total, 20, rows, 5)
    slack = 0 if cells.exact else cells.unit / 2
    low, high = cells.origin + cells.unit * least - slack, cells.origin + cells.unit * most + slack
    room = 0.004 * float(high - low)  # the search stops within a thousandth of the whole bracket
    assert (cell.low, cell.high) == pytest.approx((float(low), float(high)), abs=room)


def parts_of(values: list[float], cells: Grid) -> list[Measured]:
    """Squares, sums and a count without any error."""
    units = [math.floor((x - float(cells.centre)) / float(cells.step) + 0.5) for x in values]
    squares = [(u * u >> cells.shift) - cells.square_centre for u in units]
    return [sure(total, 0) for total in (sum(squares), sum(units), len(units))]


VALUES = list(np.linspace(-2.7, 9.3, 30))


def test_a_variance_without_noise_is_off_by_what_rounding_and_cut_bits_may_move() -> None:
    cell = aggregate(S.VARIANCE_POP, parts_of(VALUES, ROUNDED), ROUNDED, 0.05)
    assert ROUNDED.shift
    slack = ROUNDED.unit**2 * (ROUNDED.top + Fraction(1, 4))  # of one moment; both may be moved, up or down
    cut = ROUNDED.unit**2 * (1 << ROUNDED.shift)
    assert cell.low <= float(np.var(VALUES)) <= cell.high
    assert cell.high - cell.low == pytest.approx(float(cut + 4 * slack), rel=1e-6)


def test_a_variance_of_whole_numbers_without_noise_is_known() -> None:
    whole = [1.0, 4.0, 9.0, 10.0, 0.0]
    for statistic, truth in (
        (S.VARIANCE_POP, np.var(whole)),
        (S.VARIANCE, np.var(whole, ddof=1)),
        (S.STDDEV_POP, np.std(whole)),
        (S.STDDEV, np.std(whole, ddof=1)),
    ):
        cell = aggregate(statistic, parts_of(whole, WHOLE), WHOLE, 0.05)
        assert (cell.low, cell.high) == pytest.approx((truth, truth), rel=1e-9)


@pytest.mark.parametrize("sample", [False, True])
def test_a_variance_takes_both_moments_at_their_ends_and_no_farther(sample: bool) -> None:
    """Each moment lies in the range of its own quotient; the count is divided out once more for a sample."""
    square, total, rows = 3000, 200, 1000
    parts = [sure(square, 50), sure(total, 20), sure(rows, 5)]
    cell = aggregate(S.VARIANCE if sample else S.VARIANCE_POP, parts, WHOLE, 0.05)
    first, second = quotients(total, 20, rows, 5), quotients(square, 50, rows, 5)
    low, high = second[0] + WHOLE.square_centre - first[1] ** 2, second[1] + WHOLE.square_centre - first[0] ** 2
    if sample:
        low, high = low * Fraction(rows + 5, rows + 4), high * Fraction(rows - 5, rows - 6)
    assert (cell.low, cell.high) == pytest.approx((float(low), float(high)), abs=0.006 * float(high - low))


def test_a_deviation_is_the_root_of_its_variance() -> None:
    parts = [sure(3000, 50), sure(200, 20), sure(1000, 5)]
    for variance, deviation in ((S.VARIANCE_POP, S.STDDEV_POP), (S.VARIANCE, S.STDDEV)):
        squared, root = (aggregate(statistic, parts, WHOLE, 0.05) for statistic in (variance, deviation))
        assert (root.low, root.high) == pytest.approx((math.sqrt(squared.low), math.sqrt(squared.high)), rel=1e-9)
