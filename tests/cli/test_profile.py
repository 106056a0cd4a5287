"""`deniable profile`: it buys what is named, and shows the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from deniable.cli.app import app


@pytest.fixture
def visits(tmp_path: Path) -> str:
    who = [person for person in range(900) for _ in range(1 + person % 3)]
    path = tmp_path / "visits.parquet"
    pq.write_table(pa.table({"who": who, "cost": [float(person % 60) for person in who]}), path)
    return str(path)


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["profile", *words], env={"COLUMNS": "200", "NO_COLOR": "1"})
    return result.exit_code, result.output


FIRST = ("--unit", "who", "--limit", "3:1e-6")


def test_nothing_is_bought_that_is_not_named(visits: str, tmp_path: Path) -> None:
    code, shown = run(visits, *FIRST)
    assert code == 0
    assert "Allowance for the profile: ε = 0.3, of which 0.3 is left." in shown
    assert "Nothing has been bought yet." in shown
    assert [file.name for file in tmp_path.iterdir()] == ["visits.parquet"]


def test_what_is_bought_is_shown_and_drawn(visits: str) -> None:
    code, shown = run(visits, *FIRST, "--buy", "rows", "--buy", "cost", "--allowance", "1.6")
    assert code == 0
    assert "Rows of visits: ε = 0.8" in shown
    assert "Spread of cost in visits: ε = 0.1" in shown
    assert "█" * 30 in shown
    assert "3–4" in shown
    assert run(visits) == (0, shown)
    content = json.loads(run(visits, "--json")[1])
    assert [part["name"] for part in content["parts"]] == ["rows of visits", "spread of cost in visits"]
    assert content["left"] == pytest.approx(0.7)
    assert run(visits, "--buy", "rows")[1] == shown


def test_bad_words_are_refused(visits: str) -> None:
    assert "name the parts too" in run(visits, *FIRST, "--renew")[1]
    assert "Expected a part of the profile" in run(visits, *FIRST, "--buy", "who is this")[1]
    assert "--replace says more of --unit" in run(visits, "--replace")[1]
