"""The three ways to say it."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    DUCKDB = "duckdb"
    POSTGRES = "postgres"
    SPARK = "spark"
