"""A dialect is a value: one vocabulary, in which every expression is total, and three engines that speak it.

Names, types, literals, division, totals and casts are said here once each, and
differently only in the module of the engine that says them differently. Assumes: columns
hold canonical values (64-bit integers, finite doubles).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import ClassVar

from deniable.sql.dialects.readings import Readings
from deniable.sql.tree import Kind, Type, Value

LONG = 160
"""Parts of an expression that are longer than this get a name where they are said several times."""
SIGNS = {"add": "+", "subtract": "-", "multiply": "*"}
TYPES: Mapping[Kind, str] = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "BIGINT",
    Kind.DECIMAL: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}


def whole(value: int) -> str:
    """A literal of 64 bits, which every dialect says alike."""
    return f"CAST({value} AS BIGINT)"


def as_stored(column: str) -> str:
    """What a table calls a unit in the type that it is stored in, beside its text. (No declared name begins
    so.)"""
    return f"_stored_{column}"


class Dialect(Readings):
    """How an engine says it. What most dialects say alike is said here; each overrides
    what it says otherwise."""

    name: ClassVar[str]
    types: ClassVar[Mapping[Kind, str]] = TYPES
    mark: ClassVar[str] = '"'
    """Stands around names."""

    def __init__(self, stored_units: frozenset[tuple[str, str]] = frozenset()) -> None:
        """Of one engine: the tables and columns whose units are told apart as they are stored."""
        self.stored_units = stored_units

    def __repr__(self) -> str:
        return self.name

    # --------------------------------------------------------------------------------- names, types, literals

    @property
    def string(self) -> str:
        return self.types[Kind.TEXT]

    @property
    def real(self) -> str:
        return self.types[Kind.FLOAT]

    def type_name(self, of: Type) -> str:
        return self.types[of.kind]

    def quote(self, name: str) -> str:
        """A name as an identifier."""
        return self.mark + name.replace(self.mark, self.mark * 2) + self.mark

    def unit(self, table: str, column: str) -> str:
        """The column that tells the units of a table apart: a declared one, or the same as it is stored."""
        if (table, column) in self.stored_units:
            column = as_stored(column)
        return self.quote(column)

    def text(self, value: str) -> str:
        """A text literal."""
        return "'" + value.replace("'", "''") + "'"

    def literal(self, value: Value, of: Type) -> str:
        match value:
            case None:
                return f"CAST(NULL AS {self.type_name(of)})"
            case bool():
                return str(value).upper()
            case str():
                return self.text(value)
            case date():  # a datetime too
                moment = value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
                return f"CAST('{moment}' AS {self.type_name(of)})"
            case float():
                return self.double(value)
            case Decimal():
                return whole(int(value.scaleb(of.scale)))
            case int():
                return whole(value * 10**of.scale)

    def double(self, value: float) -> str:
        return f"CAST('{float(value)!r}' AS {self.real})"

    def as_text(self, part: str) -> str:
        return f"CAST({part} AS {self.string})"

    def as_double(self, part: str) -> str:
        return f"CAST({part} AS {self.real})"

    def let(self, parts: list[str], body: Callable[..., str]) -> str:
        """`body` of the parts; where one of them is long, of names for them.

        A guard mentions its operand several times, and guards nest: without names the
        text would double at every level.
        """
        if max(len(part) for part in parts) <= LONG:
            return body(*parts)
        return self.named({f"p{i}": part for i, part in enumerate(parts)}, body)

    @abstractmethod
    def named(self, parts: Mapping[str, str], body: Callable[..., str]) -> str:
        """`body` of names for the parts."""

    # ------------------------------------------------------------------------------------------ whole numbers

    @abstractmethod
    def wide(self, part: str) -> str:
        """A 64-bit integer in a type in which sums and products of two of them are exact."""

    def narrow(self, part: str) -> str:
        """A wide integer as a 64-bit one, NULL where it does not fit."""
        return f"TRY_CAST({part} AS BIGINT)"

    def small(self, part: str) -> str:
        """An integer below 2^31 in the type that is fastest to carry and to sum."""
        return part

    @abstractmethod
    def quotient(self, a: str, b: str) -> str:
        """Of whole numbers, rounded towards zero, for a divisor that is neither 0 nor -1."""

    def total(self, part: str) -> str:
        """The exact sum of integers: in 128 bits, or in 38 decimal digits."""
        return f"SUM({part})"

    def exact(self, op: str, a: str, b: str) -> str:
        """A sum, difference or product of 64-bit integers, NULL where it does not fit."""
        return self.narrow(f"({self.wide(a)} {SIGNS[op]} {b})")

    def negative(self, x: str) -> str:
        return self.narrow(f"(- {self.wide(x)})")

    def size(self, x: str) -> str:
        """The absolute value."""
        return self.narrow(f"abs({self.wide(x)})")

    @abstractmethod
    def divided(self, a: str, b: str) -> str:
        """The quotient of whole numbers, NULL where there is none or it does not fit."""

    @abstractmethod
    def remainder(self, a: str, b: str) -> str:
        """The remainder of whole numbers, NULL where there is none."""

    def times(self, x: str, factor: int) -> str:
        """A whole number times one of ours, NULL where the product does not fit."""
        return self.narrow(f"({self.wide(x)} * {factor})")

    def unscaled(self, exact: str, scale: int) -> str:
        """A decimal of at most 18 digits as its scaled integer (19 where it was rounded
        up, which still fits 64 bits)."""
        return f"CAST(CAST({exact} AS DECIMAL(19, {scale})) * CAST({10**scale} AS DECIMAL(19, 0)) AS BIGINT)"

    # -------------------------------------------------------------------------------------------- doubles

    @abstractmethod
    def finite(self, part: str) -> str:
        """A double, NULL where it is NaN or infinite."""

    def float_result(self, op: str, a: str, b: str, *, fits: bool) -> str:
        """A sum, difference or product of doubles, NULL where it is not finite; `fits` where it always is."""
        result = f"({a} {SIGNS[op]} {b})"
        if fits:
            return result
        return self.finite(result)

    @abstractmethod
    def ratio(self, a: str, b: str) -> str:
        """The quotient of doubles, NULL where there is none."""

    def one_zero(self, x: str) -> str:
        """A double in which -0.0 is 0.0: where equal ones are put together, an engine shows whichever it
        met."""
        zero = self.double(0.0)
        return self.let([x], lambda part: f"CASE WHEN {part} = {zero} THEN {zero} ELSE {part} END")

    def whole_part(self, name: str, x: str) -> str:
        """The floor or the ceiling of a double, as a double."""
        return f"{name}({x})"

    @abstractmethod
    def half_even(self, x: str) -> str:
        """A double rounded to a whole number, halves to even."""

    def unless_tiny(self, x: str, least: str, product: str) -> str:
        """A whole number made from a product of `x`, which is 0 where `x` is below `least`."""
        return product

    # ---------------------------------------------------------------------------------------- texts and dates

    def by_bytes(self, text: str) -> str:
        """A text that is ordered by its bytes."""
        return text

    def length(self, text: str) -> str:
        return f"CAST(char_length({text}) AS BIGINT)"

    def stripped(self, text: str, side: str) -> str:
        """Without blanks at a side: LEADING, TRAILING or BOTH."""
        return f"trim({side} ' ' FROM {text})"

    def starts_with(self, text: str, start: str) -> str:
        return f"starts_with({text}, {start})"

    @abstractmethod
    def ends_with(self, text: str, end: str) -> str: ...

    def contains(self, text: str, part: str) -> str:
        return f"contains({text}, {part})"

    def position(self, text: str, part: str) -> str:
        """Where a text begins in another, from 1; 0 where it is not in it."""
        return f"strpos({text}, {part})"

    @abstractmethod
    def replaced(self, text: str, pattern: str, by: str, *, first: bool = False) -> str:
        r"""Every place where a pattern is found, or the `first`, with something else there; \1 is its first
        group, \\ a backslash."""

    @abstractmethod
    def json_text(self, text: str, key: str) -> str:
        """The value of a key as text, of a text that is known to be an object with one such key."""

    def json_number(self, text: str, key: str) -> str:
        """The same of a value that is a number, as a double."""
        return self.as_double(self.json_text(text, key))

    @abstractmethod
    def json_part(self, text: str, key: str) -> str:
        """The same of a value that is an object or an array, as JSON."""

    def date_part(self, name: str, x: str) -> str:
        return f"CAST(floor(extract({name} FROM {x})) AS BIGINT)"

    def plus_days(self, x: str, days: int) -> str:
        return f"({x} + ({days}))"

    def plus_months(self, x: str, months: int) -> str:
        return f"({x} + INTERVAL '{months} months')"

    def plus_micros(self, x: str, micros: int) -> str:
        days, rest = divmod(micros, 86_400_000_000)
        return f"({x} + INTERVAL '{days} days' + INTERVAL '{rest} microseconds')"

    @abstractmethod
    def epoch_micros(self, x: str) -> str:
        """Of a timestamp: microseconds since 1970."""

    @abstractmethod
    def from_epoch_micros(self, x: str) -> str: ...

    def days_between(self, a: str, b: str) -> str:
        return f"CAST({b} - {a} AS BIGINT)"

    def scrambled(self, salt: str, unit: str, values: Sequence[str]) -> str:
        """What orders values as if at random, for each salt and unit (never NULL) anew. Nothing private rests
        on it: it says which of a unit's values count."""
        texts = [self.as_text(unit), *(f"COALESCE({self.as_text(value)}, 'null')" for value in values)]
        return "MD5(" + " || '/' || ".join([f"'{salt}'", *texts]) + ")"

    # -------------------------------------------------------------------------------------------- relations

    def one_of(self, column: str, literals: Sequence[str]) -> str:
        """Whether a column, never an expression, is one of some literals; not true where it is NULL."""
        return f"{column} IN ({', '.join(literals)})"

    def among(self, x: str, column: str, rows: str) -> str:
        """IN as SQL means it: NULL where neither yes nor no is known."""
        return f"({x} IN (SELECT {column} FROM ({rows}) AS t))"

    def first(self, rows: str) -> str:
        """Rows that are computed before they are joined."""
        return f"WITH kept AS MATERIALIZED ({rows}) SELECT * FROM kept"
