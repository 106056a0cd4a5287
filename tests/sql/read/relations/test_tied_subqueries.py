"""A subquery in an expression that reads other people's rows, or cannot be computed for each person, is refused."""

from __future__ import annotations

import pytest

from deniable.errors import InvalidQuery
from tests.sql.hospital import ROW, checked

PATIENTS = "SELECT COUNT(*) FROM patients p WHERE "
MIXING = [
    "EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = v.patient_id)",
    "EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.id OR v.days > 3)",
    "EXISTS (SELECT 1 FROM visits v WHERE NOT (v.patient_id = p.id))",
    "NOT EXISTS (SELECT 1 FROM visits v WHERE v.patient_id <> p.id)",
    "p.id IN (SELECT visit_id FROM visits)",
    "p.age NOT IN (SELECT days FROM visits)",
    "p.id IN (SELECT patient_id + 1 FROM visits)",
    "p.age > (SELECT MAX(days) FROM visits v WHERE v.visit_id = p.id)",
    "EXISTS (SELECT 1 FROM visits v WHERE v.days > p.age)",
    "EXISTS (SELECT 1 FROM visits v WHERE v.patient_id >= p.id AND v.patient_id <= p.id)",
    "EXISTS (SELECT 1 FROM visits v WHERE v.patient_id + 0 = p.id AND v.days > p.age)",
    "EXISTS (SELECT 1 FROM visits v WHERE v.ward = p.ward AND v.days > p.age)",
    "p.age > (SELECT COUNT(*) FROM visits v WHERE v.patient_id <= p.id)",
]
GROUPED = (
    "SELECT COUNT(*) FROM visits v WHERE v.days NOT IN "
    "(SELECT dose FROM prescriptions r WHERE r.{} GROUP BY dose HAVING COUNT(*) > 1)"
)


@pytest.mark.parametrize("condition", MIXING)
def test_what_mixes_people_is_refused(condition: str) -> None:
    with pytest.raises(InvalidQuery, match=r"nothing ties .* to the unit"):
        checked(PATIENTS + condition)


def test_groups_are_tied_by_the_unit_alone() -> None:
    assert checked(GROUPED.format("patient_id = v.patient_id")).relation
    with pytest.raises(InvalidQuery, match="by the unit of privacy alone"):
        checked(GROUPED.format("visit = v.visit_id"))


LOOSE = "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id AND {})"


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("(w.days > v.days OR v.ward IS NULL)", 'where "days" of the row around it is NULL'),
        ("w.days > COALESCE(v.days, 3)", 'where "days" of the row around it is NULL'),
        ("w.ward IS DISTINCT FROM v.ward", 'where "ward" of the row around it is NULL'),
        ("w.days > v.days + (SELECT MIN(floor) FROM wards)", "inside another one"),
    ],
)
def test_what_null_around_would_turn_is_refused(condition: str, told: str) -> None:
    with pytest.raises(InvalidQuery, match=told):
        checked(LOOSE.format(condition))


def test_a_public_table_is_looked_up_by_equal_columns_alone() -> None:
    with pytest.raises(
        InvalidQuery, match="public tables is tied to the row around it by equal columns only"
    ):
        checked("SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM wards w WHERE w.floor > v.days)")


def test_without_people_nothing_is_tied_by_an_inequality() -> None:
    with pytest.raises(InvalidQuery, match="nothing ties"):
        checked(LOOSE.format("w.days > v.days"), ROW)
