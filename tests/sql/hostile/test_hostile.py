"""Every query of queries.yaml is refused with its message or answered within its loss,
on real engines, by what text says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deniable.errors import InvalidQuery
from tests.sql.engines.real import ENGINES
from tests.sql.hostile.neighbours import assert_alike, hospitals, planned

HERE = Path(__file__).parent
QUERIES: dict[str, list[str]] = yaml.safe_load((HERE / "queries.yaml").read_text(encoding="utf-8"))
OUTCOMES: dict[str, str] = yaml.safe_load((HERE / "outcomes.yaml").read_text(encoding="utf-8"))
ALL = [query for queries in QUERIES.values() for query in queries]
ANSWERED = [query for query in ALL if OUTCOMES[query] == "answered"]
FEW = ANSWERED[::12]
"""What other engines are asked."""
SOME = [
    query
    for queries in QUERIES.values()
    for query in [query for query in queries if OUTCOMES[query] == "answered"][::3]
]
"""A third of what is answered, of every kind."""


def outcome(text: str) -> str:
    """ "answered", or the message of the refusal."""
    try:
        planned(text)
    except InvalidQuery as refusal:
        return str(refusal)
    return "answered"


def test_there_are_enough_of_them() -> None:
    assert len(ALL) >= 300
    assert len(set(ALL)) == len(ALL)
    assert set(OUTCOMES) == set(ALL)
    assert 60 <= len(ANSWERED) <= len(ALL) - 200


@pytest.mark.parametrize("name", QUERIES)
def test_each_is_refused_or_answered_as_written_down(name: str) -> None:
    found = {query: outcome(query) for query in QUERIES[name]}
    assert found == {query: OUTCOMES[query] for query in QUERIES[name]}


def test_a_refusal_says_what_was_not_done() -> None:
    assert all(OUTCOMES[q] == "answered" or "nothing was charged" in OUTCOMES[q].lower() for q in ALL)


def test_of_every_kind_some_stay_within_their_loss_on_duckdb() -> None:
    for query in SOME:
        assert_alike(planned(query), hospitals("duckdb"))


@pytest.mark.parametrize("kind", ENGINES[1:])
def test_some_stay_within_their_loss_on_the_other_engines(kind: str) -> None:
    for query in FEW:
        assert_alike(planned(query), hospitals(kind))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ENGINES)
def test_all_stay_within_their_loss(kind: str) -> None:
    for query in ANSWERED:
        assert_alike(planned(query), hospitals(kind))


DEEP = {
    "parentheses": "SELECT COUNT(*) FROM visits WHERE " + "(" * 5000 + "age" + ")" * 5000 + " > 1",
    "not": "SELECT COUNT(*) FROM visits WHERE " + "NOT " * 5000 + "smoker",
    "minus": "SELECT COUNT(*) FROM visits WHERE " + "- " * 5000 + "age > 1",
    "sum": "SELECT COUNT(*) FROM visits WHERE " + "age + " * 5000 + "age > 1",
    "or": "SELECT COUNT(*) FROM visits WHERE " + "age = 1 OR " * 5000 + "age = 2",
    "case": "SELECT COUNT(*) FROM visits WHERE "
    + "CASE WHEN smoker THEN " * 2000
    + "1"
    + " END" * 2000
    + " > 1",
    "subqueries": "SELECT COUNT(*) FROM " + "(SELECT age FROM " * 1000 + "visits" + ")" * 1000,
    "functions": "SELECT SUM(" + "abs(" * 3000 + "age" + ")" * 3000 + ") FROM visits",
    "joins": "SELECT COUNT(*) FROM visits a0"
    + "".join(f" JOIN visits a{i} USING (patient_id)" for i in range(1, 500)),
    "unions": "SELECT COUNT(*) FROM (" + " UNION ALL ".join(["SELECT age FROM visits"] * 2000) + ")",
    "columns": "SELECT " + ", ".join(["SUM(age)"] * 5000) + " FROM visits",
    "in": "SELECT COUNT(*) FROM visits WHERE age IN (" + ", ".join(map(str, range(20_000))) + ")",
    "a long text": "SELECT COUNT(*) FROM visits WHERE note = '" + "x" * 1_000_000 + "'",
    "a long name": "SELECT COUNT(*) AS " + "x" * 100_000 + " FROM visits",
    "a comment": "SELECT COUNT(*) /* " + "x" * 1_000_000 + " */ FROM visits",
    "comments": "SELECT COUNT(*) FROM visits " + "/* */ " * 20_000,
    "casts": "SELECT COUNT(*) FROM visits WHERE age" + "::BIGINT" * 4000 + " > 1",
    "arrays": "SELECT COUNT(*) FROM visits WHERE " + "[" * 5000 + "]" * 5000 + " IS NULL",
    "withs": "WITH "
    + ", ".join(f"t{i} AS (SELECT age FROM {'visits' if not i else f't{i - 1}'})" for i in range(500))
    + " SELECT COUNT(*) FROM t499",
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_and_huge_queries_are_refused_in_words_or_answered(name: str) -> None:
    said = outcome(DEEP[name])
    if said == "answered":
        assert_alike(planned(DEEP[name]), hospitals("duckdb"))
    assert len(said) < 1000


def test_two_hundred_asks_get_one_release_and_pay_once(tmp_path: Path) -> None:
    """Averaging needs fresh noise: asked again, the same query returns what was released."""
    import pyarrow.parquet

    from deniable import Budget, Curator
    from tests.sql.hostile.neighbours import PLAIN, UNIT, table

    pyarrow.parquet.write_table(table(PLAIN), tmp_path / "visits.parquet")
    with Curator.open(tmp_path / "visits.parquet", unit=UNIT, limit=Budget(1, 1e-6)) as curator:
        said: list[Any] = [curator.sql("SELECT COUNT(*) FROM visits", epsilon=0.5).value for _ in range(200)]
        assert all(answer.equals(said[0]) for answer in said)
        assert curator.account.spent().epsilon <= 0.5 + 1e-9
