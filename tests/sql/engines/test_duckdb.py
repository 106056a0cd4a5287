"""Embedded DuckDB: every source, every door closed, weights stored once."""

from __future__ import annotations

import gc
import gzip
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.errors import DataError, InvalidParameter
from deniable.sql.engines import Statement, open_engine
from deniable.sql.engines import duckdb as embedded
from deniable.sql.engines.duckdb import DuckDBEngine
from deniable.sql.engines.sources import CSV, DuckDBTable
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Kind, Type
from deniable.sql.write.contributions import ONE
from deniable.units import Unit
from tests.sql.engines.real import rows

VISITS = pa.table(
    {
        "person": pa.array([1, 1, 1, 2, None], pa.int64()),
        "days": pa.array([3, 4, 5, 6, 7], pa.int64()),
        "place": ["a", "b", "a", None, "c"],
    }
)
TYPES = {"person": Kind.INTEGER, "days": Kind.INTEGER, "place": Kind.TEXT}
ALL = [(1, 3, "a"), (1, 4, "b"), (1, 5, "a"), (2, 6, None), (None, 7, "c")]


def declared(types: dict[str, Kind] = TYPES, name: str = "visits", unit: str | None = "person") -> Schema:
    columns = tuple(ColumnInfo(column, Type(kind)) for column, kind in types.items())
    return Schema((TableInfo(name, columns, unit=unit),))


def content(source: Any, schema: Schema | None = None) -> list[tuple[Any, ...]]:
    engine = open_engine({"visits": source}, schema or declared())
    try:
        return sorted(rows(engine, 'SELECT * FROM "visits"'), key=lambda row: str(row[1]))
    finally:
        engine.close()


# ------------------------------------------------------------------------------------------------ sources


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "it's visits.parquet"
    pq.write_table(VISITS, path)
    return path


def test_parquet_is_read_from_a_file_a_pattern_and_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "visits"
    folder.mkdir()
    pq.write_table(VISITS.slice(0, 2), folder / "a.parquet")
    pq.write_table(VISITS.slice(2), folder / "b.parquet")
    (folder / "_SUCCESS").write_text("")
    pq.write_table(VISITS.rename_columns(["x", "y", "z"]), folder / "_hidden.parquet")
    assert content(folder / "a.parquet") == ALL[:2]
    assert content(str(folder / "[ab].parquet")) == ALL
    assert content(folder) == ALL


def test_folders_named_by_a_value_become_a_column_of_text(tmp_path: Path) -> None:
    for day in ("2024-02-29", "unknown"):
        (tmp_path / "v" / f"day={day}").mkdir(parents=True)
        pq.write_table(VISITS.slice(0, 1), tmp_path / "v" / f"day={day}" / "part.parquet")
    found = content(tmp_path / "v", declared({"days": Kind.INTEGER, "day": Kind.DATE}, unit=None))
    assert set(found) == {(3, date(2024, 2, 29)), (3, None)}


def test_the_names_of_folders_are_not_sniffed(tmp_path: Path) -> None:
    (tmp_path / "v" / "code=007").mkdir(parents=True)
    pq.write_table(VISITS.slice(0, 1), tmp_path / "v" / "code=007" / "part.parquet")
    assert content(tmp_path / "v", declared({"code": Kind.TEXT, "days": Kind.INTEGER}, unit=None)) == [
        ("007", 3)
    ]


def test_files_of_different_layouts_are_told_at_the_opening(tmp_path: Path) -> None:
    pq.write_table(VISITS, tmp_path / "a.parquet")
    pq.write_table(VISITS.set_column(1, "days", pa.array(["x"] * 5)), tmp_path / "b.parquet")
    with pytest.raises(DataError, match="differ from those of"):
        content(tmp_path / "*.parquet")


def test_parquet_is_not_loaded(parquet: Path) -> None:
    engine = open_engine(parquet, declared())
    assert isinstance(engine, DuckDBEngine)
    stored = engine._connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    engine.close()
    assert stored == []


