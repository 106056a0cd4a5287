"""What cannot be NULL is known from declarations and conditions alone, and an average of it shares the count of all rows."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from deniable.errors import InvalidParameter
from deniable.randomness import SeededRandom
from deniable.sql.after.canonical import normal
from deniable.sql.engines import open_engine
from deniable.sql.plan.measures.totals import Count
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import Schema
from deniable.sql.schema.file import parse, save
from deniable.units import Unit
from tests.sql.hospital import PATIENT, SCHEMA, VISITS

VISITS_WITHOUT = replace(
    VISITS, columns=tuple(replace(c, nulls=c.name not in ("days", "visit_id")) for c in VISITS.columns)
)
DECLARED = replace(SCHEMA, tables=(VISITS_WITHOUT, *SCHEMA.tables[1:]))


def counts(text: str, schema: Schema = DECLARED) -> int:
    """How many counts are measured for a query."""
    made = plan(check(text, schema, PATIENT), PATIENT, Terms(epsilon=1, delta=1e-6))
    return sum(isinstance(measure, Count) for measure in made.measures)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*), SUM(days), AVG(days), COUNT(days) FROM visits",
        "SELECT COUNT(*), AVG(d) FROM (SELECT patient_id, days AS d FROM visits) AS t",
        "SELECT COUNT(*), AVG(CLAMP(days, 1, 9)), STDDEV(days) FROM visits",
        "SELECT COUNT(*), AVG(stars) FROM visits WHERE stars IS NOT NULL",
        "SELECT COUNT(*), AVG(stars) FROM visits WHERE stars > 2 AND ward = 'A'",
        "SELECT COUNT(*), AVG(stars) FROM visits WHERE stars IN (1, 2) OR stars BETWEEN 4 AND 5",
        "SELECT COUNT(*), AVG(COALESCE(stars, 1)), AVG(CASE WHEN urgent THEN 1 ELSE 0 END) FROM visits",
        "SELECT COUNT(*) FILTER (WHERE stars > 2), AVG(stars) FILTER (WHERE stars > 2) FROM visits",
        "SELECT COUNT(*), AVG(days) FROM visits JOIN wards USING (ward)",
        "SELECT COUNT(*), AVG(days) FROM (SELECT patient_id, days FROM visits UNION ALL SELECT patient_id, days FROM visits) t",
        "SELECT COUNT(*), AVG(n) FROM (SELECT patient_id, LEAST(COUNT(*), 9) AS n FROM visits GROUP BY patient_id) AS t",
    ],
)
def test_one_count_serves_what_cannot_be_null(text: str) -> None:
    assert counts(text) == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*), AVG(stars) FROM visits",
        "SELECT COUNT(*), AVG(stars) FROM visits WHERE stars > 2 OR ward = 'A'",
        "SELECT COUNT(*), AVG(stars) FROM visits WHERE stars IS NULL",
        "SELECT COUNT(*), AVG(CASE WHEN urgent THEN 1 END) FROM visits",
        "SELECT COUNT(*), AVG(days / stars) FROM visits",
        "SELECT COUNT(*), AVG(NULLIF(days, 3)) FROM visits",
        "SELECT COUNT(*), AVG(floor) FROM visits JOIN wards USING (ward)",
        "SELECT COUNT(*), AVG(days) FROM patients LEFT JOIN visits ON id = patient_id",
        "SELECT COUNT(*) FILTER (WHERE urgent), AVG(days) FROM visits",
        "SELECT COUNT(*), AVG(n) FROM (SELECT patient_id, days AS n FROM visits UNION ALL SELECT patient_id, stars FROM visits)",
    ],
)
def test_what_may_be_null_is_counted_by_itself(text: str) -> None:
    assert counts(text.replace("AVG(floor)", "AVG(CLAMP(floor, 0, 9))")) == 2


def test_a_left_join_makes_nulls_of_what_has_none() -> None:
    text = "SELECT COUNT(*), COUNT(visit_id) FROM patients LEFT JOIN visits ON id = patient_id"
    assert counts(text) == 2


def test_what_is_not_declared_is_asked_under_its_old_key() -> None:
    text = "SELECT COUNT(*), AVG(days) FROM visits"
    assert normal(check(text, SCHEMA, PATIENT)) == normal(check(text, DECLARED, PATIENT))
    assert str(SCHEMA) == repr(SCHEMA) == repr(DECLARED)
    assert str(DECLARED) != str(SCHEMA)


def test_a_file_says_it() -> None:
    text = "tables: {t: {columns: {x: {type: integer, bounds: [0, 9], nulls: false}, y: integer}}}"
    x, y = parse(text).tables[0].columns
    assert not x.nulls
    assert y.nulls
    assert parse(save(parse(text))) == parse(text)
    with pytest.raises(InvalidParameter, match="expected nulls as true or false, got 'no'"):
        parse("tables: {t: {columns: {x: {type: integer, nulls: 'no'}}}}")


def integers(rows: dict[str, list[Any]]) -> list[dict[Any, Any]]:
    text = (
        "tables: {t: {unit: id, columns: {id: integer, x: {type: integer, bounds: [0, 100], nulls: false}}}}"
    )
    schema, unit = parse(text), Unit.column("id", max_rows=2)
    made = plan(check("SELECT COUNT(*), SUM(x), AVG(x) FROM t", schema, unit), unit, Terms(epsilon=1))
    with closing(open_engine(pa.table(rows), schema)) as engine:
        return [dict(part) for part in made.measure(engine, "0").integers()[0].parts]


def test_a_false_declaration_moves_nothing_beyond_its_sensitivity() -> None:
    """NULLs there all the same: a person with them still moves the count by two rows and the centred sum by two halves."""
    others = {"id": [1, 1, 2], "x": [5, None, None]}
    hers: dict[str, list[Any]] = {"id": [7, 7, 7], "x": [None, None, 100]}
    before, after = integers(others), integers({k: others[k] + hers[k] for k in others})
    moved = [after[i][()] - before[i].get((), 0) for i in range(2)]
    assert 0 < moved[0] <= 2 * 2**20
    assert 0 < abs(moved[1]) <= 2 * 2**20 * 50


def test_a_count_beside_a_sum_and_an_average_is_as_good_as_half_of_epsilon() -> None:
    """Twice the error of a third noisy part, until it was shared."""
    terms, text = Terms(epsilon=1), "SELECT COUNT(*), SUM(days), AVG(days) FROM visits"
    shared, own = (plan(check(text, schema, PATIENT), PATIENT, terms) for schema in (DECLARED, SCHEMA))
    assert (
        shared.expected()[0].within
        <= 1.05
        * plan(
            check("SELECT COUNT(*) FROM visits", DECLARED, PATIENT), PATIENT, Terms(epsilon=Fraction(1, 2))
        )
        .expected()[0]
        .within
    )
    assert shared.expected()[0].within < 0.7 * own.expected()[0].within


def test_the_answer_is_that_of_plain_sql() -> None:
    text = (
        "tables: {t: {unit: id, columns: {id: integer, x: {type: integer, bounds: [0, 100], nulls: false}}}}"
    )
    schema, unit = parse(text), Unit.column("id", max_rows=4)
    rows = pa.table({"id": list(range(4000)), "x": [i % 100 for i in range(4000)]})
    query = "SELECT COUNT(*) AS n, SUM(x) AS total, AVG(x) AS mean FROM t"
    made = plan(check(query, schema, unit), unit, Terms(epsilon=1000))
    with closing(open_engine(rows, schema)) as engine:
        answer = made(engine, rng=SeededRandom(1)).table.to_pylist()[0]
    truth = duckdb.connect().execute(query.replace("FROM t", "FROM rows")).fetchone()
    assert truth is not None
    assert [answer["n"], answer["total"], answer["mean"]] == pytest.approx(list(truth), rel=1e-3)
