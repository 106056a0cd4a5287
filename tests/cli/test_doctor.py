"""`deniable doctor` says what works and what does not; commands that do not exist get a hint; every terminal can
show the output."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deniable import extras
from deniable.cli import doctor
from deniable.cli.app import app
from deniable.guarantee import Budget
from deniable.ledger import Ledger
from deniable.units import Unit


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*words], env={"COLUMNS": "100"})
    return result.exit_code, result.output


def checks(*words: str) -> dict[str, dict[str, object]]:
    return {check["name"]: check for check in json.loads(run("doctor", "--json", *words)[1])["checks"]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DENIABLE_LEDGER", raising=False)
    return tmp_path


def test_a_sound_installation_is_called_sound() -> None:
    code, said = run("doctor")
    assert code == 0
    assert "a charge was written and verified" in said
    assert all(checks()[name]["ok"] for name in ("Python", "noise", "DuckDB", "SQLite ledger"))


def test_a_missing_extra_is_no_failure_and_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor.EXTRAS, "spark", ("no_such_module", "large tables"))
    assert run("doctor")[0] == 0
    missing = checks()["[spark]"]
    assert missing["ok"] is None
    assert extras.install("spark") in str(missing["advice"])


def test_a_broken_part_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ValueError("torn")

    monkeypatch.setattr(doctor, "_ask_duckdb", broken)
    code, said = run("doctor")
    assert code == 2
    assert "ValueError: torn" in said


def test_the_ledger_of_the_folder_is_verified_and_a_forged_one_is_named(folder: Path) -> None:
    with Ledger.open("sqlite:///privacy.db") as ledger:
        ledger.create("visits", Unit.row(), limit=Budget(1)).freeze("Looked odd.")
    found = checks()
    assert found["ledger sqlite:///privacy.db"]["ok"] is True
    assert found["accounts not open"]["state"] == "visits"
    assert run("doctor", "--ledger", "sqlite:///other.db")[0] == 2
    with sqlite3.connect(folder / "privacy.db") as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f'DROP TRIGGER "{name}"')
        connection.execute("UPDATE journal SET analyst = 'eve' WHERE seq = 1")
    code, said = run("doctor")
    assert code == 2
    assert "deniable ledger verify" in said


def test_a_misspelt_command_gets_a_hint() -> None:
    assert "Did you mean deniable query?" in run("qery")[1]
    assert "deniable --help" in run("frobnicate")[1]


def test_a_flag_shows_no_type() -> None:
    for words in ((), ("query",), ("ledger", "create")):
        said = run(*words, "--help")[1]
        assert "--" in said
        assert "<bool>" not in said


@pytest.mark.sampled(1)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_without_unicode_gets_ascii(encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "deniable", "explain", "--epsilon", "1"]
    result = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr.decode(encoding)
    assert "What eps = 1 means" in result.stdout.decode(encoding)


def test_a_warning_is_one_sentence_said_once() -> None:
    code = (
        "import warnings; from deniable.cli.terminal import calm_warnings; calm_warnings(); "
        "[warnings.warn('Half of the rows could not be used.', stacklevel=1) for _ in range(2)]; "
        "warnings.warn('Half of the rows could not be used.', stacklevel=1)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr == "Note: Half of the rows could not be used.\n"
