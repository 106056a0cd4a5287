"""Ordinary queries, as people and dashboards write them: each is answered, or refused for the reason that is written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from deniable import Budget, Curator
from deniable.errors import InvalidQuery
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.tree import Query
from tests.sql.corpus.page import PAGE, page
from tests.sql.corpus.queries import QUERIES, Written
from tests.sql.corpus.tables import DATA_SETS, schema, tables, unit
from tests.sql.engines.real import opened

TERMS = Terms(epsilon=1, delta=1e-6)
PARTS = [query for query in QUERIES if query.refused is None][::9]
"""Every ninth that is answered is measured on the other engines too."""


@contextmanager
def opened_curator(name: str, place: Path) -> Iterator[Curator]:
    with Curator.open(
        dict(tables(name)),
        unit=unit(name),
        limit=Budget(10_000, 0.01),
        schema=schema(name),
        ledger=f"sqlite:///{place}/privacy.db",
        account=name,
    ) as curator:
        yield curator


def outcome(curator: Curator, query: Written, asked: Collection[Written]) -> str:
    """ "answered", or the refusal; one that is not among those asked is priced, which is all but the release."""
    try:
        if query in asked:
            curator.sql(query.text, epsilon=1, delta=1e-6)
        else:
            curator.preview(query.text, epsilon=1, delta=1e-6)
    except InvalidQuery as refusal:
        return str(refusal)
    return "answered"


def test_there_are_enough_of_them_and_nine_of_ten_that_can_be_are_answered() -> None:
    known = Counter(query.kind for query in QUERIES)
    assert len(QUERIES) >= 250
    assert len({query.text for query in QUERIES}) == len(QUERIES)
    assert known["answered"] >= 0.9 * (known["answered"] + known["missing"])


@pytest.mark.parametrize("some", [PARTS, pytest.param(QUERIES, marks=pytest.mark.soak)], ids=["some", "all"])
@pytest.mark.parametrize("name", DATA_SETS)
def test_each_is_answered_or_refused_as_written_down(
    name: str, some: Sequence[Written], tmp_path: Path
) -> None:
    with opened_curator(name, tmp_path) as curator:
        said = {query: outcome(curator, query, some) for query in QUERIES if query.data_set == name}
    odd = [(q.text, got) for q, got in said.items() if (q.refused or "answered") not in got]
    assert odd == []


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        pytest.param("postgres", PARTS, marks=pytest.mark.needs("postgres"), id="postgres"),
        # Spark takes a second for each.
        pytest.param("spark", PARTS[::8], marks=pytest.mark.needs("spark"), id="spark"),
        pytest.param(
            "spark", PARTS, marks=[pytest.mark.needs("spark"), pytest.mark.soak], id="more on spark"
        ),
    ],
)
def test_some_are_measured_on_another_engine(kind: str, some: Sequence[Written]) -> None:
    for name in sorted({query.data_set for query in some}):
        engine = opened(kind, tables(name), schema(name))
        for query in some:
            if query.data_set == name and (checked := _checked(query)) is not None:
                plan(checked, unit(name), TERMS).start.measure(engine, "5a17")


def _checked(query: Written) -> Query | None:
    """What one release answers; None for what is computed from several."""
    try:
        return check(query.text, schema(query.data_set), unit(query.data_set))
    except InvalidQuery:
        return None


def test_the_page_shows_them_all() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "Write it anew: python -m tests.sql.corpus.page"
