"""What is answered and what is refused, decided by text and schema alone."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
import yaml

from deniable.errors import InvalidQuery
from deniable.sql.after.canonical import normal
from deniable.sql.dialects import DUCKDB
from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import (
    AggregateRef,
    Filter,
    Join,
    KeyRef,
    Kind,
    PerUnit,
    Project,
    Relation,
    Scan,
    Statistic,
    Union,
)  # fmt: skip
from deniable.sql.types import INTEGER
from deniable.sql.types_relations import readings
from deniable.sql.write import relations
from deniable.units import Unit
from tests.sql.hospital import PATIENT, ROW, SCHEMA, checked

REFUSED = yaml.safe_load((Path(__file__).parents[1] / "fixtures" / "refused.yaml").read_text())


@pytest.mark.parametrize(("sql", "says"), REFUSED["patient"].items())
def test_it_is_refused_with_its_reason_and_way_out(sql: str, says: str) -> None:
    with pytest.raises(InvalidQuery) as refusal:
        checked(sql)
    assert says in str(refusal.value)
    assert str(refusal.value).endswith("No data was read and nothing was charged.")


@pytest.mark.parametrize(("sql", "says"), REFUSED["row"].items())
def test_rows_as_units_are_refused_what_would_multiply_them(sql: str, says: str) -> None:
    with pytest.raises(InvalidQuery) as refusal:
        checked(sql, ROW)
    assert says in str(refusal.value)


def test_a_query_reads_only_the_columns_it_needs() -> None:
    query = checked("SELECT Diagnosis, AVG(DAYS) FROM Visits WHERE stars > 2 GROUP BY diagnosis")
    assert isinstance(query.relation, Filter)
    scan = query.relation.of
    assert isinstance(scan, Scan)
    assert (scan.table, scan.unit, [c.name for c in scan.columns]) == (
        "visits",
        "patient_id",
        ["days", "stars", "diagnosis"],
    )


def test_nothing_of_the_text_but_literals_and_declared_names_is_left() -> None:
    query = checked(
        'WITH "evil;--" AS (SELECT days AS "x; DROP" FROM visits AS "y""") SELECT SUM("x; DROP") AS s FROM "evil;--" AS q'
    )
    assert not any(word in normal(query) for word in ("evil", "DROP", 'y"'))


def test_the_unit_lies_behind_a_path() -> None:
    query = checked("SELECT drug, COUNT(DISTINCT patient_id), SUM(dose) FROM prescriptions GROUP BY drug")
    assert isinstance(query.relation, Scan)
    assert query.relation.path == (("visit", "visits", "visit_id"),)
    assert query.relation.unit == "patient_id"
    assert query.aggregates[0].statistic is Statistic.COUNT_UNITS


def test_with_rows_as_units_there_is_no_unit_column() -> None:
    query = checked("SELECT COUNT(DISTINCT patient_id) FROM visits JOIN wards USING (ward)", ROW)
    assert query.aggregates[0].statistic is Statistic.COUNT_DISTINCT
    assert isinstance(query.relation, Join)
    assert isinstance(query.relation.left, Scan)
    assert query.relation.left.unit is None


@pytest.mark.parametrize(
    ("aggregate", "bounds", "granularity"),
    [
        ("SUM(days)", (0, 60), 1),
        ("SUM(days * 2 - 10)", (-10, 110), 1),
        ("SUM(-days)", (-60, 0), 1),
        ("SUM(cost)", (0, 1000), Fraction(1, 100)),
        ("AVG(cost * 1.5)", (0, 1500), Fraction(1, 1000)),
        ("SUM(CASE WHEN urgent THEN days END)", (0, 60), 1),
        ("SUM(CASE WHEN urgent THEN days ELSE 100 END)", (0, 100), 1),
        ("SUM(LEAST(GREATEST(weight, 0), 100))", (0, 100), None),
        ("SUM(CLAMP(visit_id, -5, 5))", (-5, 5), 1),
        ("SUM(urgent)", (0, 1), 1),
        ("AVG(score / 2)", (0, Fraction(1, 2)), None),
        ("SUM(days % 7)", (0, 7), 1),
        ("MEDIAN(extract(hour FROM seen))", (0, 23), 1),
        ("AVG(length(ward))", (0, 256), 1),
        ("VARIANCE(ABS(days - 30))", (0, 30), 1),
    ],
)
def test_bounds_follow_from_the_schema_and_the_expression(
    aggregate: str, bounds: object, granularity: object
) -> None:
    (found,) = checked(f"SELECT {aggregate} FROM visits").aggregates
    assert (found.bounds, found.granularity) == (bounds, granularity)


