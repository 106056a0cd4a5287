"""What Metabase and DBeaver say by themselves when they connect and look around, replayed: the catalog answers it, what
scans the data is refused and free, and what a person asks is paid once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from tests.server.hospital import Hospital

FOLDER = Path(__file__).parent / "conversations"
TOOLS: dict[str, dict[str, list[str]]] = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yaml"))
}


def said(connection: psycopg.Connection, query: str) -> list[Any] | psycopg.Error:
    try:
        cursor = connection.execute(query)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description is not None else []
    except psycopg.Error as error:
        return error


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "prepared"])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_connects_and_sees_what_is_declared(shared: Hospital, tool: str, prepare: bool) -> None:
    before = shared.spent()
    with psycopg.connect(shared.dsn(), autocommit=True) as connection:
        connection.prepare_threshold = 0 if prepare else None
        failed = {
            query: answer
            for query in TOOLS[tool]["connect"]
            if isinstance(answer := said(connection, query), psycopg.Error)
        }
        assert failed == {}
        listed = str([said(connection, query) for query in TOOLS[tool]["connect"]])
    assert "visits" in listed
    assert "diagnosis" in listed
    assert shared.spent() == before


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_scans_by_itself_is_refused_and_pays_nothing(shared: Hospital, tool: str) -> None:
    before = shared.spent()
    with psycopg.connect(shared.dsn(), autocommit=True) as connection:
        for query in TOOLS[tool]["scan"]:
            refused = said(connection, query)
            assert isinstance(refused, psycopg.Error), query
            assert "No ε was named" in str(refused)
    assert shared.spent() == before


@pytest.mark.parametrize("tool", TOOLS)
def test_a_dashboard_is_paid_once_and_its_refresh_is_free(fresh: Hospital, tool: str) -> None:
    queries = TOOLS[tool]["ask"]
    with psycopg.connect(fresh.dsn(epsilon="0.5"), autocommit=True) as connection:
        first = [said(connection, query) for query in queries]
        assert not any(isinstance(answer, psycopg.Error) for answer in first), first
        spent = fresh.spent()
        assert spent == pytest.approx(0.5 * len(queries))
        assert [said(connection, query) for query in queries] == first
        with fresh.api("olga") as owner:
            owner.put("/v1/datasets/visits/version", json={"version": "2"})
        assert fresh.spent() == spent
        said(connection, queries[0])
    assert fresh.spent() == pytest.approx(spent + 0.5)
