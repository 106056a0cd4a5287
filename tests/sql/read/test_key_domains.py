"""The public values of a computed group key are those that it takes, on every engine, and no others."""

from __future__ import annotations

from decimal import Decimal

import pytest

from deniable.sql.dialects import DUCKDB, POSTGRES, SPARK, Dialect
from deniable.sql.intervals import Interval
from deniable.sql.read.expressions.translator import as_key
from deniable.sql.read.names import MAX_DOMAIN, Field, Scope, domain
from deniable.sql.read.parse import parse
from deniable.sql.tree import Column, Expr, Scan, Value
from deniable.sql.types import FLOAT, INTEGER, decimal
from deniable.sql.write import relations
from tests.sql.conftest import Run
from tests.sql.hospital import checked

LOW, HIGH = -20, 119
N, D, X = Column("n", INTEGER), Column("d", decimal(2)), Column("x", FLOAT)
SCOPE = Scope(
    Scan("t", (N, D, X)),
    (
        Field("n", "t", N, Interval.of(LOW, HIGH)),
        Field("d", "t", D, Interval.of(0, 1)),
        Field("x", "t", X, Interval.of(0, 100)),
    ),
)
TEXTS = [
    "floor(n / 10) * 10",
    "floor(n / 0.3)",
    "floor(n * 0.7)",
    "ceil(n / 3) * 3",
    "round(n / 7) * 7",
    "round(n / 32, 2)",
    "round(n / 3, 1)",
    "round(n, -1)",
    "trunc(n / 4)",
    "n // 15 * 15",
    "n % 7",
    "-n * 3",
    "abs(n) * 2",
    "sign(n) + 5",
    "n * n // 100",
    "least(greatest(n, 0), 50) * 2",
    "coalesce(nullif(n, 3), 500) - n",
    "CAST(n / 4 AS BIGINT)",
    "CAST(n * 0.25 AS BIGINT)",
    "CASE WHEN n < 50 THEN n * 2 ELSE 100 END + 1",
]


def key(text: str) -> Expr:
    return as_key(SCOPE.rows(parse(f"SELECT {text} FROM t").expressions[0]))


def scaled(value: Value, expr: Expr) -> Value:
    return int(value.scaleb(expr.type.scale)) if isinstance(value, Decimal) else value


def taken(run: Run, expr: Expr, dialect: Dialect) -> set[Value]:
    rows = ", ".join(f"({n})" for n in range(LOW, HIGH + 1))
    quoted = dialect.quote("n")
    inner = f"SELECT CAST(v AS BIGINT) AS {quoted} FROM (VALUES {rows}, (NULL)) AS s(v)"
    return {value for (value,) in run(f"SELECT {relations.expression(expr, dialect)} FROM ({inner}) AS t")}


def assert_domains_hold(run: Run, dialect: Dialect) -> None:
    for text in TEXTS:
        expr = key(text)
        values = domain(expr, SCOPE)
        assert values is not None, text
        seen = taken(run, expr, dialect)
        missing = seen - {scaled(value, expr) for value in values}
        assert not missing, (text, missing)


def test_no_value_is_missing_on_duckdb(on_duckdb: Run) -> None:
    assert_domains_hold(on_duckdb, DUCKDB)


@pytest.mark.needs("postgres")
def test_no_value_is_missing_on_postgres(on_postgres: Run) -> None:
    assert_domains_hold(on_postgres, POSTGRES)


@pytest.mark.needs("spark")
def test_no_value_is_missing_on_spark(on_spark: Run) -> None:
    assert_domains_hold(on_spark, SPARK)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("floor(n / 10) * 10", 14),
        ("floor(x / 10) * 10", 11),
        ("n // 15 * 15", 9),
        ("abs(n) * 2", 120),
        ("round(d * 4)", 5),
        ("n % 7", 13),
    ],
)
def test_a_key_has_the_values_that_it_takes_and_null(text: str, count: int) -> None:
    values = domain(key(text), SCOPE)
    assert values is not None
    assert len(values) == count + 1
    assert values[-1] is None
    assert list(values[:-1]) == sorted(values[:-1])  # type: ignore[type-var]


def test_what_engines_compute_differently_is_not_evaluated() -> None:
    """By its bounds alone: a logarithm may be a little above or below a whole number."""
    expr = key("floor(log10(n + 21) * 2) * 2")
    values = domain(expr, SCOPE)
    assert values is not None
    assert {0, 2, 4} <= set(values)


def test_what_was_private_stays_private() -> None:
    wide = Scope(Scan("t", (N,)), (Field("n", "t", N, Interval.of(0, 10 * MAX_DOMAIN)),))
    assert domain(as_key(wide.rows(parse("SELECT floor(n / 100) * 100 FROM t").expressions[0])), wide) is None


def test_a_decade_of_days_is_a_public_key_of_a_query() -> None:
    (decade,) = checked("SELECT floor(days / 10) * 10, COUNT(*) FROM visits GROUP BY 1").keys
    assert decade.domain == (0, 10, 20, 30, 40, 50, 60, None)
