"""Units of several tables, and the keys that lead to them, are compared only where they have one type."""

from __future__ import annotations

import pytest

from deniable.errors import InvalidQuery
from deniable.sql.read.query import check
from deniable.sql.schema.declare import Schema, TableInfo
from deniable.sql.types import INTEGER, TEXT, Type, decimal
from deniable.units import Unit
from tests.sql.hospital import column

PERSON = Unit.column("id", max_rows=2)
QUERIES = [
    "SELECT COUNT(*) FROM people JOIN visits ON id = person",
    "SELECT COUNT(*) FROM people FULL JOIN visits ON id = person",
    "SELECT COUNT(*) FROM people, visits WHERE id = person",
    "SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM visits WHERE person = id)",
    "SELECT COUNT(*) FROM people WHERE id NOT IN (SELECT person FROM visits)",
    "SELECT SUM(CLAMP((SELECT COUNT(*) FROM visits WHERE person = id), 0, 3)) FROM people",
    "SELECT COUNT(*) FROM (SELECT x FROM people UNION ALL SELECT x FROM visits) t",
    "SELECT COUNT(*) FROM people JOIN labs ON people.id = labs.person",
]


def schema(one: Type, other: Type, key: Type = INTEGER) -> Schema:
    people = TableInfo("people", (column("id", one), column("x", INTEGER)), unit="id")
    own = (column("person", other), column("visit", INTEGER), column("x", INTEGER))
    labs = TableInfo("labs", (column("of", key),), path=(("of", "visits", "visit"),))
    return Schema((people, TableInfo("visits", own, unit="person"), labs))


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize(("one", "other"), [(INTEGER, TEXT), (TEXT, INTEGER), (decimal(1), decimal(2))])
def test_units_of_different_types_are_not_compared(sql: str, one: Type, other: Type) -> None:
    assert check(sql, schema(one, one), PERSON).relation
    with pytest.raises(InvalidQuery, match=r'units of privacy ".*" and ".*" have different types'):
        check(sql, schema(one, other), PERSON)


def test_one_table_is_asked_whatever_the_type_of_another() -> None:
    assert check("SELECT COUNT(*) FROM people", schema(INTEGER, TEXT, TEXT), PERSON).relation
    assert check("SELECT COUNT(*) FROM labs", schema(INTEGER, TEXT, TEXT), Unit.row()).relation


def test_a_step_of_a_path_is_between_columns_of_one_type() -> None:
    with pytest.raises(InvalidQuery, match=r'step "labs"."of" to "visits"."visit" .* INTEGER'):
        check("SELECT COUNT(*) FROM labs", schema(INTEGER, INTEGER, TEXT), PERSON)
