"""Every example runs as a reader would run it, and is named in the list of examples."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.source import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONG = {"tiny_shakespeare"}
"""Examples that take minutes: their own tests run a small form of them."""
SMALLER = {"dpsgd": (("epochs=15", "epochs=2"), ("epochs=5", "epochs=1")), "audit": (("100_000", "10_000"),)}
"""What stands for what in those that take ten seconds; `make soak` runs them as they are."""
SHOWN = [path for path in EXAMPLES if path.stem not in LONG]


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.stem)
def test_an_example_says_something(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = path.read_text(encoding="utf-8")
    for long, short in SMALLER.get(path.stem, ()):
        assert long in text
        text = text.replace(long, short)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.py").write_text(text, encoding="utf-8")
    runpy.run_path(str(tmp_path / "example.py"), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.soak] if path.stem != "ledger" else []) for path in SHOWN],
    ids=lambda path: path.stem,
)
def test_an_example_runs_as_a_reader_runs_it(path: Path, tmp_path: Path) -> None:
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
