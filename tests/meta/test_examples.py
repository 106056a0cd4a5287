"""Every example runs as a reader would run it, and is named in the list of examples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.source import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONG = {"tiny_shakespeare"}
"""Examples that take minutes: their own tests run a small form of them."""


@pytest.mark.parametrize(
    "path", [path for path in EXAMPLES if path.stem not in LONG], ids=lambda path: path.stem
)
def test_an_example_runs_and_says_something(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()


def test_every_example_is_in_the_list() -> None:
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES if f"`{path.name}`" not in listed] == []
