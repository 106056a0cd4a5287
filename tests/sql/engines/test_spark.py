"""Spark: the owner's session is used as we need it and left as it was."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deniable.errors import DataError, InvalidParameter
from deniable.sql.engines import Statement, open_engine
from deniable.sql.engines.sources import SparkTable
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Kind, Type
from deniable.units import Unit
from tests.sql.engines.real import frames, rows, session

pytestmark = pytest.mark.needs("spark")
SCHEMA = Schema((TableInfo("t", (ColumnInfo("a", Type(Kind.INTEGER)),)),))


def test_the_session_is_left_as_it_was() -> None:
    spark = session()
    others = {view.name for view in spark.catalog.listTables()}  # of engines that other tests left open
    mine = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"}
    before = {name: spark.conf.get(name) for name in mine}
    for name, value in mine.items():
        spark.conf.set(name, value)
    try:
        engine = open_engine(frames({"t": pa.table({"a": [1]})}), SCHEMA)
        assert rows(engine, "SELECT current_timezone() FROM t") == [("UTC",)]
        with pytest.raises(
            DataError, match="did not finish"
        ):  # in ANSI mode this overflows, else it wraps around
            engine.run(Statement((), "SELECT a + 9223372036854775807 FROM t"))
        assert {name: spark.conf.get(name) for name in mine} == mine
        assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
        engine.close()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert {view.name for view in spark.catalog.listTables()} <= others


def test_a_table_is_found_by_its_name_and_a_missing_one_is_told() -> None:
    frames({"t": pa.table({"a": [1, 2]})})["t"].createOrReplaceTempView("named")
    engine = open_engine({"t": SparkTable(session(), "named")}, SCHEMA)
    assert rows(engine, "SELECT SUM(a) FROM t") == [(3,)]
    with pytest.raises(InvalidParameter, match="Nothing was prepared"):
        engine.prepare(SCHEMA, Unit.column("a", max_rows=1))
    with pytest.raises(DataError, match='has no table "none"'):
        open_engine({"t": SparkTable(session(), "none")}, SCHEMA)
    session().catalog.dropTempView("named")


def test_a_session_that_cannot_cancel_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="no way to limit a statement's time"):
        open_engine({"t": SparkTable(object(), "t")}, SCHEMA)
