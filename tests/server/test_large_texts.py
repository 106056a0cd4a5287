"""Texts that are too large are refused by the number of their words, at every door, before a tree is built."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
import sqlglot

from tests.server.hospital import Hospital

LONG = "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(f"age = {i % 100} + nothing" for i in range(2600))
DEEP = f"SELECT {'DATE(' * 30}admitted{')' * 30} AS d, COUNT(*) FROM visits GROUP BY 1"
TOO_MUCH = r"at most 8,000 words|too deep in one another"


@pytest.mark.parametrize("text", [LONG, DEEP], ids=["long", "deep"])
def test_no_tree_of_it_is_built(text: str, shared: Hospital, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree of 21,000 nodes stopped every thread while garbage was looked for; the deep one never ended."""
    lengths: list[int] = []
    parse = sqlglot.parse

    def counted(sql: str, **options: Any) -> object:
        lengths.append(len(sql))
        assert len(sql) < 200, "it was read"
        return parse(sql, **options)

    monkeypatch.setattr(sqlglot, "parse", counted)
    with psycopg.connect(shared.dsn(epsilon="0.1"), autocommit=True) as connection:
        for query in (text, f"EXPLAIN {text}", f"COPY ({text}) TO STDOUT"):
            with pytest.raises(psycopg.Error, match=TOO_MUCH):
                connection.execute(query.encode())
        with pytest.raises(psycopg.Error, match=TOO_MUCH):
            connection.execute(text.encode(), prepare=True)
        assert connection.execute(f"SELECT {len(text)}".encode()).fetchall() == [(len(text),)]
    assert shared.ask("ada", text).status_code == 422
    with shared.api("ada") as client:
        preview = client.post("/v1/datasets/visits/preview", json={"sql": text, "epsilon": 0.1})
    assert preview.status_code == 422
    assert "nothing was charged" in preview.json()["message"]
    assert lengths
