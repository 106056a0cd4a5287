"""The same expressions on three real engines, over values that break engines: none raises, and they agree."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from deniable.sql import functions
from deniable.sql.dialects import DUCKDB, POSTGRES, SPARK, Dialect
from deniable.sql.tree import Call, Expr, Kind, Literal
from deniable.sql.types_relations import read
from deniable.sql.write import relations
from tests.sql.conftest import Run
from tests.sql.values import COLUMNS, ROWS, expression

TOTAL = [
    line
    for line in (Path(__file__).parents[1] / "fixtures" / "total.sql").read_text().splitlines()
    if line[:2] != "--"
]


def computed(run: Run, exprs: list[Expr], dialect: Dialect) -> list[list[Any]]:
    """Columns of values, in the order of rows; fifty expressions in a statement."""
    columns: list[list[Any]] = []
    for start in range(0, len(exprs), 50):
        items = ", ".join(
            f"{relations.expression(e, dialect)} AS x{i}" for i, e in enumerate(exprs[start : start + 50])
        )
        name = dialect.quote("row")
        found = run(f"SELECT {name}, {items} FROM t ORDER BY {name}")
        assert len(found) == len(ROWS)
        columns += [list(column) for column in list(zip(*found, strict=True))[1:]]
    return columns


def same(a: Any, b: Any, kind: Kind) -> bool:
    if a is None or b is None:
        return a is b
    if kind is Kind.FLOAT:
        assert math.isfinite(a)
        assert math.isfinite(b)
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-140)
    assert not isinstance(a, (float, Decimal))
    return bool(a == b) and type(a) is type(b)


def at_edge(row: tuple[Any, ...]) -> bool:
    """The guards of PostgreSQL stop three units in the last place before the largest
    double, and take 1e-300 for 0."""
    return any(isinstance(x, float) and abs(x) > 1e307 for x in row)


def differences(
    texts: list[str], exprs: list[Expr], one: list[list[Any]], other: list[list[Any]]
) -> list[str]:
    found = []
    for text, expr, a, b in zip(texts, exprs, one, other, strict=True):
        odd = [(row, x, y) for row, x, y in zip(ROWS, a, b, strict=True) if not same(x, y, expr.type.kind)]
        odd = [(row, x, y) for row, x, y in odd if not (None in (x, y) and at_edge(row))]
        found += [f"{text}: {x!r} or {y!r} at {row}" for row, x, y in odd[:2]]
    return found


@pytest.fixture(scope="module")
def exprs() -> list[Expr]:
    return [expression(text) for text in TOTAL]


@pytest.fixture(scope="module")
def duckdb_values(on_duckdb: Run, exprs: list[Expr]) -> list[list[Any]]:
    return computed(on_duckdb, exprs, DUCKDB)


@pytest.mark.needs("postgres")
def test_postgres_agrees_with_duckdb(
    on_postgres: Run, exprs: list[Expr], duckdb_values: list[list[Any]]
) -> None:
    values = computed(on_postgres, exprs, POSTGRES)
    assert differences(TOTAL, exprs, duckdb_values, values) == []


@pytest.mark.needs("spark")
def test_spark_agrees_with_duckdb(on_spark: Run, exprs: list[Expr], duckdb_values: list[list[Any]]) -> None:
    values = computed(on_spark, exprs, SPARK)
    assert differences(TOTAL, exprs, duckdb_values, values) == []


def test_every_operator_is_tried() -> None:
    def ops(expr: Expr) -> set[str]:
        return {expr.op}.union(*map(ops, expr.args)) if isinstance(expr, Call) else set()

    assert set().union(*(ops(expression(text)) for text in TOTAL)) == functions.OPS


def test_no_expression_is_null_everywhere(exprs: list[Expr], duckdb_values: list[list[Any]]) -> None:
    dead = [
        t
        for t, e, v in zip(TOTAL, exprs, duckdb_values, strict=True)
        if all(x is None for x in v) and list(read(e))
    ]
    assert dead == []


def test_literals_come_back_as_they_went(on_duckdb: Run) -> None:
    for text in (
        "'it''s'",
        "'${x} \\ %'",
        "DATE '2024-02-29'",
        "1.50",
        "-9223372036854775807",
        "1e300",
        "TRUE",
    ):
        expr = expression(text)
        assert isinstance(expr, Literal)
        ((found,),) = on_duckdb(f"SELECT {relations.expression(expr, DUCKDB)}")
        scaled = int(expr.value.scaleb(expr.type.scale)) if isinstance(expr.value, Decimal) else expr.value
        assert found == scaled


def _whole(x: int) -> int | None:
    return x if -(2**63) <= x < 2**63 else None


def _towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _rest(a: int | None, b: int) -> int | None:
    return None if a is None or b == 0 else a - _towards_zero(a, b) * b


# Computed a second way, in Python, from the two columns; where one of them is NULL so is the result.
ORACLES: dict[str, tuple[str, str, Callable[[Any, Any], Any]]] = {
    "i + j": ("i", "j", lambda a, b: _whole(a + b)),
    "i - j": ("i", "j", lambda a, b: _whole(a - b)),
    "i * j": ("i", "j", lambda a, b: _whole(a * b)),
    "i // j": ("i", "j", lambda a, b: _whole(_towards_zero(a, b)) if b else None),
    "i % j": ("i", "j", lambda a, b: a - _towards_zero(a, b) * b if b else None),
    "greatest(i, j)": ("i", "j", max),
    "least(i, j)": ("i", "j", min),
    "least(greatest(i, 0), 100)": ("i", "i", lambda a, b: min(max(a, 0), 100)),
    "greatest(s, z)": ("s", "z", lambda a, b: max(a, b, key=str.encode)),
    "s < z": ("s", "z", lambda a, b: a.encode() < b.encode()),
    "nullif(i, 3)": ("i", "i", lambda a, b: None if a == 3 else a),
    "d % e": ("d", "e", lambda a, b: _rest(_whole(100 * a), b)),
    "length(s)": ("s", "s", lambda a, b: len(a)),
    "lower(s)": ("s", "s", lambda a, b: "".join(c.lower() if c.isascii() else c for c in a)),
    "s || s || s || z || z": ("s", "z", lambda a, b: (a * 3 + b * 2)[:1024]),
    "replace(s, 'x', 'yyyyyyyyyyyyyyyyyyyy')": ("s", "s", lambda a, b: a.replace("x", "y" * 20)[:1024]),
    "date_diff('day', p, q)": ("p", "q", lambda a, b: (b - a).days),
    "extract(dow FROM p)": ("p", "p", lambda a, b: a.isoweekday() % 7),
    "week(p)": ("p", "p", lambda a, b: a.isocalendar().week),
    "CAST(s AS BIGINT)": ("s", "s", lambda a, b: int(a) if re.fullmatch("[+-]?[0-9]{1,18}", a) else None),
    "CAST(f AS BIGINT)": ("f", "f", lambda a, b: round(a) if abs(a) < 9.223372036854775e18 else None),
}  # fmt: skip


@pytest.mark.parametrize("text", ORACLES)
def test_values_are_those_computed_by_hand(on_duckdb: Run, text: str) -> None:
    one, other, oracle = ORACLES[text]
    names = list(COLUMNS)
    (found,) = computed(on_duckdb, [expression(text)], DUCKDB)
    for row, value in zip(ROWS, found, strict=True):
        a, b = row[names.index(one)], row[names.index(other)]
        assert value == (None if a is None or b is None else oracle(a, b)), row


def test_texts_are_ordered_by_bytes_in_every_language() -> None:
    for text in ("s < z", "greatest(s, z)"):
        assert relations.expression(expression(text), POSTGRES).count('COLLATE "C"') == 2
