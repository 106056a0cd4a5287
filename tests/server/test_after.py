"""What follows a release, and a text that says its own ε, by the doors of the service."""

from __future__ import annotations

import psycopg
import pytest

from tests.server.hospital import Hospital

RANKED = (
    "SELECT sex, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r, COUNT(*) / SUM(COUNT(*)) OVER () AS share "
    "FROM visits WHERE age > 3 GROUP BY sex ORDER BY sex"
)
OTHER = "WITH t AS (SELECT sex AS s, COUNT(*) AS c FROM visits WHERE age > 3 GROUP BY 1) SELECT MAX(c) - MIN(c) AS gap FROM t"
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25, privacy_unit_column = {}) COUNT(*) AS n FROM visits"


def test_over_rest_the_release_is_paid_once_and_read_again_for_nothing(shared: Hospital) -> None:
    before = shared.spent()
    first = shared.ask("ada", RANKED, epsilon=0.5).json()
    assert [column["name"] for column in first["columns"]] == ["sex", "n", "r", "share"]
    assert sorted(first["low"]) == ["n", "share"]
    again = shared.ask("ada", OTHER, epsilon=0.5).json()
    assert again["again"] is True
    numbers = [row[1] for row in first["rows"]]
    assert again["rows"] == [[max(numbers) - min(numbers)]]
    assert shared.spent() - before < 0.5 + 1e-9


def test_over_the_wire_columns_are_told_before_they_are_filled(shared: Hospital) -> None:
    with psycopg.connect(shared.dsn("ada", "0.5"), autocommit=True) as connection:
        cursor = connection.execute(RANKED)
        assert [(column.name, column.type_code) for column in cursor.description or ()] == [
            ("sex", 25),
            ("n", 20),
            ("r", 20),
            ("share", 701),
        ]
        rows = cursor.fetchall()
        assert sorted(row[2] for row in rows) == [1, 2]


def test_over_the_wire_a_text_goes_before_what_was_set(shared: Hospital) -> None:
    with psycopg.connect(shared.dsn("ada", "0.5"), autocommit=True) as connection:
        said: list[str] = []
        connection.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
        assert connection.execute(CLAUSE.format("patient_id")).fetchone() is not None
        assert "ε = 0.25" in said[0]
        plan = connection.execute("EXPLAIN " + CLAUSE.format("patient_id")).fetchall()
        assert plan[0] == ("Cost: ε = 0.25.",)
    with psycopg.connect(shared.dsn("ada"), autocommit=True) as connection:
        assert connection.execute(CLAUSE.format("patient_id")).fetchone() is not None
        with pytest.raises(psycopg.Error, match="the owner declared the column"):
            connection.execute(CLAUSE.format("doctor"))


def test_hostile_words_are_refused_by_every_door(shared: Hospital) -> None:
    before = shared.spent()
    stolen = "WITH t AS (SELECT sex, COUNT(*) AS n FROM visits GROUP BY 1) SELECT * FROM t, duckdb_settings()"
    assert shared.ask("ada", stolen, epsilon=0.5).status_code == 422
    with (
        psycopg.connect(shared.dsn("ada", "0.5"), autocommit=True) as connection,
        pytest.raises(psycopg.Error, match="nothing was charged"),
    ):
        connection.execute(stolen)
    assert shared.spent() == before
