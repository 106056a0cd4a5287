"""Casts that never raise: what cannot be read is NULL. Numbers and dates are read from texts by one grammar
of our own, so that the engines agree."""

from __future__ import annotations

import string
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlglot import expressions as exp

from deniable.sql import coercion, intervals, types
from deniable.sql.coercion import NodeReader, convert, whole
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.floats import half_up, shown_number
from deniable.sql.functions import json_fields
from deniable.sql.functions.arithmetic import same_places
from deniable.sql.functions.function import (
    Cell,
    Ends,
    Form,
    Function,
    Inexact,
    KeyRules,
    Laws,
    ReleasedRule,
    Syntax,
)
from deniable.sql.functions.rounding import scaled_down, scaled_up
from deniable.sql.functions.times.dates import truncated
from deniable.sql.functions.times.formats import formatted
from deniable.sql.functions.times.periods import Period, moved
from deniable.sql.intervals import EVERYTHING, Interval
from deniable.sql.refusals import refuse
from deniable.sql.tree import Call, Expr, Kind, Literal, Type, Value
from deniable.sql.types import BOOLEAN, DATE, FLOAT, INTEGER, NUMBERS, TEXT, TIMESTAMP, WHOLE

_FLOAT_TOP = 9.223372036854775e18  # below 2^63 and a double

# ------------------------------------------------------------------------------------------------ reading

_TYPES: dict[str, Type] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "UTINYINT", "USMALLINT", "UINT"), INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE"), FLOAT),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), TEXT),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPTZ", "DATETIME"), TIMESTAMP),
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
}


def data_type(node: exp.DataType) -> Type:
    kind = node.this.name if hasattr(node.this, "name") else str(node.this)
    numbers = [whole(p.this, "A type", 0, 38) for p in node.expressions if isinstance(p, exp.DataTypeParam)]
    if kind == "DECIMAL":
        # DECIMAL is DECIMAL(18, 3), and DECIMAL(18) has no decimals.
        digits, scale, *_ = [*numbers, 0] if numbers else [18, 3]
        if scale > types.MAX_SCALE or digits > 18:
            refuse("Expected DECIMAL of at most 18 digits.", "Use DECIMAL(18, s) or DOUBLE.")
        return types.decimal(scale)
    if kind == "TIME":
        refuse(
            "The type TIME is answered beside literals only.",
            "Write x::time >= '07:30', or compare extract(hour FROM x) with a number.",
        )
    if kind not in _TYPES:
        refuse(
            f"The type {kind} is not answered.",
            "Use BOOLEAN, BIGINT, DECIMAL(18, s), DOUBLE, VARCHAR, DATE or TIMESTAMP.",
        )
    return _TYPES[kind]


# From each kind: the kinds that a cast reaches.
_REACHED: dict[Kind, frozenset[Kind]] = {
    Kind.BOOLEAN: frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.TEXT}),
    Kind.INTEGER: frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.TEXT}),
    Kind.DECIMAL: frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT}),
    Kind.FLOAT: frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT}),
    Kind.TEXT: frozenset(Kind),
    Kind.DATE: frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TEXT}),
    Kind.TIMESTAMP: frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TEXT}),
}


def _read_cast(of: NodeReader, node: exp.Expr) -> Expr:
    return cast_to(of(node.this), data_type(node.args["to"]))


def cast_to(x: Expr, to: Type) -> Expr:
    if types.is_null(x):
        return Literal(None, to)
    if to.kind not in _REACHED[x.type.kind]:
        refuse(
            f"CAST from {types.name(x.type)} to {types.name(to)} is not answered.", "Keep the value as it is."
        )
    if isinstance(x, Literal):
        return types.literal_as(x.value, to) or Literal(None, to)
    if x.type.kind is Kind.BOOLEAN and to.kind in (Kind.FLOAT, Kind.DECIMAL):
        x = convert(x, INTEGER)
    if x.type.kind is Kind.TIMESTAMP and to.kind is Kind.TEXT:
        return formatted(x, "%Y-%m-%d %H:%M:%S")
    if x.type.kind is to.kind and to.kind is not Kind.DECIMAL:
        return x
    return convert(x, to)


def _read_as(of: NodeReader, node: exp.Expr, form: exp.Expr | None, to: Type) -> Expr:
    """to_date('2024-01-31', 'YYYY-MM-DD'): a text that is a date as it stands."""
    usual = (
        "YYYY-MM-DD",
        "%Y-%m-%d",
        "YYYY-MM-DD HH24:MI:SS",
        "YYYY-MM-DD HH24:MI:SS.US",
        "%Y-%m-%d %H:%M:%S",
    )
    if form is not None and coercion.string(form, "The format") not in usual:
        refuse("A text is read as a date in the form 2026-01-31 only.", "Use CAST(x AS DATE).")
    return cast_to(of(node), to)


def _read_day(of: NodeReader, node: exp.Expr) -> Expr:
    return cast_to(of(node.this), DATE)


def _read_last_day(of: NodeReader, node: exp.Expr) -> Expr:
    month = truncated(cast_to(of(node.this), DATE), "month")
    return moved(moved(month, Period(months=1)), Period(days=-1))


