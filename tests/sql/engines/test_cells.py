"""The owner is told how many cells do not fit; an analyst, and every other command, is not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.errors import DataError, InvalidParameter
from deniable.sql.engines.cells import ColumnCells, unread_cells
from deniable.sql.engines.sources import CSV, Parquet, PostgresTable
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Kind, Type

SCHEMA = Schema(
    (
        TableInfo(
            "visits",
            (
                ColumnInfo("who", Type(Kind.TEXT)),
                ColumnInfo("day", Type(Kind.DATE)),
                ColumnInfo("age", Type(Kind.INTEGER)),
            ),
            unit="who",
        ),
    )
)
LINES = ("who;day;age", "a;2026-01-31;30", "b;31.01.2026;", ";1.2.2026;k.A.", "d;;forty", "e;31.01.2027;12")


def test_cells_are_counted_and_their_forms_named_without_a_value(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8-sig")
    assert unread_cells({"visits": CSV(path, delimiter=";")}, SCHEMA) == [
        ColumnCells("visits", "who", 5, 1, 0, ()),
        ColumnCells("visits", "day", 5, 1, 3, ("99.99.9999", "9.9.9999")),
        ColumnCells("visits", "age", 5, 1, 2, ("a.a.", "aaaaa")),
    ]


def test_a_parquet_file_of_texts_is_counted_alike(tmp_path: Path) -> None:
    path = tmp_path / "visits.parquet"
    pq.write_table(
        pa.table({"who": ["a", "b"], "day": ["2026-01-31", "soon"], "age": pa.array([1, None])}), path
    )
    days = unread_cells({"visits": Parquet((str(path),))}, SCHEMA)[1]
    assert (days.cells, days.empty, days.unread, days.forms) == (2, 0, 1, ("aaaa",))


def test_an_error_tells_no_cell(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_bytes("\n".join(LINES).replace("forty", "vierzig Jährchen").encode("latin-1"))
    with pytest.raises(DataError) as refusal:
        unread_cells({"visits": CSV(path, delimiter=";")}, SCHEMA)
    assert "vierzig" not in str(refusal.value)
    with pytest.raises(InvalidParameter, match="Cells are counted in files and frames"):
        unread_cells({"visits": PostgresTable("postgresql://db/x", "visits")}, SCHEMA)
