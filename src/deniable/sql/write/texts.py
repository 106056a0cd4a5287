"""Texts, dates and casts that never raise. Letters are folded, texts ordered and numbers read by rules of our own, so that the
three engines agree."""

from __future__ import annotations

import string

from deniable.sql import types
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.dialects.words import double, finite, let, text, type_name
from deniable.sql.tree import Call, Kind, Literal, Type
from deniable.sql.types import FLOAT
from deniable.sql.write.numbers import Rule, scaled_down, scaled_up

FIRST, LAST = "0001-01-01", "9999-12-31"
_FLOAT_TOP = 9.223372036854775e18  # below 2^63 and a double


def _value(call: Call, index: int) -> str:
    found = call.args[index]
    return str(found.value) if isinstance(found, Literal) else ""


def _fold(source: str, target: str) -> Rule:
    return lambda call, args, dialect: f"translate({args[0]}, '{source}', '{target}')"


def length(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"CAST({'length' if dialect is Dialect.DUCKDB else 'char_length'}({args[0]}) AS BIGINT)"


def substring(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"substring({args[0]}, {_value(call, 1)}, {_value(call, 2)})"


def right(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"right({args[0]}, {_value(call, 1)})"


def trim(call: Call, args: list[str], dialect: Dialect) -> str:
    side = _value(call, 1)
    if dialect is Dialect.DUCKDB:
        return f"{ {'LEADING': 'ltrim', 'TRAILING': 'rtrim'}.get(side, 'trim') }({args[0]}, ' ')"
    return f"trim({side} ' ' FROM {args[0]})"


def concat(call: Call, args: list[str], dialect: Dialect) -> str:
    return _cut(f"({' || '.join(args)})", sum(a.type.length for a in call.args), call.type)


def replace(call: Call, args: list[str], dialect: Dialect) -> str:
    grown = call.args[0].type.length * max(1, len(_value(call, 2)))
    return _cut(f"replace({', '.join(args)})", grown, call.type)


def _cut(part: str, longest: int, to: Type) -> str:
    return part if longest <= to.length else f"left({part}, {to.length})"


def like(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"({args[0]} LIKE {args[1]} ESCAPE '!')"


def starts_with(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"{'startswith' if dialect is Dialect.SPARK else 'starts_with'}({args[0]}, {args[1]})"


def ends_with(call: Call, args: list[str], dialect: Dialect) -> str:
    if dialect is Dialect.POSTGRES:
        return let(
            dialect, args, lambda a, b: f"(right({a}, char_length({b})) = {b} AND char_length({a}) >= char_length({b}))"
        )
    return f"{'endswith' if dialect is Dialect.SPARK else 'ends_with'}({args[0]}, {args[1]})"


def contains(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"(strpos({args[0]}, {args[1]}) > 0)" if dialect is Dialect.POSTGRES else f"contains({args[0]}, {args[1]})"


# ------------------------------------------------------------------------------------------------ dates


def date_trunc(call: Call, args: list[str], dialect: Dialect) -> str:
    inside = f"CAST({args[1]} AS TIMESTAMP)"
    return f"CAST(date_trunc('{_value(call, 0)}', {inside}) AS {type_name(call.type, dialect)})"


def date_part(call: Call, args: list[str], dialect: Dialect) -> str:
    return part(_value(call, 0), args[1], dialect)


def part(name: str, x: str, dialect: Dialect) -> str:
    if dialect is Dialect.SPARK and name in ("dow", "isodow"):
        return f"CAST({'dayofweek' if name == 'dow' else 'weekday'}({x}) {'- 1' if name == 'dow' else '+ 1'} AS BIGINT)"
    if dialect is Dialect.DUCKDB:
        return f"CAST(date_part('{name}', {x}) AS BIGINT)"
    return f"CAST(floor(extract({name} FROM {x})) AS BIGINT)"


def add_days(call: Call, args: list[str], dialect: Dialect) -> str:
    """NULL outside the years 1 to 9999, the range of dates that all engines have."""
    days = int(_value(call, 1))
    move = "date_add({x}, {n})" if dialect is Dialect.SPARK else "({x} + {n})"

    def body(x: str) -> str:
        end = f"CAST('{LAST if days > 0 else FIRST}' AS DATE)"
        room = move.format(x=end, n=f"({-days})")
        inside = f"CASE WHEN {x} {'<=' if days > 0 else '>='} {room} THEN {x} END"
        return f"CAST({move.format(x=inside, n=f'({days})')} AS DATE)"

    return let(dialect, args[:1], body)


def date_diff(call: Call, args: list[str], dialect: Dialect) -> str:
    name, a, b = _value(call, 0), *args[1:]
    if name in ("year", "quarter", "month"):
        return let(dialect, [a, b], lambda a, b: f"({_periods(name, b, dialect)} - {_periods(name, a, dialect)})")
    if name == "week":
        a, b = (f"CAST(date_trunc('week', CAST({x} AS TIMESTAMP)) AS DATE)" for x in (a, b))
    days = {
        Dialect.DUCKDB: f"CAST({b} - {a} AS BIGINT)",
        Dialect.POSTGRES: f"CAST({b} - {a} AS BIGINT)",
        Dialect.SPARK: f"CAST(datediff({b}, {a}) AS BIGINT)",
    }[dialect]
    if name == "day":
        return days
    return {Dialect.DUCKDB: f"({days} // 7)", Dialect.POSTGRES: f"({days} / 7)", Dialect.SPARK: f"({days} div 7)"}[
        dialect
    ]


def _periods(name: str, x: str, dialect: Dialect) -> str:
    """How many since the year 0."""
    year = part("year", x, dialect)
    return year if name == "year" else f"({year} * {4 if name == 'quarter' else 12} + {part(name, x, dialect)})"


# ------------------------------------------------------------------------------------------------ casts


def cast(call: Call, args: list[str], dialect: Dialect) -> str:
    """One rule for each pair of types; what cannot be read is NULL."""
    source, to, x = call.args[0].type, call.type, args[0]
    if source.kind is Kind.TEXT:
        return _from_text(to, x, dialect)
    match source.kind, to.kind:
        case Kind.INTEGER | Kind.DECIMAL, Kind.INTEGER | Kind.DECIMAL:
            return scaled_down(scaled_up(x, to.scale - source.scale, dialect), source.scale - to.scale, dialect)
        case Kind.INTEGER | Kind.DECIMAL, Kind.FLOAT:
            whole_number = f"CAST({x} AS {type_name(to, dialect)})"
            return f"({whole_number} / {double(10.0**source.scale, dialect)})" if source.scale else whole_number
        case Kind.FLOAT, Kind.INTEGER | Kind.DECIMAL:
            return _from_float(to, x, dialect)
        case Kind.BOOLEAN, Kind.INTEGER:
            return f"CAST(CAST({x} AS INTEGER) AS BIGINT)"
        case Kind.BOOLEAN, Kind.TEXT:
            return let(dialect, [x], lambda x: f"CASE WHEN {x} THEN 'true' WHEN NOT {x} THEN 'false' END")
        case Kind.INTEGER, Kind.BOOLEAN:
            return f"({x} <> 0)"
        case Kind.DATE, Kind.TEXT if dialect is Dialect.POSTGRES:
            return f"to_char({x}, 'YYYY-MM-DD')"
    return f"CAST({x} AS {type_name(to, dialect)})"


def _from_float(to: Type, x: str, dialect: Dialect) -> str:
    """Halves to even. The argument is taken away where the result would not fit."""
    scale, top = double(10.0**to.scale, dialect), double(_FLOAT_TOP / 10.0**to.scale, dialect)
    rounding = {Dialect.DUCKDB: "round_even({x}, 0)", Dialect.POSTGRES: "round({x})", Dialect.SPARK: "rint({x})"}[
        dialect
    ]

    def body(x: str) -> str:
        scaled = f"CASE WHEN abs({x}) < {top} THEN {x} END * {scale}"
        return f"CAST({rounding.format(x=scaled)} AS BIGINT)"

    return let(dialect, [x], body)


def _from_text(to: Type, x: str, dialect: Dialect) -> str:
    if to.kind is Kind.BOOLEAN:
        yes, no = "('true', 't', '1')", "('false', 'f', '0')"
        folded = f"translate({x}, '{string.ascii_uppercase}', '{string.ascii_lowercase}')"
        return let(dialect, [folded], lambda x: f"CASE WHEN {x} IN {yes} THEN TRUE WHEN {x} IN {no} THEN FALSE END")
    return let(dialect, [x], lambda x: _read(to, x, dialect))


def _read(to: Type, x: str, dialect: Dialect) -> str:
    """A text that matches our grammar for the type is read; the engines agree on those."""
    given = {
        Kind.INTEGER: types.INTEGER_TEXT,
        Kind.DECIMAL: types.decimal_text(to.scale),
        Kind.FLOAT: types.FLOAT_TEXT,
        Kind.DATE: types.DATE_TEXT,
        Kind.TIMESTAMP: f"({types.DATE_TEXT}|{types.TIMESTAMP_TEXT})",
    }[to.kind]
    safe = f"CASE WHEN {_matches(x, given, dialect)} THEN {x} END"
    match to.kind:
        case Kind.DECIMAL:
            exact = f"CAST({safe} AS DECIMAL(38, {to.scale}))"
            return _scaled(exact, to.scale, dialect)
        case Kind.FLOAT:
            return finite(f"CAST({safe} AS {type_name(FLOAT, dialect)})", dialect)
    return f"CAST({safe} AS {type_name(to, dialect)})"


def _scaled(exact: str, scale: int, dialect: Dialect) -> str:
    """A decimal of at most 18 digits as its scaled integer (19 where it was rounded up, which still fits 64 bits)."""
    if dialect is Dialect.POSTGRES:
        return f"CAST({exact} * {10**scale} AS BIGINT)"
    return f"CAST(CAST({exact} AS DECIMAL(19, {scale})) * CAST({10**scale} AS DECIMAL(19, 0)) AS BIGINT)"


def _matches(x: str, pattern: str, dialect: Dialect) -> str:
    """The whole text matches a pattern of our own. Java's $ also matches before a last line break: the last sign is a digit."""
    match dialect:
        case Dialect.DUCKDB:
            return f"regexp_full_match({x}, {text(pattern, dialect)})"
        case Dialect.POSTGRES:
            return f"{x} ~ {text(f'^({pattern})$', dialect)}"
        case Dialect.SPARK:
            # The $ of the pattern is written as an escape, see `render_words.text`.
            return f"({x} RLIKE {text(f'^({pattern})$', dialect)} AND right({x}, 1) BETWEEN '0' AND '9')"


RULES: dict[str, Rule] = {
    "lower": _fold(string.ascii_uppercase, string.ascii_lowercase),
    "upper": _fold(string.ascii_lowercase, string.ascii_uppercase),
    "length": length,
    "substring": substring,
    "right": right,
    "trim": trim,
    "concat": concat,
    "replace": replace,
    "like": like,
    "starts_with": starts_with,
    "ends_with": ends_with,
    "contains": contains,
    "date_trunc": date_trunc,
    "date_part": date_part,
    "add_days": add_days,
    "date_diff": date_diff,
    "cast": cast,
}
