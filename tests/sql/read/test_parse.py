"""Text of bounded length and depth, one statement, known nodes only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import expressions as exp

from deniable.errors import InvalidQuery
from deniable.sql.read.parse import ALLOWED, MAX_BYTES, parse


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 50_000 + "1" + ")" * 10 + " FROM t",
        "SELECT " + "NOT " * 10_000 + "a FROM t",
        "SELECT " + "- " * 30_000 + "1 FROM t",
        "SELECT " + "CASE WHEN a THEN " * 2_000 + "1" + " END" * 2_000 + " FROM t",
        "SELECT " + "a + " * 3_000 + "1 FROM t",
        "SELECT " + "a || " * 3_000 + "b FROM t",
        "SELECT " + "a::INT" + "::INT" * 3_000 + " FROM t",
        "SELECT " + "f(" * 3_000 + ")" * 3_000 + " FROM t",
        "SELECT 1 FROM " + "(SELECT 1 FROM " * 500 + "t" + ")" * 500,
        " UNION ALL ".join(["SELECT a FROM t"] * 1_500),
        "SELECT " + "a[" * 3_000 + " FROM t",
        "SELECT a" + ".b" * 3_000 + " FROM t",
        "SELECT a FROM t WHERE a " + "IS NULL " * 2_000,
        "SELECT a FROM t WHERE " + "a = " * 2_500 + "1",
        "SELECT a FROM t WHERE a " + "BETWEEN 1 AND 2 = a " * 1_000,
    ],
)
def test_deep_or_long_chains_are_refused_in_words(text: str) -> None:
    with pytest.raises(InvalidQuery):
        parse(text)


def test_a_call_that_the_parser_stumbles_over_is_refused_in_words() -> None:
    with pytest.raises(InvalidQuery, match="could not be read"):
        parse("SELECT VAR_MAP(1) FROM t")


def test_a_long_flat_chain_of_conditions_is_read() -> None:
    assert isinstance(parse("SELECT a FROM t WHERE " + " OR ".join(["a = 1"] * 1_500)), exp.Select)


def test_huge_texts_are_refused_before_they_are_read() -> None:
    with pytest.raises(InvalidQuery, match="at most 65,536 bytes"):
        parse("SELECT '" + "é" * MAX_BYTES + "' FROM t")


@pytest.mark.parametrize(
    "text", ["SELECT '\ud800' FROM t", "SELECT 'a\0b' FROM t", "SELECT 'open FROM t", "SELECT /* FROM t"]
)
def test_broken_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidQuery):
        parse(text)


def test_comments_and_a_last_semicolon_mean_nothing() -> None:
    plain = parse("SELECT COUNT(*) FROM t")
    assert parse("SELECT /* a */ COUNT(*) -- b\nFROM t;; -- c") == plain


def test_an_unknown_node_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ALLOWED, exp.Sqrt)
    with pytest.raises(InvalidQuery, match="SQRT is not answered"):
        parse("SELECT sqrt(a) FROM t")


def test_an_unknown_part_of_a_known_node_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALLOWED, exp.Round, {"this"})
    with pytest.raises(InvalidQuery, match="DECIMALS of ROUND is not answered"):
        parse("SELECT round(a, 2) FROM t")


WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "t",
    "a",
    "b",
    ",",
    "(",
    ")",
    "*",
    "=",
    "+",
    "-",
    "1",
    "'x'",
    "AS",
    "COUNT",
    "JOIN",
    "ON",
    "UNION",
    "ALL",
    "CASE",
    "WHEN",
    "THEN",
    "END",
    "NOT",
    "IN",
    "[",
    "]",
    "::",
    "INT",
    ";",
    ".",
    "OVER",
]


def said(text: str) -> str:
    """The refusal, or nothing where the text is read."""
    try:
        parse(text)
    except InvalidQuery as refusal:
        return str(refusal)
    return ""


@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    refusal = said("SELECT " + " ".join(words))
    assert not refusal or refusal.endswith("No data was read and nothing was charged.")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    refusal = said("SELECT " + text)
    assert not refusal or refusal.endswith("No data was read and nothing was charged.")


@pytest.mark.parametrize(
    "call",
    [
        "regexp_replace(a, 'x', 'y', 'g', 1)",
        "date_trunc('day', a, 'UTC')",
        "left(a, 1, (2))",
        "mod(a, f(b, [c, d]), 3)",
    ],
)
def test_an_argument_too_many_is_refused_and_not_dropped(call: str) -> None:
    with pytest.raises(InvalidQuery, match=r"takes at most \d arguments, got \d"):
        parse(f"SELECT {call} FROM t")


def test_commas_in_texts_and_brackets_are_no_arguments() -> None:
    parse("SELECT COUNT(*) FROM t WHERE left(concat(a, b, c), 1) = 'mod(1, 2, 3)' AND mod(a, 2) IN (1, 2, 3)")