def test_csv_is_read_as_text_and_never_sniffed(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text('person,days,place\n1,3,"a, ""x"""\n2,unknown,\n,4,"two\nlines"\n', encoding="utf-8")
    assert sorted(content(path), key=str) == sorted(
        [(1, 3, 'a, "x"'), (2, None, None), (None, 4, "two\nlines")], key=str
    )


def test_csv_takes_its_layout_from_the_owner(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "visits.csv.gz", "wt") as stream:
        stream.write("1;3;a\n1;4;b\n")
    assert content(CSV(tmp_path / "visits.csv.gz", header=False, delimiter=";")) == ALL[:2]


def test_a_tab_separated_file_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "visits.tsv").write_text("place\tdays\tperson\na\t3\t1\n")
    assert content(tmp_path / "visits.tsv") == ALL[:1]


@pytest.mark.parametrize("line", ["1,2", "1,2,3,4", '1,2,"open'])
def test_a_malformed_line_is_told_at_the_opening(tmp_path: Path, line: str) -> None:
    (tmp_path / "visits.csv").write_text(f"person,days,place\n1,3,a\n{line}\n")
    with pytest.raises(DataError, match='The table "visits" cannot be read'):
        content(tmp_path / "visits.csv")


@pytest.mark.parametrize("sign", [";", "\t"])
def test_a_header_with_semicolons_or_tabs_says_what_separates_the_columns(tmp_path: Path, sign: str) -> None:
    path = tmp_path / "visits.csv"
    path.write_text(f"person{sign}days{sign}place\n1{sign}3{sign}a\n", encoding="utf-8")
    assert content(path) == ALL[:1]
    path.write_text(f"person,days,place\n1,3,a{sign}b\n", encoding="utf-8")
    assert [row[2] for row in content(path)] == [f"a{sign}b"], "a row says nothing about it"


def test_what_is_wrong_with_a_csv_file_is_told_with_a_way_out_that_exists(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_bytes("person,days,place\n1,3,Köln\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"(?s)Line: 2.*Save the file in UTF-8") as refusal:
        content(path)
    assert "ignore_errors" not in str(refusal.value)
    path.write_text("person,days,place\n1,3\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"(?s)Line: 2.*as many fields as the header") as refusal:
        content(path)
    assert "strict_mode" not in str(refusal.value)


def test_csv_files_with_different_headers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("person,days,place\n")
    (tmp_path / "b.csv").write_text("person,place,days\n")
    with pytest.raises(DataError, match="different headers"):
        content(tmp_path / "*.csv")


def test_a_duckdb_file_is_read_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "hospital.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", VISITS)
        connection.execute(
            "CREATE TABLE visits AS SELECT * FROM given; CREATE SCHEMA s; CREATE TABLE s.t AS SELECT * FROM "
            "given"
        )
    assert content(path) == content(DuckDBTable(path, "t", "s")) == ALL
    engine = open_engine(path, declared())
    assert isinstance(engine, DuckDBEngine)
    with pytest.raises(duckdb.Error, match="read-only"):
        engine._connection.execute("DELETE FROM _source_0.main.visits")
    engine.close()


def test_texts_differ_by_their_bytes_whatever_collation_they_are_stored_with(tmp_path: Path) -> None:
    path = tmp_path / "hospital.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE visits (person BIGINT, days BIGINT, place VARCHAR COLLATE NOCASE.NOACCENT)"
        )
        connection.execute("INSERT INTO visits VALUES (1, 1, 'a'), (2, 2, 'A'), (3, 3, 'ä')")
    engine = open_engine({"visits": path}, declared())
    groups = rows(engine, 'SELECT "place", count(*) FROM "visits" GROUP BY "place"')
    same = rows(engine, """SELECT count(*) FROM "visits" WHERE "place" = 'a'""")
    engine.close()
    assert sorted(groups) == [("A", 1), ("a", 1), ("ä", 1)]
    assert same == [(1,)]


def test_two_tables_may_come_from_one_duckdb_file(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "h.duckdb")) as connection:
        connection.execute("CREATE TABLE a AS SELECT 1 AS x; CREATE TABLE b AS SELECT 2 AS x")
    schema = Schema(tuple(TableInfo(name, (ColumnInfo("x", Type(Kind.INTEGER)),)) for name in ("a", "b")))
    engine = open_engine(tmp_path / "h.duckdb", schema)
    assert rows(engine, 'SELECT a.x AS a, b.x AS b FROM "a" AS a, "b" AS b') == [(1, 2)]
    engine.close()


