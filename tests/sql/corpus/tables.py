"""The data sets of the corpus: what their owners declare, and small tables of such values."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from deniable.sql.schema.declare import ColumnInfo, Schema
from deniable.sql.schema.file import parse
from deniable.sql.tree import Kind
from deniable.units import Unit

HERE = Path(__file__).parent
ROWS = 60
"""Rows of each private table."""

_DECLARED: dict[str, Any] = yaml.safe_load((HERE / "schemas.yaml").read_text(encoding="utf-8"))
DATA_SETS = tuple(_DECLARED)
_TEXTS = (
    "http://www.example.com/shop/a?utm_source=ads",
    "J45.0",
    '{"smoker": true, "bmi": 23.5}',
    "north",
    "",
)
_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
}


@cache
def schema(name: str) -> Schema:
    return parse(yaml.safe_dump({"tables": _DECLARED[name]["tables"]}, sort_keys=False))


def unit(name: str) -> Unit:
    column = _DECLARED[name].get("unit")
    return Unit.row() if column is None else Unit.column(column, max_rows=4)


@cache
def tables(name: str) -> dict[str, pa.Table]:
    """A few people with a few rows each; keys of one table are found in the others."""
    made = {}
    for table in schema(name).tables:
        rng = random.Random(table.name)
        rows = 8 if table.public else ROWS
        columns = {c.name: _values(c, rows, rng, c.name in table.unique) for c in table.columns}
        made[table.name] = pa.table(columns)
    return made


def _values(column: ColumnInfo, rows: int, rng: random.Random, unique: bool) -> pa.Array:
    values = [_value(column, i, rng, unique) for i in range(rows)]
    if column.type.kind is Kind.DECIMAL:
        return pa.array(values).cast(pa.decimal128(18, column.type.scale), safe=False)
    return pa.array(values, _ARROW[column.type.kind])


def _value(column: ColumnInfo, row: int, rng: random.Random, unique: bool) -> Any:
    if column.keys is not None:
        return rng.choice(column.keys)
    low, high = int(column.lower or 0), int(column.upper or 8)
    match column.type.kind:
        case Kind.BOOLEAN:
            return rng.random() < 0.5
        case Kind.INTEGER:
            return row % 8 if column.lower is None else rng.randint(low, high)
        case Kind.FLOAT | Kind.DECIMAL:
            return round(rng.uniform(low, high), 2)
        case Kind.TEXT:
            return f"{_TEXTS[row % 5]}{row % 8}" if row % 5 != 2 or unique else _TEXTS[2]
        case Kind.DATE:
            return date(1994, 1, 1) + timedelta(days=rng.randrange(1500))
    return datetime(2022, 1, 1) + timedelta(minutes=rng.randrange(500_000))
