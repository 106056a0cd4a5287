"""What an engine is, and what it is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

from deniable.errors import DataError, InvalidParameter
from deniable.process import Home
from deniable.sql.dialects.dialect import Dialect
from deniable.sql.schema.declare import Schema
from deniable.sql.write.summaries import Summary
from deniable.units import Unit


@dataclass(frozen=True)
class Statement:
    """`WITH name AS (text), … select`. Declared tables are named in quotes, with their
    declared columns in canonical types."""

    ctes: tuple[tuple[str, str], ...]
    select: str


class Engine(ABC):
    """One open, locked-down connection to private data, with an answer to all that a plan may ask.

    `run` fails, if ever, with one fixed sentence. `prepared` are the tables that hold a stored `_weight`,
    with the number of rows of one unit that count; `summaries` are those of prepared tables. Both are empty
    where an engine can only read.
    """

    dialect: Dialect
    prepared: Mapping[str, int] = MappingProxyType({})
    summaries: Mapping[str, Summary] = MappingProxyType({})

    _home: Home | None = None
    """The process that opened it; None where any may use it."""

    @property
    def at_home(self) -> bool:
        """Whether this is the process that opened it."""
        return self._home is None or self._home.here()

    def check_process(self) -> None:
        """Raise in a forked child: it shares the parent's connection, and would read the
        parent's answers from it."""
        if self._home is not None:
            self._home.check("This engine", "Open the data in the process that asks.", DataError)

    @abstractmethod
    def run(self, statement: Statement) -> pa.Table:
        """The small table that a statement asks for."""

    def present(self, table: str, columns: Sequence[str]) -> frozenset[str]:
        """Those of the columns in which no value is NULL, as far as the engine knows without looking."""
        return frozenset()

    def prepare(self, schema: Schema, unit: Unit) -> None:
        """Store what each row counts, for the queries to come."""
        raise InvalidParameter(
            "Expected files or frames in this process: weights are stored in embedded DuckDB only, and data "
            "elsewhere is only read. Nothing was prepared."
        )

    @property
    @abstractmethod
    def overran(self) -> bool:
        """Whether the last statement reached the limit of its time, whatever ended it."""

    @abstractmethod
    def cancel(self) -> None:
        """Stop the statement that is running, if one is; from any thread. What was
        stopped fails as any other does."""

    @abstractmethod
    def close(self) -> None: ...
