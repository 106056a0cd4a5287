"""`deniable schema` drafts from metadata alone, and checks what the owner made of it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from deniable.cli.schema import app
from deniable.datasets.visits import visits

WIDE = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, arguments, env=WIDE, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "visits.parquet"
    pq.write_table(visits(200), path)
    return path


def test_the_draft_names_columns_and_types_and_nothing_of_the_data(file: Path, tmp_path: Path) -> None:
    said = run("init", str(file)).stdout
    for name in visits(1).column_names:
        assert name in said
    other = tmp_path / "elsewhere" / "visits.parquet"
    other.parent.mkdir()
    pq.write_table(visits(7, seed=5), other)
    assert run("init", str(other)).stdout == said


def test_a_draft_is_written_once_and_never_over_another_file(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "visits.yaml"
    assert "review it" in run("init", str(file), "--out", str(out)).stdout
    text = out.read_text(encoding="utf-8")
    assert "exists already" in run("init", str(file), "--out", str(out), code=2).stderr
    assert out.read_text(encoding="utf-8") == text


def test_a_draft_checks_against_the_file_it_was_made_of(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "visits.yaml"
    run("init", str(file), "--out", str(out))
    said = run("check", str(out), str(file)).stdout
    assert "visits: private" in said
    assert "Good." in said
    facts = json.loads(run("check", str(out), "--json").stdout)
    assert [c["name"] for c in facts["tables"][0]["columns"]] == visits(1).column_names


def test_a_schema_for_other_data_is_refused(file: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "visits.yaml", tmp_path / "other.parquet"
    run("init", str(file), "--out", str(out))
    pq.write_table(pa.table({"something": [1]}), other)
    assert run("check", str(out), str(other), code=2).stderr
    out.write_text("no: schema\n", encoding="utf-8")
    assert run("check", str(out), code=2).stderr
