"""How much there is to read in a text is told by its words: no text that is read makes the parser read for long."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser

from deniable.errors import InvalidQuery
from deniable.sql.read import parse as reader
from deniable.sql.read.parse import MAX_READINGS, readings, surplus

WORDS = sorted(
    word
    for word in {*DuckDB.Tokenizer.KEYWORDS, *Postgres.Tokenizer.KEYWORDS, *DuckDB.Parser.FUNCTIONS, "f"}
    if word[:1].isalpha()
)
FORMS = [("{}(", ")"), ("{} [", "]")]
MORE_FORMS = [
    ("f({} ", ")"),
    ("{} 1 + (", ")"),
    ("{}(a, ", ")"),
    ("a IN ({} (SELECT ", "))"),
    ("CASE {} WHEN ", " END"),
]
OTHERS = [
    ("INTERVAL (", ") DAY"),
    ("f(x -> ", ")"),
    ("f((x, y) -> ", ")"),
    ("{'a': ", "}"),
    ("SUM(1) OVER (ORDER BY ", ")"),
    ("a BETWEEN (", ") AND 1"),
    ("(SELECT 1 FROM t JOIN (t) ON ", ")"),
]


def nested(opening: str, closing: str, depth: int) -> str:
    return f"SELECT {opening * depth}1{closing * depth} FROM t"


@pytest.mark.parametrize(
    "word", ["DATE", "TIMESTAMP", "DECIMAL", "VARCHAR", "STRUCT", "ROW", "BIGINT", "ENUM"]
)
@pytest.mark.parametrize("between", ["", "f(", "1 + ("])
def test_types_in_one_another_are_refused_before_they_are_read(
    word: str, between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty of them were read for hours, and nobody was answered meanwhile."""
    monkeypatch.setattr(sqlglot, "parse", lambda *_, **__: pytest.fail("it was read"))
    closing = ")" * (1 + bool(between))
    text = nested(f"{word}({between}", closing, 19)
    with pytest.raises(InvalidQuery, match="stand too deep in one another"):
        reader.parse(text)


def test_conditions_without_brackets_in_one_another_are_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sqlglot, "parse", lambda *_, **__: pytest.fail("it was read"))
    for text in (nested("IF [", "]", 20), nested("IF ", "", 20), nested("IF 1 + (", ")", 20)):
        with pytest.raises(InvalidQuery, match="stand too deep"):
            reader.parse(text)


def check_readings(forms: list[tuple[str, str]], depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of the parser grow with the count of readings, whatever is nested."""
    steps = 0
    advance = Parser._advance

    def count(self: Parser, times: int = 1) -> None:
        nonlocal steps
        steps += 1
        advance(self, times)

    monkeypatch.setattr(Parser, "_advance", count)
    for opening, closing in forms:
        text = nested(opening, closing, depth)
        try:
            tokens = sqlglot.tokenize(text, read="duckdb")
            steps = 0
            sqlglot.parse(text, read="duckdb")
        except (SqlglotError, ValueError, AttributeError, TypeError, LookupError):
            pass
        assert steps < 20 * readings(tokens), text


def test_no_word_is_read_more_often_than_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = [(form.format(word), end) for word in WORDS for form, end in FORMS]
    check_readings(forms + OTHERS, 6, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("form", FORMS + MORE_FORMS)
def test_no_word_is_read_more_often_than_is_counted_deeper(
    form: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forms = [(form[0].format(word), form[1]) for word in WORDS]
    check_readings(forms, 9, monkeypatch)


def test_what_people_write_is_far_below_the_limit() -> None:
    text = "SELECT CAST(DATE(TIMESTAMP(CAST(x AS DECIMAL(10, 2)))) AS DATE)" + ", DATE(x)" * 500 + " FROM t"
    assert readings(sqlglot.tokenize(text)) < MAX_READINGS / 4
    assert surplus(sqlglot.tokenize(text)) is None
