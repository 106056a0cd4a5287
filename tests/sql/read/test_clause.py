"""The clause of the big warehouses: a text states its own terms, and never others than the owner's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

import pyarrow as pa
import pytest

from deniable.curator import Curator
from deniable.errors import InvalidParameter, InvalidQuery
from deniable.guarantee import Budget
from deniable.sql.after.split import split_query
from deniable.sql.read.clause import NOTHING, without_clause
from deniable.units import Unit
from tests.sql.hospital import PATIENT, ROW, SCHEMA, checked

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) "
REFUSED = {
    "epsilon = .5, privacy_unit_column = doctor": 'names "doctor" as the unit of privacy, and the owner declared',
    "epsilon = .5, max_rows_contributed = 3": "by 3, and the owner by 4",
    "epsilon = .5, min_privacy_units_per_group = 9": "min_privacy_units_per_group is not answered",
    "epsilon = .5, group_selection_strategy = PUBLIC_GROUPS": "group_selection_strategy is not answered",
    "epsilon = .5, epsilon = 1": "stands twice",
    "epsilon = x": "expects a number",
    "epsilon = -1": "expects a number",
    "epsilon": "has no value",
    "max_groups_contributed = 0": "whole number from 1",
    "max_groups_contributed = 1.5": "whole number from 1",
    "secret = 1": '"secret" is not known',
}


@pytest.fixture
def curator() -> Iterator[Curator]:
    table = pa.table({"p": list(range(50)), "w": ["a", "b"] * 25})
    with Curator.open(
        table, name="visits", unit=Unit.column("p", max_rows=1), limit=Budget(5, 1e-6), ledger="sqlite://"
    ) as opened:
        yield opened


def test_it_is_read_and_leaves_the_text_where_it_was() -> None:
    options = "epsilon = .5, delta=1e-8,\n privacy_unit_column = patient_id, max_groups_contributed = 2"
    text, clause = without_clause(CLAUSE.format(options) + "COUNT(*) FROM visits")
    assert clause.terms == {"epsilon": Fraction(1, 2), "delta": Fraction(1, 10**8), "max_groups": 2}
    assert checked(text) == checked("SELECT COUNT(*) FROM visits")
    assert len(text) == len(CLAUSE.format(options) + "COUNT(*) FROM visits")
    for other in (
        "SELECT COUNT(*) FROM visits WHERE ward = 'DIFFERENTIAL_PRIVACY'",
        "SELECT 'differential_privacy",
    ):
        assert without_clause(other) == (other, NOTHING)


@pytest.mark.parametrize("options", REFUSED)
def test_what_contradicts_or_means_nothing_is_refused(options: str) -> None:
    with pytest.raises(InvalidQuery, match=re.escape(REFUSED[options])):
        split_query(CLAUSE.format(options) + "COUNT(*) FROM visits", SCHEMA, PATIENT)


def test_no_column_is_the_unit_where_a_row_is() -> None:
    with pytest.raises(InvalidQuery, match="the owner declared a row"):
        split_query(CLAUSE.format("privacy_unit_column = patient_id") + "COUNT(*) FROM visits", SCHEMA, ROW)


def test_two_clauses_say_the_same_or_are_refused() -> None:
    one, other = (CLAUSE.format(f"epsilon = {e}") + "COUNT(*) FROM visits" for e in (0.5, 0.25))
    assert without_clause(f"{one} UNION ALL {one}")[1].epsilon == Fraction(1, 2)
    with pytest.raises(InvalidQuery, match="say different things"):
        without_clause(f"{one} UNION ALL {other}")


def test_a_text_pays_what_it_says(curator: Curator) -> None:
    text = (
        CLAUSE.format("epsilon = 0.5, delta = 1e-9, privacy_unit_column = P")
        + "w, COUNT(*) FROM visits GROUP BY w"
    )
    preview, answer = curator.preview(text), curator.sql(text)
    assert (preview.epsilon, preview.delta) == (answer.epsilon, answer.delta)
    assert answer.epsilon <= 0.5  # integer scales are rounded up, so a little less may be spent
    assert (answer.epsilon, answer.delta) == pytest.approx((0.5, 1e-9), rel=1e-6)
    again = curator.sql("SELECT w, COUNT(*) FROM visits GROUP BY w", epsilon=0.5, delta=1e-9)
    assert again.again
    assert curator.sql(text, epsilon=0.5).again


@pytest.mark.parametrize("beside", [{"epsilon": 0.4}, {"delta": 1e-8}, {"within": 10}])
def test_another_price_beside_it_is_refused(curator: Curator, beside: dict[str, float]) -> None:
    text = CLAUSE.format("epsilon = 0.5, delta = 1e-9") + "COUNT(*) FROM visits"
    head = curator.ledger.head()
    with pytest.raises(InvalidQuery, match=r"beside it .* is said.*nothing was charged"):
        curator.sql(text, **beside)
    assert curator.ledger.head() == head


def test_a_text_without_a_price_still_needs_one(curator: Curator) -> None:
    with pytest.raises(InvalidParameter, match=r"either epsilon= .* or within="):
        curator.sql(CLAUSE.format("max_groups_contributed = 1") + "COUNT(*) FROM visits")