@pytest.mark.parametrize(
    "of", ["weight", "visit_id", "weight * 0.5", "days + visit_id", "1 / days", "exp(score)", "ln(score)"]
)
def test_bounds_that_do_not_follow_are_not_made_up(of: str) -> None:
    assert checked(f"SELECT SUM({of}) FROM visits").aggregates[0].bounds is None


@pytest.mark.parametrize(
    ("key", "domain"),
    [
        ("diagnosis", ("asthma", "flu")),
        ("urgent", (False, True, None)),
        ("days > 3", (False, True, None)),
        ("ward IS NULL", (False, True)),
        ("stars", (1, 2, 3, 4, 5, None)),
        ("days // 30", (0, 1, 2, None)),
        ("bucket(weight, [0, 0.5, 2])", (Decimal("0"), Decimal("0.5"), None)),
        ("bucket(days, [0, 10, 20])", (0, 10, None)),
        ("CASE WHEN days > 9 THEN 'long' ELSE 'short' END", ("long", "short")),
        ("CASE WHEN days > 9 THEN 'long' END", ("long", None)),
        ("COALESCE(diagnosis, 'none')", ("asthma", "flu", "none")),
        ("extract(quarter FROM admitted)", (1, 2, 3, 4, None)),
        ("ward", None),
        ("visit_id", None),
        ("admitted", None),
        ("date_trunc('month', admitted)", None),
        ("year(admitted)", None),
        ("upper(diagnosis)", None),
        ("CASE WHEN days > 9 THEN ward ELSE 'short' END", None),
    ],
)
def test_keys_are_public_only_where_schema_or_form_says_so(key: str, domain: object) -> None:
    (found,) = checked(f"SELECT {key} AS k, COUNT(*) FROM visits GROUP BY k").keys
    assert found.domain == domain


def test_a_left_join_adds_null_to_public_keys() -> None:
    query = checked(
        "SELECT b.diagnosis, COUNT(*) FROM patients a LEFT JOIN visits b ON a.id = b.patient_id GROUP BY 1"
    )
    assert query.keys[0].domain == ("asthma", "flu", None)


def test_counts_by_units_are_not_asked_of_the_missing_side() -> None:
    query = checked(
        "SELECT COUNT(DISTINCT b.patient_id) FROM patients a LEFT JOIN visits b ON a.id = b.patient_id"
    )
    assert query.aggregates[0].statistic is Statistic.COUNT_DISTINCT


@pytest.mark.parametrize(
    ("group", "sets"),
    [
        ("ward, urgent", ((0, 1),)),
        ("ROLLUP (ward, urgent)", ((0, 1), (0,), ())),
        ("CUBE (ward, urgent)", ((0, 1), (0,), (1,), ())),
        ("GROUPING SETS ((ward, urgent), (urgent), ())", ((0, 1), (1,), ())),
        ("ward, ROLLUP (urgent)", ((0, 1), (0,))),
        ("ALL", ((0, 1),)),
        ("1, 2", ((0, 1),)),
    ],
)
def test_totals_beside_groups_become_grouping_sets(group: str, sets: object) -> None:
    assert checked(f"SELECT ward, urgent, COUNT(*) FROM visits GROUP BY {group}").sets == sets


