"""Rows that belong to nobody are in no count, whichever way the rows of people are weighed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from deniable import Budget, Curator, Unit
from deniable.sql.write.contributions import LOOKED_UP_FROM

SCHEMA = """version: "1"
tables:
  visits:
    unit: person
    columns:
      person: {type: integer}
      ward: {type: integer}
  wards:
    public: true
    unique: [ward]
    columns:
      ward: {type: integer}
      name: {type: text, keys: [x, y]}
"""
VISITS = pa.table(
    {"person": pa.array([1, 1, 1, 2, 2, None, None], pa.int64()), "ward": [1, 1, 2, 2, 3, 1, 2]}
)
WARDS = pa.table({"ward": range(1, 101), "name": ["x", "y"] * 50})
TIED = "ON wards.ward = visits.ward"


@pytest.mark.parametrize("bound", [LOOKED_UP_FROM - 1, LOOKED_UP_FROM])
@pytest.mark.parametrize(
    "rows",
    ["visits JOIN wards", "wards LEFT JOIN visits", "visits RIGHT JOIN wards", "visits FULL JOIN wards"],
)
@pytest.mark.parametrize("terms", [{}, {"left_out": False}])
def test_wards_that_nobody_visits_and_visits_of_nobody_do_not_count(
    rows: str, bound: int, terms: dict[str, bool], tmp_path: Path
) -> None:
    schema = tmp_path / "hospital.yaml"
    schema.write_text(SCHEMA, encoding="utf-8")
    unit, limit = Unit.column("person", max_rows=bound), Budget(10**6, 1e-6)
    with Curator.open(
        {"visits": VISITS, "wards": WARDS},
        account="hospital",
        schema=schema,
        unit=unit,
        limit=limit,
        ledger="sqlite://",
    ) as curator:
        text = f"SELECT name, COUNT(*) AS n FROM {rows} {TIED} GROUP BY name"
        answer = curator.sql(text, epsilon=5000, **terms).value.to_pylist()
    assert {line["name"]: line["n"] for line in answer if line["name"]} == {"x": 3, "y": 2}


def test_answers_and_previews_say_so() -> None:
    note = "Rows with an empty person are not counted."
    unit, limit = Unit.column("person", max_rows=4), Budget(10, 1e-6)
    with Curator.open(VISITS, name="visits", unit=unit, limit=limit, ledger="sqlite://") as curator:
        text = "SELECT COUNT(*) AS n FROM visits"
        assert note in curator.preview(text, epsilon=1).lines()
        assert note in curator.sql(text, epsilon=1).notes
    with Curator.open(VISITS, name="visits", unit=Unit.row(), limit=limit, ledger="sqlite://") as curator:
        assert not any("not counted" in note for note in curator.sql(text, epsilon=1).notes)
