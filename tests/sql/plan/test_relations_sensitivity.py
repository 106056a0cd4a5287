"""One person moves no statistic of a query over several tables by more than its noise is made for.

Joins, subqueries, series, aggregates of each person and what a bound on rows leaves out, by brute force: every integer
that a plan measures, on small tables of odd values with and without somebody."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from deniable.accounting import epsilon as epsilon_of
from deniable.errors import InvalidQuery
from deniable.loss import exact
from deniable.sql.dialects import DUCKDB
from deniable.sql.engines import Engine, Statement
from deniable.sql.engines.engine import view
from deniable.sql.engines.stored.fields import columns
from deniable.sql.plan.keys import combinations
from deniable.sql.plan.measures.measure import read_cells
from deniable.sql.plan.measures.totals import LeftOut
from deniable.sql.plan.noise import Family, Noise, concentrated
from deniable.sql.plan.plan import NoisyMeasure, Plan
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.plan.settled import Settled
from deniable.sql.read.query import check
from deniable.sql.schema.declare import Schema, TableInfo
from deniable.sql.types import BOOLEAN, DATE, FLOAT, INTEGER, TEXT, TIMESTAMP, decimal
from deniable.sql.write.contributions import TOTAL
from deniable.units import Unit
from tests.sql.hospital import column
from tests.sql.plan.test_sensitivity import check_noise, check_rank
from tests.sql.planned import SALT, Around, Duck

PATIENTS = TableInfo(
    "patients",
    (
        column("id", INTEGER),
        column("age", INTEGER, 0, 120),
        column("ward", TEXT),
        column("born", DATE),
        column("weight", FLOAT),
    ),
    unit="id",
)
VISITS = TableInfo(
    "visits",
    (
        column("patient_id", INTEGER),
        column("visit_id", INTEGER),
        column("days", INTEGER, 0, 60),
        column("cost", decimal(2), 0, 1000),
        column("score", FLOAT, 0, 1),
        column("diagnosis", TEXT, keys=("asthma", "flu")),
        column("ward", TEXT),
        column("admitted", DATE),
        column("seen", TIMESTAMP),
        column("urgent", BOOLEAN),
    ),
    unit="patient_id",
)
LABS = TableInfo(
    "labs",
    (
        column("visit", INTEGER),
        column("code", TEXT),
        column("value", FLOAT, -10, 10),
        column("taken", TIMESTAMP),
        column("n", INTEGER, -5, 5),
    ),
    path=(("visit", "visits", "visit_id"),),
)
WARDS = TableInfo("wards", (column("ward", TEXT), column("floor", INTEGER)), public=True, unique=("ward",))
DAYS = TableInfo("days", (column("day", DATE), column("holiday", BOOLEAN)), public=True, unique=("day",))
SCHEMA = Schema((PATIENTS, VISITS, LABS, WARDS, DAYS))
KINDS = {
    "patients": (pa.int64(), pa.int64(), pa.string(), pa.date32(), pa.float64()),
    "visits": (
        *(pa.int64(), pa.int64(), pa.int64(), pa.decimal128(18, 2), pa.float64(), pa.string(), pa.string()),
        *(pa.date32(), pa.timestamp("us"), pa.bool_()),
    ),
    "labs": (pa.int64(), pa.string(), pa.float64(), pa.timestamp("us"), pa.int64()),
    "wards": (pa.string(), pa.int64()),
    "days": (pa.date32(), pa.bool_()),
}
WARD_ROWS = (("a", 1), ("b", 2), ("c", 2), (None, 3), ("", 4))
DAY_ROWS = ((0, True), (19723, False), (19724, True), (None, True))

# ------------------------------------------------------------------------------------------------ queries

V, P, L = "FROM visits v", "FROM patients p", "FROM labs l"
ON = "ON p.id = v.patient_id"
LAB = "ON l.visit = v.visit_id"
QUERIES = [
    # joins on the unit and along the declared path
    f"SELECT COUNT(*), SUM(v.days) {P} JOIN visits v {ON}",
    f"SELECT v.diagnosis, COUNT(*), AVG(p.age) {P} JOIN visits v {ON} GROUP BY 1",
    f"SELECT p.ward, COUNT(*), COUNT(DISTINCT p.id) {P} LEFT JOIN visits v {ON} GROUP BY p.ward",
    f"SELECT v.ward, SUM(v.cost) {P} RIGHT JOIN visits v {ON} GROUP BY v.ward",
    f"SELECT COUNT(*), SUM(p.age), SUM(v.days) {P} FULL JOIN visits v {ON}",
    f"SELECT COUNT(*), SUM(l.value) {V} JOIN labs l {LAB}",
    f"SELECT l.code, COUNT(*), SUM(v.days) {L} JOIN visits v {LAB} GROUP BY l.code",
    f"SELECT v.diagnosis, COUNT(l.code), SUM(l.n) {V} LEFT JOIN labs l {LAB} GROUP BY 1",
    f"SELECT COUNT(*), COUNT(v.days) {L} LEFT JOIN visits v {LAB}",
    f"SELECT COUNT(*), SUM(l.n) {V} FULL JOIN labs l {LAB}",
    f"SELECT COUNT(*) {P} JOIN visits v {ON} JOIN labs l {LAB}",
    f"SELECT p.ward, SUM(l.n), MAX(v.days) {P}, visits v, labs l WHERE p.id = v.patient_id AND l.visit = v.visit_id "
    "GROUP BY 1",
    f"SELECT COUNT(*) {L}, visits v, patients p WHERE v.visit_id = l.visit AND v.patient_id = p.id AND p.age > 20",
    f"SELECT COUNT(*), COUNT(DISTINCT v.ward) {P}, visits v WHERE (p.id = v.patient_id AND v.days > 3) "
    "OR (p.id = v.patient_id AND p.age > 5)",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND a.ward = b.ward",
    "SELECT COUNT(*), SUM(b.days) FROM visits a LEFT JOIN visits b ON a.visit_id = b.visit_id",
    "SELECT COUNT(*) FROM labs a JOIN labs b USING (patient_id)",
    f"SELECT COUNT(*) {V} JOIN labs l USING (patient_id)",
    "SELECT COUNT(*) FROM labs a JOIN labs b ON a.visit = b.visit",
    # beside each value of a list
    f"SELECT d, COUNT(*), SUM(days) {V} JOIN generate_series(0, 3) AS g(d) ON v.days >= d GROUP BY d",
    f"SELECT d, COUNT(*), COUNT(DISTINCT p.id) {P} JOIN visits v {ON}, generate_series(1, 2) AS g(d) WHERE p.age > d GROUP BY d",
    "SELECT lo, AVG(l.n), COUNT(*) FROM (VALUES (-5, 0), (-1, 5)) AS r(lo, hi) LEFT JOIN labs l ON l.n BETWEEN lo AND hi "
    "GROUP BY lo",
    f"SELECT COUNT(*) FROM (SELECT v.patient_id, d {V}, generate_series(1, 2) AS g(d)) x JOIN patients p ON p.id = x.patient_id",
    # public tables
    "SELECT floor, COUNT(*), SUM(days) FROM visits NATURAL JOIN wards GROUP BY floor",
    "SELECT w.floor, COUNT(*) FROM wards w LEFT JOIN visits v ON v.ward = w.ward GROUP BY 1",
    "SELECT w.floor, COUNT(*) FROM visits v FULL JOIN wards w ON v.ward = w.ward GROUP BY 1",
    "SELECT w.floor, AVG(v.score) FROM wards w, visits v WHERE v.ward = w.ward GROUP BY 1",
    "SELECT d.holiday, COUNT(*) FROM visits v JOIN days d ON CAST(v.seen AS DATE) = d.day GROUP BY 1",
    "SELECT d.holiday, SUM(v.days) FROM visits v LEFT JOIN days d ON d.day = v.admitted GROUP BY 1",
    f"SELECT w.floor, d.holiday, COUNT(*) {P} JOIN visits v {ON} JOIN wards w ON w.ward = p.ward "
    "LEFT JOIN days d ON d.day = v.admitted GROUP BY ROLLUP (1, 2)",
    f"SELECT COUNT(*) {V} WHERE ward IN (SELECT ward FROM wards WHERE floor > 1)",
    f"SELECT COUNT(*) {V} WHERE ward NOT IN (SELECT ward FROM wards WHERE floor < 3)",
    f"SELECT COUNT(*) {V} WHERE EXISTS (SELECT 1 FROM wards w WHERE w.ward = v.ward AND w.floor > 1)",
    f"SELECT COUNT(*), SUM(CLAMP((SELECT floor FROM wards w WHERE w.ward = v.ward), 0, 5)) {V}",
    f"SELECT COUNT(*) {V} WHERE days > (SELECT MIN(floor) FROM wards)",
    # subqueries over the same unit's rows
    f"SELECT COUNT(*) {P} WHERE EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.id AND v.days > 3)",
    f"SELECT ward, COUNT(*) {P} WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.id) GROUP BY 1",
    f"SELECT COUNT(*), SUM(days) {V} WHERE EXISTS (SELECT 1 FROM labs l WHERE l.visit = v.visit_id AND l.n > 0)",
    f"SELECT COUNT(*) {L} WHERE EXISTS (SELECT 1 FROM visits v WHERE v.visit_id = l.visit AND v.urgent)",
    f"SELECT COUNT(*) {V} WHERE visit_id IN (SELECT visit FROM labs WHERE value > 0)",
    f"SELECT COUNT(*) {V} WHERE visit_id NOT IN (SELECT visit FROM labs WHERE value > 0)",
    f"SELECT COUNT(*) {P} WHERE id IN (SELECT patient_id FROM visits WHERE diagnosis = 'flu')",
    f"SELECT COUNT(*) {P} WHERE id NOT IN (SELECT patient_id FROM visits GROUP BY patient_id HAVING COUNT(*) > 2)",
    f"SELECT COUNT(*) {V} WHERE ward IN (SELECT ward FROM patients p WHERE p.id = v.patient_id)",
    f"SELECT COUNT(*) {V} WHERE ward NOT IN (SELECT ward FROM patients p WHERE p.id = v.patient_id)",
    f"SELECT COUNT(*), SUM(CLAMP((SELECT COUNT(*) FROM visits v WHERE v.patient_id = p.id), 0, 9)) {P}",
    f"SELECT SUM(CLAMP((SELECT MAX(days) FROM visits v WHERE v.patient_id = p.id), 0, 60)) {P}",
    f"SELECT COUNT(*) {V} WHERE score > (SELECT AVG(score) FROM visits w WHERE w.patient_id = v.patient_id)",
    f"SELECT COUNT(*) {V} WHERE days = (SELECT MAX(days) FROM visits w WHERE w.patient_id = v.patient_id)",
    f"SELECT COUNT(*) {V} WHERE days NOT IN (SELECT n FROM labs l WHERE l.patient_id = v.patient_id GROUP BY n "
    "HAVING COUNT(*) > 1)",
    f"SELECT COUNT(*) {L} WHERE visit IN (SELECT visit_id FROM visits GROUP BY visit_id HAVING SUM(days) > 2)",
    f"SELECT CASE WHEN EXISTS (SELECT 1 FROM labs l WHERE l.visit = v.visit_id) THEN 'y' ELSE ward END AS k, COUNT(*) {V} "
    "GROUP BY k",
    # the same by more than equal columns
    f"SELECT COUNT(*) {V} WHERE EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id AND w.admitted > v.admitted "
    "AND w.admitted <= v.admitted + INTERVAL 30 DAY)",
    f"SELECT ward, COUNT(*) {V} WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id AND w.seen < v.seen "
    "AND w.ward = v.ward) GROUP BY ward",
    f"SELECT COUNT(*), SUM(l.n) {L} WHERE EXISTS (SELECT 1 FROM labs m WHERE m.visit = l.visit AND m.value <> l.value)",
    f"SELECT COUNT(*), SUM(CLAMP((SELECT COUNT(*) FROM visits w WHERE w.patient_id = p.id AND w.days > p.age), 0, 9)) {P}",
    f"SELECT COUNT(*) {V} WHERE days NOT IN (SELECT n FROM labs l WHERE l.patient_id = v.patient_id AND l.taken < v.seen)",
    f"SELECT COUNT(*) {P} JOIN visits v {ON} WHERE EXISTS (SELECT 1 FROM visits w WHERE w.patient_id = v.patient_id "
    "AND w.days > v.days AND w.days < p.age)",
    # what each person has
    "SELECT n, COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY 1) t GROUP BY n",
    "SELECT AVG(s), MAX(s) FROM (SELECT patient_id, SUM(days) AS s FROM visits GROUP BY 1) t",
    "SELECT SUM(s), COUNT(*) FILTER (WHERE s > 0.5) FROM (SELECT patient_id, SUM(score) AS s FROM visits GROUP BY 1) t",
    "SELECT SUM(CLAMP(s, -5, 5)) FROM (SELECT patient_id, SUM(value) AS s FROM labs GROUP BY 1) t",
    "SELECT ward, SUM(m) FROM (SELECT patient_id, ward, MIN(days) AS m FROM visits GROUP BY 1, 2) t GROUP BY 1",
    "SELECT COUNT(*) FROM (SELECT patient_id, bool_or(urgent) AS u, bool_and(urgent) AS a FROM visits GROUP BY 1) t "
    "WHERE u AND NOT a",
    "SELECT COUNT(*), AVG(c) FROM (SELECT patient_id, SUM(cost) AS c, MAX(admitted) AS m FROM visits GROUP BY 1) t "
    "WHERE m > DATE '2020-01-01'",
    "SELECT code, COUNT(*) FROM (SELECT DISTINCT patient_id, code FROM labs) t GROUP BY code",
    "SELECT k, COUNT(*) FROM (SELECT patient_id, COUNT(DISTINCT ward) AS k, AVG(score) AS a FROM visits GROUP BY 1) t "
    "WHERE a >= 0 GROUP BY k",
    # windows within the rows of one person
    "SELECT diagnosis, COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY seen) AS r "
    "FROM visits) t WHERE r = 1 GROUP BY 1",
    "SELECT r, COUNT(*), SUM(days) FROM (SELECT days, RANK() OVER (PARTITION BY patient_id ORDER BY ward DESC) AS r "
    "FROM visits) t GROUP BY r",
    "SELECT before, diagnosis, COUNT(*) FROM (SELECT diagnosis, LAG(diagnosis) OVER (PARTITION BY patient_id ORDER BY "
    "admitted) AS before FROM visits) t GROUP BY 1, 2",
    "SELECT COUNT(*), SUM(CLAMP(gap, 0, 99)) FROM (SELECT date_diff('day', admitted, LEAD(admitted) OVER (PARTITION BY "
    "patient_id ORDER BY admitted)) AS gap FROM visits) t WHERE gap >= 0",
    "SELECT SUM(total), COUNT(DISTINCT patient_id) FROM (SELECT patient_id, SUM(days) OVER (PARTITION BY patient_id "
    "ORDER BY seen ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS total FROM visits) t WHERE total > 2",
    f"SELECT p.ward, COUNT(*) {P} JOIN (SELECT patient_id, ward, days FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION "
    "BY patient_id, ward ORDER BY days DESC) = 1) v ON p.id = v.patient_id GROUP BY 1",
    "SELECT COUNT(*), SUM(n) FROM (SELECT n, COUNT(*) OVER (PARTITION BY patient_id) AS many FROM labs) t WHERE many > 1",
    # stars, WITH, UNION ALL
    "SELECT COUNT(*), SUM(days) FROM (SELECT * FROM visits WHERE days > 1) t",
    "SELECT COUNT(*), SUM(days) FROM (SELECT * EXCLUDE (score) FROM visits) t JOIN patients p ON p.id = t.patient_id",
    "WITH a AS (SELECT * FROM visits), b AS (SELECT patient_id, days FROM a WHERE urgent) SELECT SUM(days) FROM b",
    "WITH a AS (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY 1), b AS (SELECT p.id, p.ward, a.n FROM patients p "
    "LEFT JOIN a ON a.patient_id = p.id) SELECT ward, COUNT(n), SUM(n) FROM b GROUP BY ward",
    "SELECT COUNT(*), SUM(x) FROM (SELECT patient_id, days AS x FROM visits UNION ALL SELECT id, age FROM patients) t",
    "SELECT w, COUNT(*) FROM (SELECT ward AS w FROM visits UNION ALL SELECT code FROM labs UNION ALL "
    "SELECT ward FROM patients) t GROUP BY w",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM visits UNION ALL SELECT patient_id FROM visits) t JOIN patients p "
    "ON p.id = t.patient_id",
    "SELECT ward, COUNT(*) FROM (SELECT ward FROM visits UNION ALL SELECT ward FROM patients) t GROUP BY ward",
    "SELECT COUNT(*) FROM (SELECT patient_id FROM visits UNION SELECT id FROM patients) t",
    "SELECT w, COUNT(*) FROM (SELECT patient_id, ward AS w FROM visits INTERSECT SELECT id, ward FROM patients) t GROUP BY w",
    "SELECT COUNT(*), SUM(n) FROM (SELECT patient_id, days AS n FROM visits EXCEPT SELECT patient_id, n FROM labs) t",
    f"SELECT ward, COUNT(*) {P} LEFT JOIN (SELECT DISTINCT patient_id FROM visits WHERE urgent) v {ON} "
    "WHERE v.patient_id IS NULL GROUP BY ward",
    f"SELECT COUNT(*) FILTER (WHERE v.patient_id IS NOT NULL), CORR(p.age, v.n) {P} LEFT JOIN (SELECT patient_id, "
    f"CLAMP(MIN(days), 0, 9) AS n FROM visits GROUP BY 1) v {ON}",
    # dates, texts, axes, keys
    "SELECT g.h, COUNT(*) FROM generate_series(0, 3) AS g(h) LEFT JOIN visits v ON v.days = g.h GROUP BY 1",
    f"SELECT g.h, COUNT(*) {V} JOIN generate_series(0, 23) AS g(h) ON EXTRACT(hour FROM v.seen) = g.h GROUP BY 1",
    "SELECT g.d, COUNT(*) FROM generate_series(DATE '2024-01-01', DATE '2024-03-01', INTERVAL 1 MONTH) AS g(d) "
    "LEFT JOIN visits v ON DATE_TRUNC('month', v.admitted) = g.d GROUP BY 1",
    f"SELECT DATE_TRUNC('month', seen), COUNT(*) {V} GROUP BY 1",
    f"SELECT admitted, COUNT(*) {V} GROUP BY 1",
    f"SELECT seen, COUNT(*) {V} GROUP BY 1",
    f"SELECT EXTRACT(year FROM admitted) AS y, COUNT(*), SUM(days) {V} GROUP BY y",
    f"SELECT COUNT(*) {V} WHERE admitted + INTERVAL 1 MONTH > DATE '2024-01-01' AND seen - INTERVAL 3 DAY < "
    "TIMESTAMP '2030-01-01'",
    f"SELECT SUM(CLAMP(DATE_DIFF('day', p.born, v.admitted), 0, 100)) {P} JOIN visits v {ON}",
    f"SELECT strftime(admitted, '%Y-%m') AS m, COUNT(*) {V} GROUP BY m",
    f"SELECT MIN(admitted), MAX(seen) {V}",
    f"SELECT REPLACE(ward, 'a', 'x') AS r, COUNT(*) {V} GROUP BY r",
    f"SELECT COUNT(*) {V} WHERE regexp_matches(ward, '^[ab]') OR ward LIKE '%!%' OR ward SIMILAR TO 'a*'",
    f"SELECT UPPER(TRIM(ward)), COUNT(*), COUNT(DISTINCT days) {V} GROUP BY 1",
    f"SELECT ROUND(score, 1) AS r, COUNT(*) {V} GROUP BY r",
    f"SELECT ROUND(value) AS r, COUNT(*), SUM(n) {L} GROUP BY r",
    f"SELECT FLOOR(cost / 10) AS r, COUNT(*) {V} GROUP BY r",
    f"SELECT COUNT(*), SUM(days * days), SUM(CLAMP(1.0 / NULLIF(days, 0), 0, 1)) {V}",
    f"SELECT MEDIAN(days), STDDEV(score), COUNT(DISTINCT patient_id) {V}",
    f"SELECT CASE WHEN days > 3 THEN 'long' ELSE ward END AS k, COUNT(*) {V} GROUP BY CUBE (k)",
]


# ------------------------------------------------------------------------------------------------ tables

INTEGERS = [None, 0, 1, 2, 3, 7, 61, -1, 2**63 - 1, -(2**63)]
FLOATS = [None, math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, -0.0, 0.1, 0.2, 0.3, 0.7, 1.0, 5e-324]
TEXTS = [None, "", "a", "b", "A ", "c", "a\n!", "\\", "[", "%_", "ß\u0301", "😀" * 80, "\x00a"]
DATES = [None, 0, 19723, 19724, 19754, 2**31 - 1, -(2**31), 2932896, 2932897, -719162, -719163, 60000]
TIMES = [
    None,
    0,
    2**63 - 1,
    -(2**63),
    1704067200000000,
    1704110400000001,
    -62135596800000000,
    253402300800000000,
]
COSTS = [None, 0, 1, 999, 100000, 10**17, -(10**17)]
KEYS = [None, 1, 2, 3, 4, 5]
PEOPLE = [1, 2, 3, None]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Tables:
    """The rows of the private tables; in patients and visits the person comes first."""

    patients: list[Row]
    visits: list[Row]
    labs: list[Row]

    def engine(self) -> Duck:
        connection = duckdb.connect(config={"threads": 1})
        connection.execute("SET TimeZone = 'UTC'").fetchall()
        private = {"patients": self.patients, "visits": self.visits, "labs": self.labs}
        for name, rows in (private | {"wards": WARD_ROWS, "days": DAY_ROWS}).items():
            info = next(table for table in SCHEMA.tables if table.name == name)
            connection.register("_stored", stored(info, rows))
            body = view(info, columns(connection, "_stored"), "_stored", DUCKDB, SCHEMA.identities(name))
            connection.execute(f"CREATE TABLE {name} AS {body}").fetchall()
        return Duck(connection)

    def without(self, person: int) -> Tables:
        """Without a person; rows that lead to somebody else too stay. In another order, which changes nothing."""
        visits = [row for row in self.visits if row[0] != person]
        own = {row[1] for row in self.visits if row[0] == person} - {row[1] for row in visits}
        patients = [row for row in self.patients if row[0] != person]
        return Tables(patients[::-1], visits[::-1], [row for row in self.labs if row[0] not in own][::-1])

    def without_row(self, rng: Random) -> Tables:
        """Without one row of any table."""
        tables = [list(self.patients), list(self.visits), list(self.labs)]
        table = rng.choice([each for each in tables if each] or [[0]])
        del table[rng.randrange(len(table))]
        return Tables(*tables)


def stored(info: TableInfo, rows: Sequence[Row]) -> pa.Table:
    kinds = KINDS[info.name]
    arrays = [_array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
    return pa.table(arrays, names=[c.name for c in info.columns])


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Days, moments and cents are given as whole numbers; some days are none of Python's."""
    if pa.types.is_decimal(kind):
        return pa.array([None if v is None else Decimal(v).scaleb(-2) for v in values], kind)
    whole = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64()}.get(kind)
    return pa.array(values, kind) if whole is None else pa.array(values, whole).cast(kind)


