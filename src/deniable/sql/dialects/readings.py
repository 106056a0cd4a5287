"""The words for reading stored columns: casts that never fail, whatever is stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from deniable.sql.dialects.storage import Physical, physical
from deniable.sql.tree import LENGTH


class Readings(ABC):
    """How a dialect reads what is stored. What most dialects say alike is said here;
    each overrides what it says otherwise.

    Every expression is total: for what cannot be read it is NULL.
    """

    # ----------------------------------------------------------------------------------------- names of types

    @property
    @abstractmethod
    def string(self) -> str:
        """The type of texts."""

    @property
    @abstractmethod
    def real(self) -> str:
        """The type of doubles."""

    injective: ClassVar[frozenset[str]] = frozenset()
    """Types other than text of which different values have different texts, and that are faster to
    compare."""

    def physical(self, name: str) -> Physical:
        """The kind of storage behind the engine's own name of a type."""
        return physical(name)

    # -------------------------------------------------------------------------------------------- texts

    def cut(self, text: str, length: int) -> str:
        """The first `length` characters."""
        return f"left({text}, {length})"

    def cut_few(self, text: str, length: int) -> str:
        """The same, of a column with few different values."""
        return self.cut(text, length)

    def octets(self, text: str) -> str:
        return f"octet_length({text})"

    def utf8(self, text: str) -> str:
        """The text, NULL where its bytes are none. Most engines store only text, or are given only text."""
        return text

    @abstractmethod
    def digest(self, text: str) -> str:
        """SHA-256 in hexadecimal."""

    def identity(self, text: str) -> str:
        """A text that stays different from every other: of a long one its beginning and the SHA-256 of all of
        it, which together are longer than any text that is kept as it is."""
        long = f"left({text}, {LENGTH}) || {self.digest(text)}"
        short = f"{self.octets(text)} <= {LENGTH} OR length({text}) <= {LENGTH}"
        return f"CASE WHEN {short} THEN {text} ELSE {long} END"

    @abstractmethod
    def matches(self, text: str, pattern: str) -> str:
        """Whether the whole text matches a pattern of our own."""

    @abstractmethod
    def found(self, text: str, pattern: str) -> str:
        """Whether a pattern of the common grammar is found in the text."""

    @abstractmethod
    def extracted(self, text: str, pattern: str, bracket: int) -> str:
        """What a bracket of the first match holds, 0 for all of it; '' where there is none."""

    def trimmed(self, text: str) -> str:
        """Without the blanks around it."""
        return f"btrim({text}, ' \t\r\n')"

    def iso(self, date: str) -> str:
        """A date as text: 2024-02-29."""
        return f"CAST({date} AS {self.string})"

    # -------------------------------------------------------------------------------------------- numbers

    def decimal(self, x: str, name: str) -> str:
        """A stored decimal that keeps to its type `name`; NULL where files and frames hold another."""
        return x

    def is_number(self, x: str, number: int) -> str:
        return f"{x} = {number}"

    def decimal_double(self, x: str) -> str:
        """A decimal as a double."""
        return self.finite_stored(f"CAST({x} AS {self.real})")

    @abstractmethod
    def finite_stored(self, x: str) -> str:
        """A stored double, NULL where it is NaN or infinite."""

    @abstractmethod
    def bigint(self, x: str) -> str:
        """A number as 64 bits, rounded half away from zero."""

    def text_bigint(self, text: str) -> str:
        """Digits as 64 bits."""
        return f"TRY_CAST({text} AS BIGINT)"

    def scaled(self, x: str, scale: int) -> str:
        """A decimal as a whole number of 10^-scale."""
        # DECIMAL(19, scale) holds whatever 64 bits do after the product, whose 38 digits then hold it
        # exactly.
        return (
            f"TRY_CAST(TRY_CAST({x} AS DECIMAL(19, {scale})) * CAST({10**scale} AS DECIMAL(19, 0)) AS BIGINT)"
        )

    @abstractmethod
    def rounded(self, x: str) -> str:
        """A double as 64 bits, rounded half to even."""

    def text_double(self, text: str) -> str:
        """Digits as a double."""
        return self.finite_stored(f"TRY_CAST({text} AS {self.real})")

    # -------------------------------------------------------------------------------------------- times

    def text_date(self, text: str) -> str:
        """A text in the form of a date as one, NULL for the 30th of February."""
        return f"TRY_CAST({text} AS DATE)"

    @abstractmethod
    def text_instant(self, text: str) -> str:
        """A text in the form of a timestamp as one, in UTC."""

    @abstractmethod
    def utc(self, x: str) -> str:
        """An instant as the timestamp that a clock in UTC shows."""

    def bounded(self, x: str) -> str:
        """Said before a comparison of a time with bounds, where that is not enough."""
        return ""

    def zoned(self, x: str) -> str:
        """A stored instant of any precision as one that can be compared."""
        return x

    @abstractmethod
    def instant(self, moment: str) -> str:
        """A literal moment in UTC."""

    @abstractmethod
    def timestamp(self, x: str) -> str:
        """A stored timestamp of any precision as one of microseconds."""
