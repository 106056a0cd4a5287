"""Attempts to bring anything but released numbers into the connection that runs what follows a release, or to make
it work for nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from deniable.errors import InvalidQuery
from deniable.sql.after.afterwards import Afterwards
from deniable.sql.after.closed import runs
from deniable.sql.after.closed.connection import Closed
from deniable.sql.after.release import ReleasedBlock
from deniable.sql.after.split import split_query
from deniable.sql.answer.table import arrow_type
from tests.sql.hospital import PATIENT, SCHEMA

T = "WITH t AS (SELECT diagnosis AS ward, COUNT(*) AS n FROM visits GROUP BY diagnosis) "
"""Groups by a public key, over which anything may be aggregated."""
secret = pa.table({"x": [1]})

HERE = Path(__file__).parent
REFUSED: dict[str, str] = {
    name: text.replace("{t} ", T)
    for name, text in yaml.safe_load((HERE / "after.yaml").read_text(encoding="utf-8")).items()
}


def fields(text: str) -> pa.Schema:
    asked = split_query(text, SCHEMA, PATIENT)
    assert asked.after is not None, "it was read as one block"
    return Afterwards(asked.blocks, asked.after).schema


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_and_nothing_was_charged(name: str) -> None:
    with pytest.raises(InvalidQuery, match="nothing was charged"):
        fields(REFUSED[name])


def said(text: str, rows: int = 30) -> pa.Table:
    asked = split_query(text, SCHEMA, PATIENT)
    assert asked.after is not None
    blocks = []
    for query in asked.blocks:
        kinds = {o.name: arrow_type(o.of.type) for o in query.outputs}
        cells = {n: pa.array(["w"] * rows if k == pa.string() else range(rows), k) for n, k in kinds.items()}
        blocks.append(ReleasedBlock(pa.table(cells), {}, {}))
    return Afterwards(asked.blocks, asked.after).answer(blocks).table


BOMBS = {
    "rows": "SELECT a.n FROM t a, t b, t c, t d, t e",
    "sorting": "SELECT SUM(x) FROM (SELECT RANK() OVER (ORDER BY a.n + b.n + f.n) AS x FROM t a, t b, t c, t d, t e, t f)",
    "text": "SELECT string_agg(replace(lpad(a.ward, 1000, 'x'), 'x', lpad('', 1000, 'y')), '') FROM t a, t b",
    "bytes": "SELECT replace(lpad(a.ward, 1000, 'x'), 'x', lpad('', 100, 'y')) AS x FROM t a, t b",
    "columns": "SELECT " + "*, " * 600 + "* FROM t",
    "regex": r"SELECT regexp_matches(lpad('', 1000, 'a') || 'b', '^((((a*)*)*)*)$') FROM t a, t b",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_by_its_own_limits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SECONDS", 1.0)
    text = T + BOMBS[name]
    if name == "regex":  # RE2 takes time in proportion to the text
        assert said(text).num_rows == 900
        return
    with pytest.raises(
        InvalidQuery,
        match=r"more than 100,000 rows|longer than 1 seconds|more memory|larger than 32 MB|1,000 columns",
    ):
        said(text, rows=80)


DOORS = (
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/*')",
    "COPY t TO '/tmp/deniable-never.csv'",
    "ATTACH '/tmp/deniable-never.db' AS x",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 4",
    "SET enable_external_access = true",
    "PRAGMA enable_profiling",
    "CREATE TABLE x AS SELECT 1",
    "SELECT * FROM secret",
    "SELECT * FROM visible",
    "EXPORT DATABASE '/tmp/deniable-never'",
)


@pytest.mark.parametrize("text", DOORS)
def test_the_connection_itself_opens_no_door(text: str) -> None:
    """Were the list of words to let one through."""
    visible = pa.table({"x": [1]})
    with Closed({"t": visible}) as connection, pytest.raises(InvalidQuery):
        connection.answer(text)
    assert visible.num_rows == 1


def test_settings_tell_no_path_of_this_machine() -> None:
    with Closed({"t": pa.table({"x": [1]})}) as connection:
        paths = connection.answer("SELECT value FROM duckdb_settings() WHERE value LIKE '/%'")
    assert paths.column(0).to_pylist() == []
