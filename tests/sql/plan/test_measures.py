"""Values become integers as the sensitivity assumes, and aggregates share what they stand on."""

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.errors import InvalidQuery
from deniable.sql.answer.estimate import standing
from deniable.sql.dialects import DUCKDB
from deniable.sql.plan.measures.grid import Grid, grid
from deniable.sql.plan.measures.measure import Measure
from deniable.sql.plan.measures.totals import Count, Square, Sum, counted, summed
from deniable.sql.plan.measures.units import present
from deniable.sql.plan.noise import IntegerSensitivity
from deniable.sql.tree import Aggregate, Column, Kind, Type
from deniable.sql.tree import Statistic as S
from deniable.sql.write.contributions import Limit
from deniable.sql.write.statements import Writer
from tests.sql.planned import FLAG, REGION, N, X, query

BOUNDS = (Fraction(0), Fraction(60))


def kinds(*aggregates: Aggregate) -> list[type[Measure]]:
    return [type(measure) for measure in standing(query(aggregates)).measures]


def test_an_average_shares_its_count_and_sum() -> None:
    average, total, count = (Aggregate(s, X, bounds=BOUNDS) for s in (S.AVG, S.SUM, S.COUNT))
    assert kinds(average) == [Sum, Count]
    assert kinds(average, total, Aggregate(S.COUNT, X)) == [Sum, Count]
    assert kinds(total) == [Sum]
    assert len(kinds(average, Aggregate(S.STDDEV, X, bounds=BOUNDS), count)) <= 4


def test_other_filters_are_other_measures() -> None:
    assert len(kinds(Aggregate(S.COUNT), Aggregate(S.COUNT, where=FLAG), Aggregate(S.COUNT, X))) == 3


def test_a_sum_is_centred_only_beside_a_count() -> None:
    total = Aggregate(S.SUM, X, bounds=BOUNDS)
    assert standing(query([total])).measures == (Sum(X, None, BOUNDS, centred=False),)
    assert standing(query([total, Aggregate(S.COUNT, X)])).measures[0] == Sum(X, None, BOUNDS, centred=True)
    assert grid(N, BOUNDS, True, 20).top * 2 == grid(N, BOUNDS, False, 20).top


finite = st.floats(-1e12, 1e12) | st.sampled_from([0.0, 1e-300, -1e-300, 1e300])


@settings(max_examples=150, deadline=None)
@given(
    ends=st.tuples(finite, finite).map(sorted),
    values=st.lists(st.floats(allow_nan=True) | st.none(), max_size=6),
    centred=st.sampled_from([True, False, None]),
    bits=st.integers(11, 31),
)
def test_no_value_leaves_the_grid(
    ends: list[float], values: list[float | None], centred: bool | None, bits: int
) -> None:
    bounds = (Fraction(ends[0]), Fraction(ends[1]))
    cells = grid(X, bounds, centred, bits)
    assert cells.top <= 2 ** (bits - 1)
    for unit in engine_units(X, cells, [*values, *ends, -math.inf, math.inf], centred):
        assert unit is None or cells.low <= unit <= cells.high


@settings(max_examples=60, deadline=None)
@given(value=st.floats(-5, 50), bits=st.integers(12, 31))
def test_a_value_inside_its_bounds_is_rounded_by_half_a_unit_at_most(value: float, bits: int) -> None:
    cells = grid(X, BOUNDS, True, bits)
    (unit,) = engine_units(X, cells, [value], True)
    inside = min(max(Fraction(value), BOUNDS[0]), BOUNDS[1])
    assert unit is not None
    assert abs(cells.origin + unit * cells.unit - inside) <= cells.unit / 2 + Fraction(1, 10**12)


def test_whole_numbers_are_exact() -> None:
    cells = grid(N, (Fraction(0), Fraction(200_000)), True, 31)
    assert cells.exact
    assert cells.unit == 1
    assert engine_units(N, cells, [None, 0, 7, 200_001, -5], True) == [
        None,
        -100_000,
        7 - 100_000,
        100_000,
        -100_000,
    ]


def test_decimals_are_whole_numbers_of_their_last_place() -> None:
    cents = Column("cents", Type(Kind.DECIMAL, scale=2))
    cells = grid(cents, (Fraction(0), Fraction(99, 10)), False, 31)
    assert (cells.low, cells.high, cells.unit) == (0, 990, Fraction(1, 100))


def test_squares_stay_on_their_grid() -> None:
    for column, bits in ((X, 31), (X, 12), (N, 20)):
        cells = grid(column, (Fraction(-1000), Fraction(3000)), True, bits)
        squares = engine_units(column, cells, [None, -1000, 3000, 0, 1000], True, Square)
        assert all(s is None or cells.squares[0] <= s <= cells.squares[1] for s in squares)
        assert max(map(abs, cells.squares)) <= 2 ** (bits - 2) + 1


def test_texts_are_not_summed() -> None:
    with pytest.raises(InvalidQuery, match="A text cannot be summed or ranked"):
        grid(REGION, BOUNDS, True, 20)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (counted(5, replace=False, single=False), (5, 25)),
        (counted(5, replace=True, single=False), (10, 50)),
        (counted(5, replace=True, single=True), (5, 25)),
        (summed(2, -3, 4, replace=False, single=False), (8, 64)),
        (summed(2, -3, 4, replace=True, single=True), (14, 196)),
        (summed(2, -3, 4, replace=True, single=False), (16, 256)),
        (summed(2, 0, 4, replace=True, single=False), (16, 128)),
        (present(4, 10, replace=False, single=False), (40, 400)),
        (present(4, 10, replace=True, single=False), (80, 800)),
        (present(4, 10, replace=True, single=True), (10, 100)),
    ],
)
def test_sensitivities_are_those_proved(found: IntegerSensitivity, wanted: tuple[int, int]) -> None:
    assert (found.l1, found.l2_squared) == wanted


def engine_units(
    column: Column,
    cells: Grid,
    values: list[object],
    centred: bool | None,
    kind: type[Sum] | type[Square] = Sum,
) -> list[int | None]:
    """What DuckDB makes of values, by the statement's own text."""
    writer = Writer(query([]), Limit(False), DUCKDB)
    if kind is Square:
        square = Square(column, None, BOUNDS)
        text = square.square(writer, cells, [square])
    else:
        total = Sum(column, None, BOUNDS, bool(centred))
        text = writer.unit(total, cells, [total])
    type_name = "DOUBLE" if column.type.kind is Kind.FLOAT else "BIGINT"
    listed = ", ".join(f"({'NULL' if v is None else repr(str(v))}::{type_name})" for v in values)
    return [u for (u,) in duckdb.execute(f'SELECT {text} FROM (VALUES {listed}) AS v("x0")').fetchall()]
