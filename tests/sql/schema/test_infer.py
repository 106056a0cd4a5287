"""A draft says what the columns are and nothing that a row says."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.errors import DataError, InvalidParameter
from deniable.sql.engines.sources import CSV, DuckDBTable
from deniable.sql.schema import file
from deniable.sql.schema.declare import ColumnInfo, TableInfo
from deniable.sql.schema.draft import likely_unit
from deniable.sql.schema.infer import describe, draft
from deniable.sql.tree import Kind, Type
from deniable.sql.types import INTEGER, TEXT
from tests.sql.engines.real import frames, ingest

SECRET = "Ms. Secret"
TABLE = pa.table(
    {
        "patient_id": pa.array([4711], pa.int64()),
        "name": [SECRET],
        "cost": pa.array([Decimal("12.34")], pa.decimal128(10, 2)),
        "weight": [65.5],
        "born": [date(1970, 1, 2)],
        "at": [datetime(2024, 2, 29, 10, 30)],
        "zoned": pa.array([datetime(2024, 2, 29, 10, 30, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        "ill": [True],
    }
)
TYPES = {
    "patient_id": Type(Kind.INTEGER),
    "name": Type(Kind.TEXT),
    "cost": Type(Kind.DECIMAL, scale=2),
    "weight": Type(Kind.FLOAT),
    "born": Type(Kind.DATE),
    "at": Type(Kind.TIMESTAMP),
    "zoned": Type(Kind.TIMESTAMP),
    "ill": Type(Kind.BOOLEAN),
}


def types(table: TableInfo) -> dict[str, Type]:
    return {column.name: column.type for column in table.columns}


def source(kind: str, folder: Path) -> Any:
    if kind == "parquet":
        pq.write_table(TABLE, folder / "visits.parquet")
        return folder / "visits.parquet"
    if kind == "duckdb":
        with duckdb.connect(str(folder / "h.duckdb")) as connection:
            connection.register("given", TABLE)
            connection.execute("CREATE TABLE visits AS SELECT * FROM given")
        return DuckDBTable(folder / "h.duckdb", "visits")
    tables = {"visits": TABLE}
    return {"arrow": lambda: tables, "postgres": lambda: ingest(tables), "spark": lambda: frames(tables)}[
        kind
    ]()["visits"]


KINDS = (
    *("arrow", "parquet", "duckdb"),
    pytest.param("postgres", marks=pytest.mark.needs("postgres")),
    pytest.param("spark", marks=pytest.mark.needs("spark")),
)


@pytest.mark.parametrize("kind", KINDS)
def test_types_come_from_metadata_on_every_engine(kind: str, tmp_path: Path) -> None:
    placeless = (
        {"cost": Type(Kind.FLOAT)} if kind == "postgres" else {}
    )  # put there as a numeric without places
    assert types(describe("visits", source(kind, tmp_path))) == TYPES | placeless


def test_a_draft_is_a_schema_without_anything_from_a_row(tmp_path: Path) -> None:
    text = draft(source("parquet", tmp_path))
    (table,) = file.parse(text).tables
    assert (table.name, types(table)) == ("visits", TYPES)
    assert not [word for word in (SECRET, "4711", "12.34", "65.5", "1970", "10:30") if word in text]
    other = TABLE.set_column(1, "name", pa.array(["x" * 50]))
    pq.write_table(other, tmp_path / "visits.parquet")
    assert draft(tmp_path / "visits.parquet") == text


def test_a_draft_names_a_likely_unit_in_a_comment(tmp_path: Path) -> None:
    assert "    # unit: patient_id\n" in draft(source("parquet", tmp_path))
    assert "    # unit: person_id\n" in draft(pa.table({"a": [1]}), "t")


def test_of_csv_only_the_header_is_read(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_bytes(b'id,"how, many"\n' + b"\xff" * 100_000)
    assert types(describe("visits", tmp_path / "visits.csv")) == {
        "id": Type(Kind.TEXT),
        "how, many": Type(Kind.TEXT),
    }
    with pytest.raises(InvalidParameter, match="Write the schema by hand"):
        describe("visits", CSV(tmp_path / "visits.csv", header=False))


def test_odd_names_survive() -> None:
    names = ["no", "a: b", 'q"uo\\te', "#x", "é", "1"]
    table = pa.table({name: [1] for name in names})
    (found,) = file.parse(draft(table, "true")).tables
    assert (found.name, [column.name for column in found.columns]) == ("true", names)


def test_columns_without_a_meaning_are_left_out() -> None:
    assert list(types(describe("t", pa.table({"a": [1], "b": [[1]], "c": [{"x": 1}], "d": [b"x"]})))) == ["a"]
    with pytest.raises(DataError, match="no column that can be asked about"):
        describe("t", pa.table({"b": [[1]]}))


@pytest.mark.parametrize(
    ("name", "likely"),
    [
        ("patient_id", True),
        ("Patient No.", True),
        ("Customer", True),
        ("user_number", True),
        ("note", False),
        ("paid", False),
    ],
)
def test_a_column_that_numbers_people_is_the_likely_unit(name: str, likely: bool) -> None:
    table = TableInfo("visits", (ColumnInfo("days", INTEGER), ColumnInfo(name, TEXT)))
    assert likely_unit(table) == (name if likely else None)