def test_frames_are_read() -> None:
    assert content(VISITS) == ALL
    assert content(pl.from_arrow(VISITS)) == ALL
    frame = pd.DataFrame(
        {"person": [1.0, float("nan")], "days": [3, 4], "place": pd.Categorical(["a", None])}
    )
    assert content(frame) == [(1, 3, "a"), (None, 4, None)]


def test_a_column_of_mixed_types_is_read_as_declared() -> None:
    frame = pd.DataFrame({"person": [1, 2], "days": pd.Series([3, "x"], dtype=object), "place": ["a", "b"]})
    assert content(frame) == [(1, 3, "a"), (2, None, "b")]


def test_numbers_that_64_bits_do_not_hold_are_null_and_whole_as_text() -> None:
    table = pa.table({"number": pa.array([2**63 - 1, 2**63], pa.uint64()), "days": [1, 2]})
    assert content(table, declared({"number": Kind.INTEGER, "days": Kind.INTEGER}, unit=None)) == [
        (2**63 - 1, 1),
        (None, 2),
    ]
    assert content(table, declared({"number": Kind.TEXT, "days": Kind.INTEGER}, unit=None))[1] == (
        str(2**63),
        2,
    )


@pytest.mark.parametrize(
    ("source", "error", "told"),
    [
        ("nothing.parquet", DataError, "There is no file nothing.parquet"),
        ("nothing.csv", DataError, "There is no file nothing.csv"),
        ("nothing.duckdb", DataError, "There is no file nothing.duckdb"),
        (42, InvalidParameter, "Expected a file, an address or a table, got int"),
        ({"other": VISITS}, InvalidParameter, 'Expected a source for the declared table "visits"'),
        (
            {"visits": VISITS, "more": VISITS},
            InvalidParameter,
            'The source "more" belongs to no declared table',
        ),
    ],
)
def test_a_source_that_is_none_is_told(source: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        open_engine(source, declared())


def test_one_file_cannot_hold_two_tables(parquet: Path) -> None:
    schema = Schema((*declared().tables, *declared(name="more").tables))
    with pytest.raises(InvalidParameter, match="cannot hold the 2 declared tables"):
        open_engine(parquet, schema)


def test_a_broken_file_is_told_at_the_opening(tmp_path: Path) -> None:
    (tmp_path / "visits.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match='The table "visits" cannot be read'):
        content(tmp_path / "visits.parquet")


# ------------------------------------------------------------------------------------------------ locked down


@pytest.fixture
def locked(parquet: Path) -> Iterator[DuckDBEngine]:
    engine = open_engine(parquet, declared(), memory="500MB", threads=1, seconds=60)
    assert isinstance(engine, DuckDBEngine)
    yield engine
    engine.close()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM read_blob('/etc/hostname')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM '{other}'",
        "SELECT * FROM read_parquet('{other}')",
        "ATTACH '{new}'",
        "COPY (SELECT 1) TO '{new}'",
        "COPY (SELECT 1) TO '{own}'",
        "EXPORT DATABASE '{new}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD '{new}'",
        "SET threads = 4",
        "SET enable_external_access = true",
        "SET allowed_paths = ['{other}']",
        "SET lock_configuration = false",
        "RESET memory_limit",
        "PRAGMA threads = 4",
        "PRAGMA enable_profiling",
        "SET temp_directory = '{new}'",
        "SELECT * FROM local_python_variable",
        "SELECT * FROM read_parquet('https://example.org/x.parquet')",
    ],
)
def test_every_door_is_closed_to_the_connection_itself(
    locked: DuckDBEngine, parquet: Path, tmp_path: Path, statement: str
) -> None:
    local_python_variable = VISITS
    assert local_python_variable.num_rows == 5
    other, new = tmp_path / "other.parquet", tmp_path / "new"
    pq.write_table(VISITS, other)
    own = str(parquet).replace("'", "''")
    with pytest.raises(duckdb.Error):
        locked._connection.execute(statement.format(other=other, new=new, own=own)).fetchall()
    assert not new.exists()
    assert pq.read_table(parquet).equals(VISITS)
    assert rows(locked, 'SELECT count(*) FROM "visits"') == [(5,)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t AS SELECT 1",
        "ATTACH ':memory:' AS m",
        "SELECT 1; SELECT 2",
        "PRAGMA database_list",
        "CALL 1",
    ],
)
def test_only_one_select_is_run(locked: DuckDBEngine, statement: str) -> None:
    with pytest.raises(DataError, match="did not finish"):
        locked.run(Statement((), statement))


