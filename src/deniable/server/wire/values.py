"""Values in the protocol's two formats, and parameters as literals of the syntax tree."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlglot import expressions as exp

from deniable.errors import InvalidQuery

BOOL, INT8, INT2, INT4, TEXT, OID, FLOAT4, FLOAT8, VARCHAR, DATE, TIMESTAMP, NUMERIC = (
    *(16, 20, 21, 23, 25, 26, 700, 701, 1043, 1082, 1114, 1700),
)
UNKNOWN, NAME, CHAR, BPCHAR, TEXTS, INT8S = 705, 19, 18, 1042, 1009, 1016
KINDS = {
    "boolean": BOOL,
    "integer": INT8,
    "decimal": NUMERIC,
    "float": FLOAT8,
    "text": TEXT,
    "date": DATE,
    "timestamp": TIMESTAMP,
}
"""The protocol's number for each type of column."""
EPOCH_DAY, EPOCH = date(2000, 1, 1), datetime(2000, 1, 1)
NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,3})?")
ZONE = r"(?: ?[+-]\d\d(?::?\d\d)?)?"
"""Java's driver adds one to dates and times; it is left away, as PostgreSQL leaves it."""
DAY = re.compile(r"(\d{4}-\d\d-\d\d)" + ZONE)
MOMENT = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)" + ZONE)


def encode(value: Any, oid: int, binary: bool) -> bytes:
    """A value with its length before it; -1 for NULL."""
    if value is None:
        return struct.pack("!i", -1)
    write: Callable[[Any], bytes] = _characters
    if binary:
        write = BINARY.get(oid, _characters)
    raw = write(value)
    return struct.pack("!i", len(raw)) + raw


def _characters(value: Any) -> bytes:
    return as_text(value).encode(errors="replace")


def as_text(value: Any) -> str:
    """A value as PostgreSQL writes it.

    >>> as_text(True), as_text(1.5), as_text(math.inf), as_text(["a", None, 'b"c'])
    ('t', '1.5', 'Infinity', '{"a",NULL,"b\\\\"c"}')
    """
    match value:
        case bool():
            if value:
                return "t"
            return "f"
        case float() if math.isinf(value):
            if value > 0:
                return "Infinity"
            return "-Infinity"
        case float() if math.isnan(value):
            return "NaN"
        case float():
            return repr(value)
        case datetime():
            return value.isoformat(sep=" ")
        case list() | tuple():
            return "{" + ",".join(_element(item) for item in value) + "}"
        case _:
            return str(value).replace("\0", "")


def _element(item: Any) -> str:
    if item is None or isinstance(item, int):
        if item is None:
            return "NULL"
        return as_text(item)
    return '"' + as_text(item).replace("\\", "\\\\").replace('"', '\\"') + '"'


