"""Expressions that nobody thought of: built at random by type, computed on every engine;
none raises, and they agree."""

from __future__ import annotations

import random

import pytest

from deniable.sql.dialects import DUCKDB, POSTGRES, SPARK, Dialect
from deniable.sql.tree import Expr
from tests.sql.conftest import Run
from tests.sql.values import expression
from tests.sql.write.test_expressions_engines import computed, differences

# For each type: leaves, and forms whose {i}, {f}, … are filled by expressions of that type.
LEAVES = {
    "i": ["i", "j", "0", "1", "-3", "1000000007"],
    "d": ["d", "e", "0.5", "-99.25"],
    "f": ["f", "g", "1e0", "-2.5e3", "1e-200", "1e200"],
    "s": ["s", "z", "''", "'12'", "'a%'", "'2024-02-29'"],
    "p": ["p", "q", "DATE '2024-02-29'"],
    "u": ["u", "TIMESTAMP '2024-02-29 12:00:00'"],
    "b": ["b", "c", "TRUE"],
}
FORMS = {
    "i": "{i} + {i}|{i} - {i}|{i} * {i}|{i} // {i}|{i} % {i}|-({i})|abs({i})|sign({f})|floor({d})|ceil({d})|length({s})|"
    "year({p})|extract(dow FROM {u})|"
    "date_diff('day', {p}, {p})|date_diff('month', {p}, {u})|CAST({f} AS BIGINT)|CAST({s} AS BIGINT)|"
    "CAST({d} AS BIGINT)|CAST({b} AS BIGINT)|CASE WHEN {b} THEN {i} ELSE {i} END|coalesce({i}, "
    "{i})|nullif({i}, {i})|greatest({i}, {i})|least({i}, {i}, {i})|bucket({i}, [-5, 0, 7])|bucket({f}, [0, "
    "1, 7])",
    "d": "{d} + {i}|{d} - {d}|{d} * {i}|{d} % {d}|round({d}, 1)|abs({d})|CAST({f} AS DECIMAL(18, 3))|CAST({s} AS DECIMAL(18, 2))|"
    "CAST({i} AS DECIMAL(18, 2))|least({d}, {i})|CASE WHEN {b} THEN {d} END|coalesce({d}, {i})",
    "f": "{f} + {f}|{f} - {f}|{f} * {f}|{f} / {f}|{i} / {i}|{d} * 1e0|-({f})|abs({f})|round({f}, 2)|floor({f})|ceil({f})|"
    "sqrt({f})|"
    "ln({f})|log10({f})|exp({f})|CAST({s} AS DOUBLE)|CAST({i} AS DOUBLE)|greatest({f}, {f})|clamp({f}, 0, "
    "10)|coalesce({f}, {d})",
    "s": "concat({s}, {s})|lower({s})|upper({s})|left({s}, 3)|right({s}, 2)|substring({s}, 2, 4)|trim({s})|"
    "replace({s}, '1', 'xyz')|CAST({i} AS VARCHAR)|CAST({p} AS VARCHAR)|CAST({b} AS VARCHAR)|coalesce({s}, "
    "'n')|nullif({s}, {s})|CASE WHEN {b} THEN {s} ELSE {s} END|least({s}, {s})",
    "p": "{p} + 30|{p} - 400|CAST({s} AS DATE)|CAST({u} AS DATE)|date_trunc('month', {p})|greatest({p}, {p})|coalesce({p}, {p})",
    "u": "date_trunc('hour', {u})|CAST({p} AS TIMESTAMP)|CAST({s} AS TIMESTAMP)|least({u}, {u})|CASE WHEN {b} THEN {u} END",
    "b": "{i} = {i}|{i} < {d}|{f} >= {i}|{s} < {s}|{s} = {s}|{p} <= {p}|{u} > {p}|{b} AND {b}|{b} OR {b}|NOT {b}|{i} IS NULL|"
    "{s} LIKE '%1%'|{s} ILIKE 'A%'|starts_with({s}, {s})|contains({s}, {s})|{i} IN (1, 2)|{d} BETWEEN 0 AND "
    "9.5|CAST({s} AS BOOLEAN)|{b} IS TRUE|CAST({i} AS BOOLEAN)",
}  # fmt: skip


def built(kind: str, depth: int, rng: random.Random) -> str:
    if depth == 0:
        return rng.choice(LEAVES[kind])
    form = rng.choice(FORMS[kind].split("|"))
    made = ""
    while "{" in form:
        before, _, form = form.partition("{")
        inner, form = form[0], form[2:]
        made += before + "(" + built(inner, rng.randrange(depth), rng) + ")"
    return made + form


def random_expressions(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [built(rng.choice(list(FORMS)), rng.choice([2, 3, 4, 5]), rng) for _ in range(count)]


def check(run: Run, on_duckdb: Run, dialect: Dialect, count: int, seed: int) -> None:
    texts = random_expressions(count, seed)
    exprs: list[Expr] = [expression(text) for text in texts]
    one, other = computed(on_duckdb, exprs, DUCKDB), computed(run, exprs, dialect)
    # A comparison or a cast of floats that differ in the last place may differ as a whole.
    whole = [i for i, text in enumerate(texts) if not touches_floats(text)]
    kept = [[column[i] for i in whole] for column in (texts, exprs, one, other)]
    assert differences(*kept) == []  # type: ignore[arg-type]


def touches_floats(text: str) -> bool:
    return any(mark in text for mark in ("ln(", "exp(", "log10("))


@pytest.mark.needs("postgres")
def test_postgres_agrees_on_random_expressions(on_postgres: Run, on_duckdb: Run) -> None:
    check(on_postgres, on_duckdb, POSTGRES, 400, 1)


@pytest.mark.needs("spark")
def test_spark_agrees_on_random_expressions(on_spark: Run, on_duckdb: Run) -> None:
    check(on_spark, on_duckdb, SPARK, 50, 2)


@pytest.mark.soak
@pytest.mark.needs("spark")
@pytest.mark.needs("postgres")
@pytest.mark.parametrize("seed", range(10, 20))
def test_all_agree_on_many_random_expressions(
    on_postgres: Run, on_spark: Run, on_duckdb: Run, seed: int
) -> None:
    check(on_postgres, on_duckdb, POSTGRES, 1000, seed)
    check(on_spark, on_duckdb, SPARK, 200, seed)
