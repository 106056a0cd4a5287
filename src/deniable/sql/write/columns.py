"""From a column as it is stored to the column that was declared: one meaning, and no
input that fails, on three engines.

What cannot be read as the declared type is NULL; so are NaN, ±∞ and dates outside the years 1 to 9999. Text
is cut to its declared length. A decimal becomes a whole number of 10^-scale, rounded half away from zero; a
float that is declared a whole number or a decimal is rounded half to even. Instants become timestamps in UTC.
Text is read by fixed patterns:

    integer    +12, -3
    decimal    1.50, .5, 12.
    float      the same, and 1.5e-3
    boolean    true t yes y 1, false f no n 0, in any case
    date       2024-02-29
    timestamp  2024-02-29, 2024-02-29T10:30[:00[.123456][Z or +02:00]]

Blanks around it do not count.
"""

from __future__ import annotations

from collections.abc import Callable

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.dialects.storage import Physical
from deniable.sql.tree import Kind, Type

FIRST, LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
LONGEST = 1024
"""The bytes of a text that is read as another type."""

INTEGER = r"[+-]?[0-9]{1,38}"
DECIMAL = r"[+-]?([0-9]{1,30}([.][0-9]{0,30})?|[.][0-9]{1,30})"
FLOAT = r"[+-]?([0-9]{1,60}([.][0-9]{0,60})?|[.][0-9]{1,60})([eE][+-]?[0-9]{1,3})?"
DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
ZONE = r"(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])?"
TIMESTAMP = rf"{DATE}([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{{1,6}})?{ZONE})?)?"


def reads(stored: Physical, declared: Type) -> bool:
    """Whether what is stored so can be read as declared."""
    return (Physical.INTEGER if stored is Physical.WIDE else stored, declared.kind) in _READINGS


def canonical(
    column: str, stored: str, declared: Type, dialect: Dialect, *, identity: bool = False, few: bool = False
) -> str | None:
    """The expression that reads `column` (SQL, already quoted), which the engine calls of type `stored`, as
    declared; total. None where there is no such reading. An `identity` tells people or rows apart: its texts
    are not cut but hashed. A column with `few` different values is one with public keys."""
    kind = dialect.physical(stored)
    if kind is Physical.TEXT and declared.kind is Kind.TEXT:
        return _text(dialect.utf8(dialect.as_text(column)), declared, dialect, identity=identity, few=few)
    if kind is Physical.VOID:
        return f"CAST(NULL AS {dialect.type_name(declared)})"
    kind, column = _tamed(kind, column, stored, declared, dialect)
    reading = _READINGS.get((kind, declared.kind))
    if reading is None:
        return None
    return reading(dialect, column, declared)


def _text(text: str, declared: Type, dialect: Dialect, *, identity: bool, few: bool) -> str:
    if identity:
        return dialect.identity(text)
    if few:
        return dialect.cut_few(text, declared.length)
    return dialect.cut(text, declared.length)


def _tamed(
    kind: Physical, column: str, stored: str, declared: Type, dialect: Dialect
) -> tuple[Physical, str]:
    """The column without values that its own type does not have, or that 64 bits do not hold."""
    match kind:
        case Physical.WIDE if declared.kind is not Kind.TEXT:
            return Physical.INTEGER, dialect.bigint(column)
        case Physical.DECIMAL:
            return kind, dialect.decimal(column, stored)
        case Physical.TEXT:
            return kind, dialect.utf8(dialect.as_text(column))
    return kind, column


# ----------------------------------------------------------------------------------------------- the readings


_Reading = Callable[[Dialect, str, Type], str]


def _parsed(pattern: str, read: Callable[[Dialect, str, Type], str]) -> _Reading:
    """A reading of text that `pattern` admits."""

    def reading(w: Dialect, x: str, t: Type) -> str:
        text = w.trimmed(x)
        return _short(w, x, f"CASE WHEN {w.matches(text, pattern)} THEN {read(w, text, t)} END")

    return reading


def _short(w: Dialect, x: str, read: str) -> str:
    """Longer texts are not looked at: PostgreSQL's patterns fail on a quarter of a gigabyte."""
    return f"CASE WHEN {w.octets(x)} <= {LONGEST} THEN {read} END"


def _number_to_boolean(w: Dialect, x: str, t: Type) -> str:
    return f"CASE WHEN {w.is_number(x, 1)} THEN TRUE WHEN {w.is_number(x, 0)} THEN FALSE END"


def _text_to_boolean(w: Dialect, x: str, t: Type) -> str:
    text = f"lower({w.trimmed(x)})"
    yes, no = "('true', 't', 'yes', 'y', '1')", "('false', 'f', 'no', 'n', '0')"
    return _short(w, x, f"CASE WHEN {text} IN {yes} THEN TRUE WHEN {text} IN {no} THEN FALSE END")


