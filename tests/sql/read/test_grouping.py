"""GROUPING: which rows are totals, over public and private keys, on three real engines and after the release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from deniable.curator import Curator
from deniable.errors import InvalidQuery
from deniable.guarantee import Budget
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.units import Unit
from tests.sql.engines.real import ENGINES, frames, ingest
from tests.sql.hospital import PATIENT, checked

TERMS = Terms(epsilon=1, delta=1e-6)
ROWS = pa.table(
    {"sex": ["F", "F", "M", None] * 50, "ward": ["a", "b", "a", "a"] * 50, "days": [1, 2, 3, 4] * 50}
)
ROLLUP = "FROM visits GROUP BY ROLLUP (sex, ward)"


@pytest.fixture(scope="module", params=ENGINES)
def curator(request: pytest.FixtureRequest) -> Iterator[Curator]:
    put = {"duckdb": lambda given: given, "postgres": ingest, "spark": frames}[request.param]
    with Curator.open(
        put({"visits": ROWS}),
        unit=Unit.row(),
        limit=Budget(10**9, 1e-2),
        ledger="sqlite://",
        keys={"sex": ("F", "M"), "ward": ("a", "b")},
        bounds={"days": (0, 9)},
    ) as opened:
        yield opened


def asked(curator: Curator, text: str) -> list[dict[str, Any]]:
    return curator.sql(text, epsilon=10**5).value.to_pylist()


def test_a_total_is_told_from_a_group(curator: Curator) -> None:
    rows = asked(
        curator, f"SELECT sex, ward, GROUPING(sex) AS s, GROUPING(ward) AS w, COUNT(*) AS n {ROLLUP}"
    )
    assert {(row["s"], row["w"]) for row in rows} == {(0, 0), (0, 1), (1, 1)}
    assert all((row["sex"] is None) == (row["s"] == 1) for row in rows)
    assert [row["n"] for row in rows if row["s"]] == [150]
    assert {row["sex"]: row["n"] for row in rows if (row["s"], row["w"]) == (0, 1)} == {"F": 100, "M": 50}


def test_digits_labels_conditions_and_order(curator: Curator) -> None:
    rows = asked(
        curator,
        f"SELECT GROUPING(sex, ward) AS g, CASE WHEN GROUPING(sex) = 1 THEN 'all' ELSE sex END AS sex, SUM(days) AS d {ROLLUP} "
        "HAVING GROUPING(ward) = 1 ORDER BY GROUPING(sex), 2",
    )
    assert [(row["g"], row["sex"], row["d"]) for row in rows] == [
        (1, "F", 150),
        (1, "M", 150),
        (3, "all", 300),
    ]


def test_a_window_may_read_it(curator: Curator) -> None:
    rows = asked(
        curator,
        "SELECT sex, GROUPING(sex) AS g, COUNT(*) AS n, RANK() OVER (PARTITION BY GROUPING(sex) ORDER BY COUNT(*) DESC) AS r "
        "FROM visits GROUP BY ROLLUP (sex) ORDER BY g, r",
    )
    assert [(row["sex"], row["g"], row["r"]) for row in rows] == [("F", 0, 1), ("M", 0, 2), (None, 1, 1)]


def test_it_costs_nothing_and_moves_no_noise() -> None:
    text = "SELECT diagnosis, {} COUNT(*), SUM(days) FROM visits GROUP BY CUBE (diagnosis, ward)"
    bare, asking = (plan(checked(text.format(what)), PATIENT, TERMS) for what in ("", "GROUPING(diagnosis),"))
    assert asking.loss == bare.loss
    assert [s.measures for s in asking.sets] == [s.measures for s in bare.sets]
    assert [s.selection for s in asking.sets] == [s.selection for s in bare.sets]


@pytest.mark.parametrize("of", ["(days)", "(COUNT(*))", "(1)", "_ID()"])
def test_it_asks_for_what_is_grouped_by(of: str) -> None:
    with pytest.raises(InvalidQuery, match="GROUPING expects what stands in GROUP BY"):
        checked(f"SELECT GROUPING{of}, COUNT(*) FROM visits GROUP BY ROLLUP (ward)")
