"""Texts, dates and casts that never raise. Letters are folded, texts ordered and numbers read by rules of our
own, so that the three engines agree."""

from __future__ import annotations

import string
from calendar import monthrange
from datetime import datetime, timedelta

from deniable.sql import date_formats, types
from deniable.sql.dialects.dialect import Dialect, whole
from deniable.sql.tree import Call, Kind, Literal, Type
from deniable.sql.write.numbers import Rule, scaled_down, scaled_up

FIRST, LAST = "0001-01-01", "9999-12-31"
PERIODS = {"year": 1, "quarter": 4, "month": 12}
"""Periods that are counted by the calendar, and how many of them a year has."""
FINE = {
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
"""Short periods, in microseconds."""
EPOCH = datetime(1970, 1, 1)
_FLOAT_TOP = 9.223372036854775e18  # below 2^63 and a double


def _value(call: Call, index: int) -> str:
    arg = call.args[index]
    if isinstance(arg, Literal):
        return str(arg.value)
    return ""


def _fold(source: str, target: str) -> Rule:
    return lambda call, args, dialect: f"translate({args[0]}, '{source}', '{target}')"


def length(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.length(args[0])


def byte_length(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"CAST({dialect.octets(args[0])} AS BIGINT)"


def substring(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"substring({args[0]}, {_value(call, 1)}, {_value(call, 2)})"


def right(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"right({args[0]}, {_value(call, 1)})"


def trim(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.stripped(args[0], _value(call, 1))


def concat(call: Call, args: list[str], dialect: Dialect) -> str:
    return _cut(f"({' || '.join(args)})", sum(a.type.length for a in call.args), call.type)


def replace(call: Call, args: list[str], dialect: Dialect) -> str:
    grown = call.args[0].type.length * max(1, len(_value(call, 2)))
    return _cut(f"replace({', '.join(args)})", grown, call.type)


def _cut(part: str, longest: int, to: Type) -> str:
    if longest <= to.length:
        return part
    return f"left({part}, {to.length})"


def split_part(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"split_part({args[0]}, {args[1]}, {_value(call, 2)})"


def position(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"CAST({dialect.position(args[0], args[1])} AS BIGINT)"


def pad(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"{'lpad' if _value(call, 1) == 'left' else 'rpad'}({args[0]}, {_value(call, 2)}, {args[3]})"


def regexp(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.found(args[0], _value(call, 1))


def regexp_extract(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.extracted(args[0], _value(call, 1), int(_value(call, 2)))


def regexp_replace(call: Call, args: list[str], dialect: Dialect) -> str:
    by = _value(call, 2)
    text = dialect.replaced(args[0], _value(call, 1), by, first="g" not in _value(call, 3))
    # A bracket's number stands for at most the length of the match.
    return _cut(text, call.args[0].type.length * max(1, len(by)), call.type)


def like(call: Call, args: list[str], dialect: Dialect) -> str:
    return f"({args[0]} LIKE {args[1]} ESCAPE '!')"


def starts_with(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.starts_with(*args)


def ends_with(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.ends_with(*args)


def contains(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.contains(*args)


# ------------------------------------------------------------------------------------------------ dates


def date_trunc(call: Call, args: list[str], dialect: Dialect) -> str:
    inside = f"CAST({args[1]} AS TIMESTAMP)"
    return f"CAST(date_trunc('{_value(call, 0)}', {inside}) AS {dialect.type_name(call.type)})"


def date_part(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.date_part(_value(call, 0), args[1])


def add_days(call: Call, args: list[str], dialect: Dialect) -> str:
    """NULL outside the years 1 to 9999, the range of dates that all engines have."""
    days = int(_value(call, 1))

    def body(x: str) -> str:
        end, within = (LAST, "<=") if days > 0 else (FIRST, ">=")
        room = dialect.plus_days(f"CAST('{end}' AS DATE)", -days)
        inside = f"CASE WHEN {x} {within} {room} THEN {x} END"
        return f"CAST({dialect.plus_days(inside, days)} AS DATE)"

    return dialect.let(args[:1], body)


def add_months(call: Call, args: list[str], dialect: Dialect) -> str:
    """NULL outside the years 1 to 9999. The day of the month stays, or the month ends."""
    months = int(_value(call, 1))
    top, low = 9999 * 12 + 11 - months, 12 - months
    edge, limit = low, f">= {_month(low, dialect, call.type)}"
    if months > 0:
        edge, limit = top, f"<= {_month(top, dialect, call.type, last=True)}"
    if not 12 <= edge <= 9999 * 12 + 11:
        return dialect.literal(None, call.type)

    def body(x: str) -> str:
        target = dialect.plus_months(f"CASE WHEN {x} {limit} THEN {x} END", months)
        return f"CAST({target} AS {dialect.type_name(call.type)})"

    return dialect.let(args[:1], body)


def _month(index: int, dialect: Dialect, of: Type, *, last: bool = False) -> str:
    """The first moment of a month, or the last; by the number of months since the year 0."""
    if not 12 <= index <= 9999 * 12 + 11:
        return dialect.literal(None, of)
    year, month = divmod(index, 12)
    moment = datetime(year, month + 1, 1)
    if last:
        moment = datetime(year, month + 1, monthrange(year, month + 1)[1], 23, 59, 59, 999_999)
    return dialect.literal(moment.date() if of.kind is Kind.DATE else moment, of)


def add_micros(call: Call, args: list[str], dialect: Dialect) -> str:
    micros = timedelta(microseconds=int(_value(call, 1)))
    ends = datetime.min, datetime.max
    if micros < timedelta():
        inside = f">= {dialect.literal(ends[0] - micros, call.type)}"
    else:
        inside = f"<= {dialect.literal(ends[1] - micros, call.type)}"
    return dialect.let(
        args[:1],
        lambda x: dialect.plus_micros(f"CASE WHEN {x} {inside} THEN {x} END", int(_value(call, 1))),
    )


def epoch(call: Call, args: list[str], dialect: Dialect) -> str:
    return dialect.epoch_micros(args[0])


def time_bin(call: Call, args: list[str], dialect: Dialect) -> str:
    """NULL for a period that began before the year 1."""
    width, origin = int(_value(call, 0)), call.args[2]
    start = EPOCH
    if isinstance(origin, Literal) and isinstance(origin.value, datetime):
        start = origin.value
    first, shift = ((moment - EPOCH) // timedelta(microseconds=1) for moment in (datetime.min, start))

    def body(t: str) -> str:
        begin = f"({t} - {_floored(f'({t} - ({shift}))', width)})"
        return dialect.from_epoch_micros(f"CASE WHEN {begin} >= {first} THEN {begin} END")

    return dialect.let([dialect.epoch_micros(args[1])], body)


def _floored(x: str, width: int) -> str:
    """The remainder that is not negative."""
    w = whole(width)
    return f"((({x} % {w}) + {w}) % {w})"


def full_months(call: Call, args: list[str], dialect: Dialect) -> str:
    def body(a: str, b: str) -> str:
        months = f"({_periods('month', b, dialect)} - {_periods('month', a, dialect)})"
        day, other = (dialect.date_part("day", x) for x in (a, b))
        early = (
            f"CASE WHEN {b} >= {a} AND {other} < {day} THEN -1 WHEN {b} < {a} AND {other} > {day} THEN 1 "
            "ELSE 0 END"
        )
        return f"CASE WHEN {a} IS NOT NULL AND {b} IS NOT NULL THEN {months} + {early} END"

    return dialect.let(args, body)


def date_format(call: Call, args: list[str], dialect: Dialect) -> str:
    form = _value(call, 0)
    return dialect.let(
        [args[1]], lambda x: f"({' || '.join(_shown(piece, x, dialect) for piece in _pieces(form))})"
    )


def _pieces(form: str) -> list[str]:
    """Codes, and what stands between them as one text each."""
    parts: list[str] = []
    for piece in date_formats.pieces(form):
        literal = piece not in date_formats.NUMBERS and piece not in date_formats.NAMES
        if literal and parts and parts[-1][0] == "'":
            parts[-1] += piece[0]
        else:
            parts.append("'" + piece[0] if literal else piece)
    return parts


def _shown(piece: str, x: str, dialect: Dialect) -> str:
    if piece in date_formats.NUMBERS:
        part, digits = date_formats.NUMBERS[piece]
        number = dialect.as_text(dialect.date_part(part, x))
        if digits:
            return f"lpad({number}, {digits}, '0')"
        return number
    if piece in date_formats.NAMES:
        part, names = date_formats.NAMES[piece]
        first = 1 if part == "month" else 0
        whens = " ".join(f"WHEN {first + i} THEN '{name}'" for i, name in enumerate(names))
        return f"CASE {dialect.date_part(part, x)} {whens} END"
    return dialect.text(piece[1:])


def date_diff(call: Call, args: list[str], dialect: Dialect) -> str:
    name, a, b = _value(call, 0), *args[1:]
    if name in FINE:
        return dialect.let([a, b], lambda a, b: f"({_index(name, b, dialect)} - {_index(name, a, dialect)})")
    if name in PERIODS:
        return dialect.let(
            [a, b], lambda a, b: f"({_periods(name, b, dialect)} - {_periods(name, a, dialect)})"
        )
    if name == "week":
        a, b = (f"CAST(date_trunc('week', CAST({x} AS TIMESTAMP)) AS DATE)" for x in (a, b))
    days = dialect.days_between(a, b)
    if name == "week":
        return dialect.quotient(days, "7")
    return days


def _index(name: str, x: str, dialect: Dialect) -> str:
    """How many of a short period since 1970, rounded down."""
    micros, width = dialect.epoch_micros(x), FINE[name]
    if width == 1:
        return micros
    return dialect.let([micros], lambda t: dialect.quotient(f"({t} - {_floored(t, width)})", whole(width)))


def _periods(name: str, x: str, dialect: Dialect) -> str:
    """How many since the year 0."""
    year = dialect.date_part("year", x)
    if name == "year":
        return year
    return f"({year} * {PERIODS[name]} + {dialect.date_part(name, x)})"


# ------------------------------------------------------------------------------------------------ casts


def cast(call: Call, args: list[str], dialect: Dialect) -> str:
    """One rule for each pair of types; what cannot be read is NULL."""
    source, to, x = call.args[0].type, call.type, args[0]
    match source.kind, to.kind:
        case Kind.TEXT, _:
            return _from_text(to, x, dialect)
        case Kind.INTEGER | Kind.DECIMAL, Kind.INTEGER | Kind.DECIMAL:
            return scaled_down(
                scaled_up(x, to.scale - source.scale, dialect), source.scale - to.scale, dialect
            )
        case Kind.INTEGER | Kind.DECIMAL, Kind.FLOAT:
            number = dialect.as_double(x)
            if source.scale:
                return f"({number} / {dialect.double(10.0**source.scale)})"
            return number
        case Kind.FLOAT, Kind.INTEGER | Kind.DECIMAL:
            return _from_float(to, x, dialect)
        case Kind.BOOLEAN, Kind.INTEGER:
            return f"CAST(CAST({x} AS INTEGER) AS BIGINT)"
        case Kind.BOOLEAN, Kind.TEXT:
            return dialect.let([x], lambda x: f"CASE WHEN {x} THEN 'true' WHEN NOT {x} THEN 'false' END")
        case Kind.INTEGER, Kind.BOOLEAN:
            return f"({x} <> 0)"
        case Kind.DATE, Kind.TEXT:
            return dialect.iso(x)
    return f"CAST({x} AS {dialect.type_name(to)})"


def _from_float(to: Type, x: str, dialect: Dialect) -> str:
    """Halves to even. The argument is taken away where the result would not fit."""
    scale, top = dialect.double(10.0**to.scale), dialect.double(_FLOAT_TOP / 10.0**to.scale)

    def body(x: str) -> str:
        product = f"CASE WHEN abs({x}) < {top} THEN {x} END * {scale}"
        return f"CAST({dialect.half_even(product)} AS BIGINT)"

    return dialect.let([x], body)


def _from_text(to: Type, x: str, dialect: Dialect) -> str:
    if to.kind is Kind.BOOLEAN:
        yes, no = "('true', 't', '1')", "('false', 'f', '0')"
        lower_case = f"translate({x}, '{string.ascii_uppercase}', '{string.ascii_lowercase}')"
        return dialect.let(
            [lower_case], lambda x: f"CASE WHEN {x} IN {yes} THEN TRUE WHEN {x} IN {no} THEN FALSE END"
        )
    return dialect.let([x], lambda x: _read(to, x, dialect))


def _read(to: Type, x: str, dialect: Dialect) -> str:
    """A text that matches our grammar for the type is read; the engines agree on those."""
    safe = f"CASE WHEN {dialect.matches(x, _grammar(to))} THEN {x} END"
    match to.kind:
        case Kind.DECIMAL:
            return dialect.unscaled(f"CAST({safe} AS DECIMAL(38, {to.scale}))", to.scale)
        case Kind.FLOAT:
            return dialect.finite(dialect.as_double(safe))
    return f"CAST({safe} AS {dialect.type_name(to)})"


def _grammar(to: Type) -> str:
    if to.kind is Kind.DECIMAL:
        return types.decimal_text(to.scale)
    return {
        Kind.INTEGER: types.INTEGER_TEXT,
        Kind.FLOAT: types.FLOAT_TEXT,
        Kind.DATE: types.DATE_TEXT,
        Kind.TIMESTAMP: f"({types.DATE_TEXT}|{types.TIMESTAMP_TEXT})",
    }[to.kind]


RULES: dict[str, Rule] = {
    "lower": _fold(string.ascii_uppercase, string.ascii_lowercase),
    "upper": _fold(string.ascii_lowercase, string.ascii_uppercase),
    "length": length,
    "byte_length": byte_length,
    "substring": substring,
    "right": right,
    "trim": trim,
    "concat": concat,
    "replace": replace,
    "split_part": split_part,
    "position": position,
    "pad": pad,
    "regexp": regexp,
    "regexp_extract": regexp_extract,
    "regexp_replace": regexp_replace,
    "like": like,
    "starts_with": starts_with,
    "ends_with": ends_with,
    "contains": contains,
    "date_trunc": date_trunc,
    "date_part": date_part,
    "add_days": add_days,
    "add_months": add_months,
    "add_micros": add_micros,
    "epoch": epoch,
    "time_bin": time_bin,
    "full_months": full_months,
    "date_format": date_format,
    "date_diff": date_diff,
    "cast": cast,
}
