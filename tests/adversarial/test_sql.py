"""Holes that stood open in SQL under a budget, each as the claim that it is closed."""

from __future__ import annotations

import ast
import hashlib
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deniable.sql
from deniable.curator import Curator
from deniable.curator.answers.answer import Answer
from deniable.errors import DataError, InvalidParameter, InvalidQuery
from deniable.guarantee import Budget
from deniable.randomness import SecureRandom
from deniable.sql.dialects import DUCKDB
from deniable.sql.engines import Statement, open_engine
from deniable.sql.plan.planner import plan
from deniable.sql.plan.request import Terms
from deniable.sql.read.query import check
from deniable.sql.schema.declare import ColumnInfo
from deniable.sql.schema.file import parse
from deniable.sql.schema.infer import describe
from deniable.sql.types import TEXT
from deniable.sql.write import relations
from deniable.sql.write.contributions import ONE, TOTAL, VALUE_BITS
from deniable.units import Unit
from tests.postgres import server
from tests.sql.engines.real import ingest

PERSON = Unit.column("id", max_rows=2)


def asked(source: Any, query: str, *, limit: float = 100_000, **terms: Any) -> Answer:
    with Curator.open(
        source, name="t", unit=PERSON, limit=Budget(limit, 1e-5), ledger="sqlite://", threads=1
    ) as curator:
        return curator.sql(query, **terms)


# ------------------------------------------------------------------------------------------------ 21: one home


def _numbers(path: Path) -> list[str]:
    """The names in capitals that a module gives to numbers."""
    names = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and not any(
            isinstance(n, (ast.Name, ast.Call, ast.Dict)) for n in ast.walk(node.value)
        ):
            targets = [t for target in node.targets for t in getattr(target, "elts", [target])]
            numeric = any(
                isinstance(n, ast.Constant) and isinstance(n.value, int) for n in ast.walk(node.value)
            )
            names += [
                t.id.strip("_") for t in targets if isinstance(t, ast.Name) and t.id.isupper() and numeric
            ]
    return names


def test_a_number_that_a_proof_rests_on_has_one_home() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for path in Path(deniable.sql.__file__).parent.rglob("*.py"):
        for name in _numbers(path):
            homes[name].add(path.name)
    several = {name: files for name, files in homes.items() if len(files) > 1}
    # Versions of three engines, the 1 of a probability in keys, steps of two searches: different numbers with
    # one name.
    assert several.keys() <= {"VERSIONS", "ONE", "STEPS"}, several
    assert homes["ONE"] == {"contributions.py", "keys.py"}
    assert {name: homes[name] for name in ("TOTAL", "MAX_SCALE", "LENGTH")} == {
        "TOTAL": {"contributions.py"},
        "MAX_SCALE": {"types.py"},
        "LENGTH": {"tree.py"},
    }


def test_prepared_and_fresh_weights_are_those_of_the_loss() -> None:
    schema = parse("tables: {t: {unit: id, columns: {id: integer, x: {type: integer, bounds: [0, 9]}}}}")
    people = [1] * 1 + [2] * 2 + [3] * 7 + [4] * 8
    engine = open_engine(pa.table({"id": people, "x": people}), schema, threads=1)
    engine.prepare(schema, PERSON)
    made = plan(check("SELECT SUM(x) FROM t", schema, PERSON), PERSON, Terms(epsilon=1))
    sums = engine.run(
        Statement((), 'SELECT id, CAST(SUM("_weight") AS BIGINT) AS w FROM "t" GROUP BY id')
    ).to_pylist()
    assert max(row["w"] for row in sums) == made.limit.total == 2 * ONE
    assert made.limit.one == ONE
    engine.close()


def test_no_product_of_a_weight_and_a_value_passes_64_bits() -> None:
    assert TOTAL * 2 ** (VALUE_BITS - 1) < 2**63
    assert TOTAL * 2 ** (VALUE_BITS - 1) * 2**40 < 10**38


