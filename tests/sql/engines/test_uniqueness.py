"""A public table with two rows of one key is not opened: on three real engines."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deniable.errors import DataError
from deniable.sql import types
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from tests.sql.engines.real import ENGINES, opened

COLUMNS = (ColumnInfo("code", types.TEXT), ColumnInfo("year", types.INTEGER))


def tables(codes: list[str | None], years: list[int | None]) -> dict[str, pa.Table]:
    public = pa.table({"code": pa.array(codes, pa.string()), "year": pa.array(years, pa.int64())})
    return {"t": pa.table({"x": [1, 1]}), "codes": public}


def schema(*unique: str, public: bool = True) -> Schema:
    codes = TableInfo("codes", COLUMNS, public=public, unique=unique if public else ())
    return Schema((TableInfo("t", (ColumnInfo("x", types.INTEGER),)), codes))


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize(
    ("codes", "years", "unique"),
    [
        (["a", "b", "a"], [1, 2, 3], ("code",)),
        (["a", "b", "a"], [1, 1, 1], ("code", "year")),
    ],
)
def test_a_key_that_is_there_twice_is_told_to_the_owner(
    kind: str, codes: Any, years: Any, unique: Any
) -> None:
    with pytest.raises(DataError, match='"codes" has several rows with the same "code"'):
        opened(kind, tables(codes, years), schema(*unique))


@pytest.mark.parametrize("kind", ENGINES)
def test_what_no_join_meets_may_repeat(kind: str) -> None:
    opened(kind, tables(["a", "a", None, None], [1, 2, 3, 3]), schema("code", "year")).close()


def test_only_what_is_declared_unique_is_looked_at() -> None:
    twice = tables(["a", "a"], [1, 1])
    opened("duckdb", twice, schema()).close()
    opened("duckdb", twice, schema(public=False)).close()
