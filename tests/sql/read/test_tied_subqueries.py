"""A subquery in an expression that reads other people's rows, or cannot be computed for each person, is refused."""

from __future__ import annotations

import pytest

from deniable.errors import InvalidQuery
from tests.sql.hospital import checked

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
]
GROUPED = (
    "SELECT COUNT(*) FROM visits v WHERE v.days NOT IN "
    "(SELECT dose FROM prescriptions r WHERE r.{} GROUP BY dose HAVING COUNT(*) > 1)"
)


@pytest.mark.parametrize("condition", MIXING)
def test_what_mixes_people_is_refused(condition: str) -> None:
    with pytest.raises(
        InvalidQuery, match=r"nothing ties .* to the unit|tied to the row around it by equal columns"
    ):
        checked(PATIENTS + condition)


def test_groups_are_tied_by_the_unit_alone() -> None:
    assert checked(GROUPED.format("patient_id = v.patient_id")).relation
    with pytest.raises(InvalidQuery, match="by the unit of privacy alone"):
        checked(GROUPED.format("visit = v.visit_id"))