def test_more_rows_than_weights_can_hold_are_refused() -> None:
    unit = Unit.column("id", max_rows=2**41)
    schema = parse("tables: {t: {unit: id, columns: {id: integer}}}")
    with pytest.raises(InvalidQuery, match="at most 2\\^40"):
        plan(check("SELECT COUNT(*) FROM t", schema, unit), unit, Terms(epsilon=1))


# ------------------------------------------------------------------------------------------------ 29: numbers


def _people(n: int = 4000) -> pa.Table:
    rng = random.Random(1)
    whole = [rng.randrange(62) for _ in range(n)]
    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "whole": pa.array(whole, pa.int64()),
            "real": pa.array(whole, pa.float64()),
            "k": pa.array([f"k{i % 3}" for i in range(n)]),
        }
    )


@pytest.mark.sampled
@pytest.mark.parametrize("statistic", ["STDDEV", "STDDEV_POP", "VAR_POP", "VARIANCE", "AVG", "SUM", "MEDIAN"])
@pytest.mark.parametrize("bounds", ["0, 1e200", "-1e308, 1e308", "-1e-300, 1e-300"])
def test_bounds_of_any_size_are_answered(statistic: str, bounds: str) -> None:
    answer = asked(_people(50), f"SELECT {statistic}(CLAMP(real, {bounds})) * 2 AS x FROM t", epsilon=1)
    assert answer.value.num_rows == 1


@pytest.mark.parametrize("epsilon", [5_000, 90_000])
def test_private_keys_are_released_at_any_epsilon(epsilon: int) -> None:
    answer = asked(_people(), "SELECT k, COUNT(*) AS n FROM t GROUP BY k", epsilon=epsilon)
    assert [(row["k"], round(row["n"])) for row in answer.value.to_pylist()] == [
        ("k0", 1334),
        ("k1", 1333),
        ("k2", 1333),
    ]


