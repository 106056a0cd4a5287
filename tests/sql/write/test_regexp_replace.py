"""regexp_replace on three real engines: the same text as Python's, of patterns that match in one way only."""

from __future__ import annotations

import re

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
        "https://www.a.de/x",
        "https://www./x",
        "http://www.www.b/",
        "https://wwwa/",
        "aab",
        "ab/",
        "abab/x",
        "ab/x\ny",
    ),
    *("aaab", "aaaaab", "b", "abb/", "ba", "zz", "xyz"),
    *("", "a", "aa", "aaa", "ab", "J45.0", "x@example.com", "@", "a@b@c", "https://a.de/x?q=1", "http://b/"),
    *(
        "line\nbreak 7",
        "a\n",
        "12",
        "é@ü.de",
        "a-12-b-7",
        "  7 ",
        "$5",
        "$1",
        r"\1",
        "\\",
        "a.b",
        "😀42",
        None,
    ),
]
CASES = [
    ("[0-9]+", "N", "g"),
    ("[0-9]+", "N", ""),
    ("^a", "", "g"),
    ("^https?://", "", ""),
    ("@(.+)$", r" at \1", ""),
    ("@([^@]*)", r"[\1]", "g"),
    (r"([a-z]+)-(\d+)", r"\2\1", "g"),
    ("(?:a)(b)?", r"<\1>", "g"),
    ("a", r"\\", "g"),
    ("a", "$1", ""),
    (r"\$", "$", "g"),
    (r"\s", "_", "g"),
    ("A", "b", "gi"),
    ("a$", "z", ""),
    (".", "xy", ""),
    ("(2)", r"\10", ""),
    ("^.*@", "", ""),
    ("(a)?a", r"<\1>", "g"),
    ("[a-z]*a", "-", "g"),
    (r"[\😀\-]", "x", "g"),
    # one part that may end where the next begins, of a whole text
    (r"^https?://(?:www\.)?([^/]+)/.*$", r"\1", ""),
    ("^(ab)?([a-z]+)/.*$", r"\1|\2", ""),
    ("^a?(a+)(b?)$", r"\1|\2", ""),
    ("^(a{0,3})([ab]+)$", r"\1|\2", ""),
    ("^([a-z]?)([a-z])$", r"\1|\2", ""),
]
SCHEMA = Schema((TableInfo("t", (ColumnInfo("p", types.INTEGER), ColumnInfo("x", types.TEXT)), unit="p"),))


def _python(text: str | None, pattern: str, by: str, flags: str) -> str | None:
    if text is None:
        return None
    exact = re.compile(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), _flags(flags))

    def filled(match: re.Match[str]) -> str:
        return re.sub(r"\\(.)", lambda part: "\\" if part[1] == "\\" else match[int(part[1])] or "", by)

    return exact.sub(filled, text, count=0 if "g" in flags else 1)


def _flags(flags: str) -> re.RegexFlag:
    return re.ASCII | re.IGNORECASE if "i" in flags else re.ASCII


@pytest.mark.parametrize("kind", ENGINES)
def test_all_engines_replace_what_python_replaces(kind: str) -> None:
    table = pa.table({"p": pa.array(range(len(TEXTS)), pa.int64()), "x": pa.array(TEXTS, pa.string())})
    engine = opened(kind, {"t": table}, SCHEMA)
    calls = [f"regexp_replace(x, '{p}', '{by}', '{flags}') AS e{i}" for i, (p, by, flags) in enumerate(CASES)]
    counts = ", ".join(f"COUNT(e{i})" for i in range(len(CASES)))
    query = check(f"SELECT {counts} FROM (SELECT {', '.join(calls)} FROM t) s", SCHEMA, Unit.column("p"))
    replaced = {
        int(row[0]): row[1:] for row in rows(engine, relations.relation(query.relation, engine.dialect))
    }
    engine.close()
    for at, text in enumerate(TEXTS):
        for i, case in enumerate(CASES):
            assert replaced[at][i] == _python(text, *case), (text, case)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("regexp_replace(x, 'a*', 'b')", "nothing that must be there"),
        ("regexp_replace(x, '', 'b')", "nothing that must be there"),
        ("regexp_replace(x, 'a|ab', 'b')", "alternatives"),
        ("regexp_replace(x, '.*b?b', 'b')", "may end where the next one begins"),
        ("regexp_replace(x, '^(ab)?(ab)?[ab]+$', 'b')", "may end where the next one begins"),
        ("regexp_replace(x, '^((?:ab)?[ab]+)/?(.+)$', 'b')", "may end where the next one begins"),
        ("regexp_replace(x, '^.*[0-9]+x$', 'b')", "may end where the next one begins"),
        ("regexp_replace(x, '^(ab)?[ab]+', 'b')", "may end where the next one begins"),
        (r"regexp_replace(x, '(a)', '\2')", "It has 1 brackets"),
        (r"regexp_replace(x, 'a', '\0')", "It has 0 brackets"),
        (r"regexp_replace(x, 'a', '\')", "A backslash is written twice"),
        (r"regexp_replace(x, '(a)', '\²')", "It has 1 brackets"),
        ("regexp_replace(x, 'a', 'b', 's')", "options of a pattern"),
        ("regexp_replace(x, 'a', 'b', 'ic')", "options of a pattern"),
        ("regexp_replace(x, x, 'b')", "A pattern"),
        ("regexp_replace(x, 'a', x)", "REGEXP_REPLACE"),
        ("regexp_replace(x, '(a)(b)(c)(d)(e)(f)(g)(h)(i)', 'b')", "more than 8 brackets"),
    ],
)
def test_what_engines_would_replace_in_different_ways_is_refused(call: str, why: str) -> None:
    with pytest.raises(InvalidQuery, match=why):
        check(f"SELECT COUNT({call}) FROM t", SCHEMA, Unit.column("p"))


def test_a_text_that_grows_is_cut() -> None:
    query = check(
        f"SELECT COUNT(regexp_replace(x, '.', '{'ab' * 90}', 'g')) FROM t", SCHEMA, Unit.column("p")
    )
    (value,) = (a.of for a in query.aggregates)
    assert value is not None
    assert value.type.length == 1024