def tables(rng: Random) -> Tables:
    """Three people and nobody, of whom the first may have very many rows. Everybody may repeat everything, be in one
    table only, and name the visits of somebody else."""

    def rows(most: int, *values: list[Any]) -> list[Row]:
        return [tuple(map(rng.choice, values)) for _ in range(rng.randrange(most))]

    ordinary = rng.random() < 0.5
    wholes, texts, days = (
        ([0, 1, 2, 5], ["a", "b"], [19723, 19724, 19754]) if ordinary else (INTEGERS, TEXTS, DATES)
    )
    floats = [0.1, 0.2, 0.3, 0.7] if ordinary else FLOATS
    diagnoses, urgent = ["asthma", "flu", "x", "", None], [True, False, None]
    patients = rows(6, PEOPLE, INTEGERS, texts, DATES, FLOATS)
    visits = rows(10, PEOPLE, KEYS, wholes, COSTS, floats, diagnoses, texts, days, TIMES, urgent)
    labs = rows(10, KEYS, texts, floats, TIMES, wholes)
    many = [row for row in visits if row[0] == 1] * rng.choice([1, 1, 3, 40])
    return Tables(patients, [row for row in visits if row[0] != 1] + many, labs * rng.choice([1, 1, 2, 10]))


# ------------------------------------------------------------------------------------------------ measuring

