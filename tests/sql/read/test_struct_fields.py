"""Fields of struct columns are read as the columns that the owner declared, or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from deniable.errors import InvalidQuery
from deniable.sql.after.split import SplitQuery, split_query
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.types import FLOAT, INTEGER, TEXT
from deniable.units import Unit

FIXTURES = yaml.safe_load((Path(__file__).parents[1] / "fixtures" / "struct_fields.yaml").read_text())
UNIT = Unit.column("patient_id")
FLAT = {"home.city": "city", "home.geo.lat": "lat", "Work.City": "work_city"}
GEO = TableInfo("geo", (ColumnInfo("lat", FLOAT), ColumnInfo("ward", TEXT)), public=True, unique=("lat",))
VISITS = TableInfo(
    "visits",
    (
        ColumnInfo("patient_id", INTEGER),
        ColumnInfo("ward", TEXT),
        ColumnInfo("home.city", TEXT, keys=("a", "b")),
        ColumnInfo("home.geo.lat", FLOAT),
        ColumnInfo("Work.City", TEXT),
    ),
    unit="patient_id",
)


def schema(names: dict[str, str]) -> Schema:
    """The tables with these other names of columns."""
    columns = tuple(replace(column, name=names.get(column.name, column.name)) for column in VISITS.columns)
    return Schema((replace(VISITS, columns=columns), GEO))


def split(text: str, names: dict[str, str]) -> SplitQuery:
    return split_query(text, schema(names), UNIT)


def flattened(query: SplitQuery) -> str:
    """All that was read of a query, with the columns under their flat names."""
    text = repr(query.blocks)
    for name, flat in FLAT.items():
        text = text.replace(f"{name}'", f"{flat}'")
    return text


@pytest.mark.parametrize(("text", "same"), FIXTURES["answered"].items())
def test_a_declared_field_is_read_as_a_column(text: str, same: str) -> None:
    assert flattened(split(text, {})) == flattened(split(same, FLAT))


@pytest.mark.parametrize(("text", "says"), FIXTURES["refused"].items())
def test_what_is_not_declared_or_means_two_things_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidQuery) as refusal:
        split(text, {})
    assert says in str(refusal.value)


def test_a_field_is_selected_under_its_own_name() -> None:
    query = split("SELECT v.home.city, COUNT(*) AS n FROM visits v GROUP BY 1", {})
    assert [output.name for output in query.blocks[0].outputs] == ["city", "n"]


def test_a_table_wins_where_no_field_is_in_sight() -> None:
    home = TableInfo("home", (ColumnInfo("patient_id", INTEGER), ColumnInfo("city", TEXT)), unit="patient_id")
    text = "SELECT COUNT(*) FROM home WHERE home.city = 'a'"
    same = split_query("SELECT COUNT(*) FROM home WHERE city = 'a'", Schema((home,)), UNIT)
    assert split_query(text, Schema((home, VISITS)), UNIT).blocks == same.blocks