def test_limits_reach_the_engine(locked: DuckDBEngine) -> None:
    assert rows(locked, "SELECT current_setting('threads'), current_setting('memory_limit')") == [
        (1, "476.8 MiB")
    ]


def test_what_does_not_fit_in_memory_goes_to_a_folder_that_is_gone_afterwards(tmp_path: Path) -> None:
    engine = open_engine(
        pa.table({"a": range(1_000_000)}), declared({"a": Kind.INTEGER}, unit=None), memory="40MB", threads=1
    )
    assert isinstance(engine, DuckDBEngine)
    folder = Path(engine._folder)
    wide = (
        'SELECT count(*) FROM (SELECT a, count(*), min(hash(a)), max(hash(a + 1)) FROM "visits" GROUP BY a)'
    )
    assert rows(engine, wide) == [(1_000_000,)]
    assert folder.exists()
    engine.close()
    assert not folder.exists()


def test_an_engine_that_nobody_closed_leaves_no_folder_but_a_child_leaves_its_parents_alone() -> None:
    engine = open_engine(VISITS, declared())
    assert isinstance(engine, DuckDBEngine)
    folder = Path(engine._folder)
    if (child := os.fork()) == 0:
        engine._discard()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.exists()
    del engine
    gc.collect()
    assert not folder.exists()


# ------------------------------------------------------------------------------------------------ prepare


def prepared(table: pa.Table, max_rows: int) -> DuckDBEngine:
    engine = open_engine(table, declared())
    assert isinstance(engine, DuckDBEngine)
    engine.prepare(declared(), Unit.column("person", max_rows=max_rows))
    return engine


def test_prepared_weights_share_the_bound_among_a_persons_rows() -> None:
    engine = prepared(VISITS, 2)
    found = sorted(rows(engine, 'SELECT person, days, "_weight" FROM "visits"'))
    third = 2 * ONE // 3
    assert found == [(1, 3, third), (1, 4, third), (1, 5, third), (2, 6, ONE)]
    assert engine.prepared == {"visits": 2}
    engine.close()


def test_no_person_weighs_more_than_the_bound() -> None:
    people = [person for person in range(40) for _ in range(person)]
    table = pa.table({"person": people, "days": range(len(people)), "place": ["a"] * len(people)})
    for bound in (1, 3, 7, 1000):
        engine = prepared(table, bound)
        weights = rows(
            engine, 'SELECT count(*), sum("_weight"), max("_weight") FROM "visits" GROUP BY person'
        )
        assert all(total <= min(n, bound) * ONE and top <= ONE for n, total, top in weights)
        assert all(total > min(n, bound) * ONE - n for n, total, _ in weights)
        engine.close()


