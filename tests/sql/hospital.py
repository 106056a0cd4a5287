"""The schema of these tests: visits of patients, prescriptions behind visits, public wards."""

from __future__ import annotations

from fractions import Fraction

from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Query, Type, Value
from deniable.sql.types import BOOLEAN, DATE, FLOAT, INTEGER, TEXT, TIMESTAMP, decimal
from deniable.units import Unit


def column(
    name: str,
    of: Type,
    low: int | None = None,
    high: int | None = None,
    keys: tuple[Value, ...] | None = None,
) -> ColumnInfo:
    return ColumnInfo(
        name, of, None if low is None else Fraction(low), None if high is None else Fraction(high), keys
    )


VISITS = TableInfo(
    "visits",
    (
        column("patient_id", INTEGER),
        column("visit_id", INTEGER),
        column("days", INTEGER, 0, 60),
        column("stars", INTEGER, 1, 5),
        column("cost", decimal(2), 0, 1000),
        column("score", FLOAT, 0, 1),
        column("weight", FLOAT),
        column("diagnosis", TEXT, keys=("asthma", "flu")),
        column("ward", TEXT),
        column("admitted", DATE),
        column("seen", TIMESTAMP),
        column("urgent", BOOLEAN),
    ),
    unit="patient_id",
)
PATIENTS = TableInfo(
    "patients", (column("id", INTEGER), column("age", INTEGER, 0, 120), column("ward", TEXT)), unit="id"
)
PRESCRIPTIONS = TableInfo(
    "prescriptions",
    (column("visit", INTEGER), column("drug", TEXT), column("dose", INTEGER, 0, 9)),
    path=(("visit", "visits", "visit_id"),),
)
WARDS = TableInfo("wards", (column("ward", TEXT), column("floor", INTEGER)), public=True, unique=("ward",))
ORPHANS = TableInfo("orphans", (column("x", INTEGER),))
SCHEMA = Schema((VISITS, PATIENTS, PRESCRIPTIONS, WARDS, ORPHANS))
PATIENT = Unit.column("patient_id", max_rows=4)
ROW = Unit.row()


def checked(sql: str, unit: Unit = PATIENT) -> Query:
    return check(sql, SCHEMA, unit)
