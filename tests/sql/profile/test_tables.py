"""Which table's profile serves a relation: filters and public joins are its table's, what multiplies is not."""

from __future__ import annotations

import pytest

from deniable.sql.profile.tables import is_one_row, only_table, read_table
from deniable.sql.read.query import check
from deniable.units import Unit
from tests.contract.test_engine_statements import SCHEMA

PERSON = Unit.column("person")
SERVED = {
    "SELECT COUNT(*) FROM visits": "visits",
    "SELECT place, SUM(days) FROM visits WHERE ill AND days > 3 GROUP BY place": "visits",
    "SELECT country, COUNT(*) FROM visits JOIN regions USING (place) GROUP BY country": "visits",
    "WITH v AS (SELECT days + 1 AS d FROM visits WHERE ill) SELECT SUM(CLAMP(d, 0, 9)) FROM v": "visits",
    "SELECT COUNT(*) FROM prescriptions": "prescriptions",
}
NOT_SERVED = [
    "SELECT COUNT(*) FROM (SELECT days FROM visits UNION ALL SELECT dose AS days FROM prescriptions) AS t",
    "SELECT COUNT(*) FROM visits AS a JOIN visits AS b USING (person)",
]


@pytest.mark.parametrize("text", SERVED)
def test_a_relation_is_served_by_its_one_private_table(text: str) -> None:
    scan = only_table(check(text, SCHEMA, PERSON).relation)
    assert scan is not None
    assert scan.table == SERVED[text]


@pytest.mark.parametrize("text", NOT_SERVED)
def test_what_may_multiply_rows_is_not(text: str) -> None:
    assert only_table(check(text, SCHEMA, PERSON).relation) is None


def test_one_row_for_each_person_needs_no_profile() -> None:
    text = "SELECT COUNT(*) FROM (SELECT person, COUNT(*) AS n FROM visits GROUP BY person) AS t"
    assert is_one_row(check(text, SCHEMA, PERSON).relation)
    assert not is_one_row(check("SELECT COUNT(*) FROM visits", SCHEMA, PERSON).relation)


def test_a_table_is_read_as_queries_read_it() -> None:
    scan = read_table(SCHEMA, PERSON, "prescriptions")
    assert (scan.unit, scan.path) == ("person", (("visit", "visits", "visit"),))
