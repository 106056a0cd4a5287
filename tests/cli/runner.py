"""Run the command line as users do, in this process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from deniable.cli.app import app

WIDE = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


def run(*arguments: str, code: int = 0, width: int = 200) -> Result:
    """Run `deniable arguments…` and check its exit code."""
    result = CliRunner().invoke(app, arguments, env={**WIDE, "COLUMNS": str(width)}, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def sentence(*arguments: str) -> str:
    """The one sentence (or two) on stderr with which bad input is refused; nothing stands on stdout."""
    result = run(*arguments, code=2)
    assert result.stdout == ""
    said = result.stderr.strip()
    assert "\n" not in said
    assert "Traceback" not in said
    return said