UNITS = [
    Unit.column("patient_id", max_rows=1),
    Unit.column("patient_id", max_rows=2),
    Unit.column("patient_id", max_rows=4),
    Unit.column("patient_id"),
    Unit.row(),
]
PARTS = 4
"""The queries are divided among so many pairs of tables."""


def plans(unit: Unit, part: int, noise: str = "auto") -> list[tuple[str, Plan]]:
    """Of the queries of a part that are answered for this unit."""
    terms = Terms(epsilon=1, delta=1e-6, left_out=True, discover=True, noise=noise)
    answered = []
    for sql in QUERIES[part::PARTS]:
        try:
            answered.append((sql, plan(check(sql, SCHEMA, unit), unit, terms)))
        except InvalidQuery:
            assert unit.column_name is None, sql
    return answered


class Recording(Around):
    """An engine, and what it was asked and gave back: texts and types."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.seen: list[tuple[str, pa.Schema]] = []

    def run(self, statement: Statement) -> pa.Table:
        table = super().run(statement)
        self.seen.append((statement.select, table.schema))
        return table


def settled(made: Plan, rows: int, further: int) -> Settled:
    """A run for which a bound of `rows` was chosen, and what it leaves out is told up to so many rows `further`."""
    limit = replace(made.limit, rows=rows, one=TOTAL // rows) if made.chooses else made.limit
    return replace(made.start, limit=replace(limit, most=limit.rows + further if made.tells else 0))


def measured(
    made: Plan, engine: Engine, rows: int, further: int
) -> tuple[Any, Any, list[tuple[str, pa.Schema]]]:
    """The integers of what is found beforehand, those of every grouping set, and what the engine was asked."""
    recording, run = Recording(engine), settled(made, rows, further)
    found, writer = made.private_bounds, run.writer(engine.dialect)
    mechanisms = [each for each in (found.classes, *found.values) if each is not None]
    cells = [(each.noise, read_cells(recording.run(each.statement(writer)))) for each in mechanisms]
    return cells, run.measure(recording, SALT).integers(), recording.seen


def compare(made: Plan, before: Any, after: Any) -> None:
    assert before[2] == after[2]
    for (noise, cells), (_, later) in zip(before[0], after[0], strict=True):
        check_noise(noise, cells, later)
    for group, integers, others in zip(made.sets, before[1], after[1], strict=True):
        public = None if group.selection else set(combinations([made.query.keys[i] for i in group.keys]))
        for noisy, *sides in zip(group.measures, integers.parts, others.parts, strict=True):
            old, new = ({k: v for k, v in side.items() if public is None or k in public} for side in sides)
            (check_noise if isinstance(noisy.noise, Noise) else check_rank)(noisy.noise, old, new)
        if group.selection is not None:
            old, new = integers.supports, others.supports
            moved = [abs(old.get(key, 0) - new.get(key, 0)) for key in {*old, *new}]
            assert max(moved, default=0) <= 1
            assert sum(moved) <= group.selection.groups


@pytest.mark.sampled
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_one_unit_moves_no_statistic_of_several_tables_beyond_its_sensitivity(unit: Unit, part: int) -> None:
    rng = Random(f"{unit} {part}")
    with_unit = tables(rng)
    without = with_unit.without(1) if unit.column_name else with_unit.without_row(rng)
    rows, further = rng.choice([1, 2, 8]), rng.choice([1, 3, 2**20])
    engines = with_unit.engine(), without.engine()
    for sql, made in plans(unit, part):
        before, after = (measured(made, engine, rows, further) for engine in engines)
        try:
            compare(made, before, after)
        except AssertionError as error:
            raise AssertionError(sql) from error
    for engine in engines:
        engine.close()


def test_the_same_check_fails_where_rows_are_not_bounded() -> None:
    unit, sql = UNITS[0], QUERIES[0]
    made = plan(check(sql, SCHEMA, unit), unit, Terms(epsilon=1), bounding=False)
    visit = (1, 1, 2, 100, 0.5, "flu", "a", 0, 0, True)
    many = Tables([(1, 2, "a", 0, 0.1)], [visit] * 3, [])
    engines = many.engine(), many.without(1).engine()
    with pytest.raises(AssertionError):
        compare(made, *(measured(made, engine, 1, 0) for engine in engines))


# ------------------------------------------------------------------------------------------------ the charge


@pytest.mark.sampled
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("unit", [UNITS[1], UNITS[3]], ids=str)
def test_a_charge_is_of_all_that_is_measured(unit: Unit, noise: str, part: int) -> None:
    for sql, made in plans(unit, part, noise):
        assert made.tells == any(isinstance(each.measure, LeftOut) for each in made.sets[0].measures)
        selections = [each.selection for each in made.sets if each.selection is not None]
        pure = sum(each.epsilon * each.groups for each in selections)
        pure += sum(bounds.noise.epsilon for bounds in made.private_bounds.values)
        delta = sum(each.delta * each.groups for each in selections)
        noisy = [each for group in made.sets for each in group.measures]
        classes = [] if made.private_bounds.classes is None else [made.private_bounds.classes.noise]
        if made.price.allotment.family is Family.LAPLACE:
            pure += sum(map(_epsilon, noisy)) + sum(each.epsilon for each in classes)
        else:
            allotment = made.price.allotment
            rho = sum(each.rho for each in (*noisy, *classes))
            assert rho <= concentrated(allotment.noise_epsilon, allotment.noise_delta), sql
            pure, delta = pure + allotment.noise_epsilon, delta + allotment.noise_delta
        assert pure <= exact(made.epsilon), sql
        assert delta <= exact(made.delta), sql
        charged = epsilon_of(made.loss, made.delta).upper
        assert 0.999 * float(pure) <= charged <= 1 + 1e-9, sql


def _epsilon(noisy: NoisyMeasure) -> Fraction:
    around = Fraction(0) if noisy.bracket is None else noisy.bracket.noise.epsilon
    return noisy.noise.epsilon + around
