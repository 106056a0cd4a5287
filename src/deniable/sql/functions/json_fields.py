r"""Fields of JSON texts: x ->> 'a', json_extract_string(x, '$.a.b'), JSON_VALUE(x, '$.a'), each of a literal
path of keys. A field is a text: strings, booleans and whole numbers. CAST makes a number of it, of those with
a fraction too, which have no text that all engines write alike.

They are read by a grammar of our own, so that no text can make an engine fail and all read the
same.

Engines differ about JSON: which of two equal keys counts, whether '{"a": 1} x', 'NaN' or a last comma is
JSON, what 1e999 and \u0000 are, and PostgreSQL raises where it does not like a text. So a text is looked at
before an engine's own function sees it, by substitutions that all engines make alike: every token becomes one
control character, then nested objects and arrays become one, from the inside, until the text's own object is
left:

    {"a": [1, {"b": "x"}], "c": null}    ⟨K:o,k:n⟩    for the key a

What is left has to be an object of keys and values, in which the key stands once, beside a value of the kind
that is asked for. Everything else is NULL: nesting beyond DEPTH, a key that is there twice, keys with a
backslash, escapes of U+0000 and of surrogates, numbers of more digits than FLOAT_TEXT has (`sql.types`).
Nothing here goes back: each substitution is linear in the text, which is cut to its column's declared length.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError
from sqlglot.jsonpath import parse as parse_path

from deniable.sql import types
from deniable.sql.coercion import NodeReader, a_text, convert, string
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.functions.function import Form, Function, NamedReading, Reading, Syntax
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import Call, Expr, Kind, Literal, Type
from deniable.sql.types import FLOAT, NUMBERS, TEXT

# ------------------------------------------------------------------------------------------------ reading

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


def _read_field(of: NodeReader, node: exp.Expr) -> Expr:
    """As text."""
    if isinstance(node, exp.JSONExtract):
        refuse(
            f"{node.meta.get('written') or '->'} gives JSON, which is not answered.",
            "Write x ->> 'a' for a text, or CAST(x ->> 'a' AS DOUBLE) for a number.",
        )
    return _read(of, node, "text")


def read_cast(rule: Reading, to_type: Callable[[exp.DataType], Type]) -> Reading:
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


# ------------------------------------------------------------------------------------------------ words

DEPTH = 8
"""How deep objects and arrays are nested inside the object whose field is read."""

_MARK, _STRING, _INTEGER, _REAL, _BOOLEAN, _NULL = "\x01", "\x02", "\x03", "\x04", "\x05", "\x06"
_NESTED, _KEY, _OURS, _OPEN, _CLOSE = "\x0e", "\x0f", "\x10", "\x11", "\x12"
_FORGED = "[^\t\n\r -\U0010ffff]"
"""Control characters, U+0000 among them, which no statement can name."""
_VALUE = f"[{_STRING}-{_NULL}{_NESTED}]"
KINDS = {"text": f"[{_STRING}{_INTEGER}{_BOOLEAN}]", "real": _REAL, "part": _NESTED}
"""What a reading takes: a string, whole number or boolean as text; another number; an object to look into."""

_HEX = "[0-9a-fA-F]"
_UNICODE = (
    f"(0(0(0[1-9a-fA-F]|[1-9a-fA-F]{_HEX})|[1-9a-fA-F]{_HEX}{{2}})"
    f"|[1-9a-cA-CefEF]{_HEX}{{3}}|[dD][0-7]{_HEX}{{2}})"
)
_PLAIN = '[^"\\\\\x01-\x1f]*'


def _text(unicode: str) -> str:
    return f'"{_PLAIN}(\\\\(["\\\\/bfnrt]|u{unicode}){_PLAIN})*"'


_TEXT = _text(_UNICODE)
_BLANK = "[ \t\r\n]*"
_WHOLE = "(0|-?[1-9][0-9]{0,17})"
_EXPONENT = "[eE][+-]?[0-9]{1,2}"
_FRACTION = f"-?(0|[1-9][0-9]{{0,17}})([.][0-9]{{1,18}}({_EXPONENT})?|{_EXPONENT})"
# What an engine writes of a string or a number that was one of those, in a part that it took out of a text.
_ANY_TEXT = _text(f"{_HEX}{{4}}")
_ANY_WHOLE = "-?[0-9]+"
_ANY_FRACTION = "-?[0-9]+([.][0-9]+([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)"


def _field(call: Call, args: list[str], dialect: Dialect) -> str:
    """The value of a key of a text's own object."""
    key, kind = (str(arg.value) for arg in call.args[1:] if isinstance(arg, Literal))
    inside = isinstance(call.args[0], Call) and call.args[0].op == "json_field"

    def body(text: str) -> str:
        form = f"^{_OPEN}({_KEY}:{_VALUE},)*{_OURS}:{KINDS[kind]}(,{_KEY}:{_VALUE})*{_CLOSE}$"
        shape = dialect.found(_shape(text, key, dialect, inside), form)
        safe = f"CASE WHEN NOT {dialect.found(text, _FORGED)} AND {shape} THEN {text} END"
        if kind == "part":
            return dialect.json_part(safe, key)
        if kind == "real":
            return dialect.json_number(safe, key)
        return dialect.json_text(safe, key)

    return dialect.let(args[:1], body)


def _shape(text: str, key: str, dialect: Dialect, inside: bool) -> str:
    """The text with a character for each token, and one for all that is nested."""
    forms = (_ANY_TEXT, _ANY_WHOLE, _ANY_FRACTION) if inside else (_TEXT, _WHOLE, _FRACTION)
    string, whole_number, fraction = forms
    pair = f"[{_KEY}{_OURS}]:{_VALUE}"
    composite = f"\\{{({pair}(,{pair})*)?\\}}|\\[({_VALUE}(,{_VALUE})*)?\\]"
    steps = [
        (f"({string})", f"\\1{_MARK}"),
        (f'"{key}"{_MARK}{_BLANK}:', f"{_OURS}:"),
        (f'"[^"\\\\\x01-\x1f]*"{_MARK}{_BLANK}:', f"{_KEY}:"),
        (f"{string}{_MARK}", _STRING),
        (fraction, _REAL),
        (whole_number, _INTEGER),
        ("true|false", _BOOLEAN),
        ("null", _NULL),
        ("[ \t\r\n]+", ""),
        ("^\\{", _OPEN),
        ("\\}$", _CLOSE),
        *[(composite, _NESTED)] * DEPTH,
    ]
    for pattern, by in steps:
        text = dialect.replaced(text, pattern, by)
    return text


def _named(name: str) -> NamedReading:
    return lambda of, args: _read_field(of, exp.Anonymous(this=name, expressions=list(args)))


_SCALAR = frozenset({"this", "expression", "only_json_types", "scalar_only"})

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "json_field",
        (
            Form(
                "a ->> 'x', a ->> '$.x.y', json_extract_string(a, '$.x'), json_value(a, '$.x'), "
                "get_json_object(a, '$.x')",
                "a string, boolean or whole number of a JSON text, by a literal path of keys; other numbers "
                "by CAST(a ->> 'x' AS DOUBLE); NULL where the text is not JSON",
                (
                    Syntax(exp.JSONExtractScalar, _read_field, _SCALAR),
                    Syntax(
                        exp.JSONExtract, _read_field, frozenset({"this", "expression", "only_json_types"})
                    ),
                ),
                {(name, 2): _named(name) for name in NAMED},
            ),
        ),
        words=_field,
    ),
)
