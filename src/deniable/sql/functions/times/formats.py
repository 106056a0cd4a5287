"""Dates as texts: one form, `%Y-%m`, of numbers and English names, which every engine says alike, and the
formats of strftime and to_char that become it.

>>> texts("%a", {"dow": range(7)}, 10)[:2], length("%Y-%m")
(('Sun', 'Mon'), 8)
>>> by_strftime("%Y-%m"), by_to_char("FMMonth YYYY")
('%Y-%m', '%B %Y')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product

from sqlglot import expressions as exp

from deniable.sql import types
from deniable.sql.coercion import NodeReader, convert, string
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.functions.function import Form, Function, KeyRules, Syntax, Values, literal_value
from deniable.sql.functions.times.dates import FEW, as_time
from deniable.sql.refusals import refuse, shown
from deniable.sql.tree import Call, Expr, Kind, Literal
from deniable.sql.types import TEXT, TIMESTAMP

MAX_TEXTS = 1_000
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

# Each code: the part of a date, and the digits that it is filled up to with zeros (0: as it is).
NUMBERS: dict[str, tuple[str, int]] = {
    "%Y": ("year", 4), "%m": ("month", 2), "%d": ("day", 2), "%H": ("hour", 2), "%M": ("minute", 2),
    "%S": ("second", 2), "%j": ("doy", 3), "%V": ("week", 2), "%G": ("isoyear", 4), "%q": ("quarter", 0),
    "%u": ("isodow", 0), "%w": ("dow", 0), "%-m": ("month", 0), "%-d": ("day", 0), "%-H": ("hour", 0),
    "%-M": ("minute", 0), "%-j": ("doy", 0),
}  # fmt: skip
NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "%B": ("month", MONTHS),
    "%b": ("month", tuple(name[:3] for name in MONTHS)),
    "%A": ("dow", DAYS),
    "%a": ("dow", tuple(name[:3] for name in DAYS)),
}
NAMES |= {
    code.replace("%", "%^"): (part, tuple(name.upper() for name in names))
    for code, (part, names) in NAMES.items()
}
_CODE = re.compile(r"%[-^]?.|[^%]", re.S)


def pieces(form: str) -> list[str]:
    return _CODE.findall(form)


def parts(form: str) -> set[str]:
    """The parts of a date that a format shows."""
    return {
        (NUMBERS.get(piece) or NAMES[piece])[0]
        for piece in pieces(form)
        if piece in NUMBERS or piece in NAMES
    }


def length(form: str) -> int:
    return sum(max(len(text) for text in _texts(piece, ())) for piece in pieces(form)) or 1


def texts(form: str, values: dict[str, range], most: int) -> tuple[str, ...] | None:
    """All texts of a format, where they are few; `values` are those of each part."""
    shown_parts = sorted(parts(form))
    size = 1
    for part in shown_parts:
        size *= len(values[part]) if part in values else most + 1
    if size > most:
        return None
    spellings: dict[str, None] = {}
    for combination in product(*(values[part] for part in shown_parts)):
        at = dict(zip(shown_parts, combination, strict=True))
        spellings["".join(next(iter(_texts(piece, tuple(at.items())))) for piece in pieces(form))] = None
    return tuple(spellings)


def _texts(piece: str, at: tuple[tuple[str, int], ...]) -> Iterator[str]:
    """The text of a piece for these parts of a date, or the longest."""
    values = dict(at)
    if piece in NUMBERS:
        part, digits = NUMBERS[piece]
        yield str(values.get(part, 10 ** max(digits, 3) - 1)).zfill(digits)
    elif piece in NAMES:
        part, names = NAMES[piece]
        spellings = names
        if part in values:
            spellings = (names[values[part] - (part == "month")],)
        yield from spellings
    else:
        yield piece[0]


# ------------------------------------------------------------------------------ the formats of other dialects

_FORMAT_LENGTH = 64
_TO_CHAR = {
    "YYYY": "%Y", "IYYY": "%G", "MM": "%m", "DDD": "%j", "DD": "%d", "HH24": "%H", "MI": "%M", "SS": "%S",
    "IW": "%V", "ID": "%u", "Q": "%q", "Month": "%B", "Mon": "%b", "Day": "%A", "Dy": "%a",
    "MONTH": "%^B", "MON": "%^b", "DAY": "%^A", "DY": "%^a",
}  # fmt: skip
_TOKEN = re.compile(
    r'"[^"]*"|FM|' + "|".join(sorted(_TO_CHAR, key=len, reverse=True)) + r"|[A-Za-z]+|.", re.S
)


def by_strftime(given: str) -> str:
    return _checked(given.replace("%F", "%Y-%m-%d").replace("%T", "%H:%M:%S").replace("%h", "%b"), given)


def by_to_char(given: str) -> str:
    """PostgreSQL's patterns; names are not filled up with blanks."""
    parts, bare = [], False
    for token in _TOKEN.findall(given):
        if token == "FM":
            bare = True
            continue
        code = _TO_CHAR.get(token)
        if code is None and token[:1] != '"' and token.isalpha() and token != "T":
            _refuse(token)
        if code is None:
            code = token.strip('"').replace("%", "%%")
        elif bare and f"%-{code[1:]}" in NUMBERS:
            code = f"%-{code[1:]}"
        parts.append(code)
        bare = False
    return _checked("".join(parts), given)


