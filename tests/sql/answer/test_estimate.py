"""Aggregates from noisy parts: their intervals hold the truth whenever the noise is within its radius."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.sql.answer.estimate import NoisyInteger, aggregate
from deniable.sql.answer.joint_noise import quotients
from deniable.sql.plan.measures.grid import grid
from deniable.sql.plan.noise import Family, IntegerSensitivity, Noise
from deniable.sql.tree import Statistic as S
from tests.sql.planned import N, X

ONE = Fraction(1, 1 << 20)
values = st.lists(st.floats(-3, 10), min_size=2, max_size=40)
errors = st.tuples(*[st.integers(-3000, 3000)] * 3)


@settings(max_examples=150, deadline=None)
@given(values, errors, st.sampled_from([11, 14, 31]))
def test_intervals_hold_the_truth(rows: list[float], noise: tuple[int, ...], bits: int) -> None:
    cells = grid(X, (Fraction(-3), Fraction(10)), True, bits)
    units = [math.floor((x - float(cells.centre)) / float(cells.step) + 0.5) for x in rows]
    squares = [(u * u >> cells.shift) - cells.square_centre for u in units]
    scale = 1 << 20
    square, total, count = (
        NoisyInteger(exact * scale + error * 100, 300_000, ONE)
        for exact, error in zip((sum(squares), sum(units), len(rows)), noise, strict=True)
    )
    truths = {
        S.SUM: (sum(rows), (total, count)),
        S.AVG: (float(np.mean(rows)), (total, count)),
        S.VARIANCE: (float(np.var(rows, ddof=1)), (square, total, count)),
        S.VARIANCE_POP: (float(np.var(rows)), (square, total, count)),
        S.STDDEV: (float(np.std(rows, ddof=1)), (square, total, count)),
        S.STDDEV_POP: (float(np.std(rows)), (square, total, count)),
    }
    for statistic, (truth, parts) in truths.items():
        # ddof = 1 divides by n − 1 of the true n, which lies within the count's interval.
        cell = aggregate(statistic, parts, cells, 0.05)
        slack = 1e-9 * (1 + abs(truth))
        assert cell.low - slack <= truth <= cell.high + slack, statistic


def test_without_noise_the_aggregate_is_exact() -> None:
    cells = grid(N, (Fraction(0), Fraction(10)), True, 31)
    parts = [
        NoisyInteger(x, 0, Fraction(1))
        for x in (sum((n - 5) ** 2 - cells.square_centre for n in (1, 4)), -5, 2)
    ]
    assert aggregate(S.AVG, parts[1:], cells, 0.05).value == Fraction(5, 2)
    assert aggregate(S.SUM, parts[1:], cells, 0.05).value == 5
    assert aggregate(S.VARIANCE, parts, cells, 0.05).value == Fraction(9, 2)
    assert aggregate(S.VARIANCE_POP, parts, cells, 0.05).value == Fraction(9, 4)
    assert aggregate(S.COUNT, parts[2:], None, 0.05).value == 2


def test_a_variance_shares_its_failures_among_what_it_is_made_of() -> None:
    """Mean square and mean at β/2 each; a sample variance takes the count as well, at β/3 each."""
    cells = grid(N, (Fraction(0), Fraction(10)), True, 31)
    noises = [Noise(Family.LAPLACE, scale, IntegerSensitivity(1, 1)) for scale in (20, 10, 2)]
    square, total, count = (
        NoisyInteger(x, noise, Fraction(1), i)
        for i, (x, noise) in enumerate(zip((1000, 800, 1000), noises, strict=True))
    )
    for statistic, share in ((S.VARIANCE_POP, 0.05 / 2), (S.VARIANCE, 0.05 / 3)):
        low2, high2 = quotients(square.form, count.form, share) or (0, 0)
        low1, high1 = quotients(total.form, count.form, share) or (0, 0)
        ends = count.form.ends(share) if statistic is S.VARIANCE else (Fraction(10**30), Fraction(10**30))
        low = float((low2 + cells.square_centre - high1**2) * ends[1] / (ends[1] - 1))
        high = float((high2 + cells.square_centre - low1**2) * ends[0] / (ends[0] - 1))
        cell = aggregate(statistic, (square, total, count), cells, 0.05)
        # From the bounds a bracket is found in other steps than from a box; both stop within a thousandth.
        assert (cell.low, cell.high) == pytest.approx((low, high), rel=0.002)
        assert cell.high - cell.low == pytest.approx(high - low, rel=0.03)


def test_an_average_lies_between_its_bounds_where_the_count_may_be_zero() -> None:
    cells = grid(N, (Fraction(0), Fraction(10)), True, 31)
    cell = aggregate(S.AVG, [NoisyInteger(3, 5, Fraction(1)), NoisyInteger(4, 5, Fraction(1))], cells, 0.05)
    assert (cell.low, cell.high) == (0, 10)
    assert cell.value == 5 + Fraction(3, 4)
    assert (
        aggregate(
            S.AVG, [NoisyInteger(3, 5, Fraction(1)), NoisyInteger(-4, 5, Fraction(1))], cells, 0.05
        ).value
        is None
    )


@pytest.mark.parametrize("noisy", [-1000, 1000])
def test_an_average_stays_between_the_bounds(noisy: int) -> None:
    cells = grid(N, (Fraction(0), Fraction(10)), True, 31)
    value = aggregate(
        S.AVG, [NoisyInteger(noisy, 5, Fraction(1)), NoisyInteger(4, 5, Fraction(1))], cells, 0.05
    ).value
    assert value == (10 if noisy > 0 else 0)
