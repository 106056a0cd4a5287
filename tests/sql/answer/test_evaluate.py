"""What is computed from released numbers is total, and its intervals hold what they say."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.sql import functions
from deniable.sql.answer.evaluate import Row, arranged, evaluate, written
from deniable.sql.functions.function import Cell
from deniable.sql.tree import AggregateRef, Call, Expr, KeyRef, Kind, Literal, Order, Type
from tests.sql.planned import BOOLEAN, FLOAT, INTEGER, TEXT

A, B = AggregateRef(0, FLOAT), AggregateRef(1, FLOAT)
INFINITY = math.inf


def call(op: str, *args: Expr, type_: Type = FLOAT) -> Call:
    return Call(op, args, type_)


def of(expr: Expr, *cells: Cell, keys: tuple[Any, ...] = ()) -> Cell:
    return evaluate(expr, Row(keys, cells))


def number(x: float, reach: float = 1.0) -> Cell:
    return Cell(Fraction(x), x - reach, x + reach)


def test_what_is_not_computed_from_released_numbers_is_null() -> None:
    assert of(call("lower", Literal("A", TEXT), type_=TEXT)) == Cell(None)
    assert of(call("sleep", A), number(1)) == Cell(None)


@pytest.mark.parametrize(
    ("op", "args", "wanted"),
    [
        ("add", (7, 2), 9),
        ("subtract", (7, 2), 5),
        ("multiply", (7, 2), 14),
        ("divide", (7, 2), 3.5),
        ("divide", (7, 0), None),
        ("int_divide", (-7, 2), -3),
        ("int_divide", (7, 0), None),
        ("modulo", (-7, 2), -1),
        ("modulo", (7, 0), None),
        ("negate", (7,), -7),
        ("abs", (-7,), 7),
        ("sign", (-7,), -1),
        ("round", (2.5,), 3),
        ("round", (-2.345, 2), -2.35),
        ("floor", (-2.5,), -3),
        ("ceil", (2.1,), 3),
        ("sqrt", (9,), 3),
        ("sqrt", (-9,), None),
        ("ln", (0,), None),
        ("log10", (1000,), 3),
        ("exp", (0,), 1),
        ("exp", (1000,), None),
        ("power", (2, 10), 1024),
        ("power", (-8, 0.5), None),
        ("greatest", (1, None), None),
        ("greatest", (1, 5, 3), 5),
        ("least", (1, 5, 3), 1),
        ("coalesce", (None, 4, 5), 4),
        ("nullif", (4, 4), None),
        ("nullif", (4, 5), 4),
        ("eq", (4, 4), True),
        ("ne", (4, 4), False),
        ("lt", (3, 4), True),
        ("le", (4, 4), True),
        ("gt", (None, 4), None),
        ("ge", (5, 4), True),
        ("and", (None, False), False),
        ("and", (None, True), None),
        ("or", (None, True), True),
        ("or", (False, None), None),
        ("not", (True,), False),
        ("is_null", (None,), True),
        ("in", (3, 1, 3), True),
        ("in", (3, 1, None), None),
        ("in", (3, 1), False),
        ("case", (False, 1, True, 2, 3), 2),
        ("case", (None, 1, 3), 3),
    ],
)
def test_values_are_those_of_sql(op: str, args: tuple[Any, ...], wanted: Any) -> None:
    found = of(call(op, *(Literal(a, BOOLEAN if isinstance(a, bool) else FLOAT) for a in args))).value
    assert found == wanted if not isinstance(wanted, float) else float(found) == pytest.approx(wanted)


def test_casts_round_and_cut() -> None:
    half = Literal(2.5, FLOAT)
    assert of(call("cast", half, type_=INTEGER)).value == 3
    assert of(call("cast", Literal(2.345, FLOAT), type_=Type(Kind.DECIMAL, scale=1))).value == Fraction(
        23, 10
    )
    assert of(call("cast", half, type_=Type(Kind.TEXT, length=2))).value == "2."


def test_a_ratio_whose_denominator_may_be_zero_is_unbounded() -> None:
    ratio = call("divide", A, B)
    assert of(ratio, number(10), number(0.5)) == Cell(Fraction(20), -INFINITY, INFINITY)
    found = of(ratio, number(10), number(5))
    assert (found.low, found.high) == (9 / 6, 11 / 4)


expressions = st.recursive(
    st.sampled_from([A, B, Literal(2, INTEGER), Literal(-1.5, FLOAT), Literal(None, FLOAT), KeyRef(0, TEXT)]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(sorted(functions.POST)), st.lists(inner, min_size=1, max_size=4)).map(
            lambda pair: call(pair[0], *pair[1])
        )
    ),
    max_leaves=8,
)
numbers = st.floats(-1e9, 1e9) | st.sampled_from([0.0, 1e300, -1e300])


@settings(max_examples=300, deadline=None)
@given(expressions, numbers, numbers)
def test_nothing_raises(expr: Expr, a: float, b: float) -> None:
    cell = of(expr, number(a), number(b), keys=("key",))
    assert cell.low <= cell.high or cell.value is None
    for kind in Kind:
        written(cell.value, Type(kind))


PAIRS = ("add", "subtract", "multiply", "divide", "greatest", "least")
bounded = [*PAIRS, "negate", "abs", "round", "floor", "ceil", "sqrt", "exp"]
trees = st.recursive(
    st.sampled_from([A, B, Literal(2, INTEGER), Literal(-1.5, FLOAT)]),
    lambda inner: st.tuples(st.sampled_from(bounded), inner, inner).map(
        lambda t: call(t[0], *(t[1:] if t[0] in PAIRS else t[1:2]))
    ),
    max_leaves=6,
)
near = st.floats(-1, 1)


@settings(max_examples=300, deadline=None)
@given(trees, st.floats(-9, 9), st.floats(-9, 9), near, near)
def test_an_interval_holds_what_the_truth_would_give(
    expr: Expr, a: float, b: float, da: float, db: float
) -> None:
    """If every aggregate's truth lies in its interval, so does the expression of the truths."""
    shown = of(expr, number(a), number(b))
    true = of(expr, Cell(Fraction(a + da)), Cell(Fraction(b + db))).value
    if true is not None and shown.value is not None:
        slack = 1e-9 * (1 + abs(float(true)))
        assert shown.low - slack <= float(true) <= shown.high + slack


