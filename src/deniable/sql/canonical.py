"""From a column as it is stored to the column that was declared: one meaning, and no input that fails, on three engines.

What cannot be read as the declared type is NULL; so are NaN, ±∞ and dates outside the years 1 to 9999. Text is cut to its
declared length. A decimal becomes a whole number of 10^-scale, rounded half away from zero; a float that is declared
a whole number or a decimal is rounded half to even. Instants become timestamps in UTC. Text is read by fixed patterns:

    integer    +12, -3                                boolean    true t yes y 1, false f no n 0, in any case
    decimal    1.50, .5, 12.                          date       2024-02-29
    float      the same, and 1.5e-3                   timestamp  2024-02-29, 2024-02-29T10:30[:00[.123456][Z or +02:00]]

Blanks around it do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum

from deniable.sql.dialects import Dialect
from deniable.sql.tree import Kind, Type
from deniable.sql.types import HIGHEST, LOWEST

INTEGER = r"[+-]?[0-9]{1,38}"
DECIMAL = r"[+-]?([0-9]{1,30}([.][0-9]{0,30})?|[.][0-9]{1,30})"
FLOAT = r"[+-]?([0-9]{1,60}([.][0-9]{0,60})?|[.][0-9]{1,60})([eE][+-]?[0-9]{1,3})?"
DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
ZONE = r"(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])?"
TIMESTAMP = rf"{DATE}([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{{1,6}})?{ZONE})?)?"


class Physical(StrEnum):
    """How an engine stores a column, as far as it matters here. WIDE are whole numbers that 64 bits may not hold."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    WIDE = "wide integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    ZONED = "timestamp with time zone"
    OTHER = "other"


_NAMES = {
    Physical.BOOLEAN: "BOOLEAN BOOL",
    Physical.INTEGER: "TINYINT SMALLINT INTEGER INT BIGINT UTINYINT USMALLINT UINTEGER",
    Physical.WIDE: "UBIGINT HUGEINT UHUGEINT",
    Physical.DECIMAL: "DECIMAL NUMERIC",
    Physical.FLOAT: "FLOAT DOUBLE REAL|DOUBLE PRECISION",
    Physical.TEXT: "VARCHAR TEXT STRING CHAR CHARACTER ENUM UUID NAME|CHARACTER VARYING",
    Physical.DATE: "DATE",
    Physical.TIMESTAMP: "TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_NTZ|TIMESTAMP WITHOUT TIME ZONE",
    Physical.ZONED: "TIMESTAMPTZ TIMESTAMP_LTZ|TIMESTAMP WITH TIME ZONE",
}
_PHYSICAL = {
    name: physical for physical, text in _NAMES.items() for name in [*text.split("|")[0].split(), *text.split("|")[1:]]
}


def physical(name: str, dialect: Dialect) -> Physical:
    """The kind of storage behind an engine's own name of a type.

    >>> physical("DECIMAL(18,3)", Dialect.DUCKDB), physical("timestamp(3) with time zone", Dialect.POSTGRES)
    (<Physical.DECIMAL: 'decimal'>, <Physical.ZONED: 'timestamp with time zone'>)
    >>> physical("STRUCT(a INTEGER)[]", Dialect.DUCKDB)
    <Physical.OTHER: 'other'>
    """
    bare = re.sub(r"\(.*\)", "", name.upper())
    if bare == "TIMESTAMP":  # an instant in Spark, a clock's reading elsewhere
        return Physical.ZONED if dialect is Dialect.SPARK else Physical.TIMESTAMP
    return _PHYSICAL.get(bare, Physical.OTHER)


def quoted(name: str, dialect: Dialect) -> str:
    """A name as an identifier.

    >>> print(quoted('a"b', Dialect.DUCKDB), quoted("a`b", Dialect.SPARK))
    "a""b" `a``b`
    """
    mark = "`" if dialect is Dialect.SPARK else '"'
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def canonical(column: str, stored: Physical, declared: Type, dialect: Dialect) -> str | None:
    """The expression that reads `column` (SQL, already quoted) as declared, total; None where there is no such reading."""
    words = _WORDS[dialect]
    if stored is Physical.WIDE and declared.kind is not Kind.TEXT:
        stored, column = Physical.INTEGER, words.bigint(column)
    reading = _READINGS.get((stored, declared.kind))
    return None if reading is None else reading(words, column, declared)


# ------------------------------------------------------------------------------------------------ three vocabularies