def test_private_keys_that_no_share_releases_are_refused_before_the_charge() -> None:
    with pytest.raises(InvalidQuery, match="nothing was charged"):
        asked(_people(50), "SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=1e-9, delta=1e-40)


def test_discovered_bounds_of_whole_numbers_are_as_exact_as_of_floats() -> None:
    table = _people()
    for column in ("whole", "real"):
        answer = asked(
            table,
            f"SELECT SUM({column}) AS s, AVG({column}) AS a, STDDEV({column}) AS d FROM t",
            epsilon=20,
            discover=True,
        )
        row = answer.value.to_pylist()[0]
        assert abs(row["s"] - sum(table[column].to_pylist())) < 2_000, column
        assert abs(row["a"] - 30.5) < 1, column
        assert abs(row["d"] - 17.9) < 1, column


# ------------------------------------------------------------------------------------------------ 25: values


def test_a_file_that_is_replaced_by_one_with_a_bad_value_is_answered(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    good = pa.array([0] * 20, pa.timestamp("ms", "UTC"))
    bad = pa.array([0] * 19 + [-(2**63)], pa.int64()).view(pa.timestamp("ms", "UTC"))
    texts = pa.array([b"a"] * 19 + [b"\xff"], pa.binary()).view(pa.string())
    schema = parse("tables: {t: {unit: id, columns: {id: integer, at: timestamp, s: text}}}")
    pq.write_table(pa.table({"id": range(20), "at": good, "s": ["a"] * 20}), file)
    engine = open_engine(file, schema, threads=1)
    made = plan(
        check("SELECT COUNT(at), COUNT(*) FILTER (WHERE LOWER(s) = 'a') FROM t", schema, PERSON),
        PERSON,
        Terms(epsilon=50),
    )
    assert [round(x) for x in made(engine, rng=SecureRandom()).table.to_pylist()[0].values()] == [20, 20]
    pq.write_table(pa.table({"id": range(20), "at": bad, "s": texts}), file)
    assert [round(x) for x in made(engine, rng=SecureRandom()).table.to_pylist()[0].values()] == [19, 19]
    engine.close()


def test_people_whose_names_are_no_text_are_told_to_the_owner(tmp_path: Path) -> None:
    names = pa.array([b"a", b"\xff", b"\xfe"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"id": names}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="tells people or rows apart, holds text that is not UTF-8"):
        open_engine(tmp_path / "t.parquet", parse("tables: {t: {unit: id, columns: {id: text}}}"))


@pytest.mark.needs("postgres")
def test_a_column_that_postgresql_computes_at_reading_is_refused() -> None:
    place = ingest({"t": pa.table({"id": [1], "x": [0]})})["t"]
    server().psql(f"ALTER TABLE {place.schema}.t ADD COLUMN y int GENERATED ALWAYS AS (1 / x) VIRTUAL;")
    schema = parse("tables: {t: {unit: id, columns: {id: integer, y: integer}}}")
    with pytest.raises(DataError, match="stored as a virtual column"):
        open_engine({"t": place}, schema)


# ------------------------------------------------------------------------------------------------ 26: types


FRAMES = {
    "whole": [1, 2, None],
    "flag": [True, False, None],
    "text": ["a", "b", None],
    "mixed": [1, "a", None],
    "empty": [None, None, None],
    "real": [1.5, 2.5, None],
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("rows", [2, 3])
def test_a_frame_whose_types_a_row_could_move_needs_a_declaration(name: str, rows: int) -> None:
    """With the last person, whose value is NULL, and without her: the same refusal, and the line that
    helps."""
    frame = pd.DataFrame({"id": pd.array([1, 2, 3][:rows], "Int64"), name: FRAMES[name][:rows]})
    with pytest.raises(
        InvalidParameter, match=rf'The type of the column "{name}" comes from its values'
    ) as told:
        asked(frame, "SELECT COUNT(*) FROM t", epsilon=1)
    assert f'frame = frame.astype({{"{name}": "' in str(told.value)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "kind", ["boolean", "integer", "{type: decimal, scale: 2}", "float", "text", "date", "timestamp"]
)
@pytest.mark.parametrize("name", FRAMES)
def test_a_declared_column_opens_whatever_its_rows_made_of_it(name: str, kind: str) -> None:
    schema = parse(f"tables: {{t: {{unit: id, columns: {{id: integer, {name}: {kind}}}}}}}")
    for values in (FRAMES[name], FRAMES[name][:2], [None] * 2, [float("nan")] * 2, FRAMES[name][1:]):
        frame = pd.DataFrame({"id": range(len(values)), name: values})
        engine = open_engine(frame, schema, threads=1)
        assert engine.run(Statement((), f"SELECT {name} FROM t")).num_rows == len(values)
        engine.close()


def test_types_that_no_row_moves_are_taken() -> None:
    kinds = {"whole": "Int64", "flag": "boolean", "text": "string", "real": "Float64"}
    frame = pd.DataFrame(
        {"id": pd.array([1, 2, 3], "Int64")} | {n: pd.array(FRAMES[n], k) for n, k in kinds.items()}
    )
    polars = pl.from_pandas(frame)
    for source in (frame, polars, polars.to_arrow()):
        counts = asked(source, f"SELECT {', '.join(f'COUNT({n}) AS {n}' for n in kinds)} FROM t", epsilon=200)
        assert [round(x) for x in counts.value.to_pylist()[0].values()] == [2, 2, 2, 2]


def test_a_column_without_a_type_is_refused_in_arrow_and_polars() -> None:
    table = pa.table({"id": [1, 2], "x": pa.nulls(2)})
    for source in (table, pl.from_arrow(table)):
        with pytest.raises(InvalidParameter, match='The type of the column "x" comes from its values'):
            asked(source, "SELECT COUNT(*) FROM t", epsilon=1)


def test_a_csv_file_has_the_same_columns_whatever_its_rows(tmp_path: Path) -> None:
    for last in ("3,4", "3,", "3,abc", '3,"x, y"', "3,NULL", "3,2024-01-01", "3,true", "3,1e400"):
        (tmp_path / "t.csv").write_text(f"id,x\n1,2\n{last}\n")
        assert describe("t", tmp_path / "t.csv").columns == (ColumnInfo("id", TEXT), ColumnInfo("x", TEXT))


# ------------------------------------------------------------------------------------------------ 27: joins


JOINED = parse("""
tables:
  a: {unit: id, columns: {id: integer, x: integer}}
  b: {unit: id, columns: {id: integer, x: integer}}
  c: {unit: id, columns: {id: integer, x: integer}}
  pub: {public: true, columns: {x: integer, y: integer}}
  one: {public: true, unique: [x], columns: {x: integer, y: integer}}
""")
CHAINS = [
    "SELECT COUNT(*) FROM a JOIN a AS y USING (id)",
    "SELECT COUNT(*) FROM a JOIN a AS y USING (id) JOIN a AS z USING (id)",
    "SELECT COUNT(*) FROM a JOIN b USING (id) JOIN c USING (id) JOIN a AS z USING (id)",
    "SELECT COUNT(*) FROM a LEFT JOIN b USING (id) LEFT JOIN c USING (id)",
    "SELECT COUNT(*) FROM (SELECT id FROM a JOIN b USING (id)) AS p JOIN (SELECT id FROM b JOIN c USING "
    "(id)) AS q USING (id)",
    "SELECT COUNT(*) FROM (SELECT id FROM a JOIN b USING (id) UNION ALL SELECT id FROM a) AS p JOIN b USING "
    "(id)",
    "SELECT COUNT(*) FROM (SELECT id, x FROM a GROUP BY id, x) AS p JOIN (SELECT id, x FROM a GROUP BY id, "
    "x) AS q USING (id)",
]


def _rows(query: str, heavy: dict[str, int]) -> int:
    """The rows that reach the aggregate: of 100 people with two in each table, and one with so many."""
    relation = check(query, JOINED, PERSON).relation
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for table in "abc":
            many = heavy.get(table, 0)
            connection.execute(
                f"CREATE TABLE {table} AS SELECT range // 2 AS id, range % 7 AS x FROM range(200) "
                f"UNION ALL SELECT 999, range FROM range({many})"
            )
        [(found,)] = connection.sql(
            f"SELECT COUNT(*) FROM ({relations.relation(relation, DUCKDB)}) AS t"
        ).fetchall()
    return int(found)


@pytest.mark.parametrize("query", CHAINS)
def test_no_person_makes_a_chain_of_joins_long(query: str) -> None:
    alone = _rows(query, {})
    for heavy in (
        {"a": 300, "b": 300, "c": 300},
        {"a": 3000, "b": 3000, "c": 3000},
        {"b": 2000, "c": 2000, "a": 1},
        {"a": 20, "b": 20, "c": 20},
    ):
        found = _rows(query, heavy)
        assert found - alone <= 256 * max(heavy.values()), heavy


def test_a_person_with_few_rows_stays_in_a_chain() -> None:
    query = "SELECT COUNT(*) FROM a JOIN b USING (id) JOIN c USING (id)"
    assert _rows(query, {"a": 5000, "b": 16, "c": 15}) == 100 * 8 + 5000 * 240
    assert _rows(query, {"a": 5000, "b": 16, "c": 17}) == 100 * 8
    assert _rows("SELECT COUNT(*) FROM a JOIN b USING (id)", {"a": 9000, "b": 1}) == 100 * 4 + 9000


def test_the_engine_spends_no_more_on_a_heavy_person() -> None:
    """Without the bound 3,000⁴ rows would pass, and this test would not end."""
    query = "SELECT COUNT(*) FROM a JOIN b USING (id) JOIN c USING (id) JOIN a AS z USING (id)"
    assert _rows(query, {"a": 3000, "b": 3000, "c": 3000}) == 100 * 16


BEHIND = parse("""
tables:
  stays: {unit: id, columns: {id: integer, stay: integer}}
  days: {path: [stay -> stays.stay], columns: {stay: integer, day: integer}}
  drugs: {path: [day -> days.day, stay -> stays.stay], columns: {day: integer, dose: integer}}
""")


@pytest.mark.parametrize(("table", "people"), [("days", [0, 1, 2]), ("drugs", [0, 1, 2])])
def test_a_row_behind_a_path_is_there_once_for_each_person_it_leads_to(table: str, people: list[int]) -> None:
    """One person repeats the key of every step 300 times: a join of the steps alone
    would make 300² and 300³ rows of hers."""
    unit, heavy = Unit.column("id", max_rows=2), 300
    relation = check(f"SELECT COUNT(*) FROM {table}", BEHIND, unit).relation
    with duckdb.connect() as connection:
        for name, columns, key in (
            ("stays", "id, stay", 9),
            ("days", "stay, day", 9),
            ("drugs", "day, dose", 9),
        ):
            rows = [(0, 0), (1, 1), (2, 0)] if name == "stays" else [(0, 0), (1, 1)]
            values = ", ".join(map(str, [*rows, *[(key, key)] * heavy]))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM (VALUES {values}) AS t({columns})")
        found = connection.sql(
            f"SELECT _unit, COUNT(*) FROM ({relations.relation(relation, DUCKDB)}) AS t GROUP BY 1"
        )
        assert dict(found.fetchall()) == {**dict.fromkeys(people, 1), 9: heavy}


@pytest.mark.parametrize("unit", [PERSON, Unit.row()])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) FROM a JOIN pub USING (x)",
        "SELECT COUNT(*) FROM a LEFT JOIN pub USING (x)",
        "SELECT COUNT(*) FROM a WHERE x > (SELECT COUNT(*) FROM pub JOIN pub AS q USING (x))",
        "SELECT COUNT(*) FROM a JOIN (SELECT one.x FROM one JOIN pub USING (x)) AS p USING (x)",
    ],
)
def test_public_tables_with_repeated_keys_multiply_nothing(query: str, unit: Unit) -> None:
    with pytest.raises(InvalidQuery, match="columns that identify its rows"):
        check(query, JOINED, unit)