def test_results_are_post_processed_by_position_alias_and_expression() -> None:
    query = checked(
        "SELECT ward, COUNT(*) AS n, SUM(days) / COUNT(*) FROM visits GROUP BY ward "
        "HAVING n > 10 AND ward <> 'x' ORDER BY n DESC, 1, COUNT(*) + 1 LIMIT 5 OFFSET 2"
    )
    assert (query.limit, query.offset, len(query.aggregates)) == (5, 2, 2)
    assert query.order[0].by == AggregateRef(0, INTEGER)
    assert query.order[0].descending
    assert isinstance(query.order[1].by, KeyRef)
    assert [o.name for o in query.outputs] == ["ward", "n", "column3"]


def test_the_same_aggregate_is_asked_once() -> None:
    query = checked(
        "SELECT COUNT(*), COUNT(*) + 1, AVG(days) FROM visits HAVING COUNT(*) > 1 ORDER BY AVG(days)"
    )
    assert len(query.aggregates) == 2


@pytest.mark.parametrize(
    ("sql", "level"),
    [
        ("MEDIAN(days)", Fraction(1, 2)),
        ("QUANTILE_CONT(days, 0.9)", Fraction(9, 10)),
        ("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY days)", Fraction(9, 10)),
        ("PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY days DESC)", Fraction(1, 10)),
    ],
)
def test_quantiles_have_exact_levels(sql: str, level: Fraction) -> None:
    (found,) = checked(f"SELECT {sql} FROM visits").aggregates
    assert (found.statistic, found.level) == (Statistic.QUANTILE, level)


def test_filters_of_aggregates_are_kept() -> None:
    one, two = checked("SELECT COUNT(*) FILTER (WHERE days > 1), COUNT_IF(days > 1) FROM visits").outputs
    assert one.of == two.of == AggregateRef(0, INTEGER)


def kinds(relation: Relation) -> list[type]:
    inner = {Project: ("of",), Filter: ("of",), PerUnit: ("of",), Join: ("left", "right")}.get(
        type(relation), ()
    )
    below = [getattr(relation, name) for name in inner] + (
        list(relation.parts) if isinstance(relation, Union) else []
    )
    return [type(relation), *(kind for one in below for kind in kinds(one))]


@pytest.mark.parametrize(
    ("sql", "shape"),
    [
        (
            "SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY 1 HAVING n > 2) v "
            "WHERE n < 9",
            None,
        ),
        (
            "SELECT AVG(clamp(n, 0, 9)) FROM (SELECT patient_id AS p, COUNT(*) AS n FROM visits GROUP BY p) "
            "v",
            None,
        ),
        (
            "SELECT ward, COUNT(*) FROM (SELECT DISTINCT patient_id, ward FROM visits) v GROUP BY ward",
            [Project, PerUnit, Scan],
        ),
        ("SELECT COUNT(*) FROM visits v JOIN patients p ON v.patient_id = p.id", None),
        ("SELECT COUNT(*) FROM wards w JOIN visits v ON v.ward = w.ward AND floor > 2", None),
        ("SELECT COUNT(*) FROM (SELECT patient_id FROM visits UNION ALL SELECT id FROM patients) u", None),
    ],
)
def test_relations_that_keep_the_unit_are_answered(sql: str, shape: list[type] | None) -> None:
    query = checked(sql)
    assert shape is None or kinds(query.relation) == shape


def test_a_reserved_column_name_is_refused() -> None:
    schema = Schema((TableInfo("t", (ColumnInfo("_unit", INTEGER), ColumnInfo("x", INTEGER)), unit="x"),))
    with pytest.raises(InvalidQuery, match="begins with _"):
        check("SELECT COUNT(*) FROM t", schema, Unit.column("x"))


def test_units_that_are_no_column_or_row_are_refused() -> None:
    with pytest.raises(InvalidQuery, match="protects rows or the values of a column"):
        check("SELECT COUNT(*) FROM visits", SCHEMA, Unit.client())


