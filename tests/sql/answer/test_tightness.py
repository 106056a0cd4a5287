"""An interval that is wider than it must be hides an answer: each end is reached, or
lies where a formula says it lies."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import pytest

from deniable.sql.answer.estimate import ROUNDED_ROWS, NoisyInteger, aggregate
from deniable.sql.answer.evaluate import Row, evaluate
from deniable.sql.functions.function import Cell
from deniable.sql.plan.measures.grid import Grid, grid
from deniable.sql.tree import AggregateRef, Call, Expr, Literal
from deniable.sql.tree import Statistic as S
from tests.sql.planned import FLOAT, INTEGER, N, X

WHOLE = grid(N, (Fraction(0), Fraction(10)), True, 31)
ROUNDED = grid(X, (Fraction(0), Fraction(10)), True, 14)
COARSE = grid(X, (Fraction(0), Fraction(10)), True, 7)
"""Of eight steps to one: rounding weighs as much as noise."""
FROM_ZERO = grid(X, (Fraction(0), Fraction(10)), False, 14)
ONE = Fraction(1)
NEAR = 2e-3
"""Brackets of quotients are found in steps, which stop within a thousandth."""
NEARER_END = 0.03
"""The end that lies nearer to 0 is found in one step, from the reach at the quotient itself."""


def ends(statistic: S, cells: Grid | None, *parts: NoisyInteger) -> tuple[float, float]:
    cell = aggregate(statistic, parts, cells, 0.05)
    return cell.low, cell.high


def box(noisy: NoisyInteger) -> tuple[Fraction, Fraction]:
    """All that a number may be without an error that is at most `noise`."""
    assert isinstance(noisy.noise, int)
    return (noisy.noisy - noisy.noise) * noisy.worth, (noisy.noisy + noisy.noise) * noisy.worth


def quotients(top: NoisyInteger, bottom: NoisyInteger) -> tuple[Fraction, Fraction]:
    values = [a / b for a, b in product(box(top), box(bottom))]
    return min(values), max(values)


# ------------------------------------------------------------------------------------------------ counts and sums


def test_a_count_reaches_as_far_as_its_noise() -> None:
    assert ends(S.COUNT, None, NoisyInteger(100, 7, Fraction(1, 4))) == (23.25, 26.75)


def test_a_sum_of_whole_numbers_reaches_as_far_as_its_noises() -> None:
    total, count = NoisyInteger(40, 6, ONE, 0), NoisyInteger(30, 2, ONE, 1)
    low, high = ends(S.SUM, WHOLE, total, count)
    reach = 6 + 5 * 2
    assert (low, high) == pytest.approx((190 - reach, 190 + reach), rel=1e-7)


def test_a_sum_of_floats_allows_for_half_a_step_in_each_of_many_rows() -> None:
    unit = FROM_ZERO.unit
    low, high = ends(S.SUM, FROM_ZERO, NoisyInteger(400, 6, ONE, 0))
    reach = (6 + Fraction(ROUNDED_ROWS, 2)) * unit
    assert (low, high) == pytest.approx((float(400 * unit - reach), float(400 * unit + reach)), rel=1e-12)


# ------------------------------------------------------------------------------------------------ averages


@pytest.mark.parametrize("cells", [WHOLE, ROUNDED], ids=["whole", "rounded"])
@pytest.mark.parametrize("total", [-300, 0, 300])
def test_an_average_reaches_the_corners_of_its_box(cells: Grid, total: int) -> None:
    """Beyond them by half a grid unit where values are rounded, and no more."""
    scaled = total * (1 if cells.exact else 512)
    parts = NoisyInteger(scaled, 20, ONE, 0), NoisyInteger(200, 8, ONE, 1)
    low, high = quotients(*parts)
    slack = 0 if cells.exact else cells.unit / 2
    wanted = cells.origin + cells.unit * low - slack, cells.origin + cells.unit * high + slack
    spread = float(wanted[1] - wanted[0])
    room = (NEARER_END if total else NEAR) * spread
    assert ends(S.AVG, cells, *parts) == pytest.approx(tuple(map(float, wanted)), abs=room)


@pytest.mark.parametrize(("total", "wanted"), [(10**6, (10.0, 10.0)), (-(10**6), (0.0, 0.0))])
def test_an_average_never_leaves_its_bounds(total: int, wanted: tuple[float, float]) -> None:
    assert ends(S.AVG, WHOLE, NoisyInteger(total, 20, ONE, 0), NoisyInteger(200, 8, ONE, 1)) == wanted


@pytest.mark.parametrize("total", [-(10**6), 0, 10**6])
def test_rounding_does_not_lead_out_of_the_bounds(total: int) -> None:
    low, high = ends(S.AVG, COARSE, NoisyInteger(total, 20_000, ONE, 0), NoisyInteger(200, 8, ONE, 1))
    assert 0.0 <= low <= high <= 10.0


# ------------------------------------------------------------------------------------------------ variances

SPREADS: dict[S, tuple[bool, Callable[[float], float]]] = {
    S.VARIANCE: (True, float),
    S.VARIANCE_POP: (False, float),
    S.STDDEV: (True, math.sqrt),
    S.STDDEV_POP: (False, math.sqrt),
}


def spread_ends(cells: Grid, parts: tuple[NoisyInteger, ...], sample: bool) -> tuple[Fraction, Fraction]:
    """Mean square less squared mean over the whole box, with what squares were cut by
    and what values were rounded by."""
    square, total, count = parts
    worth = cells.unit**2 * (1 << cells.shift)
    squares = [worth * (q + cells.square_centre) for q in quotients(square, count)]
    means = [cells.unit * q for q in quotients(total, count)]
    largest = max(m * m for m in means)
    least = Fraction(0) if means[0] <= 0 <= means[1] else min(m * m for m in means)
    rounding = 0 if cells.exact else 2 * cells.unit**2 * (cells.top + Fraction(1, 4))
    cut = worth if cells.shift else 0
    fewest, most = box(count)
    corrections = (most / (most - 1), fewest / (fewest - 1)) if sample else (ONE, ONE)
    low = max(Fraction(0), squares[0] - largest - rounding)
    return low * corrections[0], (squares[1] + cut - least + rounding) * corrections[1]


@pytest.mark.parametrize("statistic", SPREADS)
@pytest.mark.parametrize("cells", [WHOLE, ROUNDED, COARSE], ids=["whole", "rounded", "coarse"])
@pytest.mark.parametrize("mean", [0, 2])
def test_a_variance_reaches_the_ends_of_its_moments(statistic: S, cells: Grid, mean: int) -> None:
    sample, shape = SPREADS[statistic]
    step = int(1 / cells.unit)
    second = (9 * step**2 >> cells.shift) - cells.square_centre
    values = (400 * second, 400 * mean * step, 400)
    noises = (40 * step, 20 * step, 4)
    parts = tuple(NoisyInteger(v, n, ONE, i) for i, (v, n) in enumerate(zip(values, noises, strict=True)))
    low, high = spread_ends(cells, parts, sample)
    wanted = shape(float(low)), shape(float(high))
    assert ends(statistic, cells, *parts) == pytest.approx(wanted, rel=3 * NEAR, abs=1e-9)


# ------------------------------------------------------------------------------------------------ what is written around them

A, B = AggregateRef(0, FLOAT), AggregateRef(1, FLOAT)
BOXES = [
    ((2.0, 5.0), (1.0, 4.0)),
    ((-3.0, 2.0), (1.0, 4.0)),
    ((-5.0, -2.0), (-4.0, -1.0)),
    ((-3.0, 2.0), (-4.0, 5.0)),
]
EXACT: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "greatest": max,
    "least": min,
}
ALONE: dict[str, Callable[[float], float]] = {
    "negate": lambda a: -a,
    "abs": abs,
    "exp": math.exp,
    "sqrt": lambda a: math.sqrt(max(0.0, a)),
    "cast": lambda a: a,
}


def interval(expr: Expr, *boxes: tuple[float, float]) -> tuple[float, float]:
    cells = tuple(Cell(Fraction(low + high) / 2, low, high) for low, high in boxes)
    cell = evaluate(expr, Row((), cells))
    return cell.low, cell.high


def points(ends: tuple[float, float]) -> list[float]:
    return [ends[0] + (ends[1] - ends[0]) * i / 20 for i in range(21)] + [
        0.0 for _ in range(ends[0] < 0 < ends[1])
    ]


@pytest.mark.parametrize("op", EXACT)
@pytest.mark.parametrize("boxes", BOXES)
def test_an_operation_on_two_intervals_gives_their_image(
    op: str, boxes: tuple[tuple[float, float], tuple[float, float]]
) -> None:
    if op == "divide" and boxes[1][0] <= 0 <= boxes[1][1]:
        assert interval(Call(op, (A, B), FLOAT), *boxes) == (-math.inf, math.inf)
        return
    image = [EXACT[op](a, b) for a, b in product(*map(points, boxes))]
    assert interval(Call(op, (A, B), FLOAT), *boxes) == pytest.approx((min(image), max(image)))


@pytest.mark.parametrize("op", ALONE)
@pytest.mark.parametrize("box", [(2.0, 5.0), (-3.0, 2.0), (-5.0, -2.0)])
def test_an_operation_on_one_interval_gives_its_image(op: str, box: tuple[float, float]) -> None:
    image = [ALONE[op](a) for a in points(box)]
    assert interval(Call(op, (A,), FLOAT), box) == pytest.approx((min(image), max(image)))


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        (Call("round", (A,), FLOAT), (1.5, 5.5)),
        (Call("round", (A, Literal(1, INTEGER)), FLOAT), (1.95, 5.05)),
        (Call("floor", (A,), FLOAT), (1.0, 5.0)),
        (Call("ceil", (A,), FLOAT), (2.0, 6.0)),
        (Call("cast", (A,), INTEGER), (1.5, 5.5)),
        (Call("coalesce", (A, B), FLOAT), (2.0, 9.0)),
        (Call("case", (Literal(True, INTEGER), A, B), FLOAT), (2.0, 9.0)),
        (Call("sign", (A,), FLOAT), (-1.0, 1.0)),
    ],
    ids=str,
)
def test_rounding_and_choosing_widen_by_no_more_than_they_must(
    expr: Expr, wanted: tuple[float, float]
) -> None:
    assert interval(expr, (2.0, 5.0), (7.0, 9.0)) == pytest.approx(wanted)