def test_prepared_twice_counts_the_rows_of_the_data_again() -> None:
    engine = prepared(VISITS, 1)
    engine.prepare(declared(), Unit.column("person", max_rows=3))
    assert {weight for (weight,) in rows(engine, 'SELECT "_weight" FROM "visits"')} == {ONE}
    engine.close()


def test_prepare_needs_a_bound() -> None:
    engine = open_engine(VISITS, declared())
    for unit in (Unit.row(), Unit.column("person")):
        with pytest.raises(InvalidParameter, match="Nothing was prepared"):
            engine.prepare(declared(), unit)
    assert engine.prepared == {}
    engine.close()


def test_prepared_rows_have_no_file_that_could_outlive_the_process() -> None:
    people = 5_000
    table = pa.table({"person": range(people), "days": range(people), "place": ["a marked place"] * people})
    engine = prepared(table, 2)
    folder = Path(engine._folder)
    assert folder.stat().st_mode & 0o077 == 0
    assert not [
        file for file in folder.rglob("*") if file.is_file() and b"a marked place" in file.read_bytes()
    ]
    assert rows(engine, """SELECT count(*) FROM "visits" WHERE place = 'a marked place'""") == [(people,)]
    engine.close()
    assert not folder.exists()


@pytest.mark.parametrize("top", [2**19, 2**21, 2**62])
def test_people_are_counted_alike_by_position_and_by_hash(top: int) -> None:
    people = [top, top, -1, 0, top, None, 5, 0]
    table = pa.table({"person": pa.array(people, pa.int64()), "days": range(8), "place": ["a"] * 8})
    engine = open_engine(table, declared())
    counts = rows(engine, 'SELECT person, count(*) FROM "visits" GROUP BY person')
    assert sorted(counts, key=str) == sorted([(top, 3), (-1, 1), (0, 2), (None, 1), (5, 1)], key=str)
    engine.close()


def test_texts_with_public_keys_are_cut_as_all_texts_are() -> None:
    texts = [
        "",
        "abc",
        "abcd",
        "abcde",
        "äöü",
        "äöüß",
        "äöüßä",
        "日本語のテ",
        "e\u0301e\u0301e\u0301",
        "👨‍👩‍👧‍👦",
        None,
    ]
    table = pa.table({"person": range(len(texts)), "plain": texts, "keyed": texts})
    kind = Type(Kind.TEXT, length=4)
    columns = (
        ColumnInfo("person", Type(Kind.INTEGER)),
        ColumnInfo("plain", kind),
        ColumnInfo("keyed", kind, keys=("abc",)),
    )
    engine = open_engine({"visits": table}, Schema((TableInfo("visits", columns, unit="person"),)))
    found = rows(engine, 'SELECT plain, keyed FROM "visits" ORDER BY person')
    assert (
        [plain for plain, _ in found]
        == [keyed for _, keyed in found]
        == [text and text[:4] for text in texts]
    )
    engine.close()


def test_columns_without_a_null_are_known_from_statistics(tmp_path: Path) -> None:
    path = tmp_path / "visits.parquet"
    pq.write_table(VISITS, path)
    engine = open_engine(path, declared())
    assert engine.present("visits", ("person", "days", "place")) == {"days"}
    engine.close()
    for table in (VISITS, VISITS.slice(0, 0)):  # of a frame and of nothing, nothing is known
        engine = open_engine(table, declared())
        assert engine.present("visits", ("person", "days", "place")) == frozenset()
        engine.close()


@pytest.mark.parametrize(
    ("told", "known"), [({"has_null": False}, True), ({"has_null": True}, False), ({}, False)]
)
def test_statistics_are_read_as_every_version_writes_them(told: dict[str, bool], known: bool) -> None:
    assert embedded._complete(told) is known
    assert (
        embedded._complete(f"[Min: 1, Max: 2][Has Null: {str(not known).lower()}, Has No Null: true]")
        is known
    )
