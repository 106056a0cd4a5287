"""Fields of struct columns on three real engines: read by their declared type, NULL where there is none, and no value of
them makes a statement fail."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.errors import DataError
from deniable.sql.engines import Engine, open_engine
from deniable.sql.engines.cells import unread_cells
from deniable.sql.engines.sources import Parquet, PostgresTable, recognised
from deniable.sql.engines.stored import parquet
from deniable.sql.schema.file import parse
from deniable.sql.schema.infer import declarable, describe
from tests.postgres import server
from tests.sql.engines.real import rows, session

SCHEMA = parse(
    """
    tables:
      visits:
        columns:
          id: integer
          home.city: {type: text, length: 3}
          home.zip: integer
          home.geo.lat: float
          home.seen: date
    """
)
HOME = pa.struct(
    [
        ("City", pa.string()),
        ("zip", pa.string()),
        ("geo", pa.struct([("lat", pa.float64())])),
        ("seen", pa.timestamp("us")),
    ]
)
HOMES = [
    {"City": "Paris", "zip": " 75001", "geo": {"lat": 48.5}, "seen": 0},
    None,
    {"City": None, "zip": "not a number", "geo": None, "seen": None},
    {"City": "", "zip": "9" * 30, "geo": {"lat": float("nan")}, "seen": 10**17},
    {"City": "Rio", "zip": None, "geo": {"lat": float("-inf")}, "seen": 86_400_000_000},
]
READ = [
    (1, "Par", 75001, 48.5, "1970-01-01"),
    (2, None, None, None, None),
    (3, None, None, None, None),
    (4, "", None, None, "5138-11-16"),
    (5, "Rio", None, None, "1970-01-02"),
]
"""What every engine reads of them."""
TABLE = pa.table({"id": pa.array([1, 2, 3, 4, 5]), "home": pa.array(HOMES, HOME)})
SELECT = 'SELECT "id", "home.city", "home.zip", "home.geo.lat", CAST("home.seen" AS VARCHAR(10)) FROM visits'
KINDS = (
    "frame",
    "parquet",
    "duckdb",
    pytest.param("postgres", marks=pytest.mark.needs("postgres")),
    pytest.param("spark", marks=pytest.mark.needs("spark")),
    pytest.param("spark files", marks=pytest.mark.needs("spark")),
)
FEWER = (*KINDS[:-1], pytest.param("spark files", marks=[pytest.mark.needs("spark"), pytest.mark.soak]))
"""For what a frame of Spark tells by its schema, wherever its rows lie."""


def composite() -> PostgresTable:
    """The same rows on a server, each home a row of a composite type."""
    name = f"data_{uuid.uuid4().hex[:12]}"
    server().psql(
        f"""
        CREATE SCHEMA {name};
        CREATE TYPE {name}.geo AS (lat double precision);
        CREATE TYPE {name}.home AS ("City" text, gone int, zip varchar(40), geo {name}.geo, seen timestamp);
        ALTER TYPE {name}.home DROP ATTRIBUTE gone;
        CREATE TABLE {name}.visits (id bigint, home {name}.home, secret text);
        INSERT INTO {name}.visits VALUES
            (1, ROW('Paris', ' 75001', ROW(48.5), '1970-01-01'), ''),
            (2, NULL, ''),
            (3, ROW(NULL, 'not a number', NULL, NULL), ''),
            (4, ROW('', repeat('9', 30), ROW('NaN'), '5138-11-16 09:46:40'), ''),
            (5, ROW('Rio', NULL, ROW('-Infinity'), '1970-01-02'), '');
        """
    )
    return PostgresTable(server().get_uri(), "visits", name)


def source(kind: str, folder: Path, table: pa.Table = TABLE) -> Any:
    match kind:
        case "postgres":
            return composite()
        case "frame":
            return table
        case "duckdb":
            with duckdb.connect(str(folder / "data.duckdb")) as connection:
                connection.register("given", table)
                connection.execute("CREATE TABLE visits AS SELECT * FROM given")
            return str(folder / "data.duckdb")
    pq.write_table(table, folder / "visits.parquet")
    if kind == "parquet":
        return str(folder / "visits.parquet")
    frame = session().read.parquet(str(folder / "visits.parquet"))
    return frame.localCheckpoint() if kind == "spark" else frame


def opened(kind: str, folder: Path, table: pa.Table = TABLE) -> Engine:
    return open_engine({"visits": source(kind, folder, table)}, SCHEMA)


def read(engine: Engine) -> list[tuple[Any, ...]]:
    """The rows by their number; Spark has quotes of its own."""
    select = SELECT.replace('"', "`") if engine.dialect.name == "spark" else SELECT
    return sorted(rows(engine, select))


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_is_read_by_its_declared_type(kind: str, tmp_path: Path) -> None:
    engine = opened(kind, tmp_path)
    assert read(engine) == READ
    engine.close()


@pytest.mark.parametrize("kind", FEWER)
def test_fields_are_candidates_by_name_and_type(kind: str, tmp_path: Path) -> None:
    table = declarable(source(kind, tmp_path), "visits")
    types = {column.name: column.type.kind.value for column in table.columns}
    types.pop("secret", None)
    text, number, moment = "text", "float", "timestamp"
    fields = {"home.City": text, "home.zip": text, "home.geo.lat": number, "home.seen": moment}
    assert types == {"id": "integer", **fields}


def test_fields_of_a_frame_are_not_declared_by_its_rows() -> None:
    assert [column.name for column in describe("visits", TABLE).columns] == ["id"]


@pytest.mark.parametrize("kind", FEWER)
def test_a_field_that_is_not_stored_is_told_at_the_opening(kind: str, tmp_path: Path) -> None:
    schema = parse("tables: {visits: {columns: {id: integer, home.street: text}}}")
    with pytest.raises(DataError, match=r'"visits" has no column "home.street" where it is stored'):
        open_engine({"visits": source(kind, tmp_path)}, schema)


@pytest.mark.parametrize("kind", FEWER)
def test_a_field_of_a_type_that_is_not_read_is_told_at_the_opening(kind: str, tmp_path: Path) -> None:
    schema = parse("tables: {visits: {columns: {id: integer, home.geo: text}}}")
    with pytest.raises(DataError, match=r'"home.geo" of "visits" is stored as .*cannot be read as text'):
        open_engine({"visits": source(kind, tmp_path)}, schema)


# ------------------------------------------------------------------------------------------------ hostile rows


def hidden() -> pa.Table:
    """Homes that are NULL over fields that are not."""
    fields = [
        pa.array(["x", "y"]),
        pa.array(["1", "2"]),
        pa.array([{"lat": 1.0}] * 2, HOME.field("geo").type),
    ]
    seen = pa.array([0, 0], pa.timestamp("us"))
    homes = pa.StructArray.from_arrays([*fields, seen], fields=list(HOME), mask=pa.array([True, False]))
    return pa.table({"id": [1, 2], "home": homes})


@pytest.mark.parametrize("kind", ["frame", "parquet", "duckdb"])
def test_a_field_under_a_null_is_null(kind: str, tmp_path: Path) -> None:
    engine = opened(kind, tmp_path, hidden())
    assert read(engine) == [(1, None, None, None, None), (2, "y", 2, 1.0, "1970-01-01")]
    assert engine.present("visits", ["home.city", "home.zip"]) == frozenset()
    engine.close()


@pytest.mark.parametrize("field", ["city", "when"])
@pytest.mark.parametrize("kind", ["frame", "parquet"])
def test_a_field_or_its_neighbour_that_duckdb_fails_on_makes_nothing_fail(
    kind: str, field: str, tmp_path: Path
) -> None:
    """Milliseconds that microseconds do not hold, in a field that is asked and in one beside it."""
    of = pa.struct([("city", pa.string()), ("when", pa.timestamp("ms"))])
    homes = pa.array([{"city": "a", "when": 2**62}, None, {"city": "b", "when": 0}], of)
    schema = parse(
        f"tables: {{visits: {{columns: {{home.{field}: {'text' if field == 'city' else 'date'}}}}}}}"
    )
    engine = open_engine({"visits": source(kind, tmp_path, pa.table({"home": homes}))}, schema)
    answer = rows(engine, f'SELECT CAST("home.{field}" AS VARCHAR) FROM visits')
    assert [each[0] for each in answer] == (
        ["a", None, "b"] if field == "city" else [None, None, "1970-01-01"]
    )
    engine.close()


@pytest.mark.parametrize(
    "beside",
    [
        pa.array([2**63 - 1]).view(pa.time64("us")),
        pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(["{{"])),
        pa.array([[2**62]], pa.list_(pa.timestamp("ms"))),
    ],
    ids=["a time after midnight", "no JSON", "a list of times"],
)
def test_a_neighbour_of_a_type_that_is_never_asked_makes_nothing_fail(
    beside: pa.Array, tmp_path: Path
) -> None:
    table = pa.table({"home": pa.StructArray.from_arrays([pa.array(["a"]), beside], ["city", "x"])})
    schema = parse("tables: {visits: {columns: {home.city: text}}}")
    path = source("parquet", tmp_path, table)
    engine = open_engine({"visits": path}, schema)
    assert rows(engine, 'SELECT "home.city" FROM visits') == [("a",)]
    # Whether DuckDB leaves the neighbour unread is up to its planner: nothing is left to that.
    files = recognised({"visits": path}, ("visits",))["visits"]
    assert isinstance(files, Parquet)
    assert parquet.strays(files, schema.tables[0])
    engine.close()


@pytest.mark.parametrize("kind", ["frame", "parquet"])
def test_a_field_that_is_not_utf8_makes_nothing_fail(kind: str, tmp_path: Path) -> None:
    city = pa.array([b"\xff", b"b"]).view(pa.string())
    table = pa.table({"home": pa.StructArray.from_arrays([city], ["city"])})
    engine = open_engine(
        {"visits": source(kind, tmp_path, table)}, parse("tables: {visits: {columns: {home.city: text}}}")
    )
    assert rows(engine, """SELECT COUNT(*) FROM visits WHERE "home.city" = 'b'""") == [(1,)]
    engine.close()


def test_people_told_apart_by_a_field_that_is_not_utf8_are_refused(tmp_path: Path) -> None:
    names = pa.array([b"\xff", b"\xfe"]).view(pa.string())
    table = pa.table({"who": pa.StructArray.from_arrays([names], ["name"])})
    schema = parse("tables: {visits: {unit: who.name, columns: {who.name: text}}}")
    with pytest.raises(DataError, match=r'"who.name" of "visits", which tells people or rows apart'):
        open_engine({"visits": source("parquet", tmp_path, table)}, schema)


@pytest.mark.needs("spark")
def test_a_neighbour_that_spark_fails_on_is_refused(tmp_path: Path) -> None:
    of = pa.struct([("city", pa.string()), ("when", pa.timestamp("ms"))])
    table = pa.table({"home": pa.array([{"city": "a", "when": 0}], of)})
    schema = parse("tables: {visits: {columns: {home.city: text}}}")
    with pytest.raises(DataError, match=r'"home.when" of "visits" is stored as a time in milliseconds'):
        open_engine({"visits": source("spark files", tmp_path, table)}, schema)


def parts(folder: Path) -> None:
    """Two files, of which one knows no zip."""
    for name, of in {"a": [HOME.field(i) for i in range(4)], "b": [HOME.field(i) for i in (0, 2, 3)]}.items():
        homes = [{"City": name, "zip": "1", "geo": None, "seen": None}]
        pq.write_table(
            pa.table({"id": [1], "home": pa.array(homes, pa.struct(of))}), folder / f"{name}.parquet"
        )


def test_a_field_that_one_file_lacks_is_told_at_the_opening(tmp_path: Path) -> None:
    parts(tmp_path)
    with pytest.raises(DataError, match=r"The columns of .*b\.parquet differ"):
        open_engine({"visits": str(tmp_path)}, SCHEMA)


@pytest.mark.needs("spark")
def test_a_field_that_one_file_lacks_is_null_in_spark(tmp_path: Path) -> None:
    parts(tmp_path)
    frame = session().read.schema(session().read.parquet(str(tmp_path / "a.parquet")).schema)
    engine = open_engine({"visits": frame.parquet(str(tmp_path))}, SCHEMA)
    assert {(city, code) for _, city, code, _, _ in read(engine)} == {("a", 1), ("b", None)}
    engine.close()


# ------------------------------------------------------------------------------------------------ names and rights


def test_a_column_of_the_whole_name_comes_first(tmp_path: Path) -> None:
    table = TABLE.append_column("home.zip", pa.array([7] * 5))
    for kind in ("frame", "parquet", "duckdb"):
        engine = opened(kind, tmp_path, table)
        assert [code for _, _, code, _, _ in read(engine)] == [7] * 5
        engine.close()


def test_cells_of_fields_are_counted(tmp_path: Path) -> None:
    for kind in ("frame", "parquet", "duckdb"):
        given = recognised({"visits": source(kind, tmp_path)}, ("visits",))
        counts = {each.column: (each.empty, each.unread) for each in unread_cells(given, SCHEMA)}
        assert (counts["home.zip"], counts["home.city"]) == ((2, 2), (2, 0))


@pytest.mark.needs("postgres")
def test_a_role_that_may_read_declared_columns_only_is_enough() -> None:
    table = composite()
    role = f"reader_{uuid.uuid4().hex[:8]}"
    server().psql(
        f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {table.schema} TO {role};"
        f"GRANT SELECT (id, home) ON {table.schema}.visits TO {role};"
    )
    url = server().get_uri().replace("//postgres:", f"//{role}:", 1)
    engine = open_engine({"visits": PostgresTable(url, "visits", table.schema)}, SCHEMA)
    assert rows(engine, "SELECT CAST(current_user AS text)") == [(role,)]
    assert read(engine) == READ
    engine.close()
