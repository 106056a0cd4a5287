"""Where a plan's statements run. An engine sees whole aggregate statements that we wrote and returns small tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from deniable.sql.dialects import Dialect


@dataclass(frozen=True)
class Statement:
    """`WITH name AS (text), … select`. Declared tables are named in quotes, with their declared columns in canonical types."""

    ctes: tuple[tuple[str, str], ...]
    select: str


class Engine(Protocol):
    """One open, locked-down connection to private data."""

    @property
    def dialect(self) -> Dialect: ...

    def run(self, statement: Statement) -> pa.Table: ...

    def close(self) -> None: ...