def _checked(form: str, given: str) -> str:
    if len(given) > _FORMAT_LENGTH:
        refuse(f"Expected a format of at most {_FORMAT_LENGTH} characters.")
    for piece in pieces(form):
        if piece[0] == "%" and piece != "%%" and piece not in NUMBERS and piece not in NAMES:
            _refuse(piece)
    return form


def _refuse(code: str) -> None:
    codes = ", ".join([*NUMBERS, *NAMES])
    refuse(f"The format {shown(code)} is not answered.", f"In strftime use {codes}.")


# ----------------------------------------------------------------------------------------------- the function


def formatted(x: Expr, form: str) -> Expr:
    x = as_time(x, "STRFTIME")
    if x.type.kind is Kind.DATE and parts(form) & {"hour", "minute", "second"}:
        x = convert(x, TIMESTAMP)
    return Call("date_format", (Literal(form, TEXT), x), types.text(length(form)))


def _read_strftime(of: NodeReader, node: exp.Expr) -> Expr:
    moment, form = of(node.this), node.args.get("format")
    if isinstance(moment, Literal) and isinstance(moment.value, str):
        refuse(
            "STRFTIME expects a date and then a format, written as a literal.", "Write strftime(d, '%Y-%m')."
        )
    return formatted(moment, by_strftime(string(form, "STRFTIME")))


def _read_to_char(of: NodeReader, node: exp.Expr) -> Expr:
    return formatted(of(node.this), by_to_char(string(node.args.get("format"), "TO_CHAR")))


def _words(call: Call, args: list[str], dialect: Dialect) -> str:
    form = literal_value(call, 0)
    return dialect.let(
        [args[1]], lambda x: f"({' || '.join(_piece_words(piece, x, dialect) for piece in _runs(form))})"
    )


def _runs(form: str) -> list[str]:
    """Codes, and what stands between them as one text each."""
    parts: list[str] = []
    for piece in pieces(form):
        literal = piece not in NUMBERS and piece not in NAMES
        if literal and parts and parts[-1][0] == "'":
            parts[-1] += piece[0]
        else:
            parts.append("'" + piece[0] if literal else piece)
    return parts


def _piece_words(piece: str, x: str, dialect: Dialect) -> str:
    if piece in NUMBERS:
        part, digits = NUMBERS[piece]
        number = dialect.as_text(dialect.date_part(part, x))
        if digits:
            return f"lpad({number}, {digits}, '0')"
        return number
    if piece in NAMES:
        part, names = NAMES[piece]
        first = 1 if part == "month" else 0
        whens = " ".join(f"WHEN {first + i} THEN '{name}'" for i, name in enumerate(names))
        return f"CASE {dialect.date_part(part, x)} {whens} END"
    return dialect.text(piece[1:])


def _domain(call: Call, domain: Callable[[Expr], Values | None]) -> Values | None:
    spellings = texts(literal_value(call, 0), FEW, MAX_TEXTS)
    if spellings is None:
        return None
    return (*spellings, None)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "date_format",
        (
            Form(
                "strftime(a, '%Y-%m'), to_char(a, 'YYYY-MM'), dayname(a), monthname(a)",
                "as text, by a literal format of numbers and English names",
                (
                    Syntax(exp.TimeToStr, _read_strftime, frozenset({"this", "format"})),
                    Syntax(exp.ToChar, _read_to_char, frozenset({"this", "format"})),
                    Syntax(exp.Dayname, lambda of, node: formatted(of(node.this), "%A")),
                    Syntax(exp.Monthname, lambda of, node: formatted(of(node.this), "%B")),
                ),
                {
                    ("date_format", 2): lambda of, args: formatted(
                        of(args[0]), by_strftime(string(args[1], "DATE_FORMAT"))
                    ),
                    ("format_date", 2): lambda of, args: formatted(
                        of(args[1]), by_strftime(string(args[0], "FORMAT_DATE"))
                    ),
                },
            ),
        ),
        words=_words,
        keys=KeyRules(domain=_domain),
    ),
)