class _DuckDB:
    """TRY_CAST makes every cast total; a checked pattern makes it mean what it means elsewhere."""

    string, whole, real = "VARCHAR", "BIGINT", "DOUBLE"

    def cut(self, text: str, length: int) -> str:
        # left() copies every string; where a text has no more bytes than it may have characters, DuckDB keeps its dictionary.
        return f"CASE WHEN strlen({text}) <= {length} THEN {text} ELSE left({text}, {length}) END"

    def matches(self, text: str, pattern: str) -> str:
        return f"regexp_full_match({text}, '{pattern}')"

    def trimmed(self, text: str) -> str:
        return f"trim({text}, ' \t\r\n')"

    def finite(self, x: str) -> str:
        return f"CASE WHEN isfinite({x}) THEN {x} END"

    def bigint(self, x: str) -> str:
        return f"TRY_CAST({x} AS BIGINT)"

    def text_bigint(self, text: str) -> str:
        return self.bigint(text)

    def scaled(self, x: str, scale: int) -> str:
        # DECIMAL(19, scale) holds whatever 64 bits do after the product, whose 38 digits then hold it exactly.
        return f"TRY_CAST(TRY_CAST({x} AS DECIMAL(19, {scale})) * CAST({10**scale} AS DECIMAL(19, 0)) AS BIGINT)"

    def rounded(self, x: str) -> str:
        return f"TRY_CAST(round_even({x}, 0) AS BIGINT)"

    def text_double(self, text: str) -> str:
        return self.finite(f"TRY_CAST({text} AS DOUBLE)")

    def text_date(self, text: str) -> str:
        return f"TRY_CAST({text} AS DATE)"

    def text_instant(self, text: str) -> str:
        return self.utc(f"TRY_CAST({text} AS TIMESTAMPTZ)")

    def utc(self, x: str) -> str:
        return f"make_timestamp(epoch_us({x}))"

    def timestamp(self, x: str) -> str:
        return f"TRY_CAST({x} AS TIMESTAMP)"

    def iso(self, date: str) -> str:
        return f"CAST({date} AS VARCHAR)"


class _Spark(_DuckDB):
    """try_cast as in DuckDB, but a cast to whole numbers cuts where others round."""

    string = "STRING"

    def cut(self, text: str, length: int) -> str:
        return f"left({text}, {length})"

    def matches(self, text: str, pattern: str) -> str:
        return f"({text} RLIKE '^({pattern})$')"

    def trimmed(self, text: str) -> str:
        return f"btrim({text}, ' \t\r\n')"

    def finite(self, x: str) -> str:
        # NaN is larger than all other numbers in Spark.
        return f"CASE WHEN abs({x}) < double('Infinity') THEN {x} END"

    def bigint(self, x: str) -> str:
        return f"try_cast(round({x}, 0) AS BIGINT)"

    def text_bigint(self, text: str) -> str:
        return f"try_cast({text} AS BIGINT)"

    def rounded(self, x: str) -> str:
        # A cast of 2^63 gives 2^63 - 1 instead of failing.
        return f"CASE WHEN {x} < 9223372036854775808D THEN try_cast(rint({x}) AS BIGINT) END"

    def text_instant(self, text: str) -> str:
        return self.utc(f"try_cast({text} AS TIMESTAMP)")

    def utc(self, x: str) -> str:
        return f"CAST({x} AS TIMESTAMP_NTZ)"

    def timestamp(self, x: str) -> str:
        return f"CAST({x} AS TIMESTAMP_NTZ)"

    def iso(self, date: str) -> str:
        return f"CAST({date} AS STRING)"


class _Postgres(_DuckDB):
    """There is no TRY: every cast stands behind a guard, in the CASE whose order PostgreSQL keeps."""

    string, real = "text", "double precision"

    def cut(self, text: str, length: int) -> str:
        return f"left({text}, {length})"

    def matches(self, text: str, pattern: str) -> str:
        return f"({text} ~ '^({pattern})$')"

    def trimmed(self, text: str) -> str:
        return f"btrim(CAST({text} AS text), ' \t\r\n')"

    def finite(self, x: str) -> str:
        # NaN is larger than Infinity in PostgreSQL.
        return f"CASE WHEN {x} > '-Infinity' AND {x} < 'Infinity' THEN CAST({x} AS double precision) END"

    def bigint(self, x: str) -> str:
        number = f"CAST({x} AS numeric)"
        return f"CASE WHEN round({number}) BETWEEN {LOWEST} AND {HIGHEST} THEN CAST(round({number}) AS bigint) END"

    def scaled(self, x: str, scale: int) -> str:
        return self.bigint(f"CAST({x} AS numeric) * {10**scale}")

    def rounded(self, x: str) -> str:
        return f"CASE WHEN {x} >= -9223372036854775808.0 AND {x} < 9223372036854775808.0 THEN CAST(round({x}) AS bigint) END"

    def text_double(self, text: str) -> str:
        size = f"abs(CAST({text} AS numeric))"
        return (
            f"CASE WHEN {size} > 1.7976931348623158e308 THEN NULL "
            f"WHEN {size} < 1e-300 THEN 0.0 ELSE CAST({text} AS double precision) END"
        )

    def text_date(self, text: str) -> str:
        year, month, day = (f"CAST(substr({text}, {a}, {n}) AS integer)" for a, n in ((1, 4), (6, 2), (9, 2)))
        last = f"extract(day FROM make_date({year}, {month}, 1) + interval '1 month' - interval '1 day')"
        return f"CASE WHEN {year} >= 1 THEN CASE WHEN {day} <= {last} THEN make_date({year}, {month}, {day}) END END"

    def text_instant(self, text: str) -> str:
        return f"CASE WHEN ({self.text_date(text)}) IS NOT NULL THEN {self.utc(f'CAST({text} AS timestamptz)')} END"

    def utc(self, x: str) -> str:
        return f"({x} AT TIME ZONE 'UTC')"

    def timestamp(self, x: str) -> str:
        return f"CAST({x} AS timestamp)"

    def iso(self, date: str) -> str:
        return f"to_char({date}, 'YYYY-MM-DD')"


