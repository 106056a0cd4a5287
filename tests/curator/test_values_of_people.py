"""Numbers that a subquery makes of each person's rows, where a person may have more rows than count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from deniable import Budget, Curator, Unit

PEOPLE, MOST = 600, 3
ROWS = Counter({person: 1 + person % 6 for person in range(PEOPLE)})
INNER = "SELECT person, COUNT(*) AS n FROM visits GROUP BY person"


@pytest.fixture(scope="module")
def visits() -> Iterator[Curator]:
    table = pa.table({"person": list(ROWS.elements())})
    unit, limit = Unit.column("person", max_rows=MOST), Budget(10**6, 1e-6)
    with Curator.open(table, name="visits", unit=unit, limit=limit, ledger="sqlite://") as curator:
        yield curator


@pytest.mark.parametrize("inner", [INNER, f"SELECT n FROM ({INNER}) AS t"])
def test_groups_by_a_number_of_rows_hold_everybody(visits: Curator, inner: str) -> None:
    answer = visits.sql(
        f"SELECT n, COUNT(*) AS people FROM ({inner}) AS v GROUP BY n ORDER BY n", epsilon=5000
    )
    people = {row["n"]: row["people"] for row in answer.value.to_pylist() if row["n"] is not None}
    assert people == {0: 0, 1: 100, 2: 100, 3: 400}
    assert "n = 3 stands for 3 and more." in answer.notes


def test_an_average_says_what_is_cut(visits: Curator) -> None:
    answer = visits.sql(f"SELECT AVG(n) AS x FROM ({INNER}) AS v", epsilon=5000)
    assert answer.value.to_pylist()[0]["x"] == pytest.approx(2.5, abs=0.01)
    assert any("is cut at what 3 rows can give" in note for note in answer.notes)


def test_conditions_see_all_rows(visits: Curator) -> None:
    answer = visits.sql(f"SELECT COUNT(*) AS people FROM ({INNER}) AS v WHERE n > 4", epsilon=5000)
    assert answer.value.to_pylist() == [{"people": 200}]
