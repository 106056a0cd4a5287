"""Bad input gets one clear sentence and exit code 2; a bug keeps its traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner, Result

from deniable import extras
from deniable.cli.app import app
from deniable.cli.door import door
from deniable.errors import BudgetExceeded, DeniableError, InvalidParameter
from tests.cli.runner import run


def invoke(error: Exception) -> Result:
    small = typer.Typer(pretty_exceptions_enable=False)

    @small.command()
    @door
    def fail() -> None:
        raise error

    return CliRunner().invoke(small, [])


@pytest.mark.parametrize(
    "error",
    [
        InvalidParameter("Expected rate=1.2 in (0, 1]."),
        DeniableError("No."),
        BudgetExceeded("Over the limit.", asked=1, spent=2.51, total=3.51, limit=3),
    ],
)
def test_an_error_of_ours_is_one_sentence_and_exit_code_2(error: DeniableError) -> None:
    result = invoke(error)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"{error}\n")


def test_a_file_that_cannot_be_opened_is_bad_input() -> None:
    result = invoke(PermissionError(13, "Permission denied", "/data/x.json"))
    assert (result.exit_code, result.stderr) == (2, "/data/x.json: Permission denied.\n")


@pytest.mark.parametrize("error", [ZeroDivisionError("bug"), OSError("no file named")])
def test_a_bug_is_not_dressed_up(error: Exception) -> None:
    result = invoke(error)
    assert result.exit_code == 1
    assert result.exception is error


def test_a_value_that_is_no_number_is_refused_with_exit_code_2() -> None:
    assert "--epsilon" in run("explain", "--epsilon", "much", code=2).stderr


def test_without_arguments_the_help_teaches() -> None:
    assert "deniable cost --rate .01" in CliRunner().invoke(app, []).output


def test_the_installed_command_and_the_module_are_the_same_door() -> None:
    env = {**os.environ, "COLUMNS": "80"}
    module = subprocess.run(
        [sys.executable, "-m", "deniable", "--version"], capture_output=True, text=True, check=True, env=env
    )
    assert module.stdout == run("--version").stdout


BARE = """
import sys
from deniable.cli.door import EXTRAS

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from deniable.cli.app import COMMANDS
from typer.testing import CliRunner
from deniable.cli.app import app
for words in ["--help", "reproduce", "reproduce forgetting", *(f"{name} --help" for name in COMMANDS)]:
    result = CliRunner().invoke(app, words.split())
    print(words, result.exit_code, type(result.exception).__name__, result.stderr.strip().splitlines()[-1:])
"""


def test_without_the_extras_every_command_helps_and_what_is_missing_is_named() -> None:
    lines = subprocess.run(
        [sys.executable, "-c", BARE], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(lines) > 15
    for line in lines:
        if line.startswith("reproduce forgetting"):
            assert " 2 SystemExit" in line
            assert extras.install("learn") in line
        else:
            assert " 0 NoneType" in line, line


@pytest.mark.parametrize("command", ["train", "federate"])
def test_brackets_in_a_help_text_are_not_taken_for_markup(command: str) -> None:
    assert "(name: [low, high]" in run(command, "--help").stdout
