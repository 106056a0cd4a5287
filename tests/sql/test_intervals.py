"""Intervals hold every value, against a real engine over hostile and everyday values;
and they are no wider than they must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.sql.deductions import interval
from deniable.sql.dialects import DUCKDB
from deniable.sql.intervals import EVERYTHING, Interval, physical
from deniable.sql.tree import Call, Column, Expr, Literal
from deniable.sql.types import FLOAT, INTEGER, NUMBERS
from deniable.sql.write import relations
from tests.sql.conftest import Run
from tests.sql.values import COLUMNS, ROWS, expression
from tests.sql.write.test_expressions_engines import TOTAL

NUMERIC = [text for text in TOTAL if expression(text).type.kind in NUMBERS]
EVERYDAY = 500  # the first of the rows with small numbers


def exact(value: Any, expr: Expr) -> Fraction:
    return Fraction(value) / 10**expr.type.scale


def seen(name: str) -> Interval:
    """The bounds that an owner would declare for a column, by the everyday rows."""
    at, unit = list(COLUMNS).index(name), 10 ** COLUMNS[name].scale
    values = [Fraction(row[at]) / unit for row in ROWS[EVERYDAY:]] if COLUMNS[name].kind in NUMBERS else []
    return Interval(min(values), max(values)) if values else EVERYTHING


def outside(found: list[Any], expr: Expr, within: Interval) -> list[Any]:
    """A relative 1e-12 is left for the rounding of floats."""
    slack = Fraction(1, 10**12)
    odd = []
    for value in (exact(x, expr) for x in found if x is not None):
        room = slack * max(1, abs(value)) if expr.type.kind == "float" else 0
        low, high = within.lower, within.upper
        odd += (
            [value]
            if (low is not None and value < low - room) or (high is not None and value > high + room)
            else []
        )
    return odd


@pytest.mark.parametrize("text", NUMERIC)
def test_every_value_lies_in_the_interval_of_its_expression(on_duckdb: Run, text: str) -> None:
    expr = expression(text)
    sql = relations.expression(expr, DUCKDB)
    found = [row[0] for row in on_duckdb(f'SELECT {sql} FROM t ORDER BY "row"')]
    assert outside(found, expr, interval(expr, lambda column: physical(column.type))) == []
    assert outside(found[EVERYDAY:], expr, interval(expr, lambda column: seen(column.name))) == []


whole = st.integers(-20, 20)


@given(
    st.sampled_from(["add", "subtract", "multiply", "int_divide", "modulo", "greatest", "least"]),
    whole,
    whole,
    whole,
    whole,
)
def test_intervals_of_two_numbers_hold_and_their_ends_are_reached(
    op: str, a: int, b: int, c: int, d: int
) -> None:
    x, y = Column("x", INTEGER), Column("y", INTEGER)
    ranges = {"x": (min(a, b), max(a, b)), "y": (min(c, d), max(c, d))}
    found = interval(Call(op, (x, y), INTEGER), lambda column: Interval.of(*ranges[column.name]))
    true = [_apply(op, i, j) for i in _range(ranges["x"]) for j in _range(ranges["y"])]
    values = [value for value in true if value is not None]
    assert all(found.within(-(10**9), 10**9) and found.lower <= v <= found.upper for v in values)  # type: ignore[operator]
    assert (found.lower, found.upper) == _ends(op, ranges, values)


def _ends(op: str, ranges: dict[str, tuple[int, int]], values: list[int]) -> tuple[Fraction, Fraction]:
    """The narrowest interval, or where a rule is simpler than that, exactly what the rule promises."""
    (a, b), (c, d) = ranges["x"], ranges["y"]
    if op == "modulo":  # smaller than the divisor, and of the sign of the number
        size = max(abs(c), abs(d))
        return Fraction(0 if a >= 0 else -size), Fraction(0 if b <= 0 else size)
    if op != "int_divide":
        return Fraction(min(values)), Fraction(max(values))
    if c <= 0 <= d:  # a divisor of at least one unit in size
        size = max(abs(a), abs(b))
        return Fraction(-size), Fraction(size)
    exact_ends = [Fraction(i, j) for i in (a, b) for j in (c, d)]
    return min(exact_ends) - 1, max(exact_ends) + 1  # rounded towards zero


def _range(ends: tuple[int, int]) -> range:
    return range(ends[0], ends[1] + 1)


def _apply(op: str, a: int, b: int) -> int | None:
    if op in ("int_divide", "modulo") and b == 0:
        return None
    towards_zero = int(Fraction(a, b)) if b else 0
    return {
        "add": a + b,
        "subtract": a - b,
        "multiply": a * b,
        "int_divide": towards_zero,
        "modulo": a - towards_zero * b,
        "greatest": max(a, b),
        "least": min(a, b),
    }[op]


ONES: dict[str, Callable[[Fraction], Fraction]] = {
    "negate": lambda x: -x,
    "abs": abs,
    "floor": lambda x: Fraction(math.floor(x)),
    "ceil": lambda x: Fraction(math.ceil(x)),
}


@given(st.sampled_from(sorted(ONES)), st.integers(-80, 80), st.integers(-80, 80))
def test_intervals_of_one_number_are_the_narrowest(op: str, a: int, b: int) -> None:
    """In quarters, so that rounding has something to do."""
    low, high = Fraction(min(a, b), 4), Fraction(max(a, b), 4)
    found = interval(Call(op, (Column("x", FLOAT),), FLOAT), lambda column: Interval(low, high))
    values = [ONES[op](Fraction(i, 4)) for i in range(min(a, b), max(a, b) + 1)]
    assert (found.lower, found.upper) == (min(values), max(values))


@given(st.integers(-800, 800), st.integers(-800, 800), st.integers(0, 2))
def test_a_rounded_number_lies_on_the_cells_that_it_can_reach(a: int, b: int, digits: int) -> None:
    low, high = Fraction(min(a, b), 80), Fraction(max(a, b), 80)
    call = Call("round", (Column("x", FLOAT), Literal(digits, INTEGER)), FLOAT)
    found = interval(call, lambda column: Interval(low, high))
    cell = Fraction(1, 10**digits)
    # Halves may go either way: the least cell is within half a cell above the lower end or below it, and so
    # for the upper one.
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower / cell == math.ceil(low / cell - Fraction(1, 2))
    assert found.upper / cell == math.floor(high / cell + Fraction(1, 2))


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_root_is_bounded_within_two(a: int, b: int) -> None:
    call = Call("sqrt", (Column("x", FLOAT),), FLOAT)
    found = interval(call, lambda column: Interval.of(min(a, b), max(a, b)))
    assert found.lower == 0
    assert found.upper is not None
    assert math.sqrt(max(a, b)) <= found.upper <= math.sqrt(max(a, b)) + 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("case when f > 0 then 3 when f < 0 then -2 else 1 end", (-2, 3)),
        ("case when f > 0 then 3 end", (3, 3)),
        ("coalesce(least(greatest(f, 1), 2), 5)", (1, 5)),
        ("nullif(least(greatest(f, 1), 2), 1)", (1, 2)),
        ("sign(f)", (-1, 1)),
        ("least(greatest(f, 2), 4) / least(greatest(f, 1), 2)", (1, 4)),
        ("cast(f > 0 as integer)", (0, 1)),
        ("cast(least(greatest(f, 0.4), 2.6) as integer)", (0, 3)),
    ],
)
def test_intervals_of_written_expressions_are_the_narrowest(text: str, expected: tuple[int, int]) -> None:
    assert interval(expression(text), lambda column: EVERYTHING) == Interval.of(*expected)


def test_a_clamp_bounds_what_has_no_bounds() -> None:
    assert interval(expression("least(greatest(f, 0), 100)"), lambda column: EVERYTHING) == Interval.of(
        0, 100
    )
    assert interval(expression("greatest(f, 0)"), lambda column: EVERYTHING) == Interval(Fraction(0), None)


def test_a_product_of_what_has_one_bound_is_bounded_only_where_both_are_positive() -> None:
    assert interval(expression("greatest(f, 0) * greatest(f, 1)"), lambda c: EVERYTHING) == Interval(
        Fraction(0), None
    )
    assert interval(expression("greatest(f, 0) * f"), lambda c: EVERYTHING) == EVERYTHING


def test_literals_are_points() -> None:
    literal = expression("1.25")
    assert isinstance(literal, Literal)
    assert interval(literal, lambda column: EVERYTHING).bounds == (Fraction(5, 4), Fraction(5, 4))
    assert literal.value == Decimal("1.25")