def test_only_the_unit_of_each_side_joins_private_tables() -> None:
    query = checked("SELECT COUNT(*) FROM visits v JOIN prescriptions p USING (patient_id)", PATIENT)
    assert isinstance(query.relation, Join)
    assert query.relation.on_unit
    assert query.relation.on == ()


def test_a_column_joined_by_using_needs_no_table_name() -> None:
    query = checked("SELECT ward, wards.ward, COUNT(*) FROM visits JOIN wards USING (ward) GROUP BY 1, 2")
    assert [output.name for output in query.outputs] == ["ward", "ward_2", "count"]
    assert query.keys[0].of != query.keys[1].of


@pytest.mark.parametrize(
    ("inner", "bounds"),
    [
        ("COUNT(*)", (0, 4)),
        ("SUM(days)", (0, 240)),
        ("SUM(weight)", None),
        ("MAX(days)", (0, 60)),
        ("AVG(cost)", (0, 1000)),
        ("-MIN(days) + 1", (-59, 1)),
    ],
)
def test_bounds_of_a_units_own_aggregates_are_not_those_of_its_rows(inner: str, bounds: object) -> None:
    query = checked(f"SELECT AVG(x) FROM (SELECT patient_id, {inner} AS x FROM visits GROUP BY 1) v")
    assert query.aggregates[0].bounds == bounds


# ------------------------------------------------------------------------------------------------ a table with itself


def _joined_rows(kind: str, rows: dict[int, int]) -> int:
    """How many rows a table with so many rows for each patient makes when it is joined
    with itself, in a real DuckDB."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits (patient_id BIGINT, days BIGINT, ward VARCHAR)")
    for patient, many in rows.items():
        connection.execute(f"INSERT INTO visits SELECT {patient}, range, 'a' FROM range({many})")
    relation = checked(f"SELECT COUNT(*) FROM visits a {kind} visits b USING (patient_id)").relation
    [(found,)] = connection.sql(
        f"SELECT COUNT(*) FROM ({relations.relation(relation, DUCKDB)}) AS t"
    ).fetchall()
    return int(found)


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_one_person_cannot_make_a_join_of_a_table_with_itself_long(kind: str) -> None:
    assert _joined_rows(kind, {1: 3, 2: 256}) == 9 + 256**2
    assert _joined_rows(kind, {1: 3, 2: 257}) == 9
    assert _joined_rows(kind, {1: 3, 2: 200_000}) == 9


def test_joins_that_multiply_nothing_are_left_alone() -> None:
    for text in (
        "SELECT COUNT(*) FROM visits a JOIN (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY 1) b "
        "USING (patient_id)",
        "SELECT COUNT(*) FROM (SELECT DISTINCT patient_id FROM visits) a JOIN visits b USING (patient_id)",
    ):
        assert readings(checked(text).relation) == 2, text


def test_the_first_day_and_the_last_moment_come_back_as_dates() -> None:
    query = checked("SELECT MIN(admitted), MAX(seen) FILTER (WHERE urgent), MIN(admitted) + 7 FROM visits")
    assert [output.of.type.kind for output in query.outputs] == [Kind.DATE, Kind.TIMESTAMP, Kind.DATE]
    assert [a.bounds for a in query.aggregates] == [
        (-719_162, 2_932_896),
        (-719_162 * 86_400, 2_932_896 * 86_400 + 86_399),
    ]


def test_names_in_backticks_are_names_and_texts_stay_texts() -> None:
    query = checked("SELECT COUNT(*) AS `n` FROM `visits` WHERE ward = 'a`b`' -- `x`")
    assert query.outputs[0].name == "n"
    assert "a`b`" in str(query.relation)


@pytest.mark.parametrize(
    "group", ["GROUPING SETS ((ward), (ward))", "ROLLUP (ward, ward)", "ward, CUBE (ward, urgent)"]
)
def test_a_grouping_set_that_is_there_twice_is_refused(group: str) -> None:
    with pytest.raises(InvalidQuery, match="grouping set twice"):
        checked(f"SELECT ward, COUNT(*) FROM visits GROUP BY {group}")