def _read_make_date(of: NodeReader, node: exp.Expr) -> Expr:
    """make_date(year, month, day) of whole numbers."""
    parts = []
    for name in ("year", "month", "day"):
        part = node.args.get(name)
        if part is None:
            refuse("MAKE_DATE expects a year, a month and a day.", "Write make_date(year, month, day).")
        x = coercion.number(of(part), "MAKE_DATE")
        if x.type.kind is not Kind.INTEGER:
            refuse(f"MAKE_DATE expects whole numbers, got {types.name(x.type)}.", "Use CAST(x AS BIGINT).")
        parts.append(x)
    return Call("make_date", tuple(parts), DATE)


# ------------------------------------------------------------------------------------------------ words


def _cast(call: Call, args: list[str], dialect: Dialect) -> str:
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
    return dialect.let([x], lambda x: _read_words(to, x, dialect))


def _read_words(to: Type, x: str, dialect: Dialect) -> str:
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


def _make_date(call: Call, args: list[str], dialect: Dialect) -> str:
    """Of the text that the numbers make, which is read where there is such a day."""

    def body(year: str, month: str, day: str) -> str:
        inside = f"{year} BETWEEN 1 AND 9999 AND {month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND 31"
        parts = ((year, 4), (month, 2), (day, 2))
        digits = " || '-' || ".join(f"lpad({dialect.as_text(part)}, {n}, '0')" for part, n in parts)
        return f"CASE WHEN {inside} THEN {digits} END"

    return _from_text(DATE, dialect.let(args, body), dialect)


# ------------------------------------------------------------------------- ranges, keys, after the release


def _range(args: list[Interval], call: Call) -> Interval:
    source, to = call.args[0].type, call.type
    if source.kind is Kind.BOOLEAN:
        return Interval.of(0, 1)
    if source.kind in NUMBERS and to.kind in WHOLE:
        return intervals.cells(args[0], Fraction(1, 10**to.scale))
    if to.kind is Kind.FLOAT and source.kind is not Kind.TEXT:
        return args[0]
    return EVERYTHING


def _exact(call: Call, values: Sequence[Value]) -> Value:
    """As engines are told to: a double is multiplied and then rounded, halves to even."""
    x, to = values[0], call.type
    if isinstance(x, float) and to.kind in WHOLE:
        if abs(x) * 10.0**to.scale >= _FLOAT_TOP:
            raise Inexact
        units = round(x * 10.0**to.scale)
        return units if to.kind is Kind.INTEGER else Decimal(units).scaleb(-to.scale)
    literal = types.literal_as(x, to)
    return None if literal is None else literal.value


def _value(type_: Type, x: Any) -> Any:
    if x is None or type_.kind is Kind.FLOAT:
        if isinstance(x, bool):
            return Fraction(x)
        return x
    if type_.kind is Kind.INTEGER:
        return half_up(Fraction(x))
    if type_.kind is Kind.DECIMAL:
        return half_up(Fraction(x), Fraction(type_.scale))
    if type_.kind is Kind.BOOLEAN:
        return bool(x)
    if type_.kind is Kind.TEXT:
        return str(shown_number(x))[: type_.length]
    return x


def _ends(args: list[Cell], call: Call) -> Ends:
    """Rounding to the places of the type moves a number by half of the last one at most."""
    if call.type.kind is Kind.FLOAT:
        return args[0].low, args[0].high
    half = 0.5 * 10.0**-call.type.scale
    return args[0].low - half, args[0].high + half


def _present(call: Call, present: Sequence[bool]) -> bool:
    return call.args[0].type.kind is Kind.BOOLEAN and present[0]


_cast_or_field = json_fields.read_cast(_read_cast, data_type)

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "cast",
        (
            Form(
                "CAST(a AS type), a::type, TRY_CAST(a AS type)",
                "NULL where the value is not one of the type",
                (
                    Syntax(exp.Cast, _cast_or_field, frozenset({"this", "to"})),
                    Syntax(exp.TryCast, _cast_or_field, frozenset({"this", "to", "safe"})),
                    Syntax(exp.Date, _read_day),
                    Syntax(exp.LastDay, _read_last_day),
                    Syntax(
                        exp.UnixToTime,
                        lambda of, node: _read_as(of, node.this, node.args.get("scale"), TIMESTAMP),
                        frozenset({"this", "scale"}),
                    ),
                ),
                {
                    ("to_date", 1): lambda of, args: _read_as(of, args[0], None, DATE),
                    ("to_date", 2): lambda of, args: _read_as(of, args[0], args[1], DATE),
                },
            ),
        ),
        words=_cast,
        range=_range,
        released=ReleasedRule(_value, _ends),
        keys=KeyRules(places=same_places, exact=_exact),
        laws=Laws(present=_present),
    ),
    Function(
        "make_date",
        (
            Form(
                "make_date(year, month, day)",
                "the DATE of three whole numbers; NULL where there is no such day",
                (Syntax(exp.DateFromParts, _read_make_date, frozenset({"year", "month", "day"})),),
            ),
        ),
        words=_make_date,
    ),
)