_WORDS: dict[Dialect, _DuckDB] = {
    Dialect.DUCKDB: _DuckDB(),
    Dialect.SPARK: _Spark(),
    Dialect.POSTGRES: _Postgres(),
}


# ------------------------------------------------------------------------------------------------ the readings


_Reading = Callable[[_DuckDB, str, Type], str]


def _parsed(pattern: str, read: Callable[[_DuckDB, str, Type], str]) -> _Reading:
    """A reading of text that `pattern` admits."""

    def reading(w: _DuckDB, x: str, t: Type) -> str:
        text = w.trimmed(x)
        return f"CASE WHEN {w.matches(text, pattern)} THEN {read(w, text, t)} END"

    return reading


def _number_to_boolean(w: _DuckDB, x: str, t: Type) -> str:
    return f"CASE WHEN {x} = 1 THEN TRUE WHEN {x} = 0 THEN FALSE END"


def _text_to_boolean(w: _DuckDB, x: str, t: Type) -> str:
    text = f"lower({w.trimmed(x)})"
    return (
        f"CASE WHEN {text} IN ('true', 't', 'yes', 'y', '1') THEN TRUE "
        f"WHEN {text} IN ('false', 'f', 'no', 'n', '0') THEN FALSE END"
    )


def _float_to_decimal(w: _DuckDB, x: str, t: Type) -> str:
    # Below 1e19 the product of the floats cannot overflow; PostgreSQL would raise if it did.
    return f"CASE WHEN abs({x}) < 1e19 THEN {w.rounded(f'CAST({x} AS {w.real}) * CAST({10**t.scale} AS {w.real})')} END"


def _cut(w: _DuckDB, x: str, t: Type) -> str:
    return w.cut(f"CAST({x} AS {w.string})", t.length)


def _date(w: _DuckDB, x: str, t: Type | None = None) -> str:
    return f"CASE WHEN {x} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {x} END"


def _timestamp(w: _DuckDB, x: str, t: Type | None = None) -> str:
    first, last = (w.timestamp(f"'{day}'") for day in ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"))
    return f"CASE WHEN {x} BETWEEN {first} AND {last} THEN {x} END"


def _bit(w: _DuckDB, x: str, one: str, zero: str) -> str:
    return f"CASE WHEN {x} THEN {one} WHEN NOT {x} THEN {zero} END"


_P, _K = Physical, Kind
_READINGS: dict[tuple[Physical, Kind], _Reading] = {
    (_P.BOOLEAN, _K.BOOLEAN): lambda w, x, t: x,
    (_P.BOOLEAN, _K.INTEGER): lambda w, x, t: _bit(w, x, f"CAST(1 AS {w.whole})", f"CAST(0 AS {w.whole})"),
    (_P.BOOLEAN, _K.TEXT): lambda w, x, t: _cut(w, _bit(w, x, "'true'", "'false'"), t),
    (_P.INTEGER, _K.BOOLEAN): _number_to_boolean,
    (_P.INTEGER, _K.INTEGER): lambda w, x, t: f"CAST({x} AS {w.whole})",
    (_P.INTEGER, _K.DECIMAL): lambda w, x, t: w.scaled(x, t.scale),
    (_P.INTEGER, _K.FLOAT): lambda w, x, t: f"CAST({x} AS {w.real})",
    (_P.INTEGER, _K.TEXT): _cut,
    (_P.WIDE, _K.TEXT): _cut,
    (_P.DECIMAL, _K.BOOLEAN): _number_to_boolean,
    (_P.DECIMAL, _K.INTEGER): lambda w, x, t: w.scaled(x, 0),
    (_P.DECIMAL, _K.DECIMAL): lambda w, x, t: w.scaled(x, t.scale),
    (_P.DECIMAL, _K.FLOAT): lambda w, x, t: w.finite(f"CAST({x} AS {w.real})"),
    (_P.DECIMAL, _K.TEXT): _cut,
    (_P.FLOAT, _K.INTEGER): lambda w, x, t: w.rounded(x),
    (_P.FLOAT, _K.DECIMAL): _float_to_decimal,
    (_P.FLOAT, _K.FLOAT): lambda w, x, t: w.finite(f"CAST({x} AS {w.real})"),
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
    (_P.ZONED, _K.TIMESTAMP): lambda w, x, t: _timestamp(w, w.utc(x)),
    (_P.ZONED, _K.DATE): lambda w, x, t: f"CAST({_timestamp(w, w.utc(x))} AS DATE)",
}