def test_rows_are_kept_ordered_and_cut_by_noisy_values() -> None:
    rows = [Row((key,), (number(x),)) for key, x in (("a", 3), ("b", 9), ("c", 1), ("d", 9))]
    having = call("gt", A, Literal(2, INTEGER), type_=BOOLEAN)
    names = [row.keys[0] for row in arranged(rows, having, [Order(A, descending=True)], None, 0)]
    assert names == ["b", "d", "a"]
    assert [row.keys[0] for row in arranged(rows, None, [Order(KeyRef(0, TEXT), descending=True)], 2, 1)] == [
        "c",
        "b",
    ]


def test_nulls_are_put_where_the_query_says() -> None:
    rows = [Row((key,), ()) for key in ("a", None, "b")]
    order = Order(KeyRef(0, TEXT), nulls_first=True)
    assert [row.keys[0] for row in arranged(rows, None, [order], None, 0)] == [None, "a", "b"]
    assert [row.keys[0] for row in arranged(rows, None, [Order(KeyRef(0, TEXT))], None, 0)] == [
        "a",
        "b",
        None,
    ]


def test_values_are_written_as_their_columns_hold_them() -> None:
    assert written(Fraction(5, 2), INTEGER) == 3
    assert written(Fraction(10) ** 30, INTEGER) == 2**63 - 1
    assert written(Fraction(1, 3), Type(Kind.DECIMAL, scale=2)) == Decimal("0.33")
    assert written(Fraction(10) ** 40, Type(Kind.DECIMAL, scale=2)) == Decimal("9" * 36 + ".99")
    assert written(Fraction(10**30 + 1), Type(Kind.DECIMAL, scale=2)) == Decimal(f"{10**30 + 1}.00")
    assert written("a", FLOAT) is None
    assert written("a", TEXT) == "a"
    assert written(None, FLOAT) is None
