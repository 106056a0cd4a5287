"""Functions against their plain meaning in Python, on a real engine over hostile values."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from deniable.errors import InvalidQuery
from deniable.sql.dialects import DUCKDB
from deniable.sql.functions import FUNCTIONS
from deniable.sql.tree import Call, Column, Expr, Literal
from deniable.sql.write import relations
from tests.sql.conftest import Run
from tests.sql.values import COLUMNS, ROWS, expression
from tests.sql.write.test_expressions_engines import TOTAL


def values(run: Run, text: str) -> list[Any]:
    sql = relations.expression(expression(text), DUCKDB)
    return [value for (value,) in run(f'SELECT {sql} FROM t ORDER BY "row"')]


def column(name: str) -> list[Any]:
    return [row[list(COLUMNS).index(name)] for row in ROWS]


def day(*parts: int | None) -> date | None:
    try:
        return date(*parts)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return None


@pytest.mark.parametrize("text", ["make_date(i, j, 28)", "make_date(2024, 2, i)", "make_date(2023, i, j)"])
def test_a_date_is_made_of_numbers_where_there_is_such_a_day(on_duckdb: Run, text: str) -> None:
    def made(i: int | None, j: int | None) -> date | None:
        return day(*(eval(part, {"i": i, "j": j}) for part in text[10:-1].split(", ")))

    expected = [made(i, j) for i, j in zip(column("i"), column("j"), strict=True)]
    assert values(on_duckdb, text) == expected
    assert any(expected)


def test_texts_are_joined_without_what_is_missing(on_duckdb: Run) -> None:
    pairs = zip(column("s"), column("z"), strict=True)
    expected = [", ".join(x for x in pair if x is not None) for pair in pairs]
    assert values(on_duckdb, "concat_ws(', ', s, z)") == expected
    assert "" in expected


def test_a_joined_text_is_cut_to_its_type(on_duckdb: Run) -> None:
    text = "concat_ws('--', concat(s, s), concat(s, s), s)"
    expr = expression(text)
    assert expr.type.length == 1024
    assert max(len(value) for value in values(on_duckdb, text)) == 1024


@pytest.mark.parametrize(("old", "new"), [("abc", "xyz"), ("日👍 ", "d-"), ("()-%_", "")])
def test_signs_become_others_or_go(on_duckdb: Run, old: str, new: str) -> None:
    table = str.maketrans({sign: new[at : at + 1] for at, sign in enumerate(old)})
    expected = [None if s is None else s.translate(table) for s in column("s")]
    assert values(on_duckdb, f"translate(s, '{old}', '{new}')") == expected
    assert expected != column("s")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("make_date(d, 1, 1)", "MAKE_DATE expects whole numbers, got DECIMAL"),
        ("make_date(s, 1, 1)", "MAKE_DATE expects a number, got TEXT"),
        ("make_date(i)", "MAKE_DATE expects a year, a month and a day"),
        ("concat_ws(s, z, z)", "CONCAT_WS expects a text of at most 256 characters, written as a literal"),
        ("concat_ws(',')", "CONCAT_WS expects what it joins"),
        ("translate(s, z, 'a')", "TRANSLATE expects a text of at most 256 characters, written as a literal"),
        ("translate(s, 'aa', 'b')", "TRANSLATE expects different characters"),
        ("translate(s, 'a', 'bc')", "TRANSLATE expects different characters"),
        ("translate(s, '', '')", "TRANSLATE expects different characters"),
    ],
)
def test_what_engines_would_do_differently_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidQuery, match=reason):
        expression(text)


CALLS = {text: expr for text in TOTAL if isinstance(expr := expression(text), Call)}


def missing(arg: Expr) -> list[bool]:
    """In which rows an argument is NULL, of columns and literals."""
    if isinstance(arg, Column):
        return [value is None for value in column(arg.name)]
    return [isinstance(arg, Literal) and arg.value is None] * len(ROWS)


def test_a_null_argument_makes_null_where_the_record_says_so(on_duckdb: Run) -> None:
    seen = set()
    for text, call in CALLS.items():
        found = values(on_duckdb, text)
        for arg in call.args[: FUNCTIONS[call.op].laws.nulls]:
            odd = [
                value for value, null in zip(found, missing(arg), strict=True) if null and value is not None
            ]
            assert odd == [], text
            seen.add(call.op)
    assert len(seen) >= 45


def test_what_is_said_never_to_be_null_is_not(on_duckdb: Run) -> None:
    seen = set()
    for text, call in CALLS.items():
        simple = all(isinstance(arg, Column | Literal) for arg in call.args)
        if not simple or not FUNCTIONS[call.op].laws.present(call, [True] * len(call.args)):
            continue
        full = [not any(row) for row in zip(*map(missing, call.args), strict=True)]
        found = values(on_duckdb, text)
        assert [value for value, kept in zip(found, full, strict=True) if kept and value is None] == [], text
        seen.add(call.op)
    assert len(seen) >= 14