def _float_to_decimal(w: Dialect, x: str, t: Type) -> str:
    # Below 1e19 the product of the floats cannot overflow; PostgreSQL would raise if it did.
    units = w.rounded(f"{w.as_double(x)} * CAST({10**t.scale} AS {w.real})")
    return f"CASE WHEN abs({x}) < 1e19 THEN {units} END"


def _cut(w: Dialect, x: str, t: Type) -> str:
    return w.cut(w.as_text(x), t.length)


def _date(w: Dialect, x: str, t: Type | None = None) -> str:
    return f"CASE WHEN {w.bounded(x)}{x} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {x} END"


def _zoned(w: Dialect, x: str, t: Type | None = None) -> str:
    """Bounded before it is converted, which may fail at the ends of an engine's time."""
    moment = w.zoned(x)
    return (
        f"CASE WHEN {w.bounded(moment)}{moment} BETWEEN {w.instant(FIRST)} AND {w.instant(LAST)} THEN "
        f"{w.utc(moment)} END"
    )


def _timestamp(w: Dialect, x: str, t: Type | None = None) -> str:
    first, last = (w.timestamp(f"'{moment}'") for moment in (FIRST, LAST))
    return f"CASE WHEN {w.bounded(x)}{x} BETWEEN {first} AND {last} THEN {x} END"


def _bit(w: Dialect, x: str, one: str, zero: str) -> str:
    return f"CASE WHEN {x} THEN {one} WHEN NOT {x} THEN {zero} END"


_P, _K = Physical, Kind
_READINGS: dict[tuple[Physical, Kind], _Reading] = {
    (_P.BOOLEAN, _K.BOOLEAN): lambda w, x, t: x,
    (_P.BOOLEAN, _K.INTEGER): lambda w, x, t: _bit(w, x, "CAST(1 AS BIGINT)", "CAST(0 AS BIGINT)"),
    (_P.BOOLEAN, _K.TEXT): lambda w, x, t: _cut(w, _bit(w, x, "'true'", "'false'"), t),
    (_P.INTEGER, _K.BOOLEAN): _number_to_boolean,
    (_P.INTEGER, _K.INTEGER): lambda w, x, t: f"CAST({x} AS BIGINT)",
    (_P.INTEGER, _K.DECIMAL): lambda w, x, t: w.scaled(x, t.scale),
    (_P.INTEGER, _K.FLOAT): lambda w, x, t: w.as_double(x),
    (_P.INTEGER, _K.TEXT): _cut,
    (_P.WIDE, _K.TEXT): _cut,
    (_P.DECIMAL, _K.BOOLEAN): _number_to_boolean,
    (_P.DECIMAL, _K.INTEGER): lambda w, x, t: w.scaled(x, 0),
    (_P.DECIMAL, _K.DECIMAL): lambda w, x, t: w.scaled(x, t.scale),
    (_P.DECIMAL, _K.FLOAT): lambda w, x, t: w.decimal_double(x),
    (_P.DECIMAL, _K.TEXT): _cut,
    (_P.FLOAT, _K.BOOLEAN): _number_to_boolean,
    (_P.FLOAT, _K.INTEGER): lambda w, x, t: w.rounded(x),
    (_P.FLOAT, _K.DECIMAL): _float_to_decimal,
    (_P.FLOAT, _K.FLOAT): lambda w, x, t: w.finite_stored(w.as_double(x)),
    (_P.TEXT, _K.BOOLEAN): _text_to_boolean,
    (_P.TEXT, _K.INTEGER): _parsed(INTEGER, lambda w, x, t: w.text_bigint(x)),
    (_P.TEXT, _K.DECIMAL): _parsed(DECIMAL, lambda w, x, t: w.scaled(x, t.scale)),
    (_P.TEXT, _K.FLOAT): _parsed(FLOAT, lambda w, x, t: w.text_double(x)),
    (_P.TEXT, _K.TEXT): _cut,
    (_P.TEXT, _K.DATE): _parsed(DATE, lambda w, x, t: _date(w, w.text_date(x))),
    (_P.TEXT, _K.TIMESTAMP): _parsed(TIMESTAMP, lambda w, x, t: _timestamp(w, w.text_instant(x))),
    (_P.DATE, _K.DATE): _date,
    (_P.DATE, _K.TIMESTAMP): lambda w, x, t: w.timestamp(_date(w, x)),
    (_P.DATE, _K.TEXT): lambda w, x, t: _cut(w, w.iso(_date(w, x)), t),
    (_P.TIMESTAMP, _K.TIMESTAMP): lambda w, x, t: _timestamp(w, w.timestamp(x)),
    (_P.TIMESTAMP, _K.DATE): lambda w, x, t: f"CAST({_timestamp(w, w.timestamp(x))} AS DATE)",
    (_P.ZONED, _K.TIMESTAMP): _zoned,
    (_P.ZONED, _K.DATE): lambda w, x, t: f"CAST({_zoned(w, x)} AS DATE)",
}
