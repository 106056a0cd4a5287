"""Refusals name what was written, say what to type next, and say nothing that cannot be followed."""

from __future__ import annotations

import re

import pytest

from deniable.errors import InvalidQuery
from deniable.sql.after.split import split_query
from deniable.sql.functions.refused import REFUSED
from deniable.sql.read import hints
from deniable.sql.read.parse import NODES
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.types import FLOAT, INTEGER, TEXT
from deniable.units import Unit
from tests.sql.corpus import tables
from tests.sql.hospital import PATIENT, SCHEMA

TEACHES = {
    "SELECT AVG(dayz) FROM visits": 'no column "dayz" here. Did you mean days?',
    "SELECT COUNT(*) FROM visit": 'no table "visit". Did you mean visits?',
    "SELECT AVG(MONTH(days)) FROM visits": "MONTH expects a DATE or TIMESTAMP, got INTEGER.",
    "SELECT AVG(EXTRACT(month FROM days)) FROM visits": "EXTRACT expects a DATE or TIMESTAMP, got INTEGER.",
    "SELECT lenght(ward), COUNT(*) FROM visits GROUP BY 1": "LENGHT is not answered. Did you mean LENGTH?",
    'SELECT COUNT(*) FROM visits WHERE diagnosis = "flu"': "A text stands in single quotes: 'flu'.",
    "SELECT LAG(days) OVER (ORDER BY seen) FROM visits": "LAG OVER (…) is not answered. Over private rows",
    "SELECT json(ward), COUNT(*) FROM visits GROUP BY 1": "JSON is not answered.",
    "SELECT COUNT(* FROM visits": 'at "FROM"',
    "SELECT medain(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY 1)": "Did you mean MEDIAN?",
}


@pytest.mark.parametrize("text", TEACHES)
def test_a_refusal_teaches(text: str) -> None:
    with pytest.raises(InvalidQuery, match=re.escape(TEACHES[text])):
        split_query(text, SCHEMA, PATIENT)


@pytest.mark.parametrize("text", ["SELECT AVG(hours-per-week) FROM adult", "SELECT AVG(hours) FROM adult"])
def test_a_name_that_needs_quotes_is_given_with_them(text: str) -> None:
    with pytest.raises(InvalidQuery, match=r'stand in double quotes: "hours-per-week"\.'):
        split_query(text, tables.schema("census"), tables.unit("census"))
    split_query('SELECT AVG("hours-per-week") FROM adult', tables.schema("census"), tables.unit("census"))


STAYS = Schema(
    (
        TableInfo(
            "ward_stays_2024",
            (
                ColumnInfo("Patient No.", TEXT),
                ColumnInfo("Length of stay (days)", INTEGER),
                ColumnInfo("Bill (EUR)", FLOAT),
            ),
        ),
    )
)
"""Names as spreadsheets have them."""


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "SELECT AVG(Length of stay) FROM ward_stays_2024",
            'at "of". Names with other characters than letters, digits and _ stand in double quotes: '
            '"Length of stay (days)".',
        ),
        ("SELECT COUNT(DISTINCT patient no.) FROM ward_stays_2024", 'double quotes: "Patient No."'),
        ("SELECT SUM(Bill (EUR)) FROM ward_stays_2024", "BILL is not answered. Names with other characters"),
        ("SELECT COUNT(*) FROM Ward stays 2024", "Did you mean ward_stays_2024?"),
    ],
)
def test_a_name_of_several_words_is_given_as_it_is_written(text: str, hint: str) -> None:
    with pytest.raises(InvalidQuery, match=re.escape(hint)):
        split_query(text, STAYS, Unit.row())


def test_a_text_in_quotes_is_no_name() -> None:
    with pytest.raises(InvalidQuery, match="could not be read") as refusal:
        split_query("SELECT COUNT(*) FROM t WHERE x = 'Bill (EUR)' 7", STAYS, Unit.row())
    assert "double quotes" not in str(refusal.value)


def test_a_list_of_columns_can_be_typed_as_it_stands() -> None:
    assert hints.in_quotes("hours-per-week") == '"hours-per-week"'
    with pytest.raises(InvalidQuery, match=r'The columns are: age, "capital-gain"'):
        split_query("SELECT AVG(zzzz) FROM adult", tables.schema("census"), tables.unit("census"))


CALLED = re.compile(r"\b([A-Za-z_]{3,})\(")


def test_every_function_that_a_hint_names_is_answered() -> None:
    """A hint that leads to another refusal teaches nothing."""
    known = {*hints.known_functions(), "rank", "row_number", "first_value", "corr", "covar_pop"}
    for way_out in {*REFUSED.values(), *NODES.values()}:
        for word in CALLED.findall(way_out):
            assert word.lower() in known, (word, way_out)


def test_a_function_that_is_far_from_all_others_gets_no_guess() -> None:
    assert "Did you mean" not in hints.of_function("asin")
    assert "Did you mean" not in hints.of_function("quux")


@pytest.mark.parametrize(
    "call", ["REGR_SLOPE(cost, cost)", "GEOMEAN(cost)", "REGR_AVGX(cost, cost)", "COVAR_SAMP(cost, cost)"]
)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT {} FROM stays",
        "WITH t AS (SELECT {} AS x FROM stays) SELECT x FROM t",
        "WITH t AS (SELECT ward, {} AS x FROM stays GROUP BY ward) SELECT ward, x FROM t ORDER BY x",
    ],
)
def test_what_is_answered_alone_is_answered_inside_with(call: str, text: str) -> None:
    """Its parts were named by the letters that stand in the query where they stand in what it is short for: WIT."""
    assert split_query(text.format(call), tables.schema("hospital"), tables.unit("hospital")).blocks
