"""What the owner declares is put where it belongs, or refused with the way out."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from deniable.errors import InvalidParameter
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.schema.overrides import declared, key
from deniable.sql.tree import Kind, Type
from deniable.units import Unit

PATIENT = Unit.column("patient_id", max_rows=4)


def column(name: str, kind: Kind = Kind.INTEGER) -> ColumnInfo:
    return ColumnInfo(name, Type(kind))


VISITS = TableInfo("visits", (column("patient_id"), column("days"), column("diagnosis", Kind.TEXT)))
WARDS = TableInfo("wards", (column("ward"), column("days")), public=True)
BOTH = Schema((VISITS, WARDS))


def test_bounds_keys_unit_and_version_reach_the_schema() -> None:
    made = declared(
        Schema((VISITS,)), PATIENT, {"Days": (0, 60.5)}, {"diagnosis": ["flu", "asthma"]}, "2024-05"
    )
    table = made.tables[0]
    assert table.unit == "patient_id"
    days, diagnosis = table.column("days"), table.column("diagnosis")
    assert days is not None
    assert diagnosis is not None
    assert (days.lower, days.upper) == (0, Fraction(121, 2))
    assert diagnosis.keys == ("flu", "asthma")
    assert made.version == "2024-05"


def test_a_decimal_bound_means_what_it_prints() -> None:
    made = declared(Schema((VISITS,)), PATIENT, {"days": (0.1, Decimal("0.3"))}, {}, None)
    assert made.tables[0].columns[1].lower == Fraction(1, 10)
    assert made.tables[0].columns[1].upper == Fraction(3, 10)


def test_a_row_unit_needs_no_column() -> None:
    made = declared(BOTH, Unit.row(), {}, {}, None)
    assert [table.unit for table in made.tables] == [None, None]
    assert made.version == "1"


def test_a_column_of_one_of_two_tables_is_named_with_its_table() -> None:
    with pytest.raises(InvalidParameter, match=r'say which: "visits.days", "wards.days"'):
        declared(BOTH, PATIENT, {"days": (0, 1)}, {}, None)
    made = declared(BOTH, PATIENT, {"wards.days": (0, 1)}, {}, None)
    assert made.tables[0].columns[1].upper is None
    assert made.tables[1].columns[1].upper == 1


def test_a_private_table_without_the_unit_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="so nobody in it could be protected"):
        declared(Schema((TableInfo("wards", (column("ward"),)),)), PATIENT, {}, {}, None)


@pytest.mark.parametrize(
    ("bounds", "keys", "said"),
    [
        ({"dayz": (0, 1)}, {}, 'There is no column "dayz"'),
        ({"days": (2, 1)}, {}, "lower ≤ upper"),
        ({"days": (0, float("inf"))}, {}, "finite number"),
        ({"days": ("0", 1)}, {}, "finite number"),
        ({"days": (True, 1)}, {}, "finite number"),
        ({}, {"diagnosis": "flu"}, "Expected a list of keys"),
        ({}, {"diagnosis": []}, "at least one key"),
        ({}, {"diagnosis": ["flu", "flu"]}, "none of them twice"),
        ({}, {"days": ["many"]}, "of the type integer, got 'many'"),
    ],
)
def test_what_means_nothing_is_refused(bounds: Any, keys: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        declared(Schema((VISITS,)), PATIENT, bounds, keys, None)


def test_a_client_is_no_unit_of_a_table() -> None:
    with pytest.raises(InvalidParameter, match="a row or a column"):
        declared(BOTH, Unit.client(), {}, {}, None)


def test_keys_are_read_as_their_type() -> None:
    assert key("x", Type(Kind.DECIMAL, 2), "1.50") == Decimal("1.50")
    assert key("x", Type(Kind.BOOLEAN), "true") is True
    assert key("x", Type(Kind.DATE), date(2024, 1, 2)) == date(2024, 1, 2)
    assert key("x", Type(Kind.TEXT), None) is None
    with pytest.raises(InvalidParameter):
        key("x", Type(Kind.INTEGER), True)
    with pytest.raises(InvalidParameter):
        key("x", Type(Kind.TEXT), 5)
