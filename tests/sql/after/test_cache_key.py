"""One text for all ways to write a query, and another for every other query."""

from __future__ import annotations

from itertools import combinations

import pytest

from deniable.sql.after.canonical import normal, own_block
from tests.sql.hospital import ROW, checked

SAME = [
    "SELECT ward, COUNT(*) AS n FROM visits WHERE days > 3 AND urgent GROUP BY ward",
    "select WARD, count( * ) as n -- how many\nfrom Visits as v where (v.urgent) and ((V.days > 3)) group by "
    "v.ward;",
    'SELECT "ward", COUNT(*) n FROM visits "x" WHERE urgent AND days > 3 GROUP BY 1',
]
OTHERS = [
    "SELECT COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE days > 3",
    "SELECT COUNT(*) FROM visits WHERE days > 4",
    "SELECT COUNT(*) FROM visits WHERE days >= 3",
    "SELECT COUNT(*) FROM visits WHERE days > 3.0",
    "SELECT COUNT(*) FROM visits WHERE ward = '3'",
    "SELECT COUNT(*) FROM visits WHERE ward = 'a'' b'",
    "SELECT COUNT(*) FROM visits WHERE ward = 'a' OR ward = ' b'",
    "SELECT COUNT(*) FROM visits WHERE days - stars > 1",
    "SELECT COUNT(*) FROM visits WHERE stars - days > 1",
    "SELECT COUNT(ward) FROM visits",
    "SELECT SUM(days) AS count FROM visits",
    "SELECT SUM(clamp(days, 0, 10)) AS count FROM visits",
    "SELECT COUNT(*) AS m FROM visits",
    "SELECT COUNT(*) FROM visits LIMIT 1",
    "SELECT COUNT(*) FROM visits HAVING COUNT(*) > 1",
    "SELECT COUNT(*) FROM visits JOIN wards USING (ward)",
    "SELECT COUNT(*) FROM visits LEFT JOIN wards USING (ward)",
    "SELECT COUNT(*) FROM patients",
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
    "SELECT ward, COUNT(*) FROM visits GROUP BY ROLLUP (ward)",
    "SELECT MEDIAN(days) FROM visits",
    "SELECT QUANTILE_CONT(days, 0.25) AS quantile_days FROM visits",
]


def test_white_space_case_comments_aliases_and_order_do_not_matter() -> None:
    assert len({normal(checked(sql)) for sql in SAME}) == 1


def test_sets_of_literals_have_no_order() -> None:
    one, two = (
        normal(checked(f"SELECT COUNT(*) FROM visits WHERE days IN ({x})")) for x in ("1, 2, 2", "2, 1")
    )
    assert one == two


@pytest.mark.parametrize(("one", "two"), combinations(OTHERS, 2))
def test_different_queries_have_different_texts(one: str, two: str) -> None:
    assert normal(checked(one)) != normal(checked(two))


def test_the_unit_is_part_of_it() -> None:
    assert normal(checked(OTHERS[0])) != normal(checked(OTHERS[0], ROW))


REWRITTEN = [
    "SELECT ward, COUNT(*) AS n, SUM(days) AS d FROM visits WHERE days > 3 GROUP BY ward",
    "SELECT ward, COUNT(1) AS n, SUM(days) AS d FROM visits WHERE TRUE AND days > 3 GROUP BY ward",
    "SELECT ward, COUNT(*) AS n, SUM(days) AS d FROM (SELECT * FROM visits) v WHERE days > 3 GROUP BY ward",
    "SELECT w, COUNT('x') AS n, SUM(d) AS d FROM (SELECT ward AS w, days AS d FROM visits WHERE days > 3) v GROUP BY w",
    "WITH s AS (SELECT * FROM (SELECT * FROM visits) v WHERE TRUE) SELECT ward, COUNT(*) FILTER (WHERE TRUE) AS n, "
    "SUM(days) AS d FROM s WHERE days > 3 GROUP BY 1",
]


def test_what_says_nothing_makes_no_other_question() -> None:
    forms = {own.form for text in REWRITTEN if (own := own_block(checked(text))) is not None}
    assert len(forms) == 1


@pytest.mark.parametrize("other", ["COUNT(NULL)", "COUNT(ward)", "COUNT(*) FILTER (WHERE NULL)"])
def test_what_says_something_does(other: str) -> None:
    text = "SELECT {} AS n FROM visits"
    assert normal(checked(text.format(other))) != normal(checked(text.format("COUNT(*)")))
