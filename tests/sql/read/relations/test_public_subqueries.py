"""Subqueries in expressions mean on every engine what they mean in DuckDB, read public
tables only, and always have a value."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from deniable.errors import InvalidQuery
from deniable.sql.after.canonical import normal
from deniable.sql.dialects import SPARK
from deniable.sql.engines import Engine
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Among, Filter, Project, Scalar
from deniable.sql.types import INTEGER, TEXT
from deniable.units import Unit
from tests.sql.engines.real import ENGINES, opened
from tests.sql.hospital import checked

COLUMNS = (ColumnInfo("x", INTEGER), ColumnInfo("name", TEXT))
TABLES = {
    "rows": pa.table({"x": [1, 2, 3, None, 5, 5], "name": ["a", "b", None, "d", "é", "a"]}),
    "few": pa.table({"x": [1, 5, 7], "name": ["a", "é", "z"]}),
    "holes": pa.table({"x": [1, None], "name": ["a", None]}),
    "empty": pa.table({"x": pa.array([], pa.int64()), "name": pa.array([], pa.string())}),
}
UNIQUE = {"few": ("x",)}
SCHEMA = Schema(
    tuple(TableInfo(name, COLUMNS, public=name != "rows", unique=UNIQUE.get(name, ())) for name in TABLES)
)
CONDITIONS = [
    *(
        f"{x} {op} (SELECT {x} FROM {table})"
        for x in ("x", "name")
        for op in ("IN", "NOT IN")
        for table in TABLES
        if table != "rows"
    ),
    "(x IN (SELECT x FROM holes)) IS NULL",
    "(x IN (SELECT x FROM empty)) IS NULL",
    "CASE WHEN x NOT IN (SELECT x FROM few) THEN name = 'b' ELSE x = 5 END",
    "x + 1 IN (SELECT x * 2 FROM few WHERE x > 0) OR name IN (SELECT name FROM holes)",
    "x > (SELECT MIN(x) FROM few)",
    "x > (SELECT MIN(x) FROM empty)",
    "(SELECT SUM(x) FROM empty) IS NULL",
    "x = (SELECT COUNT(*) FROM holes) + (SELECT COUNT(x) FROM holes)",
    "x < (SELECT AVG(x) * 2 - MAX(x) FROM few)",
    "x * 10 > (SELECT SUM(x) + COUNT(DISTINCT name) FROM few WHERE name <> 'z')",
    "EXISTS (SELECT * FROM few WHERE x = 7)",
    "NOT EXISTS (SELECT 1 FROM few WHERE x = 8) AND x = 1",
    "EXISTS (SELECT name FROM empty)",
    "LEAST(GREATEST(x * (SELECT MAX(x) * 1000000 FROM few) + (SELECT MIN(x) FROM few), 0), 35000001) = "
    "35000001",
    "round(x / (SELECT COUNT(*) FROM holes) + 0.5, 1) = 1.5 OR NULLIF(x, (SELECT MAX(x) FROM few) - 2) IS "
    "NULL",
    "x IN (SELECT s.x FROM few AS s JOIN holes AS h USING (x))",
]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    made = opened(request.param, TABLES, SCHEMA)
    yield made
    made.close()


def counted(engine: Engine, text: str) -> list[int]:
    """What a plan measures before noise, for each aggregate."""
    made = plan(check(text, SCHEMA, Unit.row()), Unit.row(), Terms(epsilon=1))
    [integers] = made.measure(engine, "0").integers()
    return [int(integers.parts[parts[0]].get((), 0)) for parts in made.stands]


def test_they_mean_what_they_mean_in_duckdb(engine: Engine) -> None:
    plainly = duckdb.connect()
    for name, table in TABLES.items():
        plainly.register(name, table)
    # A query costs Spark a second or two, and each IN a join.
    step = 3 if engine.dialect is SPARK else 1
    asked = dict.fromkeys([*CONDITIONS[::step], *CONDITIONS[-3:]])
    filters = ", ".join(f"COUNT(*) FILTER (WHERE {c}) AS c{i}" for i, c in enumerate(asked))
    wheres = (f"SELECT COUNT(*) FROM rows WHERE {condition}" for condition in CONDITIONS[step - 1 :: step**2])
    for text in (f"SELECT {filters} FROM rows", *wheres):
        [wanted] = plainly.sql(text).fetchall()
        assert counted(engine, text) == list(wanted), text


def test_a_key_may_be_made_of_one() -> None:
    query = checked("SELECT days > (SELECT AVG(floor) FROM wards) AS k, COUNT(*) FROM visits GROUP BY 1")
    assert query.keys[0].domain == (False, True, None)


def test_columns_that_nothing_reads_are_left_out() -> None:
    query = checked("SELECT COUNT(*) FROM visits WHERE days IN (SELECT floor FROM wards)")
    assert isinstance(query.relation, Filter)
    assert isinstance(query.relation.of, Project)
    [(_, among)] = query.relation.of.columns
    assert isinstance(among, Among)
    assert [c.name for c in query.relation.of.of.columns] == ["days"]  # type: ignore[union-attr]
    assert "ward'" not in normal(query)


def test_the_lists_of_two_queries_are_not_taken_for_one() -> None:
    texts = [
        f"SELECT COUNT(*) FROM visits WHERE days IN (SELECT floor FROM wards WHERE floor > {n})"
        for n in (1, 2)
    ]
    assert normal(checked(texts[0])) != normal(checked(texts[1]))
    assert normal(checked(texts[0])) == normal(checked(texts[0].lower().replace("select", "Select")))


def test_exists_is_a_count() -> None:
    query = checked("SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT * FROM wards)")
    assert isinstance(query.relation, Filter)
    assert isinstance(query.relation.of, Project)
    assert isinstance(query.relation.of.columns[0][1], Scalar)


def test_a_with_that_doubles_again_and_again_is_refused_at_once() -> None:
    doubled = [
        f"a{i} AS (SELECT days FROM a{i - 1} UNION ALL SELECT days FROM a{i - 1})" for i in range(1, 200)
    ]
    text = f"WITH a0 AS (SELECT days FROM visits), {', '.join(doubled)} SELECT COUNT(*) FROM a199"
    with pytest.raises(InvalidQuery, match="Expected tables to be read at most 256 times in one query"):
        checked(text)
    joined = [
        f"a{i} AS (SELECT x.ward FROM a{i - 1} AS x JOIN a{i - 1} AS y USING (ward))" for i in range(1, 40)
    ]
    text = f"WITH a0 AS (SELECT ward FROM wards), {', '.join(joined)} SELECT COUNT(*) FROM visits JOIN a39 USING (ward)"
    with pytest.raises(InvalidQuery, match="Expected tables to be read at most 256 times in one query"):
        checked(text)
