"""The vocabulary of each engine for reading stored columns: casts that never fail, whatever is stored."""

from __future__ import annotations

import re

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.tree import LENGTH
from deniable.sql.types import HIGHEST, LOWEST


class DuckDBWords:
    """TRY_CAST makes every cast total; a checked pattern makes it mean what it means elsewhere."""

    string, whole, real = "VARCHAR", "BIGINT", "DOUBLE"

    def cut(self, text: str, length: int) -> str:
        # left() copies every string; where a text has no more bytes than it may have characters, DuckDB keeps its dictionary.
        return f"CASE WHEN strlen({text}) <= {length} THEN {text} ELSE left({text}, {length}) END"

    def octets(self, text: str) -> str:
        return f"strlen({text})"

    def utf8(self, text: str) -> str:
        """The text, NULL where its bytes are none. DuckDB stores only text, and what it reads elsewhere is made text before."""
        return text

    def digest(self, text: str) -> str:
        return f"sha256({text})"

    def identity(self, text: str) -> str:
        """A text that stays different from every other: of a long one its beginning and the SHA-256 of all of it, which together
        are longer than any text that is kept as it is."""
        long = f"left({text}, {LENGTH}) || {self.digest(text)}"
        return f"CASE WHEN {self.octets(text)} <= {LENGTH} OR length({text}) <= {LENGTH} THEN {text} ELSE {long} END"

    def decimal(self, x: str, name: str) -> str:
        """A stored decimal that keeps to its type `name`. Files and frames may hold others, and DuckDB dies of -2^127."""
        digits, places = map(int, [*re.findall(r"\d+", name), "18", "3"][:2])
        if digits <= 18:
            return x
        top = f"{'9' * (digits - places) or '0'}{'.' if places else ''}{'9' * places}"
        low, high = (f"CAST('{sign}{top}' AS DECIMAL({digits}, {places}))" for sign in ("-", ""))
        return f"CASE WHEN {x} BETWEEN {low} AND {high} THEN {x} END"

    def is_number(self, x: str, number: int) -> str:
        # Not as decimals: DECIMAL(38, 38) holds no 1 to compare with.
        return f"TRY_CAST({x} AS DOUBLE) = {number}"

    def decimal_double(self, x: str) -> str:
        return self.finite(f"CAST({x} AS {self.real})")

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

    def bounded(self, x: str) -> str:
        """Said before a comparison with bounds. DuckDB takes infinite times for none of the column's: where a file's statistics
        show that all others lie inside, it drops the comparison."""
        return f"isfinite({x}) AND "

    def zoned(self, x: str) -> str:
        # Of any precision; compared in nanoseconds, the year 1 would be an error.
        return f"TRY_CAST({x} AS TIMESTAMPTZ)"

    def instant(self, moment: str) -> str:
        """A literal moment in UTC."""
        return f"CAST('{moment}+00:00' AS TIMESTAMPTZ)"

    def timestamp(self, x: str) -> str:
        return f"TRY_CAST({x} AS TIMESTAMP)"

    def iso(self, date: str) -> str:
        return f"CAST({date} AS VARCHAR)"


class SparkWords(DuckDBWords):
    """try_cast as in DuckDB, but a cast to whole numbers cuts where others round."""

    string = "STRING"

    def cut(self, text: str, length: int) -> str:
        return f"left({text}, {length})"

    def octets(self, text: str) -> str:
        return f"octet_length({text})"

    def utf8(self, text: str) -> str:
        return f"try_validate_utf8({text})"

    def digest(self, text: str) -> str:
        return f"sha2({text}, 256)"

    def decimal(self, x: str, name: str) -> str:
        return x

    def is_number(self, x: str, number: int) -> str:
        return f"{x} = {number}"

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

    def bounded(self, x: str) -> str:
        return ""

    def zoned(self, x: str) -> str:
        return x

    def instant(self, moment: str) -> str:
        return f"TIMESTAMP '{moment}+00:00'"

    def timestamp(self, x: str) -> str:
        return f"CAST({x} AS TIMESTAMP_NTZ)"

    def iso(self, date: str) -> str:
        return f"CAST({date} AS STRING)"


class PostgresWords(DuckDBWords):
    """There is no TRY: every cast stands behind a guard, in the CASE whose order PostgreSQL keeps."""

    string, real = "text", "double precision"

    def cut(self, text: str, length: int) -> str:
        return f"left({text}, {length})"

    def octets(self, text: str) -> str:
        return f"octet_length({text})"

    def digest(self, text: str) -> str:
        return f"encode(sha256(convert_to({text}, 'UTF8')), 'hex')"

    def decimal(self, x: str, name: str) -> str:
        return x

    def is_number(self, x: str, number: int) -> str:
        return f"{x} = {number}"

    def decimal_double(self, x: str) -> str:
        """NaN, which is above all numbers, and what no double holds are NULL; what a double would round to 0 is 0. The cast of
        either would raise."""
        return (
            f"CASE WHEN abs({x}) > 1.7976931348623158e308 THEN NULL "
            f"WHEN abs({x}) < 1e-300 THEN 0.0 ELSE CAST({x} AS double precision) END"
        )

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
        # What 64 bits do not hold is left out first: numeric holds 10^131071, but not a thousand times that.
        number = f"CAST({x} AS numeric)"
        return f"CASE WHEN abs({number}) < 1e20 THEN {self.bigint(f'{number} * {10**scale}')} END"

    def rounded(self, x: str) -> str:
        return f"CASE WHEN {x} >= -9223372036854775808.0 AND {x} < 9223372036854775808.0 THEN CAST(round({x}) AS bigint) END"

    def text_double(self, text: str) -> str:
        return self.decimal_double(f"CAST({text} AS numeric)")

    def text_date(self, text: str) -> str:
        year, month, day = (f"CAST(substr({text}, {a}, {n}) AS integer)" for a, n in ((1, 4), (6, 2), (9, 2)))
        last = f"extract(day FROM make_date({year}, {month}, 1) + interval '1 month' - interval '1 day')"
        return f"CASE WHEN {year} >= 1 THEN CASE WHEN {day} <= {last} THEN make_date({year}, {month}, {day}) END END"

    def text_instant(self, text: str) -> str:
        return f"CASE WHEN ({self.text_date(text)}) IS NOT NULL THEN {self.utc(f'CAST({text} AS timestamptz)')} END"

    def bounded(self, x: str) -> str:
        return ""

    def zoned(self, x: str) -> str:
        return x

    def utc(self, x: str) -> str:
        return f"({x} AT TIME ZONE 'UTC')"

    def timestamp(self, x: str) -> str:
        return f"CAST({x} AS timestamp)"

    def iso(self, date: str) -> str:
        return f"to_char({date}, 'YYYY-MM-DD')"


WORDS: dict[Dialect, DuckDBWords] = {
    Dialect.DUCKDB: DuckDBWords(),
    Dialect.SPARK: SparkWords(),
    Dialect.POSTGRES: PostgresWords(),
}
