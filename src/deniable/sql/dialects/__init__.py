"""The vocabulary of each engine: one abstract `Dialect`, and a value of it for each engine that speaks it."""

from __future__ import annotations

from deniable.sql.dialects.dialect import Dialect
from deniable.sql.dialects.duckdb import DUCKDB
from deniable.sql.dialects.postgres import POSTGRES
from deniable.sql.dialects.spark import SPARK

__all__ = ["DIALECTS", "DUCKDB", "POSTGRES", "SPARK", "Dialect"]

DIALECTS = (DUCKDB, POSTGRES, SPARK)
