r"""Fields of JSON texts, by a grammar of our own, so that no text can make an engine fail and all read the
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

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.tree import Call, Literal
from deniable.sql.write.numbers import Rule

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


def field(call: Call, args: list[str], dialect: Dialect) -> str:
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


RULES: dict[str, Rule] = {"json_field": field}
