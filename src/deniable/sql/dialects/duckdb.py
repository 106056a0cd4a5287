"""DuckDB's words. TRY_CAST makes every cast total; a checked pattern makes it mean what it means
elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import final

from deniable.sql.dialects.dialect import Dialect

SIDES = {"LEADING": "ltrim", "TRAILING": "rtrim"}
FEW_KEYS = 64
"""Up to so many values are compared one by one, once for each entry of a dictionary; an IN of more than a few
values is a join."""


@final
class DuckDB(Dialect):
    """
    >>> print(DUCKDB.quote('a"b'), DUCKDB.physical("DECIMAL(18,3)"), DUCKDB.physical("STRUCT(a INTEGER)[]"))
    "a""b" decimal other
    """

    name = "duckdb"
    injective = frozenset({"UBIGINT", "UUID"})

    def named(self, parts: Mapping[str, str], body: Callable[..., str]) -> str:
        fields = ", ".join(f"'{name}': {part}" for name, part in parts.items())
        inner = body(*(f"struct_extract(_v, '{name}')" for name in parts))
        return f"list_transform([{{{fields}}}], lambda _v: {inner})[1]"

    # ------------------------------------------------------------------------------------------ whole numbers

    def wide(self, part: str) -> str:
        return f"CAST({part} AS HUGEINT)"

    def small(self, part: str) -> str:
        # Its sums of 32 bits have 128, and a join carries half as much.
        return f"CAST({part} AS INTEGER)"

    def quotient(self, a: str, b: str) -> str:
        return f"({a} // {b})"

    def divided(self, a: str, b: str) -> str:
        return self.narrow(f"TRY({self.wide(a)} // {b})")

    def remainder(self, a: str, b: str) -> str:
        return self.narrow(f"TRY({self.wide(a)} % {b})")

    # -------------------------------------------------------------------------------------------- doubles

    def finite(self, part: str) -> str:
        return self.let([part], self.finite_stored)

    def ratio(self, a: str, b: str) -> str:
        return self.finite(f"({a} / {b})")

    def half_even(self, x: str) -> str:
        return f"round_even({x}, 0)"

    # ---------------------------------------------------------------------------------------- texts and dates

    def length(self, text: str) -> str:
        return f"CAST(length({text}) AS BIGINT)"

    def stripped(self, text: str, side: str) -> str:
        return f"{SIDES.get(side, 'trim')}({text}, ' ')"

    def ends_with(self, text: str, end: str) -> str:
        return f"ends_with({text}, {end})"

    def replaced(self, text: str, pattern: str, by: str, *, first: bool = False) -> str:
        option = "c" if first else "g"
        return f"regexp_replace({text}, {self.text(pattern)}, {self.text(by)}, '{option}')"

    def json_text(self, text: str, key: str) -> str:
        # It raises on what is not JSON: no such text comes here, and if one did it would be NULL.
        path = self.text(f'$."{key}"')
        return f"TRY(json_extract_string({text}, {path}))"

    def json_number(self, text: str, key: str) -> str:
        # By its text 1e18 would have 19 digits, which no text of a number has.
        path = self.text(f'$."{key}"')
        return f"TRY(CAST(json_extract({text}, {path}) AS DOUBLE))"

    def json_part(self, text: str, key: str) -> str:
        path = self.text(f'$."{key}"')
        return f"CAST(TRY(json_extract({text}, {path})) AS VARCHAR)"

    def date_part(self, name: str, x: str) -> str:
        return f"CAST(date_part('{name}', {x}) AS BIGINT)"

    def epoch_micros(self, x: str) -> str:
        return f"epoch_us({x})"

    def from_epoch_micros(self, x: str) -> str:
        return f"make_timestamp({x})"

    def scrambled(self, salt: str, unit: str, values: Sequence[str]) -> str:
        # 64 bits: faster to make and to sort by than MD5's 32 letters. Each value enters by its own hash,
        # which all values have (not every stored time can be written as text), and is mixed in by a whole
        # round of the hash: that of several arguments mixes a salt in so weakly that some values come first
        # for most salts.
        state = f"hash('{salt}')"
        for value in (unit, *values):
            state = f"hash(xor({state}, hash({value})))"
        return state

    # -------------------------------------------------------------------------------------------- relations

    def one_of(self, column: str, literals: Sequence[str]) -> str:
        if len(literals) > FEW_KEYS:
            return super().one_of(column, literals)
        # A filter of the scan, as equalities with OR would be, takes five times as long.
        cases = " ".join(f"WHEN {literal} THEN TRUE" for literal in literals)
        return f"(CASE {column} {cases} ELSE FALSE END)"

    # ----------------------------------------------------------------------------------------- stored columns

    def utf8(self, text: str) -> str:
        # A column may be stored with a collation in which different texts are equal: which of them stands for
        # all would be the first person's. DuckDB stores nothing but Unicode.
        return f"({text} COLLATE C)"

    def cut(self, text: str, length: int) -> str:
        # left() copies every string; a text of no more bytes than it may have characters keeps its
        # dictionary.
        return f"CASE WHEN strlen({text}) <= {length} THEN {text} ELSE left({text}, {length}) END"

    def cut_few(self, text: str, length: int) -> str:
        # Computed once for each entry of a dictionary, which few values have.
        return f"substring({text}, 1, {length})"

    def octets(self, text: str) -> str:
        return f"strlen({text})"

    def digest(self, text: str) -> str:
        return f"sha256({text})"

    def matches(self, text: str, pattern: str) -> str:
        return f"regexp_full_match({text}, {self.text(pattern)})"

    def found(self, text: str, pattern: str) -> str:
        return f"regexp_matches({text}, {self.text(pattern)})"

    def extracted(self, text: str, pattern: str, bracket: int) -> str:
        return f"regexp_extract({text}, {self.text(pattern)}, {bracket})"

    def trimmed(self, text: str) -> str:
        return f"trim({text}, ' \t\r\n')"

    def decimal(self, x: str, name: str) -> str:
        """DuckDB dies of -2^127 in a decimal of a file or a frame."""
        digits, places = map(int, [*re.findall(r"\d+", name), "18", "3"][:2])
        if digits <= 18:
            return x
        top = f"{'9' * (digits - places) or '0'}{'.' if places else ''}{'9' * places}"
        low, high = (f"CAST('{sign}{top}' AS DECIMAL({digits}, {places}))" for sign in ("-", ""))
        return f"CASE WHEN {x} BETWEEN {low} AND {high} THEN {x} END"

    def is_number(self, x: str, number: int) -> str:
        # Not as decimals: DECIMAL(38, 38) holds no 1 to compare with.
        return f"TRY_CAST({x} AS DOUBLE) = {number}"

    def finite_stored(self, x: str) -> str:
        return f"CASE WHEN isfinite({x}) THEN {x} END"

    def bigint(self, x: str) -> str:
        return f"TRY_CAST({x} AS BIGINT)"

    def rounded(self, x: str) -> str:
        return f"TRY_CAST({self.half_even(x)} AS BIGINT)"

    def text_instant(self, text: str) -> str:
        return self.utc(f"TRY_CAST({text} AS TIMESTAMPTZ)")

    def utc(self, x: str) -> str:
        return f"make_timestamp(epoch_us({x}))"

    def bounded(self, x: str) -> str:
        """DuckDB takes infinite times for none of the column's: where a file's statistics show that all
        others lie inside, it drops the comparison."""
        return f"isfinite({x}) AND "

    def zoned(self, x: str) -> str:
        # Compared in nanoseconds, the year 1 would be an error.
        return f"TRY_CAST({x} AS TIMESTAMPTZ)"

    def instant(self, moment: str) -> str:
        return f"CAST('{moment}+00:00' AS TIMESTAMPTZ)"

    def timestamp(self, x: str) -> str:
        return f"TRY_CAST({x} AS TIMESTAMP)"


DUCKDB = DuckDB()