def test_public_tables_are_joined_on_what_identifies_their_rows() -> None:
    for query in (
        "SELECT COUNT(*) FROM a JOIN one USING (x)",
        "SELECT COUNT(*) FROM a JOIN (SELECT one.x, p.y FROM one JOIN one AS p USING (x)) AS q USING (x)",
        "SELECT COUNT(*) FROM a WHERE x IN (SELECT x FROM pub)",
    ):
        check(query, JOINED, PERSON)


# ------------------------------------------------------------------------------------------------ 28: names


def test_two_people_with_a_common_prefix_move_a_count_by_one_each() -> None:
    names = ["p" * 300 + suffix for suffix in ("a", "b")]
    schema = parse("tables: {t: {unit: id, columns: {id: text}}}")
    for people, expected in ((names * 8, 4), (names[:1] * 8, 2)):
        engine = open_engine(pa.table({"id": people}), schema, threads=1)
        made = plan(check("SELECT COUNT(*) FROM t", schema, PERSON), PERSON, Terms(epsilon=200))
        for prepare in (False, True):
            if prepare:
                engine.prepare(schema, PERSON)
            assert round(made(engine, rng=SecureRandom()).table.column(0)[0].as_py()) == expected
        engine.close()


def test_a_text_that_looks_like_a_hash_is_nobody_else() -> None:
    name = "p" * 300
    forged = [
        name[:256] + hashlib.sha256(name.encode()).hexdigest(),
        hashlib.sha256(name.encode()).hexdigest(),
    ]
    schema = parse("tables: {t: {unit: id, columns: {id: text}}}")
    engine = open_engine(pa.table({"id": [name, *forged]}), schema, threads=1)
    assert len(set(engine.run(Statement((), "SELECT id FROM t")).column("id").to_pylist())) == 3
    engine.close()


def test_a_unit_of_text_that_no_table_declares_is_refused() -> None:
    schema = parse("tables: {t: {columns: {id: text}}}")
    with pytest.raises(InvalidQuery, match="does not declare that"):
        check("SELECT COUNT(*) FROM t", schema, PERSON)
