"""What an engine is, and what it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from deniable.sql.dialects import Dialect
from deniable.sql.schema import Schema
from deniable.units import Unit

WEIGHT = "_weight"
"""The column that `prepare` adds: what a row counts, in units of 1/`ONE`."""
ONE = 2**20


@dataclass(frozen=True)
class Statement:
    """`WITH name AS (text), … select`. Declared tables are named in quotes, with their declared columns in canonical types."""

    ctes: tuple[tuple[str, str], ...]
    select: str


class Engine(Protocol):
    """One open, locked-down connection to private data.

    `run` fails, if ever, with one fixed sentence. `prepared` are the tables that hold a stored `_weight`, with the number of
    rows of one unit that count.
    """

    @property
    def dialect(self) -> Dialect: ...

    @property
    def prepared(self) -> Mapping[str, int]: ...

    def run(self, statement: Statement) -> pa.Table: ...

    def prepare(self, schema: Schema, unit: Unit) -> None: ...

    def close(self) -> None: ...
