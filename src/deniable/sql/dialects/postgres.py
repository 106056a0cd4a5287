"""PostgreSQL's words. There is no TRY: every cast stands behind a guard, in the CASE
whose order PostgreSQL keeps.

Reference: IEEE 754-2019 for the operations that all engines share; PostgreSQL raises
           where a double overflows or underflows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, final

from deniable.sql.dialects.dialect import SIGNS, TYPES, Dialect
from deniable.sql.tree import Kind
from deniable.sql.types import HIGHEST, LOWEST

# Two units in the last place below the largest double: quotients by it, rounded up, stay below the largest.
LARGEST, TINY = 1.7976931348623153e308, 1e-300


@final
class Postgres(Dialect):
    """
    >>> print(POSTGRES.text("\\\\"), POSTGRES.physical("timestamp(3) with time zone"))
    E'\\\\' timestamp with time zone
    """

    name = "postgres"
    injective = frozenset({"UUID"})
    types: ClassVar[Mapping[Kind, str]] = {**TYPES, Kind.TEXT: "TEXT", Kind.FLOAT: "DOUBLE PRECISION"}

    def text(self, value: str) -> str:
        """PostgreSQL may read backslashes: they are written so that it does not."""
        if "\\" in value:
            return "E" + super().text(value.replace("\\", "\\\\"))
        return super().text(value)

    def named(self, parts: Mapping[str, str], body: Callable[..., str]) -> str:
        fields = ", ".join(f"{part} AS {name}" for name, part in parts.items())
        return f"(SELECT {body(*(f'_v.{name}' for name in parts))} FROM (SELECT {fields}) AS _v)"

    # ------------------------------------------------------------------------------------------ whole numbers

    def wide(self, part: str) -> str:
        return f"CAST({part} AS NUMERIC)"

    def narrow(self, part: str) -> str:
        """What lies outside is moved just outside, then NULLIF takes it away; so `part` is written once (and
        GREATEST takes NULL to just outside)."""
        inside = f"LEAST(GREATEST({part}, {LOWEST - 1}), {HIGHEST + 1})"
        return f"CAST(NULLIF(NULLIF({inside}, {LOWEST - 1}), {HIGHEST + 1}) AS BIGINT)"

    def quotient(self, a: str, b: str) -> str:
        return f"({a} / {b})"

    def divided(self, a: str, b: str) -> str:
        return self.narrow(f"div({self.wide(a)}, {self.wide(f'NULLIF({b}, 0)')})")

    def remainder(self, a: str, b: str) -> str:
        return f"({a} % NULLIF({b}, 0))"

    def unscaled(self, exact: str, scale: int) -> str:
        return f"CAST({exact} * {10**scale} AS BIGINT)"

    # -------------------------------------------------------------------------------------------- doubles

    def finite(self, part: str) -> str:
        # What is not finite raises where it is made: the operands are guarded.
        return part

    def float_result(self, op: str, a: str, b: str, *, fits: bool) -> str:
        if op == "multiply":
            return self.let([a, b], self._product)
        if fits:
            return f"({a} {SIGNS[op]} {b})"
        return self.let([a, b], lambda a, b: self._sum(SIGNS[op], a, b))

    def _sum(self, sign: str, a: str, b: str) -> str:
        apart = "=" if sign == "-" else "<>"
        fits = f"({a} < 0) {apart} ({b} < 0) OR abs({a}) <= {self.double(LARGEST)} - abs({b})"
        return f"CASE WHEN {fits} THEN {a} {sign} {b} END"

    def _product(self, a: str, b: str) -> str:
        zero, tiny, largest = (self.double(x) for x in (0, TINY, LARGEST))
        return (
            f"CASE WHEN {a} IS NULL OR {b} IS NULL THEN NULL WHEN {a} = 0 OR {b} = 0 THEN {zero} "
            f"WHEN abs({b}) < 1 AND abs({a}) < {tiny} / abs({b}) THEN {zero} "
            f"WHEN abs({b}) > 1 AND abs({a}) > {largest} / abs({b}) THEN NULL ELSE {a} * {b} END"
        )

    def ratio(self, a: str, b: str) -> str:
        return self.let([a, b], self._ratio)

    def _ratio(self, a: str, b: str) -> str:
        zero, tiny, largest = (self.double(x) for x in (0, TINY, LARGEST))
        return (
            f"CASE WHEN {a} IS NULL OR {b} IS NULL OR {b} = 0 THEN NULL WHEN {a} = 0 THEN {zero} "
            f"WHEN abs({b}) < 1 AND abs({a}) > {largest} * abs({b}) THEN NULL "
            f"WHEN abs({b}) > 1 AND abs({a}) < {tiny} * abs({b}) THEN {zero} ELSE {a} / {b} END"
        )

    def half_even(self, x: str) -> str:
        return f"round({x})"

    def unless_tiny(self, x: str, least: str, product: str) -> str:
        # A product that rounds to 0 is an error.
        return f"CASE WHEN ABS({x}) < {least} THEN 0 ELSE {product} END"

    # ---------------------------------------------------------------------------------------- texts and dates

    def by_bytes(self, text: str) -> str:
        # Else they are ordered by the database's language.
        return f'({text} COLLATE "C")'

    def ends_with(self, text: str, end: str) -> str:
        def body(a: str, b: str) -> str:
            return f"(right({a}, char_length({b})) = {b} AND char_length({a}) >= char_length({b}))"

        return self.let([text, end], body)

    def contains(self, text: str, part: str) -> str:
        return f"(strpos({text}, {part}) > 0)"

    def replaced(self, text: str, pattern: str, by: str, *, first: bool = False) -> str:
        option = "" if first else "g"
        return f"regexp_replace(({text}) COLLATE \"C\", {self.text(pattern)}, {self.text(by)}, '{option}')"

    def json_text(self, text: str, key: str) -> str:
        return f"(CAST({text} AS json) ->> {self.text(key)})"

    def json_part(self, text: str, key: str) -> str:
        return f"CAST(CAST({text} AS json) -> {self.text(key)} AS text)"

    def epoch_micros(self, x: str) -> str:
        return f"CAST(extract(epoch FROM {x}) * 1000000 AS bigint)"

    def from_epoch_micros(self, x: str) -> str:
        # By days and the rest: an interval is multiplied as a double, which holds a day's microseconds.
        days, rest = (
            f"CAST(div({x}, 86400000000) AS integer)",
            f"CAST({x} % 86400000000 AS double precision)",
        )
        return f"(TIMESTAMP 'epoch' + make_interval(days => {days}) + {rest} * INTERVAL '1 microsecond')"

    # ----------------------------------------------------------------------------------------- stored columns

    def digest(self, text: str) -> str:
        return f"encode(sha256(convert_to({text}, 'UTF8')), 'hex')"

    def matches(self, text: str, pattern: str) -> str:
        return f"({text} ~ {self.text(f'^({pattern})$')})"

    def found(self, text: str, pattern: str) -> str:
        # In the language "C" no letters are folded and no classes are the database's own.
        return f'(({text} COLLATE "C") ~ {self.text(pattern)})'

    def extracted(self, text: str, pattern: str, bracket: int) -> str:
        def body(x: str) -> str:
            parts = f'regexp_match({x} COLLATE "C", {self.text(f"({pattern})")})'
            return f"CASE WHEN {x} IS NOT NULL THEN coalesce(({parts})[{bracket + 1}], '') END"

        return self.let([text], body)

    def trimmed(self, text: str) -> str:
        return f"btrim(CAST({text} AS text), ' \t\r\n')"

    def iso(self, date: str) -> str:
        return f"to_char({date}, 'YYYY-MM-DD')"

    def decimal_double(self, x: str) -> str:
        """NaN, which is above all numbers, and what no double holds are NULL; what a double would round to 0
        is 0. The cast of either would raise."""
        return (
            f"CASE WHEN abs({x}) > 1.7976931348623158e308 THEN NULL "
            f"WHEN abs({x}) < {TINY} THEN 0.0 ELSE {self.as_double(x)} END"
        )

    def finite_stored(self, x: str) -> str:
        # NaN is larger than Infinity in PostgreSQL.
        return f"CASE WHEN {x} > '-Infinity' AND {x} < 'Infinity' THEN {self.as_double(x)} END"

    def bigint(self, x: str) -> str:
        number = f"round(CAST({x} AS numeric))"
        return f"CASE WHEN {number} BETWEEN {LOWEST} AND {HIGHEST} THEN CAST({number} AS bigint) END"

    def text_bigint(self, text: str) -> str:
        return self.bigint(text)

    def scaled(self, x: str, scale: int) -> str:
        # What 64 bits do not hold is left out first: numeric holds 10^131071, but not a thousand times that.
        number = f"CAST({x} AS numeric)"
        return f"CASE WHEN abs({number}) < 1e20 THEN {self.bigint(f'{number} * {10**scale}')} END"

    def rounded(self, x: str) -> str:
        fits = f"{x} >= -9223372036854775808.0 AND {x} < 9223372036854775808.0"
        return f"CASE WHEN {fits} THEN CAST({self.half_even(x)} AS bigint) END"

    def text_double(self, text: str) -> str:
        return self.decimal_double(f"CAST({text} AS numeric)")

    def text_date(self, text: str) -> str:
        year, month, day = (f"CAST(substr({text}, {a}, {n}) AS integer)" for a, n in ((1, 4), (6, 2), (9, 2)))
        last = f"extract(day FROM make_date({year}, {month}, 1) + interval '1 month' - interval '1 day')"
        exists = f"CASE WHEN {day} <= {last} THEN make_date({year}, {month}, {day}) END"
        return f"CASE WHEN {year} >= 1 THEN {exists} END"

    def text_instant(self, text: str) -> str:
        moment = self.utc(f"CAST({text} AS timestamptz)")
        return f"CASE WHEN ({self.text_date(text)}) IS NOT NULL THEN {moment} END"

    def utc(self, x: str) -> str:
        return f"({x} AT TIME ZONE 'UTC')"

    def instant(self, moment: str) -> str:
        return f"CAST('{moment}+00:00' AS TIMESTAMPTZ)"

    def timestamp(self, x: str) -> str:
        return f"CAST({x} AS timestamp)"


POSTGRES = Postgres()
