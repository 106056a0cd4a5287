"""regexp_extract on three real engines: the same text as Python's, of patterns that match in one way only."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from deniable.errors import InvalidQuery
from deniable.sql import types
from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.write import relations
from deniable.units import Unit
from tests.sql.engines.real import ENGINES, opened, rows

TEXTS = [
    *(
        "",
        "a",
        "aa",
        "ab",
        "abc",
        "J45.0",
        "x@example.com",
        "@",
        "a@b@c",
        "utm_source=ads&x=1",
        "utm_source=",
    ),
    *(
        "/shop/cart",
        "/SHOP",
        "//x",
        "line\nbreak",
        "a\n",
        "12",
        "é@ü.de",
        "a-12-b-7",
        "  7 ",
        "$5",
        "a.b",
        "www.www.x",
    ),
    *("😀42", "\\d", "aXb", "00012", "k=v;k=w"),
    None,
]
PATTERNS = [
    *(
        ("[0-9]+", 0),
        ("^[A-Z]", 0),
        ("^/([a-z]+)", 1),
        ("utm_source=([a-z]+)", 1),
        ("@(.+)$", 1),
        ("@([^@]*)", 1),
    ),
    *(
        ("([a-z]+)=([a-z]*)", 2),
        (r"(?:www\.)?x", 0),
        (r"(\d{2})\.(\d)", 2),
        ("a?b", 0),
        ("a(b)?c?", 1),
        (r"\s*\d", 0),
    ),
    *(
        ("[^a]b?", 0),
        ("^a$", 0),
        (r"^(.)\n", 1),
        (r"\$(\d{1,3})", 1),
        ("(a)(?:X)(b)", 2),
        ("é(@)", 1),
        ("[ab]{2}", 0),
        ("^.*@", 0),
        ("([a-z]*)a", 1),
        ("[a-z]+[a-c]", 0),
        ("(a)?ab", 1),
    ),
]
SCHEMA = Schema((TableInfo("t", (ColumnInfo("p", types.INTEGER), ColumnInfo("x", types.TEXT)), unit="p"),))


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Any:
    table = pa.table({"p": pa.array(range(len(TEXTS)), pa.int64()), "x": pa.array(TEXTS, pa.string())})
    return opened(request.param, {"t": table}, SCHEMA)


@pytest.fixture(scope="module")
def taken(engine: Any) -> Any:
    """What every pattern takes of every text, in one statement: Spark takes a second for each."""
    calls = [
        f"regexp_extract(x, '{pattern}', {group}) AS e{i}" for i, (pattern, group) in enumerate(PATTERNS)
    ]
    counts = ", ".join(f"COUNT(e{i})" for i in range(len(PATTERNS)))
    query = check(f"SELECT {counts} FROM (SELECT {', '.join(calls)} FROM t) s", SCHEMA, Unit.column("p"))
    lines = rows(engine, relations.relation(query.relation, engine.dialect))
    return {int(line[0]): line[1:] for line in lines}


def _python(text: str | None, pattern: str, group: int) -> str | None:
    match = (
        None
        if text is None
        else re.search(pattern.replace("$", r"\Z", pattern.endswith("$")), text, re.ASCII)
    )
    return None if text is None else (match[group] or "") if match else ""


@pytest.mark.parametrize(
    "at", range(len(PATTERNS)), ids=[f"{pattern} {group}" for pattern, group in PATTERNS]
)
def test_all_engines_take_what_python_takes(taken: Any, at: int) -> None:
    parts = {place: line[at] for place, line in taken.items()}
    assert parts == {place: _python(text, *PATTERNS[at]) for place, text in enumerate(TEXTS)}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a|ab", "alternatives"),
        ("(a|ab)(c)", "alternatives"),
        ("^.*@.*", "may end where the next one begins"),
        ("a?(ab)?", "may end where the next one begins"),
        ("([a-z]*)a?b", "may end where the next one begins"),
        ("[a-z]+[a-c]{1,2}", "may end where the next one begins"),
        ("(a+)+", "is not answered"),
        (r"(a)\1", "is not answered"),
        ("a*?b", "is not answered"),
    ],
)
def test_a_pattern_that_engines_would_match_in_different_ways_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(InvalidQuery, match=why):
        check(f"SELECT COUNT(regexp_extract(x, '{pattern}')) FROM t", SCHEMA, Unit.column("p"))


def test_a_bracket_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="has 1 brackets, and number 2 is asked for"):
        check("SELECT COUNT(regexp_extract(x, '(?:a)(b)', 2)) FROM t", SCHEMA, Unit.column("p"))


@pytest.mark.parametrize("characters", [r"[\d-*]", r"[/-\d]", "[0-5-.]", "[a-c-e]"])
@pytest.mark.parametrize("function", ["regexp_extract", "regexp_matches"])
def test_brackets_at_which_postgres_would_raise_when_it_meets_a_row_are_refused(
    function: str, characters: str
) -> None:
    with pytest.raises(InvalidQuery, match="a hyphen beside a range"):
        check(f"SELECT COUNT({function}(x, '{characters}')) FROM t", SCHEMA, Unit.column("p"))


@pytest.mark.parametrize(
    ("characters", "inside"),
    [(r"[\s]", " "), (r"[\n]", "\n"), ("[a-c]", "abcABC"), ("[-x]", "-xX"), ("[0-9-]", "0123456789-")],
)
def test_without_regard_to_case_only_letters_have_another(engine: Any, characters: str, inside: str) -> None:
    """The letter of an escape is none."""
    query = check(f"SELECT COUNT(regexp_matches(x, '^{characters}$', 'i')) FROM t", SCHEMA, Unit.column("p"))
    of = query.aggregates[0].of
    assert of is not None
    signs = [*inside, *"tnrfTNRFdDyY*/"]
    values = " UNION ALL ".join(
        f"SELECT {engine.dialect.text(sign)} AS {engine.dialect.quote('x')}" for sign in signs
    )
    found = rows(
        engine,
        f"SELECT {engine.dialect.quote('x')}, {relations.expression(of, engine.dialect)} FROM ({values}) AS t",
    )
    assert {sign for sign, is_inside in found if is_inside} == set(inside)
