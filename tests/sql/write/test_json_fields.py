"""Fields of JSON texts on three real engines: no text makes one fail, and all read the same as Python does, or NULL."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest

from deniable.errors import InvalidQuery
from deniable.sql import types
from deniable.sql.functions.json_fields import DEPTH
from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.write import relations
from deniable.units import Unit
from tests.sql.engines.real import ENGINES, opened, rows

PLAIN = [
    '{"a": "x", "b": {"c": "y", "d": {"a": 7}}}',
    '{"a":1}',
    ' { "a" :\t"spaced" ,\r\n "b" : [ 1 , 2 ] } ',
    '{"a": true, "b": {"c": false}}',
    '{"a": null, "b": {"c": null}}',
    '{"a": -12, "b": {"c": 0}}',
    '{"a": 1.50, "b": {"c": -2.5e3}}',
    '{"a": 1e5, "b": {"c": 1E-7}}',
    '{"a": 123456789012345678, "b": {"c": -0.0}}',
    '{"a": 1e18, "b": {"c": -1.5E+19}}',
    '{"a": 1.2345678901234567e-4, "b": {"c": 1.2345678901234567e-5}}',
    '{"a": "", "b": {"c": "é日👍"}}',
    '{"a": "q\\"uo\\\\te\\/ \\n\\t", "b": {"c": "\\u00e9\\u0001"}}',
    '{"a": "1.50", "b": {"c": "2e3"}}',
    '{"a": "not } a { brace: , [", "b": {"c": "\\"a\\": 5"}}',
    '{"b": {"a": 1, "c": 2}, "x": {"a": 3}}',
    '{"a": [1, {"a": "inner"}], "b": {"c": {"c": 1}}}',
    '{"a-b": 1, "b": {"a": 2, "c": 3}, "a": "last"}',
    '{"aa": 1, "xa": 2, "a ": 3, "A": 4}',
    "{}",
    '{"a": {}}',
    '{"a": [], "b": []}',
    '{"b": {}}',
    '{"": 1, "a": 2}',
    '{"a": "' + "z" * 900 + '"}',
]
"""JSON as everybody reads it."""
ODD = [
    None,
    "",
    " ",
    "null",
    "5",
    '"a"',
    "[1, 2]",
    '[{"a": 1}]',
    "{",
    "}",
    '{"a"',
    '{"a":',
    '{"a": 1',
    '{"a": 1}}',
    '{"a": 1} x',
    '{"a": 1}{"a": 2}',
    '{"a": 1,}',
    '{,"a": 1}',
    '{"a": 1,, "b": 2}',
    '{"a": [1,]}',
    '{"a" 1}',
    '{"a":: 1}',
    "{a: 1}",
    "{'a': 1}",
    '{"a": x}',
    '{"a": NaN, "b": {"c": Infinity}}',
    '{"a": 01}',
    '{"a": +1}',
    '{"a": .5}',
    '{"a": 1.}',
    '{"a": -}',
    '{"a": tru}',
    '{"a": truefalse}',
    '{"a": 1 2}',
    '{"a": 1e999}',
    '{"a": 123456789012345678.5e99, "b": {"c": 0.000000000000000001e-99}}',
    '{"a": 1' + "0" * 400 + "}",
    '{"a": "\\u0000"}',
    '{"a": "\\ud800"}',
    '{"a": "\\ud83d\\ude00"}',
    '{"a": "\\udc00\\ud800", "b": "x"}',
    '{"a": "\\x"}',
    '{"a": "\\u12"}',
    '{"a": "tab\there"}',
    '{"a": "line\nbreak"}',
    '{"a": "\x01"}',
    '{"a": "\x00"}',
    '{"a": 1, "b": {"c": 1, "d": "\x00"}}',
    '{"a": \x02}',
    '{"a":\x03,"b":{"c":\x02}}',
    "\x11\x10:\x02\x12",
    '{"a": 1, "a": 2}',
    '{"a": 1, "\\u0061": 2}',
    '{"b": {"c": 1}, "b": {"c": 2}}',
    '{"b": {"c": 1, "c": 2}}',
    '{"a": 1} /* c */',
    '\ufeff{"a": 1}',
    '{"a": 1}\u2028',
    '{"a": 1}\u0085',
    '{"a": 1}\n',
    '{"a": "\u2028"}',
    '{"a":1}\\',
    "[" * 1000,
    '{"a":' * 170,
    '{"x":' * DEPTH + '{"a":1}' + "}" * DEPTH,
    '{"a": ' + '{"x":' * 60 + "1" + "}" * 61,
    '{"a": 1, "x": ' + "[" * DEPTH + "1" + "]" * DEPTH + "}",
    '{"a": 1, "x": ' + "[" * (DEPTH + 1) + "1" + "]" * (DEPTH + 1) + "}",
    '{"a": 1, "x": ' + "[" * 450 + "]" * 450 + "}",
    '{"a": "' + "z" * 2000 + '"}',
    '"' * 1001,
    '\\"' * 500,
    "{" + '"a":1,' * 150 + "}",
    '{"a\\"b": 1, "a": 2}',
    '{"x": "\\", "a": 1}',
]
"""What engines disagree about, or die of."""
TEXTS = PLAIN + ODD
SCHEMA = Schema((TableInfo("j", (ColumnInfo("n", types.INTEGER), ColumnInfo("s", types.text(1024)))),))
FIELDS = [
    "s ->> 'a'",
    "s ->> '$.b.c'",
    "s -> 'b' -> 'd' ->> 'a'",
    "json_value(s, '$.a')",
    "(s::json) ->> 'a-b'",
]
NUMBERS = ["CAST(s ->> 'a' AS DOUBLE)", "CAST(json_extract(s, '$.b.c') AS DOUBLE)", "(s ->> 'a')::BIGINT"]


def values(kind: str) -> dict[str, list[Any]]:
    """What an engine reads of every text, by expression."""
    texts = TEXTS
    if kind == "postgres":  # it stores no U+0000
        texts = [text and text.replace("\x00", "\x01") for text in TEXTS]
    table = pa.table({"n": pa.array(range(len(texts)), pa.int64()), "s": pa.array(texts, pa.string())})
    engine = opened(kind, {"j": table}, SCHEMA)
    name, items = engine.dialect.quote, []
    for i, field in enumerate(FIELDS + NUMBERS):
        [counted] = check(f"SELECT COUNT(({field})) FROM j", SCHEMA, Unit.row()).aggregates
        assert counted.of is not None
        items.append(f"{relations.expression(counted.of, engine.dialect)} AS x{i}")
    found = sorted(rows(engine, f"SELECT {name('n')}, {', '.join(items)} FROM {name('j')}"))
    engine.close()
    columns = list(zip(*found, strict=True))[1:]
    return {field: list(column) for field, column in zip(FIELDS + NUMBERS, columns, strict=True)}


def by_python(text: str, *keys: str) -> Any:
    """The value at a path; None where there is none."""
    value = json.loads(text)
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def as_text(value: Any) -> str | None:
    if isinstance(value, (float, dict, list)) or value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize("kind", ENGINES)
def test_fields_are_read_as_python_reads_them(kind: str) -> None:
    found = values(kind)
    for i, text in enumerate(PLAIN):
        assert found["s ->> 'a'"][i] == as_text(by_python(text, "a")), text
        assert found["s ->> '$.b.c'"][i] == as_text(by_python(text, "b", "c")), text
        assert found["s -> 'b' -> 'd' ->> 'a'"][i] == as_text(by_python(text, "b", "d", "a")), text
        value = by_python(text, "a")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            assert found[NUMBERS[0]][i] == float(value), text
            assert found[NUMBERS[2]][i] == round(value), text


@pytest.mark.parametrize("kind", ENGINES[1:])
def test_engines_agree_on_every_text(kind: str) -> None:
    found, wanted = values(kind), values("duckdb")
    odd = [
        (field, TEXTS[i], a, b)
        for field in found
        for i, (a, b) in enumerate(zip(found[field], wanted[field], strict=True))
        if a != b
    ]
    assert odd == []


def test_what_is_no_json_is_null() -> None:
    found = values("duckdb")["s ->> 'a'"]
    read = [text for text, value in zip(TEXTS, found, strict=True) if value is not None and text in ODD]
    assert read == [
        '{"a": 1}\n',
        '{"a": "\u2028"}',
        '{"a": 1, "x": ' + "[" * DEPTH + "1" + "]" * DEPTH + "}",
    ]


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("s -> 'a'", "gives JSON, which is not answered. Write x ->> 'a' for a text"),
        ("s ->> '$.a[0]'", "no places in lists"),
        ("s ->> 'a.b c'", "got "),
        ("s ->> s", "is written as a literal"),
        ("s ->> '$'", "names a key"),
        ("s ->> '$.a.b.c.d.e'", "at most 4 keys"),
        ("n ->> 'a'", "expects a TEXT"),
        ("json_extract_path_text(s, 'a', 'b')", "JSON_EXTRACT_PATH_TEXT is not answered"),
    ],
)
def test_other_paths_are_refused(field: str, told: str) -> None:
    with pytest.raises(InvalidQuery, match=re.escape(told)):
        check(f"SELECT COUNT(({field})) FROM j", SCHEMA, Unit.row())
