"""Spark's words, in ANSI mode. try_cast as in DuckDB, but a cast to whole numbers cuts where others round."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar, final

from deniable.sql.dialects.dialect import TYPES, Dialect, whole
from deniable.sql.dialects.storage import Physical, bare, physical
from deniable.sql.tree import Kind
from deniable.sql.types import LOWEST


@final
class Spark(Dialect):
    """
    >>> print(SPARK.quote("a`b"), SPARK.physical("timestamp"))
    `a``b` timestamp with time zone
    """

    name = "spark"
    types: ClassVar[Mapping[Kind, str]] = {**TYPES, Kind.TEXT: "STRING", Kind.TIMESTAMP: "TIMESTAMP_NTZ"}
    mark = "`"

    def text(self, value: str) -> str:
        """Spark reads backslashes and ${…}: both are written so that it does not."""
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"

    def named(self, parts: Mapping[str, str], body: Callable[..., str]) -> str:
        fields = ", ".join(f"'{name}', {part}" for name, part in parts.items())
        return f"transform(array(named_struct({fields})), _v -> {body(*(f'_v.{name}' for name in parts))})[0]"

    # ------------------------------------------------------------------------------------------ whole numbers

    def wide(self, part: str) -> str:
        return f"CAST({part} AS NUMERIC)"

    def quotient(self, a: str, b: str) -> str:
        return f"({a} div {b})"

    def total(self, part: str) -> str:
        # Its sum of 64-bit integers has 64 bits; the others widen by themselves.
        return f"SUM(CAST({part} AS DECIMAL(38, 0)))"

    def exact(self, op: str, a: str, b: str) -> str:
        return f"try_{op}({a}, {b})"

    def negative(self, x: str) -> str:
        return f"try_subtract({whole(0)}, {x})"

    def size(self, x: str) -> str:
        return self.narrow(f"abs(CAST({x} AS DECIMAL(20, 0)))")

    def divided(self, a: str, b: str) -> str:
        def body(a: str, b: str) -> str:
            return (
                f"({a} div CASE WHEN {b} = 0 OR ({b} = -1 AND {a} = {whole(LOWEST)}) THEN NULL ELSE {b} END)"
            )

        return self.let([a, b], body)

    def remainder(self, a: str, b: str) -> str:
        return self.let([a, b], lambda a, b: f"({a} % CASE WHEN {b} <> 0 THEN {b} END)")

    def times(self, x: str, factor: int) -> str:
        return f"try_multiply({x}, {whole(factor)})"

    # -------------------------------------------------------------------------------------------- doubles

    def finite(self, part: str) -> str:
        # The remainder by infinity is the number itself, and NaN for what is not finite.
        return f"nanvl({part} % CAST('Infinity' AS DOUBLE), CAST(NULL AS DOUBLE))"

    def ratio(self, a: str, b: str) -> str:
        return self.finite(f"try_divide({a}, {b})")

    def whole_part(self, name: str, x: str) -> str:
        # Its floor of a double is a 64-bit integer.
        return self.let(
            [x], lambda x: f"CASE WHEN abs({x}) >= {2**52} THEN {x} ELSE CAST({name}({x}) AS DOUBLE) END"
        )

    def half_even(self, x: str) -> str:
        return f"rint({x})"

    # ---------------------------------------------------------------------------------------- texts and dates

    def starts_with(self, text: str, start: str) -> str:
        return f"startswith({text}, {start})"

    def ends_with(self, text: str, end: str) -> str:
        return f"endswith({text}, {end})"

    def position(self, text: str, part: str) -> str:
        return f"instr({text}, {part})"

    def replaced(self, text: str, pattern: str, by: str, *, first: bool = False) -> str:
        # It replaces every match: the first one is matched together with all that stands before it.
        before = r"(?s)^(.*?)" if first else ""
        shape = before + self._exact(pattern)
        template = ("$1" if first else "") + _java_replacement(by, 1 if first else 0)
        return f"regexp_replace({text}, {self.text(shape)}, {self.text(template)})"

    def json_text(self, text: str, key: str) -> str:
        return f"get_json_object({text}, {self.text(f'$.{key}')})"

    def json_part(self, text: str, key: str) -> str:
        return self.json_text(text, key)

    def date_part(self, name: str, x: str) -> str:
        match name:
            case "dow":
                return f"CAST(dayofweek({x}) - 1 AS BIGINT)"
            case "isodow":
                return f"CAST(weekday({x}) + 1 AS BIGINT)"
            case "isoyear":
                return f"CAST(extract(YEAROFWEEK FROM {x}) AS BIGINT)"
        return super().date_part(name, x)

    def plus_days(self, x: str, days: int) -> str:
        return f"date_add({x}, ({days}))"

    def plus_months(self, x: str, months: int) -> str:
        return f"({x} + make_ym_interval(0, {months}))"

    def plus_micros(self, x: str, micros: int) -> str:
        days, rest = divmod(micros, 86_400_000_000)
        return f"({x} + make_dt_interval({days}, 0, 0, {rest // 10**6}.{rest % 10**6:06}))"

    def epoch_micros(self, x: str) -> str:
        return f"unix_micros(CAST({x} AS TIMESTAMP))"

    def from_epoch_micros(self, x: str) -> str:
        return f"CAST(timestamp_micros({x}) AS TIMESTAMP_NTZ)"

    def days_between(self, a: str, b: str) -> str:
        return f"CAST(datediff({b}, {a}) AS BIGINT)"

    # -------------------------------------------------------------------------------------------- relations

    def among(self, x: str, column: str, rows: str) -> str:
        """Spark takes NULL for FALSE outside of WHERE, so the cases are written out."""
        n, m = self.quote("n"), self.quote("m")
        counts = f"CAST(COUNT(*) AS BIGINT) AS {n}, CAST(COUNT({column}) AS BIGINT) AS {m}"
        empty, nulls = (
            f"(SELECT {test} FROM (SELECT {counts} FROM ({rows}) AS t) AS t)"
            for test in ("(n = 0)", "(n > m)")
        )
        nonnull_rows = f"SELECT {column} FROM ({rows}) AS t WHERE {column} IS NOT NULL"
        member = f"WHEN {x} IS NULL THEN NULL WHEN {x} IN ({nonnull_rows}) THEN TRUE"
        return f"CASE WHEN {empty} THEN FALSE {member} WHEN {nulls} THEN NULL ELSE FALSE END"

    def first(self, rows: str) -> str:
        # Spark joins in the order that is written.
        return rows

    # ----------------------------------------------------------------------------------------- stored columns

    def physical(self, name: str) -> Physical:
        """Its TIMESTAMP is an instant, and a clock's reading elsewhere."""
        if bare(name) == "TIMESTAMP":
            return Physical.ZONED
        return physical(name)

    def utf8(self, text: str) -> str:
        return f"try_validate_utf8({text})"

    def digest(self, text: str) -> str:
        return f"sha2({text}, 256)"

    def matches(self, text: str, pattern: str) -> str:
        r"""Java's $ also matches before a last line break, its \z does not."""
        whole_text = rf"^({pattern})\z"
        return f"({text} RLIKE {self.text(whole_text)})"

    def found(self, text: str, pattern: str) -> str:
        r"""Java's $ also matches before a last line break, its \z does not."""
        return f"({text} RLIKE {self.text(self._exact(pattern))})"

    def extracted(self, text: str, pattern: str, bracket: int) -> str:
        return f"regexp_extract({text}, {self.text(self._exact(pattern))}, {bracket})"

    def _exact(self, pattern: str) -> str:
        return re.sub(r"(?<!\\)((?:\\\\)*)\$", r"\1\\z", pattern)

    def finite_stored(self, x: str) -> str:
        # NaN is larger than all other numbers in Spark.
        return f"CASE WHEN abs({x}) < double('Infinity') THEN {x} END"

    def bigint(self, x: str) -> str:
        return f"try_cast(round({x}, 0) AS BIGINT)"

    def rounded(self, x: str) -> str:
        # A cast of 2^63 gives 2^63 - 1 instead of failing.
        return f"CASE WHEN {x} < 9223372036854775808D THEN try_cast({self.half_even(x)} AS BIGINT) END"

    def text_instant(self, text: str) -> str:
        return self.utc(f"try_cast({text} AS TIMESTAMP)")

    def utc(self, x: str) -> str:
        return f"CAST({x} AS TIMESTAMP_NTZ)"

    def instant(self, moment: str) -> str:
        return f"TIMESTAMP '{moment}+00:00'"

    def timestamp(self, x: str) -> str:
        return f"CAST({x} AS TIMESTAMP_NTZ)"


def _java_replacement(by: str, shift: int) -> str:
    r"""\1 as $1, and a dollar sign as it is."""

    def part(match: re.Match[str]) -> str:
        if match[0] == "$":
            return r"\$"
        return match[0] if match[1] == "\\" else f"${int(match[1]) + shift}"

    return re.sub(r"\\(\\|\d)|\$", part, by)


SPARK = Spark()
