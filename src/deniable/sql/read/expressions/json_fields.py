"""Fields of JSON texts: x ->> 'a', json_extract_string(x, '$.a.b'), JSON_VALUE(x, '$.a'), each of a literal
path of keys.

A field is a text: strings, booleans and whole numbers. CAST makes a number of it, of those with a fraction
too, which have no text that all engines write alike."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError
from sqlglot.jsonpath import parse as parse_path

from deniable.sql import types
from deniable.sql.read.expressions.coercion import NodeReader, a_text, convert, string
from deniable.sql.read.parse import name_of, refuse, shown
from deniable.sql.tree import Call, Expr, Kind, Literal, Type
from deniable.sql.types import FLOAT, NUMBERS, TEXT

MAX_STEPS = 4
_NAME = re.compile("[A-Za-z0-9_-]{1,64}")
_WAY_OUT = "Write x ->> 'a' or x ->> '$.a.b'."
NAMED = ("json_value", "get_json_object", "json_extract_scalar", "json_extract_string")
"""Functions that the parser has no node for."""
_EXTRACTS = (exp.JSONExtractScalar, exp.JSONExtract)


def _is_extract(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in NAMED and len(node.expressions) == 2
    return isinstance(node, _EXTRACTS)


def field(of: NodeReader, node: exp.Expr) -> Expr:
    """As text."""
    if isinstance(node, exp.JSONExtract):
        refuse(
            f"{'->' if node.meta.get('written') is None else name_of(node)} gives JSON, which is not "
            "answered.",
            "Write x ->> 'a' for a text, or CAST(x ->> 'a' AS DOUBLE) for a number.",
        )
    return _read(of, node, "text")


def cast(
    rule: Callable[[NodeReader, exp.Expr], Expr], to_type: Callable[[exp.DataType], Type]
) -> Callable[..., Expr]:
    """CAST, of a field too: a number is read as one."""

    def read(of: NodeReader, node: exp.Expr) -> Expr:
        inner = node.this
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if not _is_extract(inner):
            return rule(of, node)
        to, text = to_type(node.args["to"]), _read(of, inner, "text")
        if to.kind is Kind.TEXT:
            return text
        value: Expr = Call("cast", (text,), to)
        if to.kind not in NUMBERS:
            return value
        return Call("coalesce", (value, convert(_read(of, inner, "real"), to)), to)

    return read


def _read(of: NodeReader, node: exp.Expr, kind: str) -> Expr:
    base, keys = _path(node)
    if len(keys) > MAX_STEPS:
        refuse(f"Expected a path of at most {MAX_STEPS} keys into a JSON text.", _WAY_OUT)
    expr = a_text(of(base), "->>")
    for i, key in enumerate(keys):
        reading = kind if i == len(keys) - 1 else "part"
        to = FLOAT if reading == "real" else expr.type
        expr = Call("json_field", (expr, Literal(key, types.text(len(key))), Literal(reading, TEXT)), to)
    return expr


def _path(node: exp.Expr) -> tuple[exp.Expr, list[str]]:
    """The text that is looked into, and the keys on the way."""
    if isinstance(node, exp.Anonymous):
        base, path = node.expressions
    else:
        base, path = node.this, node.args["expression"]
        if node.args.get("expressions") or node.meta.get("written") == "JSON_EXTRACT_PATH_TEXT":
            refuse("JSON_EXTRACT_PATH_TEXT is not answered.", _WAY_OUT)
    keys = _keys(path)
    while True:
        if isinstance(base, exp.Paren) or (isinstance(base, exp.Cast) and base.to.is_type("json", "jsonb")):
            base = base.this
        elif _is_extract(base):
            inner, before = _path(base)
            return inner, [*before, *keys]
        else:
            return base, keys


def _keys(path: exp.Expr) -> list[str]:
    if isinstance(path, exp.Literal) and path.is_string:
        path_text = string(path, "A path into a JSON text")
        path = _parsed(path_text) if path_text.startswith("$") else _of_one(path_text)
    if not isinstance(path, exp.JSONPath):
        refuse("A path into a JSON text is written as a literal.", _WAY_OUT)
    keys = []
    for step in path.expressions[1:]:
        name = None
        if isinstance(step, exp.JSONPathKey):
            name = step.this
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            refuse(
                "A path into a JSON text has keys of letters, digits, _ and -, and no places in lists"
                + (f", got {shown(name)}." if isinstance(name, str) else "."),
                _WAY_OUT,
            )
        keys.append(name)
    if not keys:
        refuse("A path into a JSON text names a key.", _WAY_OUT)
    return keys


def _of_one(key: str) -> exp.JSONPath:
    return exp.JSONPath(expressions=[exp.JSONPathRoot(), exp.JSONPathKey(this=key)])


def _parsed(text: str) -> exp.JSONPath:
    try:
        return parse_path(text)
    except SqlglotError:
        refuse(f"The path {shown(text)} into a JSON text cannot be read.", _WAY_OUT)


RULES: dict[type[exp.Expr], Callable[[NodeReader, exp.Expr], Expr]] = dict.fromkeys(_EXTRACTS, field)