def numeric(value: Any) -> bytes:
    """A decimal in groups of four digits, as PostgreSQL sends it."""
    number = value
    if not isinstance(value, Decimal):
        number = Decimal(str(value))
    # NaN and ±∞ have signs of their own and no groups (PostgreSQL 14 and later read the infinities).
    if number.is_nan():
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    if number.is_infinite():
        return struct.pack("!hhHh", 0, 0, (0xF000, 0xD000)[number > 0], 0)
    sign, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    all_digits = "".join(map(str, digits)) + "0" * max(0, int(exponent))
    point = max(0, len(all_digits) - scale)
    left, right = all_digits[:point].lstrip("0"), all_digits[point:].rjust(scale, "0")
    left = left.rjust(-(-len(left) // 4) * 4, "0")
    right = right.ljust(-(-len(right) // 4) * 4, "0")
    groups = [int(part[i : i + 4]) for part in (left, right) for i in range(0, len(part), 4)]
    # The point stands after group number `weight`; zeros at the end are told by the scale alone.
    weight = len(left) // 4 - 1
    while groups and groups[-1] == 0:
        groups.pop()
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight, 0x4000 if sign else 0, scale, *groups)


def _array(element: int) -> Callable[[Any], bytes]:
    def write(value: Sequence[Any]) -> bytes:
        nulls = int(any(item is None for item in value))
        head = struct.pack("!iii", int(bool(value)), nulls, element)
        if value:
            head += struct.pack("!ii", len(value), 1)
        return head + b"".join(encode(item, element, True) for item in value)

    return write


BINARY: dict[int, Callable[[Any], bytes]] = {
    BOOL: lambda value: struct.pack("!?", value),
    INT2: lambda value: struct.pack("!h", value),
    INT4: lambda value: struct.pack("!i", value),
    INT8: lambda value: struct.pack("!q", value),
    OID: lambda value: struct.pack("!I", value),
    FLOAT8: lambda value: struct.pack("!d", value),
    NUMERIC: numeric,
    DATE: lambda value: struct.pack("!i", (value - EPOCH_DAY).days),
    TIMESTAMP: lambda value: struct.pack("!q", (value - EPOCH) // timedelta(microseconds=1)),
    TEXT: lambda value: as_text(value).encode(errors="replace"),
    TEXTS: _array(TEXT),
    INT8S: _array(INT8),
}

# ------------------------------------------------------------------------------------------------ parameters


def parameter(raw: bytes | None, binary: bool, oid: int) -> exp.Expr:
    """A bound value as a literal: what checks the query then sees all of it."""
    if raw is None:
        return exp.null()
    try:
        if binary:
            return _binary(raw, oid)
        return _text(raw.decode(), oid)
    except (struct.error, UnicodeDecodeError, OverflowError, ValueError):
        raise InvalidQuery(
            "A parameter is not of the type that it was sent as. Nothing was charged."
        ) from None


def _binary(raw: bytes, oid: int) -> exp.Expr:
    formats = {INT2: "!h", INT4: "!i", INT8: "!q", OID: "!I", FLOAT4: "!f", FLOAT8: "!d", BOOL: "!?"}
    if oid in formats:
        (value,) = struct.unpack(formats[oid], raw)
        if value is True:
            return exp.true()
        if value is False:
            return exp.false()
        return number(repr(value))
    if oid == DATE:
        return _day((EPOCH_DAY + timedelta(days=struct.unpack("!i", raw)[0])).isoformat())
    if oid == TIMESTAMP:
        moment = EPOCH + timedelta(microseconds=struct.unpack("!q", raw)[0])
        return _moment(moment.isoformat(sep=" "))
    if oid == NUMERIC:
        return number(_decimal(raw))
    if oid in (TEXT, VARCHAR, UNKNOWN, NAME, BPCHAR, CHAR, 0):
        return string(raw.decode())
    raise InvalidQuery(
        f"A parameter of the type {oid} is not taken in binary. Nothing was charged. Send it as text."
    )


def _decimal(raw: bytes) -> str:
    count, weight, sign, scale = struct.unpack_from("!hhHh", raw)
    groups = struct.unpack_from(f"!{count}h", raw, 8)
    # Without these limits a message of ten bytes would be written out as a number of 130,000 digits.
    if sign not in (0, 0x4000) or not 0 <= scale <= 400 or not -100 <= weight <= 100:
        raise ValueError
    total = sum(Decimal(group).scaleb(4 * (weight - i)) for i, group in enumerate(groups))
    return f"{'-' if sign else ''}{Decimal(total):f}"


def _text(value: str, oid: int) -> exp.Expr:
    if oid in (INT2, INT4, INT8, OID, FLOAT4, FLOAT8, NUMERIC):
        return number(value.strip())
    if oid == BOOL:
        return _boolean(value.strip().lower())
    if oid == DATE:
        return _day(value)
    if oid == TIMESTAMP:
        return _moment(value)
    return string(value)


def _boolean(word: str) -> exp.Expr:
    if word in ("t", "true", "y", "yes", "on", "1"):
        return exp.true()
    if word in ("f", "false", "n", "no", "off", "0"):
        return exp.false()
    raise ValueError(word)


def number(value: str) -> exp.Expr:
    # What reaches the parser as a number is spelled as one: `1; DROP` or `nan` never does.
    if NUMBER.fullmatch(value) is None:
        raise ValueError(value)
    literal = exp.Literal.number(value.lstrip("+-"))
    if value.startswith("-"):
        return exp.Neg(this=literal)
    return literal


def string(value: str) -> exp.Expr:
    # PostgreSQL has no text with a zero byte either; engines end a text there or refuse it, each its own way.
    if "\0" in value:
        raise ValueError(value)
    return exp.Literal.string(value)


def _day(value: str) -> exp.Expr:
    return exp.cast(exp.Literal.string(_match(DAY, value)), "DATE")


def _moment(value: str) -> exp.Expr:
    return exp.cast(exp.Literal.string(_match(MOMENT, value)), "TIMESTAMP")


def _match(pattern: re.Pattern[str], value: str) -> str:
    match = pattern.fullmatch(value)
    if match is None:
        raise ValueError(value)
    return match[1]


def stand_in(oid: int) -> exp.Expr:
    """A literal of a parameter's type, for telling what a statement returns before its values are known."""
    samples = {BOOL: exp.true(), DATE: _day("2000-01-01"), TIMESTAMP: _moment("2000-01-01 00:00")}
    if oid in samples:
        return samples[oid]
    if oid in (INT2, INT4, INT8, OID, FLOAT4, FLOAT8, NUMERIC):
        return exp.Literal.number(1)
    return exp.Literal.string("1")
